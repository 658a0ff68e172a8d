"""QueueQuota: pods wait while a bound of their queue, or of a queue above it, forbids them to start.

It works in every profile and cannot be disabled. `Bounds` refuses the pods in PreFilter, and nodes whose flavors have
no room after all filters; the plugin has the queueing hints. Members of a gang that a plan has assumed
count, so a gang is within its limits as a whole or waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from podwright.core.framework.cluster_events import (
    ASSIGNED_POD,
    NODE,
    POD,
    QUEUE,
    Action,
    ClusterEvent,
    EventHint,
    Hint,
    HintKeys,
)
from podwright.core.framework.interface import EnqueueExtensions, Handle, Plugin
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import QUEUE_QUOTA, queues_of

_LEAVES: Final = Action.DELETE | Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_POD_LABEL
_MAY_START: Final = (
    ClusterEvent(QUEUE, Action.ALL),
    ClusterEvent(POD, Action.UPDATE_POD_LABEL | Action.UPDATE_POD_SCALE_DOWN),
    ClusterEvent(
        NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_LABEL
    ),
    ClusterEvent("Namespace", Action.ADD | Action.UPDATE_OTHER),
)


class QueueQuota(Plugin, EnqueueExtensions):
    """See the module."""

    name: ClassVar[str] = QUEUE_QUOTA
    reason: ClassVar[str] = "QueueQuota"
    hints_when_disabled = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._queues = queues_of(handle.cache)

    def hints(self) -> Sequence[EventHint]:
        """A pod that leaves a queue helps only those below the same queue at the top, unless free room is a bound."""
        keys = HintKeys(self._freed, self._waits_below)
        return (
            EventHint(ClusterEvent(ASSIGNED_POD, _LEAVES), self._may_start, keys=keys),
            *(EventHint(event, self._may_start) for event in _MAY_START),
        )

    def _may_start(self, pod: PodInfo, _before: Any, _after: Any) -> Hint:
        return Hint.SKIP if self._queues.bounds.of(pod) is not None else Hint.QUEUE

    def _freed(self, before: PodInfo | None, after: PodInfo | None) -> str | None:
        pod = before or after
        return None if pod is None or self._queues.bounds.lends_less else self._queues.top_of(pod)

    def _waits_below(self, pod: PodInfo) -> Iterable[str]:
        top = self._queues.top_of(pod)
        return (top,) if top else ()
