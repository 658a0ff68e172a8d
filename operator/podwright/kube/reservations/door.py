"""The door of Reservations: while the API server serves them, the core holds their room.

The status of a reservation says whether its room is held, and how much of it has been taken. An object whose time is
over stays until somebody deletes it.

Room that gangs gather (`engine.attempts.gangs.gathering`) or take over (`reused_room` there), and places of
rebalancing, have objects, too, so that they are seen, and still held after a restart. While this process leads, they
follow the engine, and it takes no room from them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from podwright.api.reservation import LONGEST, object_of, parse_reservation, status_of
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.raw import Raw
from podwright.core.objects.times import rfc3339
from podwright.core.state.reservations import Reservation
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import APPLY_PATCH
from podwright.kube.kinds import RESERVATION
from podwright.kube.watch.checked_door import CheckedDoor
from podwright.kube.write.object_status import Request, SeenObject

SLOTS_OF_A_PART: Final = 200
"""The most slots of an object that we write: it is not too large, even if each slot requests eleven resources."""
LATE_SECONDS: Final = 5.0
"""By how much the end of an object may differ from what was meant."""
APPLY: Final = {"fieldManager": "podwright", "force": "true"}


class ReservationDoor(CheckedDoor):
    """See the module. Also writes the objects of reservations that the engine makes. `parsed`: the valid ones."""

    resource = RESERVATION
    about = "reservations"
    noun = "reservation"
    refused = "ReservationNotAccepted"

    def __init__(self, http: Http, engine: Engine, **options: Any) -> None:
        """`options`: see CheckedDoor."""
        super().__init__(http, engine, **options)
        self.parsed: dict[str, Reservation] = {}
        self._whole: dict[str, str] = {}
        """By name of a part of what this process holds, or whose object is to be deleted: the name of the whole."""
        self._deleted: set[str] = set()
        """The uids of objects that were to be deleted, of which the watch has not said that they are gone."""
        self._reserved = engine.cache.reservations
        self._reservations = engine.reservations
        self._gathering = engine.gathering
        self._reused = engine.reused_room
        self._moves = engine.rebalancing.moves
        self._moves.keep = self.keep

    def take(self, name: str, raw: Raw) -> None:
        reservation = self.parsed[name] = parse_reservation(raw)
        if not (_is_own(reservation) and self._gathering.leads):
            self._reservations.set(reservation)

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        self.parsed.pop(name, None)
        if name not in self._whole:  # what this process holds is written again
            super().refuse(name, raw, first=first)

    def remove(self, name: str) -> None:
        self.parsed.pop(name, None)
        if not self._ended_here(name):
            self._reservations.remove(name)

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        return status_of(
            self._reserved,
            self._whole.get(name, name),
            generation=seen.generation,
            problem=seen.problem,
            previous=seen.status,
            now=now,
            until=rfc3339(parsed.until if (parsed := self.parsed.get(name)) is not None else 0.0),
        )

    async def settle(self) -> None:
        """Makes the objects of room that gangs gather, and deletes those of room that is given back."""
        if not self.served or not self._gathering.leads:
            return
        own = {**self._gathering.held(), **self._moves.held(), **self._reused.held()}
        held = {part.name: part for each in own.values() for part in each.in_parts(SLOTS_OF_A_PART)}
        known = {name: whole for name, whole in self._whole.items() if name in self._known}
        self._whole = known | {part.name: each.name for each in own.values() for part in each.in_parts(SLOTS_OF_A_PART)}
        wanted = {name: self._put(each) for name, each in held.items() if not self._is_alike(each)}
        gone = {name for name, each in self.parsed.items() if _is_own(each)}.union(known).difference(held)
        self._deleted.update(self._known[name].uid for name in gone)
        await self.carry_out({**wanted, **{name: Request("DELETE", RESERVATION.path(name)) for name in gone}})

    async def keep(self, reservation: Reservation) -> str:
        """Writes the object at once, or those of its parts. Returns why it cannot be; "" if it is written."""
        if not self.served:
            return "the API server does not serve Reservations"
        for request in map(self._put, reservation.in_parts(SLOTS_OF_A_PART)):
            try:
                await self._http.call(
                    request.method, request.path, request.body, request.content_type, params=request.params
                )
            except ClusterError as error:
                return str(error)
        return ""

    def _ended_here(self, name: str) -> bool:
        """True if the object is gone because this process deleted it. What is held by this name now was held later, and
        gets an object again.
        """
        known = self._known.get(name)
        if known is None or known.uid not in self._deleted:
            return False
        self._deleted.discard(known.uid)
        return True

    def _is_alike(self, held: Reservation) -> bool:
        """True if the object says the same. It may have been created some seconds later than was thought."""
        known = self.parsed.get(held.name)
        if known is None or abs(held.at - known.at) > 1.0:
            return False
        if abs(min(held.until, self._known[held.name].created + LONGEST) - known.until) > LATE_SECONDS:
            return False
        same_times = replace(known, until=held.until, at=held.at)
        return replace(held, slots=sorted(held.slots, key=str)) == replace(
            same_times, slots=sorted(known.slots, key=str)
        )

    def _put(self, reservation: Reservation) -> Request:
        known = self._known.get(reservation.name)
        raw = object_of(reservation, self._clock() if known is None else known.created)
        return Request("PATCH", RESERVATION.path(reservation.name), raw, APPLY_PATCH, APPLY)


def _is_own(reservation: Reservation) -> bool:
    return reservation.is_gathered or reservation.is_rebalancing or reservation.is_reused
