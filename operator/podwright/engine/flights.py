"""Placements under way: assumed in the cache, their Binding not yet confirmed, refused or given up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from podwright.core.cycle import Placement
from podwright.core.framework.status import Status, unschedulable
from podwright.core.queue import QueuedPod
from podwright.engine.live import Live
from podwright.engine.waiting import WaitingPod


@dataclass(slots=True, eq=False)
class Flight:
    """One placement. `started` in seconds of the engine's clock; `posted`: the Binding may have reached the API server."""

    queued: QueuedPod
    placement: Placement
    live: Live
    started: float
    posted: bool = False
    stopped: Status | None = None
    waiting: WaitingPod | None = None
    working: asyncio.Task[None] | None = None
    """The task, while it does PreBind's work and may be cancelled."""

    @property
    def uid(self) -> str:
        return self.queued.uid

    def stop(self, why: str) -> None:
        """Ends it before its Binding is posted."""
        self.stopped = unschedulable(why)
        if self.waiting is not None:
            self.waiting.reject("", why)
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

    def cancel(self, uid: str, why: str) -> bool:
        """Ends a flight whose Binding is not posted yet; False if there is none."""
        flight = self._flights.get(uid)
        if flight is None or flight.posted:
            return False
        if flight.stopped is None:
            flight.stop(why)
        return True

    def gone(self, uid: str) -> bool:
        """The pod is no longer pending: if nothing was posted for it, it was deleted, and there is nothing to bind."""
        return self.cancel(uid, "the pod was deleted")

    def __len__(self) -> int:
        return len(self._flights)
