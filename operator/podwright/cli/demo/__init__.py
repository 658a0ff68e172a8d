"""`podwright demo`: shows how policies place pods, and checks every placement.

`command` defines the command line. `scenario` holds the steps of the demo and `checks` what each step must achieve.
`environment` prepares the sandbox or the cluster, and `api` sends the requests. `state` holds what the demo knows,
`picture` renders it, and `display` writes it to a terminal or as plain lines.
"""

from podwright.cli.demo.command import demo

__all__ = ["demo"]
