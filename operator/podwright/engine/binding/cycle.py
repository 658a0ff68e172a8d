"""Placements under way: assumed in the cache, their Binding not yet confirmed, refused or given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from podwright.core.cycle import Placement
from podwright.core.framework.interface import Cluster, ClusterError
from podwright.core.framework.status import Code, Status, unschedulable
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import QueuedPod
from podwright.engine.active_policies import ActivePolicy
from podwright.engine.binding.waiting_pods import WaitingPod

CONFLICT: Final = 409


@dataclass(slots=True, eq=False)
class BindingCycle:
    """One placement. `started` in seconds of the engine's clock; `posted`: the Binding may have reached the API server."""

    queued: QueuedPod
    placement: Placement
    live: ActivePolicy
    started: float
    posted: bool = False
    settled: bool = False
    """Permit is over: a plugin that turns the pod down from here on does not make it unschedulable."""
    conflict: bool = False
    """The API server said that somebody else had bound the pod."""
    stopped: Status | None = None
    waiting: WaitingPod | None = None
    readmit: Callable[[], None] | None = None
    """Takes the pod in as a pending one: it was gone and is back, and came while its cycle had not landed."""
    expected: bool = False
    """The pod's status was told this node as the one that it is expected on."""
    working: asyncio.Task[None] | None = None
    """The task, while it does PreBind's work and may be cancelled."""

    @property
    def uid(self) -> str:
        return self.queued.uid

    def stop(self, why: Status) -> None:
        """Ends it before its Binding is posted."""
        self.stopped = why
        if self.waiting is not None:
            self.waiting.end(why)
        elif self.working is not None:
            self.working.cancel()


class BindingCycles:
    """All binding cycles by the pod's uid."""

    def __init__(self) -> None:
        self._binding_cycles: dict[str, BindingCycle] = {}

    def add(self, cycle: BindingCycle) -> None:
        self._binding_cycles[cycle.uid] = cycle

    def remove(self, cycle: BindingCycle) -> None:
        if self._binding_cycles.get(cycle.uid) is cycle:
            del self._binding_cycles[cycle.uid]

    def waiting(self) -> list[WaitingPod]:
        """The pods that wait in Permit."""
        return [cycle.waiting for cycle in self._binding_cycles.values() if cycle.waiting is not None]

    def has(self, uid: str) -> bool:
        """Whether the pod's binding cycle is in progress."""
        return uid in self._binding_cycles

    def get(self, uid: str) -> BindingCycle | None:
        return self._binding_cycles.get(uid)

    def preempt(self, uid: str, plugin: str) -> bool:
        """Ends a cycle whose Binding is not posted yet in favour of another pod; False if there is none."""
        cycle = self._binding_cycles.get(uid)
        waits = cycle is not None and cycle.waiting is not None
        text = "waiting on permit for pod: preempted" if waits else f"preempted by {plugin}"
        return self._end(cycle, Status(Code.ERROR, (text,)))

    def cancel(self, uid: str, why: str) -> bool:
        """Ends a cycle whose Binding is not posted yet; False if there is none."""
        return self._end(self._binding_cycles.get(uid), unschedulable(why))

    def record_conflict(self, uid: str) -> None:
        """The API server turned its Binding down because it has one."""
        cycle = self._binding_cycles.get(uid)
        if cycle is not None:
            cycle.conflict = True

    @staticmethod
    def _end(cycle: BindingCycle | None, why: Status) -> bool:
        if cycle is None or cycle.posted:
            return False
        if cycle.stopped is None:
            cycle.stop(why)
        return True

    def gone(self, uid: str) -> bool:
        """The pod is no longer pending: if nothing was posted for it, it was deleted, and there is nothing to bind."""
        cycle = self._binding_cycles.get(uid)
        if cycle is not None:
            cycle.readmit = None
        return self.cancel(uid, "the pod was deleted")

    def back(self, uid: str, again: Callable[[], None]) -> None:
        """The pod is pending again: its cycle, if it was ended, calls `again` when it has landed."""
        cycle = self._binding_cycles.get(uid)
        if cycle is not None and cycle.stopped is not None:
            cycle.readmit = again

    def __iter__(self) -> Iterator[BindingCycle]:
        """Those of this moment."""
        return iter(tuple(self._binding_cycles.values()))

    def __len__(self) -> int:
        return len(self._binding_cycles)


class ConflictRecordingCluster:
    """The cluster as plugins reach it. Notes whose Binding was turned down because the pod has one, or is another one.

    The Binder says so only where it is sure that no Binding of ours had gone through.
    """

    def __init__(self, cluster: Cluster, binding_cycles: BindingCycles) -> None:
        self._bind = cluster.bind
        self._binding_cycles = binding_cycles
        self.get, self.update, self.wait_for = cluster.get, cluster.update, cluster.wait_for

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        try:
            await self._bind(pod, node_name, annotations)
        except ClusterError as error:
            if error.status == CONFLICT:
                self._binding_cycles.record_conflict(pod.uid)
            raise
