"""The door of Reservations: while the API server serves them, the core holds their room.

The status of a reservation says whether its room is held, and how much of it has been taken. An object whose time is
over stays until somebody deletes it.

Room that gangs gather (`engine.gangs.gathering`) has objects, too, so that it is seen, and still held after a restart.
While this process leads, they follow the gangs, and it takes no room from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podwright.api.reservation import (
    MAX_SLOTS,
    RESERVATION_KIND,
    RESERVATION_PLURAL,
    object_of,
    parse_reservation,
    status_of,
)
from podwright.api.scheduler_policy import GROUP, identity_of
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.state.reservations import Reservation
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import APPLY_PATCH
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import RESERVATION, Resource
from podwright.kube.write.object_status import ObjectStatuses, Request, SeenObject

Raw = Mapping[str, Any]
LATE_SECONDS: Final = 5.0
"""By how much the end of an object may differ from what was meant."""
APPLY: Final = {"fieldManager": "podwright", "force": "true"}


class ReservationStatuses(ObjectStatuses):
    """Writes the statuses of reservations, and the objects of those that gangs gather. `parsed`: the valid ones."""

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
        held = {name: each for name, each in self._gathering.held().items() if len(each.slots) <= MAX_SLOTS}
        wanted = {name: self._put(each) for name, each in held.items() if not _is_alike(each, self.parsed.get(name))}
        gone = {name for name, each in self.parsed.items() if each.is_gathered and name not in held}
        await self.carry_out({**wanted, **{name: Request("DELETE", RESERVATION.path(name)) for name in gone}})

    def _put(self, reservation: Reservation) -> Request:
        known = self._known.get(reservation.name)
        raw = object_of(reservation, self._clock() if known is None else known.created)
        return Request("PATCH", RESERVATION.path(reservation.name), raw, APPLY_PATCH, APPLY)


def _is_alike(held: Reservation, known: Reservation | None) -> bool:
    """True if the object says the same. It may have been created some seconds later than was thought."""
    if known is None or abs(held.until - known.until) > LATE_SECONDS:
        return False
    same_times = replace(known, until=held.until, at=held.at)
    return abs(held.at - known.at) <= 1.0 and replace(held, slots=sorted(held.slots, key=str)) == replace(
        same_times, slots=sorted(known.slots, key=str)
    )


class ReservationDoor:
    """See the module."""

    kind: str = RESERVATION_KIND
    about: str = "reservations"
    candidates: Sequence[Resource] = (RESERVATION,)
    crd: str = f"{RESERVATION_PLURAL}.{GROUP}"

    def __init__(self, engine: Engine, statuses: ReservationStatuses) -> None:
        self._engine = engine
        self._statuses = statuses

    def begin(self, _resource: Resource) -> ReservationSink:
        self._statuses.served = True
        return ReservationSink(self._engine, self._statuses)

    def end(self, _resource: Resource) -> None:
        self._statuses.served = False

    def changed(self) -> None:
        """Each reservation has retried the pods that it may help."""


class ReservationSink:
    """Takes Reservations into the core."""

    def __init__(self, engine: Engine, statuses: ReservationStatuses) -> None:
        self.known: set[str] = set()
        self._engine = engine
        self._statuses = statuses

    def key(self, raw: Raw) -> str:
        return identity_of(raw)[0]

    def put(self, raw: Raw) -> None:
        name, problem = self.key(raw), ""
        self.known.add(name)
        try:
            reservation = self._statuses.parsed[name] = parse_reservation(raw)
            if not (reservation.is_gathered and self._engine.gathering.leads):
                self._engine.reservations.set(reservation)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            problem = str(error) if isinstance(error, InvalidObjectError) else described(error)
            self._statuses.parsed.pop(name, None)
            self._engine.reservations.remove(name)
            self._engine.invalid_objects.report(RESERVATION_KIND, name, error)
        self._statuses.seen(name, raw, problem)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self.known.discard(key)
        self._statuses.parsed.pop(key, None)
        self._engine.reservations.remove(key)
        self._statuses.forget(key)
