"""Applies changes of reservations. Pods are tried again once room is no longer held."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podwright.core.objects.pod import PodInfo
from podwright.core.state.reservations import Reservation
from podwright.engine.intake.object_changes import ASSIGNED_POD_DELETE
from podwright.engine.process.steps import Steps, beside
from podwright.engine.state import EngineState


class ReservationChanges:
    """See the module. `wall` gives seconds since the epoch."""

    def __init__(self, state: EngineState, wall: Callable[[], float]) -> None:
        self._reservations = state.cache.reservations
        self._queue = state.queue
        self._clock = state.clock
        self._wake = state.wake
        self._wall = wall

    def set(self, reservation: Reservation) -> None:
        """Adds or replaces a reservation; one whose time is over holds nothing. Raises InvalidObjectError for requests
        that are not quantities.
        """
        if reservation.until <= self._wall():
            self.remove(reservation.name)
        else:
            self._released(self._reservations.set(reservation))

    def begin(self, reservation: Reservation) -> Steps[None]:
        """Adds or replaces a reservation that may have very many slots."""
        self.remove(reservation.name)
        yield from self._reservations.begin(reservation)

    def remove(self, name: str) -> None:
        """Removes a reservation, if there is one."""
        self._released(self._reservations.remove(name))

    def expire(self) -> None:
        """Removes the reservations whose time is over."""
        for name in self._reservations.expired(self._wall()):
            self.remove(name)

    def _released(self, slots: Sequence[PodInfo]) -> None:
        if slots:
            beside(self._offer(slots), self._clock)

    def _offer(self, slots: Sequence[PodInfo]) -> Steps[None]:
        """Several that are equal on a node are like one: a hint looks at the node as it is now."""
        for slot in {(slot.nominated_node_name, slot.requests): slot for slot in slots}.values():
            self._queue.move(ASSIGNED_POD_DELETE, slot.on(slot.nominated_node_name), None)
            self._wake()
            yield
