"""The operator from a checkout: `kopf run --all-namespaces operator/main.py`. Where it is installed, use `podwright
run`.
"""

import podwright.controllers  # noqa: F401 -- registers the handlers
