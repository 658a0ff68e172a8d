"""Reservations: room on nodes that is held for pods to come.

Each free slot of a reservation is a pod that is nominated to its node, so whatever leaves room for nominated pods
leaves room for it: filters, preemption, gangs. A pod that the reservation is for does not leave room for its slots.
When it is placed on the node of one, it takes that slot, and gives it back when it goes: a rolled-back transaction, a
failed Binding, and the end of the pod are all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby, islice
from math import inf
from typing import Final, Protocol

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import Owner, PodInfo, parse_pod
from podwright.core.objects.resources import resource_list
from podwright.core.objects.selectors import EVERYTHING, LabelSelector
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.nominator import NO_RESERVATIONS, Nominator, reservation_of, slot_uid
from podwright.core.state.observers import PlacementObserver
from podwright.core.state.pod_groups import PodGroups

MOST_TRIED: Final = 16
"""How many nodes of free slots a pod tries first."""
_PART: Final = re.compile(r"\.[0-9]+$")
"""The end of the name of a part: see `in_parts`."""
_OF_THE_NODE: Final = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
"""The labels that a pod gets from its node with the Binding. Source: plugin/pkg/admission/podtopologylabels of
Kubernetes.
"""


class Placements(Protocol):
    """The cache, as reservations see it."""

    nominator: Nominator
    groups: PodGroups

    def attach(self, observer: PlacementObserver) -> None: ...

    def detach(self, observer: PlacementObserver) -> None: ...

    def present(self, name: str) -> NodeInfo | None: ...

    def node_at(self, slot: int) -> NodeInfo: ...


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for a pod on a node. `requests`: quantities by resource."""

    node: str
    requests: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Replaced:
    """A pod that leaves its node, and how to know the one that its controller creates in its place. `requests`: in the
    core's units, without zeros. `others`: the uids of pods of the controller that are on the new node already.
    """

    name: str
    uid: str
    owner: Owner
    labels: Mapping[str, str]
    requests: Mapping[str, int]
    others: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pod: PodInfo, beside: Iterable[PodInfo]) -> Replaced:
        """`beside`: the pods on the new node. Raises ValueError for a pod without a controller."""
        if pod.owner is None:
            raise ValueError(f"pod {pod.key} has no controller")
        others = frozenset(other.uid for other in beside if other.owner == pod.owner)
        return cls(pod.name, pod.uid, pod.owner, dict(pod.labels), _requested(pod), others)

    def by(self, pod: PodInfo) -> bool:
        """True if the pod's controller has created it in place of this one. Labels name the template or, in a
        StatefulSet, the ordinal. The pod that leaves may have got others since.
        """
        return (
            pod.owner == self.owner
            and pod.uid != self.uid
            and pod.uid not in self.others
            and not pod.terminating
            and _requested(pod) == self.requests
            and all(self.labels.get(key) == value for key, value in pod.labels.items() if key not in _OF_THE_NODE)
        )


def _requested(pod: PodInfo) -> Mapping[str, int]:
    return {resource: amount for resource, amount in pod.requests.amounts.items() if amount}


