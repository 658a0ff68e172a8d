"""Reports pods that have got nodes to the policies in shadow mode, and counts other changes. See `engine.shadow`.

Without such a policy, this costs one comparison for each pod.
"""

from __future__ import annotations

from collections.abc import Callable

from podwright.core.objects.pod import PodInfo

Listener = Callable[[PodInfo, str, bool], None]
"""(pod, node, whether a scheduler has certainly placed it) → nothing. The cache has the pod on its node already. Must
not raise.
"""


class Arrivals:
    """See the module."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        """None while no policy is in shadow mode."""
        self.changes = 0
        """Counts the changes that decisions may depend on, except for pods that got nodes."""

    def placed(self, pod: PodInfo, node_name: str, *, certain: bool) -> None:
        """Reports that the pod is on the node. `certain`: a scheduler has placed it; otherwise it may have been created
        there.
        """
        if self.listener is not None:
            self.listener(pod, node_name, certain)
