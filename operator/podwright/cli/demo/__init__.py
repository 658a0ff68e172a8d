"""`podwright demo`: pods placed by policies before your eyes, and every placement checked.

`command` is the command line, `story` what happens in which order, `checks` what must be true then. `scene` is all that is
known, `picture` shows it, `stage` puts it on a terminal or into plain lines, `api` and `setting` are the cluster's side.
"""

from podwright.cli.demo.command import demo

__all__ = ["demo"]