@dataclass(frozen=True, slots=True)
class Reservation:
    """`namespace`, `selector`: the pods that it is for. `until`: seconds since the epoch. Pods of a priority above
    `priority` do not leave room for it.
    """

    name: str
    namespace: str
    until: float
    slots: Sequence[Slot]
    selector: LabelSelector = EVERYTHING
    priority: int = 1_000_000_000
    group: str = ""
    """The key of the pod group that it is for, instead of the pods that the selector selects."""
    group_uid: str = ""
    replaced: Replaced | None = None
    """The pod that leaves its node, if the room is for what its controller creates in its place."""
    at: float = 0.0
    """When its pods come, in seconds since the epoch. Others that declare to end before may use the room. 0:
    unknown.
    """

    @property
    def is_gathered(self) -> bool:
        """True if the scheduler made it, for a pod group that gathers room."""
        return bool(self.group) and self._is_part_of(gathered_name(self.group_uid))

    @property
    def is_rebalancing(self) -> bool:
        """True if the scheduler made it, for a pod that it moves, or for a pod group that it moves pods for."""
        uid = self.group_uid if self.replaced is None else self.replaced.uid
        return bool(uid) and self._is_part_of(rebalancing_name(uid))

    @property
    def is_reused(self) -> bool:
        """True if the scheduler made it, for a pod group that takes over the room of another one."""
        return bool(self.group) and self._is_part_of(reused_name(self.group_uid))

    def _is_part_of(self, name: str) -> bool:
        return self.name == name or _PART.sub("", self.name) == name

    def in_parts(self, most: int) -> Sequence[Reservation]:
        """Reservations of at most so many of its slots each. The first has its name, the others have a number, too."""
        firsts = range(0, len(self.slots), most)
        names = [self.name, *(f"{self.name}.{number}" for number in range(2, len(firsts) + 1))]
        return [
            replace(self, name=name, slots=self.slots[first : first + most])
            for name, first in zip(names, firsts, strict=False)
        ]

    def is_for(self, pod: PodInfo) -> bool:
        if self.group:
            return pod.group == self.group
        if self.replaced is not None:
            return pod.namespace == self.namespace and self.replaced.by(pod)
        return pod.namespace == self.namespace and self.selector.matches(pod.labels)


def gathered_name(uid: str) -> str:
    """The name of the reservation that gathers room for the pod group of this uid."""
    return f"gang-{uid}"


def rebalancing_name(uid: str) -> str:
    """The name of the reservation for what comes in place of the pod of this uid, or for the pod group."""
    return f"rebalance-{uid}"


def reused_name(uid: str) -> str:
    """The name of the reservation for the pod group of this uid, which takes over the room of another one."""
    return f"reuse-{uid}"


@dataclass(slots=True, eq=False)
class _Known:
    reservation: Reservation
    free: dict[str, PodInfo] = field(default_factory=dict)
    """The slots that no pod has, by uid."""
    taken: dict[str, PodInfo] = field(default_factory=dict)
    """The slots that pods have, by the uid of the pod."""
    broken: int = 0
    """How many slots more important pods have taken."""


