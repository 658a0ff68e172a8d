"""Plans the volumes of a pod's unbound claims on a node: static volumes to bind, or new ones to provision.

Invariant: a plan depends only on which values that a volume, a class or a capacity mentions the node's labels have (`MentionedValues`), and
on its name if a claim has a selected node. So nodes whose labels do not differ in that share one plan. Source: kube-scheduler's volume binder;
the Kubernetes documentation, "Storage Capacity".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

from podwright.core.objects.quantity import round_up
from podwright.core.objects.selectors import Labels, Requirement
from podwright.core.objects.volumes import (
    NO_PROVISIONER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAffinity,
    mapping_at,
)
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.volume_index import VolumeIndex

_Ranked = tuple[int, PersistentVolume, bool]
"""(rank by capacity, volume, whether the label under which it is indexed is all that it requires of a node)"""

NO_MATCH: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A static volume for a claim."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True, eq=False)
class Provision:
    """A claim for which a volume is provisioned. `capacity`: the storage it comes from, if the driver tracks capacity."""

    claim: PersistentVolumeClaim
    capacity: StorageCapacity | None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The bindings and provisions for the unbound claims on a node. `reason`: why there is no plan; empty if there is one."""

    bindings: tuple[Binding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    reason: str = ""

    def usage(self) -> Mapping[str, tuple[int, int]]:
        """(requested, available) bytes by storage class: of static volumes or, if there are none, of capacities for new ones.

        All new volumes of a class share one capacity.
        """
        classes: dict[str, tuple[int, int]] = {}
        for binding in self.bindings:
            name = str(mapping_at(binding.volume.raw, "spec").get("storageClassName") or "")
            requested, available = classes.get(name, (0, 0))
            classes[name] = (
                requested + round_up(binding.claim.request or 0),
                available + round_up(binding.volume.capacity),
            )
        if self.bindings:
            return classes
        for provision in self.provisions:
            if provision.capacity is not None:
                name = provision.claim.storage_class
                requested, _ = classes.get(name, (0, 0))
                available = round_up(provision.capacity.capacity)
                classes[name] = (requested + round_up(provision.claim.request or 0), available)
        return classes


class MentionedValues:
    """The label keys of requirements, with the values that they mention. They cannot tell other values of a label from each other."""

    def __init__(self) -> None:
        self._values: dict[str, set[str] | None] = {}
        """None: requirements on this label may tell any two values from each other."""
        self._order: tuple[str, ...] = ()
        self._affinities: set[VolumeAffinity] = set()

    def add_affinity(self, affinity: VolumeAffinity | None) -> None:
        if affinity is not None and affinity not in self._affinities:
            self._affinities.add(affinity)
            for term in affinity.terms:
                self.add(term)

    def add(self, requirements: Iterable[Requirement]) -> None:
        for requirement in requirements:
            if requirement.operator in ("Gt", "Lt"):
                self._values[requirement.key] = None
            elif (known := self._values.setdefault(requirement.key, set())) is not None:
                known |= requirement.values
        self._order = ()

    @property
    def keys(self) -> Sequence[str]:
        """In a fixed order."""
        if len(self._order) != len(self._values):
            self._order = tuple(sorted(self._values))
        return self._order

    def of(self, key: str) -> AbstractSet[str] | None:
        """The values of this label that matter; None: all of them."""
        return self._values[key]

    def signature(self, labels: Labels) -> tuple[str | bool | None, ...]:
        """What matters of a node's labels: for each key its value, None if it has none, True if the value is not mentioned."""
        signature: list[str | bool | None] = []
        for key in self.keys:
            value, mentioned = labels.get(key), self._values[key]
            signature.append(value if value is None or mentioned is None or value in mentioned else True)
        return tuple(signature)


class Capacities:
    """The storage capacities of a class, in order, indexed by a node label that they require."""

    def __init__(self, capacities: Sequence[StorageCapacity]) -> None:
        self._anywhere: list[tuple[int, StorageCapacity]] = []
        self._by_label: dict[str, dict[str, list[tuple[int, StorageCapacity]]]] = {}
        for rank, capacity in enumerate(capacities):
            if capacity.nodes.nothing:
                continue
            entry = (rank, capacity)
            requirement = next((r for r in capacity.nodes.requirements if r.operator == "In"), None)
            if requirement is None:
                self._anywhere.append(entry)
                continue
            by_value = self._by_label.setdefault(requirement.key, {})
            for value in requirement.values:
                by_value.setdefault(value, []).append(entry)

    def first(self, size: int, labels: Labels) -> StorageCapacity | None:
        """The first one with so many bytes for a node with these labels."""
        found: tuple[int, StorageCapacity] | None = None
        lists = [by_value.get(labels.get(key, ""), ()) for key, by_value in self._by_label.items() if key in labels]
        for entries in (self._anywhere, *lists):
            for entry in entries:
                if found is not None and entry[0] > found[0]:
                    break
                limit = entry[1].limit
                if limit is not None and round_up(limit) >= size and entry[1].nodes.matches(labels):
                    found = entry
                    break
        return None if found is None else found[1]


class _Shelf:
    """The free volumes of one class for claims that differ in their request only, smallest first.

    They are indexed by a node label that they require.
    """

    def __init__(self, volumes: Iterable[PersistentVolume], mentioned: MentionedValues) -> None:
        """Adds the requirements of the volumes, which are in the order of capacities, to `mentioned`."""
        self._anywhere: list[_Ranked] = []
        self._by_label: dict[str, dict[str, list[_Ranked]]] = {}
        for rank, volume in enumerate(volumes):
            self._add(rank, volume)
            mentioned.add_affinity(volume.affinity)

    def best(self, request: int, labels: Labels, search: _Search) -> PersistentVolume | None:
        """The smallest volume for a claim on a node with these labels. None: no volume is left."""
        found: _Ranked | None = None
        for ranked in self._lists(labels):
            head = search.head(ranked, request, labels)
            if head is not None and (found is None or head[0] < found[0]):
                found = head
        return None if found is None else found[1]

    def _lists(self, labels: Labels) -> Iterator[list[_Ranked]]:
        yield self._anywhere
        for key, by_value in self._by_label.items():
            value = labels.get(key)
            if value is not None and value in by_value:
                yield by_value[value]

    def _add(self, rank: int, volume: PersistentVolume) -> None:
        terms = () if volume.affinity is None else volume.affinity.terms
        if len(terms) == 1:
            for requirement in terms[0]:
                if requirement.operator == "In":
                    entry = (rank, volume, len(terms[0]) == 1)
                    by_value = self._by_label.setdefault(requirement.key, {})
                    for value in requirement.values:
                        by_value.setdefault(value, []).append(entry)
                    return
        self._anywhere.append((rank, volume, volume.affinity is None))


class _Search:
    """The choice of volumes for the claims of a pod on one node. The claims must come in the order of their requests.

    So a volume that a claim could not take, no later one can take either: each list of volumes is read only once.
    """

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._heads: dict[int, int] = {}
        self._empty: set[_Shelf] = set()

    def best(self, shelf: _Shelf, request: int, labels: Labels) -> PersistentVolume | None:
        """Takes the best volume of the shelf. None: no volume is left."""
        if shelf in self._empty:
            return None
        volume = shelf.best(request, labels, self)
        if volume is None:
            self._empty.add(shelf)
        else:
            self.taken.add(volume.name)
        return volume

    def head(self, ranked: list[_Ranked], request: int, labels: Labels) -> _Ranked | None:
        """The first volume in the list that a claim with this request can take on the node."""
        start = self._heads.get(id(ranked))
        if start is None:
            start = bisect_left(ranked, request, key=_capacity_of_ranked)
        for position in range(start, len(ranked)):
            _, volume, certain = ranked[position]
            if volume.capacity >= request and volume.name not in self.taken and (certain or _reachable(volume, labels)):
                self._heads[id(ranked)] = position
                return ranked[position]
        self._heads[id(ranked)] = len(ranked)
        return None


class _Pool:
    """The volumes of one class, from which claims choose. Claims that ask for the same share a shelf."""

    def __init__(self, index: VolumeIndex, storage_class: str, mentioned: MentionedValues) -> None:
        self._index = index
        self._mentioned = mentioned
        self._free: list[PersistentVolume] = []
        self._claimed: dict[tuple[str, str], list[PersistentVolume]] = {}
        for volume in index.unbound(storage_class):
            if volume.claim is None:
                self._free.append(volume)
            else:
                self._claimed.setdefault((volume.claim.namespace, volume.claim.name), []).append(volume)
        self._free.sort(key=_capacity_of)
        self._shelves: dict[Hashable, _Shelf] = {}

    def wanted(self, claim: PersistentVolumeClaim) -> _Wanted:
        """What the claim can take."""
        claimed = self._claimed.get((claim.namespace, claim.name), ())
        for volume in (*claimed, *self._index.reserved(claim)):
            if claim.reserved_by(volume) and _fits_claim(claim, volume):
                self._mentioned.add_affinity(volume.affinity)
                return _Wanted(claim, volume, None)
        kind = (claim.volume_mode, claim.attributes_class, claim.access_modes, claim.selector)
        shelf = self._shelves.get(kind)
        if shelf is None:
            fitting = [v for v in self._free if _suits_claim(claim, v) and _is_free_for(claim, v)]
            shelf = self._shelves[kind] = _Shelf(fitting, self._mentioned)
        return _Wanted(claim, None, shelf)


class _Wanted(NamedTuple):
    """A claim, and the volume that is reserved for it or the shelf from which it takes one."""

    claim: PersistentVolumeClaim
    reserved: PersistentVolume | None
    shelf: _Shelf | None

    def choose(self, labels: Labels, search: _Search) -> PersistentVolume | None:
        """The volume to use on a node with these labels. None: no volume is left."""
        if self.shelf is not None:
            return search.best(self.shelf, _request_of(self.claim), labels)
        return self.reserved if self.reserved is not None and _reachable(self.reserved, labels) else None


class UnboundClaims:
    """The claims of one pod whose volumes are chosen together with the node. Reads the stored objects only once."""

    def __init__(self, claims: Sequence[PersistentVolumeClaim], index: VolumeIndex, store: ObjectStore) -> None:
        self.selected_nodes = frozenset(claim.selected_node for claim in claims if claim.selected_node is not None)
        """The nodes for which claims are already being provisioned. With more than one, no node fits."""
        self._selected = [claim for claim in claims if claim.selected_node is not None]
        to_match = [claim for claim in claims if claim.selected_node is None]
        self.mentioned = MentionedValues()
        pools: dict[str, _Pool] = {}
        self._wanted = []
        for claim in sorted(to_match, key=_request_of):
            pool = pools.get(claim.storage_class)
            if pool is None:
                pool = pools[claim.storage_class] = _Pool(index, claim.storage_class, self.mentioned)
            self._wanted.append(pool.wanted(claim))
        self._classes: dict[str, StorageClass] = {}
        self._capacities: dict[str, Capacities] = {}
        for claim in claims:
            self._read_class(claim.storage_class, index, store)
        self._plans: dict[tuple[str | bool | None, ...], Plan] = {}

    def plan(self, node_name: str, labels: Labels) -> Plan:
        """The plan for this node."""
        if any(node_name != selected for selected in self.selected_nodes):
            return _NO_MATCH
        signature = self.mentioned.signature(labels)
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plans[signature] = self._make_plan(labels)
        return plan

    def _make_plan(self, labels: Labels) -> Plan:
        bindings: list[Binding] = []
        to_provision = list(self._selected)
        search = _Search()
        for wanted in self._wanted:
            volume = wanted.choose(labels, search)
            if volume is not None:
                bindings.append(Binding(volume, wanted.claim))
                continue
            if not to_provision and not self._is_provisioned(wanted.claim):
                return _NO_MATCH  # the outcome of the other claims does not matter
            to_provision.append(wanted.claim)
        provisions = []
        for claim in to_provision:
            if not self._is_provisioned(claim) or not self._classes[claim.storage_class].allows(labels):
                return _NO_MATCH
            enough, capacity = self._room_for(claim, labels)
            if not enough:
                return _NO_SPACE
            provisions.append(Provision(claim, capacity))
        return Plan(tuple(bindings), tuple(provisions))

    def _room_for(self, claim: PersistentVolumeClaim, labels: Labels) -> tuple[bool, StorageCapacity | None]:
        capacities = self._capacities.get(claim.storage_class)
        if claim.request is None or capacities is None:
            return True, None
        capacity = capacities.first(round_up(claim.request), labels)
        return capacity is not None, capacity

    def _is_provisioned(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim's class makes volumes at all."""
        found = self._classes.get(claim.storage_class)
        return found is not None and found.provisioner not in ("", NO_PROVISIONER)

    def _read_class(self, name: str, index: VolumeIndex, store: ObjectStore) -> None:
        found = index.storage_class(name)
        if found is None or name in self._classes:
            return
        self._classes[name] = found
        for term in found.topologies or ():
            self.mentioned.add(term)
        driver = store.get("CSIDriver", found.provisioner)
        if driver is None or not mapping_at(driver, "spec").get("storageCapacity"):
            return
        capacities = tuple(index.capacities(name))
        self._capacities[name] = Capacities(capacities)
        for capacity in capacities:
            self.mentioned.add(capacity.nodes.requirements)


_NO_MATCH: Final = Plan(reason=NO_MATCH)
_NO_SPACE: Final = Plan(reason=NO_SPACE)


def _fits_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """The conditions that also apply to the volume that is reserved for the claim."""
    return volume.capacity >= _request_of(claim) and _suits_claim(claim, volume)


def _suits_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """The same without the size."""
    return (
        volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.terminating
    )


def _is_free_for(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (
        volume.available
        and claim.access_modes <= volume.access_modes
        and (claim.selector is None or claim.selector.matches(volume.labels))
    )


def _reachable(volume: PersistentVolume, labels: Labels) -> bool:
    return volume.affinity is None or volume.affinity.matches(labels)


def _capacity_of(volume: PersistentVolume) -> int:
    return volume.capacity


def _capacity_of_ranked(entry: _Ranked) -> int:
    return entry[1].capacity


def _request_of(claim: PersistentVolumeClaim) -> int:
    return claim.request or 0
