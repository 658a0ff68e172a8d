"""`kopf run --all-namespaces operator/main.py`, from a checkout. Installed, it is `podwright run`."""

import podwright.controllers  # noqa: F401 -- registers the handlers