class Reservations(PlacementObserver):
    """See the module. Observes the cache while there is any reservation."""

    def __init__(self, cache: Placements) -> None:
        self._cache = cache
        self._known: dict[str, _Known] = {}
        self._by_namespace: dict[str, dict[_Known, None]] = {}
        self._now = inf
        compact_regularly(self)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, name: str) -> Reservation | None:
        known = self._known.get(name)
        return None if known is None else known.reservation

    def gathered(self) -> Sequence[Reservation]:
        """Returns the reservations that the scheduler made."""
        return [known.reservation for known in self._known.values() if known.reservation.is_gathered]

    def all(self) -> Sequence[Reservation]:
        """All reservations."""
        return [known.reservation for known in self._known.values()]

    def counts(self, name: str) -> tuple[int, int, int]:
        """How many slots are free, taken by the pods that they are for, and taken by more important pods. Raises
        KeyError.
        """
        known = self._known[name]
        return len(known.free), len(known.taken), known.broken

    def taken_by(self, name: str) -> Collection[str]:
        """The uids of the pods that have its slots."""
        known = self._known.get(name)
        return () if known is None else known.taken.keys()

    def set(self, reservation: Reservation) -> Sequence[PodInfo]:
        """Adds or replaces a reservation. Returns the slots that are no longer held. Raises InvalidObjectError for
        requests that are no quantities.
        """
        gone = self._begin(reservation)
        if gone is None:
            return ()  # only its status has changed
        for _ in self._fill(self._known[reservation.name]):
            pass
        return gone

    def begin(self, reservation: Reservation) -> Generator[None, None, None]:
        """Adds a new reservation, of which the returned steps hold one slot after the other. Between them, the cache
        may change.
        """
        self._begin(reservation)
        return self._fill(self._known[reservation.name])

    def _begin(self, reservation: Reservation) -> Sequence[PodInfo] | None:
        known = self._known.get(reservation.name)
        if known is not None and known.reservation == reservation:
            return None
        for requests, _ in groupby(reservation.slots, key=lambda slot: slot.requests):
            resource_list(requests, "")
        gone = self.remove(reservation.name)
        if not self._known:
            self._cache.attach(self)
            self._cache.nominator.usable_by = self.usable_by
        known = self._known[reservation.name] = _Known(reservation)
        self._by_namespace.setdefault(reservation.namespace, {})[known] = None
        return gone

    def _fill(self, known: _Known) -> Generator[None, None, None]:
        """Ends if the reservation is removed meanwhile."""
        reservation = known.reservation
        for slot in _slots_of(reservation):
            if self._known.get(reservation.name) is not known:
                return
            known.free[slot.uid] = slot
            self._cache.nominator.add(slot, slot.nominated_node_name)
            yield
        for name in {slot.node for slot in reservation.slots}:
            if (info := self._cache.present(name)) is not None and self._known.get(reservation.name) is known:
                for pod in [*info.pods.values()]:
                    self.pod_added(pod, info.slot)
            yield

    def extend(self, name: str, slots: Sequence[Slot], until: float) -> None:
        """Adds free slots to a reservation, and holds it until then. Slots that are lost are left out from now on.
        Raises KeyError.
        """
        known = self._known[name]
        if known.broken:
            left = {slot.uid for slot in (*known.free.values(), *known.taken.values())}
            kept = [slot for index, slot in enumerate(known.reservation.slots) if slot_uid(name, index) in left]
            self.remove(name)
            self.set(replace(known.reservation, slots=[*kept, *slots], until=until))
            return
        first = len(known.reservation.slots)
        known.reservation = replace(known.reservation, slots=[*known.reservation.slots, *slots], until=until)
        for slot in _slots_of(known.reservation, first):
            known.free[slot.uid] = slot
            self._cache.nominator.add(slot, slot.nominated_node_name)

    def remove(self, name: str) -> Sequence[PodInfo]:
        """Removes a reservation, if there is one. Returns the slots that are no longer held."""
        known = self._known.pop(name, None)
        if known is None:
            return ()
        drop(self._by_namespace, known.reservation.namespace, known)
        for uid in known.free:
            self._cache.nominator.remove(uid)
        if not self._known:
            self._cache.detach(self)
            self._cache.nominator.usable_by = None
        return [*known.free.values()]

    def join_parts(self) -> None:
        """The parts of each reservation of the scheduler's own become one again: see `Reservation.in_parts`."""
        parts_of: dict[str, list[Reservation]] = {}
        for each in self.all():
            if each.is_gathered or each.is_rebalancing or each.is_reused:
                whole = rebalancing_name if each.is_rebalancing else reused_name if each.is_reused else gathered_name
                uid = each.group_uid if each.replaced is None else each.replaced.uid
                parts_of.setdefault(whole(uid), []).append(each)
        for name, parts in parts_of.items():
            if [part.name for part in parts] != [name]:
                for part in parts:
                    self.remove(part.name)
                self.set(replace(parts[0], name=name, slots=[slot for part in parts for slot in part.slots]))

    def expired(self, now: float) -> Sequence[str]:
        """The names of the reservations whose time is over. `now`: seconds since the epoch, also for `usable_by`."""
        self._now = now
        return [name for name, known in self._known.items() if known.reservation.until <= now]

    def give_way(self, slot: PodInfo, pod: PodInfo) -> None:
        """The pod gets room on the node of a free slot. If it is more important, the slot is lost for good; not if the
        room is for this pod, or the pod does not delay those that it is for.
        """
        known = self._known.get(reservation_of(slot))
        if known is None or pod.priority <= slot.priority or known.reservation.name in self.usable_by(pod):
            return
        if known.free.pop(slot.uid, None) is not None:
            known.broken += 1
            self._cache.nominator.remove(slot.uid)

    def usable_by(self, pod: PodInfo) -> frozenset[str]:
        """The names of the reservations that are for this pod, or that it does not delay."""
        known = self._by_namespace.get(pod.namespace, ())
        found = {each.reservation.name for each in known if each.free and self._is_for(each.reservation, pod)}
        if pod.run_limit:
            ends = self._now + pod.run_limit
            found.update(name for name, each in self._known.items() if each.free and ends <= each.reservation.at)
        return frozenset(found) if found else NO_RESERVATIONS

    def _is_for(self, reservation: Reservation, pod: PodInfo) -> bool:
        """Room for the group at the top of a hierarchy is for the members of all groups below."""
        return reservation.is_for(pod) or (
            bool(reservation.group) and self._cache.groups.key_of(pod) == reservation.group
        )

    def nodes_for(self, pod: PodInfo) -> Collection[str]:
        """Some nodes of free slots that are for this pod."""
        found: dict[str, None] = {}
        for known in self._by_namespace.get(pod.namespace, ()):
            if known.free and self._is_for(known.reservation, pod):
                for slot in sorted(known.free.values(), key=lambda slot: _requested(slot) != _requested(pod)):
                    found[slot.nominated_node_name] = None
        return [*islice(found, MOST_TRIED)]

    def restorer(self) -> Callable[[], None]:
        """A function that makes free and taken slots what they are now, when pods are what they are now."""
        saved = [(known, dict(known.free), dict(known.taken), known.broken) for known in self._known.values()]
        nominations = self._cache.nominator.copy()

        def restore() -> None:
            for known, free, taken, broken in saved:
                known.free, known.taken, known.broken = free, taken, broken
            self._cache.nominator.restore(nominations)

        return restore

    def suspend(self) -> Callable[[], None]:
        """Holds no free slot until the returned function is called."""
        restore = self.restorer()
        for known in self._known.values():
            for uid in known.free:
                self._cache.nominator.remove(uid)
        return restore

    def holding(self, node: str) -> Sequence[Reservation]:
        """Returns the reservations with free slots on this node."""
        return [
            known.reservation
            for known in self._known.values()
            if any(slot.nominated_node_name == node for slot in known.free.values())
        ]

    # PlacementObserver

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        for known in self._by_namespace.get(pod.namespace, ()):
            if known.free and pod.uid not in known.taken and self._is_for(known.reservation, pod):
                node = self._cache.node_at(slot).name
                here = [each for each in known.free.values() if each.nominated_node_name == node]
                if here:
                    found = min(here, key=lambda slot: _requested(slot) != _requested(pod))
                    del known.free[found.uid]
                    known.taken[pod.uid] = found
                    self._cache.nominator.remove(found.uid)
                    return

    def pod_removed(self, pod: PodInfo, _slot: int) -> None:
        for known in self._by_namespace.get(pod.namespace, ()):
            if (found := known.taken.pop(pod.uid, None)) is not None:
                known.free[found.uid] = found
                self._cache.nominator.add(found, found.nominated_node_name)


def _slots_of(reservation: Reservation, first: int = 0) -> Iterable[PodInfo]:
    """The slots from this one on, as nominated pods."""
    for index, slot in enumerate(reservation.slots[first:], first):
        raw = {
            # No namespace, policy or queue has such a slot.
            "metadata": {
                "name": f"reservation {reservation.name}",
                "namespace": "/",
                "uid": slot_uid(reservation.name, index),
            },
            "spec": {
                "schedulerName": "/",
                "priority": reservation.priority,
                "containers": [{"name": "slot", "resources": {"requests": dict(slot.requests)}}],
            },
            "status": {"nominatedNodeName": slot.node},
        }
        yield parse_pod(raw)
