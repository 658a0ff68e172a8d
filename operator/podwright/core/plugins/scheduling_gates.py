"""SchedulingGates: keeps pods with scheduling gates out of the active queue until all gates are removed; in the same
way, pods that ask KAI for a part of a GPU, which would start without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.framework.cluster_events import POD, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import EnqueueExtensions, Plugin, PreEnqueuePlugin
from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.pod import PodInfo

_HINTS: Final = (EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)),)

NO_PARTS: Final = (
    "Podwright gives no parts of GPUs by annotation; use DRA, or the field sharedDevices of the pod's SchedulerPolicy"
)


class SchedulingGates(Plugin, PreEnqueuePlugin, EnqueueExtensions):
    """See the module."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.gates:
            return None
        if is_field(pod.gates[-1]):
            return unresolvable(f"{pod.gates[-1]}: {NO_PARTS}")
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.gates)}]")

    def tells_gate(self, pod: PodInfo) -> bool:
        return is_field(pod.gates[-1])

    def hints(self) -> Sequence[EventHint]:
        return _HINTS


def is_field(gate: str) -> bool:
    """True for a field of the pod, which no gate can be called."""
    return gate.endswith("]")
