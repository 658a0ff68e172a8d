"""The door of Reservations: while the API server serves them, the core holds their room.

The status of a reservation says whether its room is held, and how much of it has been taken. An object whose time is
over stays until somebody deletes it.

Room that gangs gather (`engine.attempts.gangs.gathering`), and places of rebalancing, have objects, too, so that they
are seen, and still held after a restart. While this process leads, they follow the engine, and it takes no room from
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from podwright.api.reservation import (
    MAX_SLOTS,
    object_of,
    parse_reservation,
    status_of,
)
from podwright.core.framework.interface import ClusterError
from podwright.core.state.reservations import Reservation
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import APPLY_PATCH
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import RESERVATION, Resource
from podwright.kube.write.object_status import ObjectStatuses, Request, SeenObject
from podwright.kube.write.own_objects import OwnDoor, OwnSink

Raw = Mapping[str, Any]
LATE_SECONDS: Final = 5.0
"""By how much the end of an object may differ from what was meant."""
APPLY: Final = {"fieldManager": "podwright", "force": "true"}


class ReservationStatuses(ObjectStatuses):
    """Writes the statuses of reservations, and the objects of those that the engine makes. `parsed`: the valid ones."""

    resource = RESERVATION
    about = "reservation"
    refused = "ReservationNotAccepted"

    def __init__(self, http: Http, engine: Engine, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self.served = False
        """True while the API server serves the kind."""
        self.parsed: dict[str, Reservation] = {}
        self._reservations = engine.cache.reservations
        self._gathering = engine.gathering
        self._moves = engine.rebalancing.moves
        self._moves.keep = self.keep

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        return status_of(
            self._reservations,
            name,
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
        own = {**self._gathering.held(), **self._moves.held()}
        held = {name: each for name, each in own.items() if len(each.slots) <= MAX_SLOTS}
        wanted = {name: self._put(each) for name, each in held.items() if not _is_alike(each, self.parsed.get(name))}
        gone = {name for name, each in self.parsed.items() if _is_own(each) and name not in held}
        await self.carry_out({**wanted, **{name: Request("DELETE", RESERVATION.path(name)) for name in gone}})

    async def keep(self, reservation: Reservation) -> str:
        """Writes the object at once. Returns why it cannot be; "" if it is written, or has too many slots."""
        if not self.served:
            return "the API server does not serve Reservations"
        if len(reservation.slots) > MAX_SLOTS:
            return ""
        request = self._put(reservation)
        try:
            await self._http.call(
                request.method, request.path, request.body, request.content_type, params=request.params
            )
        except ClusterError as error:
            return str(error)
        return ""

    def _put(self, reservation: Reservation) -> Request:
        known = self._known.get(reservation.name)
        raw = object_of(reservation, self._clock() if known is None else known.created)
        return Request("PATCH", RESERVATION.path(reservation.name), raw, APPLY_PATCH, APPLY)


def _is_own(reservation: Reservation) -> bool:
    return reservation.is_gathered or reservation.is_rebalancing


def _is_alike(held: Reservation, known: Reservation | None) -> bool:
    """True if the object says the same. It may have been created some seconds later than was thought."""
    if known is None or abs(held.until - known.until) > LATE_SECONDS:
        return False
    same_times = replace(known, until=held.until, at=held.at)
    return abs(held.at - known.at) <= 1.0 and replace(held, slots=sorted(held.slots, key=str)) == replace(
        same_times, slots=sorted(known.slots, key=str)
    )


class ReservationDoor(OwnDoor):
    """See the module."""

    def __init__(self, engine: Engine, statuses: ReservationStatuses) -> None:
        super().__init__(RESERVATION, "reservations", sink=lambda: ReservationSink(engine, statuses))
        self._statuses = statuses

    def begin(self, resource: Resource) -> OwnSink:
        self._statuses.served = True
        return super().begin(resource)

    def end(self, _resource: Resource) -> None:
        self._statuses.served = False


class ReservationSink(OwnSink):
    """Takes Reservations into the core."""

    def __init__(self, engine: Engine, statuses: ReservationStatuses) -> None:
        super().__init__(engine.invalid_objects, statuses)
        self._engine = engine
        self._parsed = statuses.parsed

    def take(self, name: str, raw: Raw) -> None:
        reservation = self._parsed[name] = parse_reservation(raw)
        if not (_is_own(reservation) and self._engine.gathering.leads):
            self._engine.reservations.set(reservation)

    def remove(self, name: str) -> None:
        self._parsed.pop(name, None)
        self._engine.reservations.remove(name)
