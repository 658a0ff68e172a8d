"""The places that are held for Workloads: a Reservation for each pod set, or several where one cannot have all slots.

The room is held in our own cache at once, so that the next Workload sees it; the scheduler learns of it by its watch of
Reservations. They end by themselves after a time. Reservations are cluster-scoped, so a Workload cannot own them: the
annotation WORKLOAD_OF says whose they are.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from podwright.api.reservation import MAX_SLOTS, RESERVATION_KIND, parse_reservation
from podwright.api.scheduler_policy import GROUP
from podwright.core.framework.durations import format_duration
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.wording import quantity
from podwright.engine.engine import Engine
from podwright.kube.client.errors import is_not_found
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import APPLY_PATCH
from podwright.kube.client.retry import retry_until_answered
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import RESERVATION
from podwright.kueue.pod_sets import PLACE_LABEL, PodSet
from podwright.kueue.workload import Raw, Workload

log = logging.getLogger(__name__)

MANAGER: Final = "podwright-admission-check"
APPLY: Final = {"fieldManager": MANAGER, "force": "true"}
"""The parameters of a server-side apply."""
_OURS: Final = {"app.kubernetes.io/managed-by": MANAGER}
WORKLOAD_OF: Final = "podwright.dev/workload"
"""The annotation of a Reservation with the Workload that it is for, as namespace/name."""
UID_LABEL: Final = "podwright.dev/workload-uid"

_PREFIX: Final = "kueue-"

Nodes = Sequence[Sequence[str]]
"""By pod set, the nodes of its pods."""


class Places:
    """See the module. `seconds`: for how long a place is held; `now`: seconds since the epoch."""

    def __init__(self, http: Http, engine: Engine, *, seconds: float, now: Callable[[], float]) -> None:
        self._http = http
        self._engine = engine
        self._duration = format_duration(seconds)
        self._now = now
        self._held: dict[str, Sequence[str]] = {}
        """The names of the Reservations of a Workload, by its uid."""

    def __len__(self) -> int:
        return len(self._held)

    def holds(self, uid: str) -> bool:
        """True if this Workload has a place, or had one whose Reservations are still there."""
        return uid in self._held

    def expired(self, uid: str) -> bool:
        """True if the time of its place is over."""
        reservations = self._engine.cache.reservations
        return any(reservations.get(name) is None for name in self._held.get(uid, ()))

    def is_at(self, uid: str, pod_sets: Sequence[PodSet], nodes: Nodes) -> bool:
        """True if its place is on these nodes."""
        if not self.holds(uid):
            return False
        there = Counter[tuple[str, str]]()
        for name in self._held[uid]:
            found = self._engine.cache.reservations.get(name)
            if found is None:
                return False
            place = name.removeprefix(_PREFIX).rpartition("-")[0]
            there.update((place, slot.node) for slot in found.slots)
        wanted = ((each.place, node) for each, names in zip(pod_sets, nodes, strict=True) for node in names)
        return there == Counter(wanted)

    async def adopt(self) -> Sequence[Raw]:
        """Takes over the places that another instance has held. Returns the metadata of their Reservations."""
        selector = ",".join(f"{key}={value}" for key, value in _OURS.items())
        params = {"labelSelector": selector}
        listed = await retry_until_answered(
            "places", lambda: self._http.call("GET", RESERVATION.collection, params=params)
        )
        found = [each["metadata"] for each in listed["items"]]
        for metadata in found:
            uid = metadata["labels"].get(UID_LABEL, "")
            self._held[uid] = (*self._held.get(uid, ()), metadata["name"])
        return found

    def reserve(self, workload: Workload, pod_sets: Sequence[PodSet], nodes: Nodes) -> Sequence[Raw]:
        """Holds the room in our cache, at once. Returns the objects to write."""
        raws = [*_reservations(workload, pod_sets, nodes, self._duration)]
        created = {"creationTimestamp": rfc3339(self._now())}
        for raw in raws:
            self._engine.reservations.set(parse_reservation({**raw, "metadata": {**raw["metadata"], **created}}))
        return raws

    async def write(self, uid: str, raws: Sequence[Raw]) -> None:
        """Writes the objects. Raises ClusterError."""
        self._held[uid] = [*dict.fromkeys((*self._held.get(uid, ()), *(each["metadata"]["name"] for each in raws)))]
        for raw in raws:
            path = RESERVATION.path(raw["metadata"]["name"])
            try:
                await self._http.call("PATCH", path, raw, APPLY_PATCH, APPLY)
            except ClusterError:
                self._engine.reservations.remove(raw["metadata"]["name"])
                raise

    async def release(self, uid: str) -> None:
        """Gives the place of this Workload back, if it has one. Raises ClusterError; then call it again."""
        names = self._held.get(uid, ())
        for name in names:
            self._engine.reservations.remove(name)
        for name in names:
            try:
                await self._http.call("DELETE", RESERVATION.path(name))
            except ClusterError as error:
                if not is_not_found(error):
                    raise
        self._held.pop(uid, None)


def _reservations(workload: Workload, pod_sets: Sequence[PodSet], nodes: Nodes, duration: str) -> Iterator[Raw]:
    for pod_set, names in zip(pod_sets, nodes, strict=True):
        for part, start in enumerate(range(0, len(names), MAX_SLOTS)):
            requests = _requests(pod_set.pods[0])
            slots = Counter(names[start : start + MAX_SLOTS])
            yield {
                "apiVersion": f"{GROUP}/v1alpha1",
                "kind": RESERVATION_KIND,
                "metadata": {
                    "name": f"{_PREFIX}{pod_set.place}-{part}",
                    "labels": {**_OURS, UID_LABEL: workload.uid},
                    "annotations": {WORKLOAD_OF: workload.key},
                },
                "spec": {
                    "namespace": workload.namespace,
                    "podSelector": {"matchLabels": {PLACE_LABEL: pod_set.place}},
                    "slots": [{"node": node, "requests": requests, "count": count} for node, count in slots.items()],
                    "duration": duration,
                },
            }


def _requests(pod: PodInfo) -> Mapping[str, Any]:
    return {name: quantity(name, amount) for name, amount in pod.requests.amounts.items() if amount}
