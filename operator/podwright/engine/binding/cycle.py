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
from podwright.engine.active_policies import Live
from podwright.engine.binding.waiting_pods import WaitingPod

CONFLICT: Final = 409


@dataclass(slots=True, eq=False)
class Flight:
    """One placement. `started` in seconds of the engine's clock; `posted`: the Binding may have reached the API server."""

    queued: QueuedPod
    placement: Placement
    live: Live
    started: float
    posted: bool = False
    settled: bool = False
    """Permit is over: a plugin that turns the pod down from here on does not make it unschedulable."""
    refused: bool = False
    """The API server said that somebody else had bound the pod."""
    stopped: Status | None = None
    waiting: WaitingPod | None = None
    again: Callable[[], None] | None = None
    """Takes the pod in as a pending one: it was gone and is back, and came while its flight had not landed."""
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


class Flights:
    """All flights by the pod's uid."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}

    def add(self, flight: Flight) -> None:
        self._flights[flight.uid] = flight

    def remove(self, flight: Flight) -> None:
        if self._flights.get(flight.uid) is flight:
            del self._flights[flight.uid]

    def waiting(self) -> list[WaitingPod]:
        """The pods that wait in Permit."""
        return [flight.waiting for flight in self._flights.values() if flight.waiting is not None]

    def get(self, uid: str) -> Flight | None:
        return self._flights.get(uid)

    def preempt(self, uid: str, plugin: str) -> bool:
        """Ends a flight whose Binding is not posted yet in favour of another pod; False if there is none."""
        flight = self._flights.get(uid)
        waits = flight is not None and flight.waiting is not None
        text = "waiting on permit for pod: preempted" if waits else f"preempted by {plugin}"
        return self._end(flight, Status(Code.ERROR, (text,)))

    def cancel(self, uid: str, why: str) -> bool:
        """Ends a flight whose Binding is not posted yet; False if there is none."""
        return self._end(self._flights.get(uid), unschedulable(why))

    def refused(self, uid: str) -> None:
        """The API server turned its Binding down because it has one."""
        flight = self._flights.get(uid)
        if flight is not None:
            flight.refused = True

    @staticmethod
    def _end(flight: Flight | None, why: Status) -> bool:
        if flight is None or flight.posted:
            return False
        if flight.stopped is None:
            flight.stop(why)
        return True

    def gone(self, uid: str) -> bool:
        """The pod is no longer pending: if nothing was posted for it, it was deleted, and there is nothing to bind."""
        flight = self._flights.get(uid)
        if flight is not None:
            flight.again = None
        return self.cancel(uid, "the pod was deleted")

    def back(self, uid: str, again: Callable[[], None]) -> None:
        """The pod is pending again: its flight, if it was ended, calls `again` when it has landed."""
        flight = self._flights.get(uid)
        if flight is not None and flight.stopped is not None:
            flight.again = again

    def __iter__(self) -> Iterator[Flight]:
        """Those of this moment."""
        return iter(tuple(self._flights.values()))

    def __len__(self) -> int:
        return len(self._flights)


class NotingCluster:
    """The cluster as plugins reach it. Notes whose Binding was turned down because the pod has one, or is another one.

    The Binder says so only where it is sure that no Binding of ours had gone through.
    """

    def __init__(self, cluster: Cluster, flights: Flights) -> None:
        self._bind = cluster.bind
        self._flights = flights
        self.get, self.update, self.wait_for = cluster.get, cluster.update, cluster.wait_for

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str]) -> None:
        try:
            await self._bind(pod, node_name, annotations)
        except ClusterError as error:
            if error.status == CONFLICT:
                self._flights.refused(pod.uid)
            raise
