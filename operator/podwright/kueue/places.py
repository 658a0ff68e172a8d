"""The places that are held for Workloads: a Reservation for each pod set, or several where one cannot have all slots.

The room is held in our own cache at once, so that the next Workload sees it; the scheduler learns of it by its watch of
Reservations. They end by themselves after a time. Reservations are cluster-scoped, so a Workload cannot own them: the
annotation WORKLOAD_OF says whose they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from podwright.api.reservation import MAX_SLOTS, RESERVATION_KIND, parse_reservation
from podwright.api.scheduler_policy import GROUP
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.durations import format_duration
from podwright.core.objects.raw import Raw
from podwright.core.objects.times import rfc3339
from podwright.engine.engine import Engine
from podwright.kube.client.errors import if_there
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import APPLY_PATCH
from podwright.kube.client.retry import retry_until_answered
from podwright.kube.kinds import RESERVATION
from podwright.kueue.decision import PlacedPodSet
from podwright.kueue.pod_sets import PLACE_LABEL
from podwright.kueue.workload import Workload

MANAGER: Final = "podwright-admission-check"
APPLY: Final = {"fieldManager": MANAGER, "force": "true"}
"""The parameters of a server-side apply."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
WORKLOAD_OF: Final = "podwright.dev/workload"
"""The annotation of a Reservation with the Workload that it is for, as namespace/name."""
UID_LABEL: Final = "podwright.dev/workload-uid"
OURS: Final = f"{MANAGED_BY}={MANAGER},{UID_LABEL}"
"""The selector of the check's Reservations."""


class HeldPlaces:
    """See the module. `seconds`: for how long a place is held; `now`: seconds since the epoch."""

    def __init__(self, http: Http, engine: Engine, *, seconds: float, now: Callable[[], float]) -> None:
        self._http = http
        self._engine = engine
        self._duration = format_duration(seconds)
        self._now = now
        self._held: dict[str, dict[str, Any]] = {}
        """By the uid of a Workload, the specs of its Reservations by name."""

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, uid: str) -> bool:
        """True if this Workload has a place, or had one whose Reservations are still there."""
        return uid in self._held

    def expired(self, uid: str) -> bool:
        """True if the time of its place is over."""
        return any(self._engine.cache.reservations.get(name) is None for name in self._held.get(uid, ()))

    def is_at(self, uid: str, raws: Sequence[Raw]) -> bool:
        """True if its place is that of these objects, and its time is not over."""
        held = self._held.get(uid, {})
        return not self.expired(uid) and all(held.get(raw["metadata"]["name"]) == raw["spec"] for raw in raws)

    async def adopt(self) -> Sequence[Raw]:
        """Takes over the places that another instance has held. Returns the metadata of their Reservations."""
        listed = await retry_until_answered(
            "places", lambda: self._http.call("GET", RESERVATION.collection, params={"labelSelector": OURS})
        )
        found = [raw for raw in listed["items"] if WORKLOAD_OF in raw["metadata"].get("annotations", ())]
        for raw in found:
            held = self._held.setdefault(raw["metadata"]["labels"][UID_LABEL], {})
            held[raw["metadata"]["name"]] = raw["spec"]
        return [raw["metadata"] for raw in found]

    def reserve(self, uid: str, raws: Sequence[Raw]) -> None:
        """Holds the room in our cache, at once."""
        created = {"creationTimestamp": rfc3339(self._now())}
        for raw in raws:
            self._engine.reservations.set(parse_reservation({**raw, "metadata": {**raw["metadata"], **created}}))
            self._held.setdefault(uid, {})[raw["metadata"]["name"]] = raw["spec"]

    async def write(self, raws: Sequence[Raw]) -> None:
        """Writes the objects of a place that is reserved. Raises ClusterError; then the room is not held."""
        try:
            for raw in raws:
                await self._http.call("PATCH", RESERVATION.path(raw["metadata"]["name"]), raw, APPLY_PATCH, APPLY)
        except ClusterError:
            for raw in raws:
                self._engine.reservations.remove(raw["metadata"]["name"])
            raise

    async def release(self, uid: str) -> None:
        """Gives the place of this Workload back, if it has one. Raises ClusterError; then call it again."""
        names = self._held.get(uid, ())
        for name in names:
            self._engine.reservations.remove(name)
        for name in names:
            await if_there(self._http.call("DELETE", RESERVATION.path(name)))
        self._held.pop(uid, None)

    def reservations(self, workload: Workload, placed: Sequence[PlacedPodSet]) -> Sequence[Raw]:
        """The objects of a place."""
        return [
            {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": RESERVATION_KIND,
                "metadata": {
                    "name": f"kueue-{each.label}-{part}",
                    "labels": {MANAGED_BY: MANAGER, UID_LABEL: workload.uid},
                    "annotations": {WORKLOAD_OF: workload.key},
                },
                "spec": {
                    "namespace": workload.namespace,
                    "podSelector": {"matchLabels": {PLACE_LABEL: each.label}},
                    "slots": [
                        {"node": node, "requests": each.requests, "count": count} for node, count in slots.items()
                    ],
                    "duration": self._duration,
                },
            }
            for each in placed
            for part, slots in enumerate(_parts(each.slots))
        ]


def _parts(slots: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """The slots by node, in parts that one Reservation may have."""
    nodes = [node for node, count in slots.items() for _ in range(count)]
    for start in range(0, len(nodes), MAX_SLOTS):
        yield Counter(nodes[start : start + MAX_SLOTS])
