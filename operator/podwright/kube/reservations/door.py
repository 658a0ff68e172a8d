"""The door of Reservations: while the API server serves them, the core holds their room.

The status of a reservation says whether its room is held, and how much of it has been taken. An object whose time is
over stays until somebody deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.api.reservation import RESERVATION_KIND, RESERVATION_PLURAL, parse_reservation, status_of
from podwright.api.scheduler_policy import GROUP, identity_of
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import RESERVATION, Resource
from podwright.kube.write.object_status import ObjectStatuses, SeenObject

Raw = Mapping[str, Any]


class ReservationStatuses(ObjectStatuses):
    """Writes the statuses of reservations. `until`: the time at which each ends, in seconds since the epoch."""

    resource = RESERVATION
    about = "reservation"
    refused = "ReservationNotAccepted"

    def __init__(self, http: Http, engine: Engine, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self._reservations = engine.cache.reservations
        self.until: dict[str, float] = {}

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        return status_of(
            self._reservations,
            name,
            generation=seen.generation,
            problem=seen.problem,
            previous=seen.status,
            now=now,
            until=rfc3339(self.until.get(name, 0.0)),
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
        return ReservationSink(self._engine, self._statuses)

    def end(self, _resource: Resource) -> None:
        """All reservations were dropped."""

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
            reservation = parse_reservation(raw)
            self._statuses.until[name] = reservation.until
            self._engine.reservations.set(reservation)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            problem = str(error) if isinstance(error, InvalidObjectError) else described(error)
            self._engine.reservations.remove(name)
            self._engine.invalid_objects.report(RESERVATION_KIND, name, error)
        self._statuses.seen(name, raw, problem)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self.known.discard(key)
        self._statuses.until.pop(key, None)
        self._engine.reservations.remove(key)
        self._statuses.forget(key)
