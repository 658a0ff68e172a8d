"""SchedulingGates: keeps pods with scheduling gates out of the active queue until all gates are removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.framework.cluster_events import POD, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import EnqueueExtensions, Plugin, PreEnqueuePlugin
from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.pod import PodInfo

_HINTS: Final = (EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)),)


class SchedulingGates(Plugin, PreEnqueuePlugin, EnqueueExtensions):
    """See the module."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.gates)}]")

    def hints(self) -> Sequence[EventHint]:
        return _HINTS
