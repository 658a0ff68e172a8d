"""The Kopf side of the operator. It decides nothing: handlers hand raw objects to the runtime (`kube/runtime.py`).

There are two ways to run it:
  * `kopf run --all-namespaces -m podwright.controllers`: Kopf is the process; `plain_kopf` starts the runtime when Kopf
    starts.
  * `podwright run`: the runtime is the process; `supervisor` runs Kopf beside it, and again if it fails.
Both register the same handlers (`handlers`).
"""

from podwright.controllers import plain_kopf

__all__ = ["plain_kopf"]
