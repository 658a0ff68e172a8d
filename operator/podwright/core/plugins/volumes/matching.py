"""Plans the volumes of a pod's unbound claims on a node: static volumes to bind, or new ones to provision.

Invariant: a plan depends only on which values that a volume, a class or a capacity mentions the node's labels have
(`MentionedValues`), and on its name if a claim has a selected node. So nodes whose labels do not differ in that share
one plan. Source: kube-scheduler's volume binder; the Kubernetes documentation, "Storage Capacity".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.quantity import round_up
from podwright.core.objects.selectors import Labels
from podwright.core.objects.volumes import (
    NO_PROVISIONER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    mapping_at,
)
from podwright.core.plugins.volumes.mentioned_values import MentionedValues, Signature
from podwright.core.plugins.volumes.shelves import VolumePool, VolumeSearch, Wanted, request_of
from podwright.core.plugins.volumes.similar_nodes import SimilarNodes
from podwright.core.state.deadline import never
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.volume_index import VolumeIndex

NO_MATCH: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"

_FEW_CLAIMS: Final = 4
"""For this many claims or fewer, a plan for each node is cheap."""


class MatchOutcome(Protocol):
    """The result of choosing volumes on a node. `reason`: why there is no plan; empty if there is one."""

    @property
    def reason(self) -> str: ...
    def usage(self) -> Mapping[str, tuple[int, int]]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A static volume for a claim."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True, eq=False)
class Provision:
    """A claim for which a volume is provisioned. `capacity`: the storage it comes from, if the driver tracks
    capacity.
    """

    claim: PersistentVolumeClaim
    capacity: StorageCapacity | None


@dataclass(frozen=True, slots=True, eq=False)
class VolumePlan:
    """The bindings and provisions for the unbound claims on a node. `reason`: why there is no plan; empty if there is
    one.
    """

    bindings: tuple[Binding, ...] = ()
    provisions: tuple[Provision, ...] = ()
    reason: str = ""

    def usage(self) -> Mapping[str, tuple[int, int]]:
        """Returns (requested, available) bytes by storage class: of static volumes or, without them, of capacities for
        new volumes.

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
        """The first capacity with this many bytes for a node with these labels."""
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


class UnboundClaims:
    """The claims of one pod whose volumes are chosen together with the node. Reads the stored objects only once."""

    def __init__(
        self,
        claims: Sequence[PersistentVolumeClaim],
        index: VolumeIndex,
        store: ObjectStore,
        point: Callable[[], None] = never,
    ) -> None:
        """`point`: called where the attempt may pause."""
        self.selected_nodes = frozenset(claim.selected_node for claim in claims if claim.selected_node is not None)
        """The nodes for which claims are already being provisioned. With more than one, no node fits."""
        self._selected = [claim for claim in claims if claim.selected_node is not None]
        to_match = [claim for claim in claims if claim.selected_node is None]
        self.mentioned = MentionedValues()
        pools: dict[str, VolumePool] = {}
        self._wanted: list[Wanted] = []
        for claim in sorted(to_match, key=request_of):
            pool = pools.get(claim.storage_class)
            if pool is None:
                pool = pools[claim.storage_class] = VolumePool(index, claim.storage_class, self.mentioned, point)
            self._wanted.append(pool.wanted(claim))
        self._classes: dict[str, StorageClass] = {}
        self._capacities: dict[str, Capacities] = {}
        for claim in claims:
            self._read_class(claim.storage_class, index, store)
        self._provisioned = any(map(self._is_provisioned, claims))
        self._plans: dict[Signature, VolumePlan] = {}
        self._outcomes: dict[Signature, MatchOutcome] = {}
        self._similar: SimilarNodes | None = None

    def plan(self, node_name: str, labels: Labels) -> VolumePlan:
        """The plan for this node."""
        if any(node_name != selected for selected in self.selected_nodes):
            return _NO_MATCH
        signature = self.mentioned.signature(labels)
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plans[signature] = self._make_plan(labels)
        return plan

    def outcome(self, node_name: str, labels: Labels) -> MatchOutcome:
        """The outcome of `plan` for this node, which is cheaper if there are many claims."""
        if self._selected or len(self._wanted) <= _FEW_CLAIMS:
            return self.plan(node_name, labels)
        signature = self.mentioned.signature(labels)
        outcome = self._outcomes.get(signature)
        if outcome is None:
            outcome = self._outcomes[signature] = self._find_outcome(signature, labels) or self.plan(node_name, labels)
        return outcome

    def _find_outcome(self, signature: Signature, labels: Labels) -> MatchOutcome | None:
        """The outcome without a plan; None if it takes a plan to know it."""
        if self._similar is None:
            self._similar = SimilarNodes(self._wanted, self.mentioned, provisioned=self._provisioned)
        choice = self._similar.choice(signature, labels)
        if choice is None or not choice.unfilled:
            return choice
        if not self._provisioned:
            return _NO_MATCH
        if len(choice.unfilled) == len(self._wanted):
            return None  # the usage is that of new volumes
        provisions = self._provision([self._wanted[number].claim for number in choice.unfilled], labels)
        return provisions if isinstance(provisions, VolumePlan) else choice

    def _make_plan(self, labels: Labels) -> VolumePlan:
        bindings: list[Binding] = []
        to_provision = list(self._selected)
        search = VolumeSearch()
        for wanted in self._wanted:
            volume = wanted.choose(labels, search)
            if volume is not None:
                bindings.append(Binding(volume, wanted.claim))
                continue
            if not to_provision and not self._is_provisioned(wanted.claim):
                return _NO_MATCH  # the outcome of the other claims does not matter
            to_provision.append(wanted.claim)
        provisions = self._provision(to_provision, labels)
        return provisions if isinstance(provisions, VolumePlan) else VolumePlan(tuple(bindings), tuple(provisions))

    def _provision(self, claims: Sequence[PersistentVolumeClaim], labels: Labels) -> list[Provision] | VolumePlan:
        """New volumes for these claims, or a plan with the reason why they cannot be provisioned."""
        provisions = []
        for claim in claims:
            if not self._is_provisioned(claim) or not self._classes[claim.storage_class].allows(labels):
                return _NO_MATCH
            enough, capacity = self._room_for(claim, labels)
            if not enough:
                return _NO_SPACE
            provisions.append(Provision(claim, capacity))
        return provisions

    def _room_for(self, claim: PersistentVolumeClaim, labels: Labels) -> tuple[bool, StorageCapacity | None]:
        capacities = self._capacities.get(claim.storage_class)
        if claim.request is None or capacities is None:
            return True, None
        capacity = capacities.first(round_up(claim.request), labels)
        return capacity is not None, capacity

    def _is_provisioned(self, claim: PersistentVolumeClaim) -> bool:
        """True if the claim's class makes volumes at all."""
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


_NO_MATCH: Final = VolumePlan(reason=NO_MATCH)
_NO_SPACE: Final = VolumePlan(reason=NO_SPACE)
