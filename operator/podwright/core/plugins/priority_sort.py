"""PrioritySort: higher priority first, then the pod that entered the queue earlier."""

from __future__ import annotations

from podwright.core.framework.interface import Plugin, QueueSortPlugin
from podwright.core.objects.pod import PodInfo


class PrioritySort(Plugin, QueueSortPlugin):
    """See the module."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        return -pod.priority, queued_at
