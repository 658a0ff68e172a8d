"""The Kopf side: `kopf run --all-namespaces -m podwright.controllers`. Nothing is decided here.

`startup` is imported here and registers what Kopf does at its start and end; when it starts, it imports the handlers of what
we may watch: `pods` and `policies`. They hand raw objects to the `process`, whose runtime is the same with and without Kopf.
"""

from podwright.controllers import startup

__all__ = ["startup"]
