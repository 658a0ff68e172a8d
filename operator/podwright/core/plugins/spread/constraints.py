"""The spread constraints of a pod: its own, or the profile's defaults with a selector for the pod.

Resolved constraints are cached, so that pods of one template get the same objects and share the counts of matching
pods. Source: the Kubernetes documentation, "Pod Topology Spread Constraints".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final
from weakref import WeakKeyDictionary, ref

from podwright.core.framework.features import Features
from podwright.core.objects.affinity import NO_SPREAD, SpreadConstraint, SpreadConstraints, interned_selector
from podwright.core.objects.compaction import RecentCache, compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.interning import WeakValues
from podwright.core.objects.node import HOSTNAME
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import EVERYTHING, Labels, LabelSelector, Requirement
from podwright.core.plugins.spread.args import DefaultConstraint, PodTopologySpreadArgs
from podwright.core.state.object_store import Object, ObjectStore
from podwright.core.state.podindex import PodSelector, SelectorList
from podwright.core.state.services import ServiceSelectors, plain_selector

_MAX_CACHED: Final = 1024
"""The number of constraints that are cached for one list, and of selectors whose default constraints are cached."""


@dataclass(frozen=True, slots=True, eq=False)
class ActiveConstraint:
    """A constraint after `matchLabelKeys` and feature gates are applied."""

    max_skew: int
    topology_key: str
    selector: LabelSelector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool

    @property
    def per_node(self) -> bool:
        """True if each node is a domain of its own."""
        return self.topology_key == HOSTNAME

    def selectors(self, namespace: str) -> tuple[PodSelector, ...]:
        """Counts the matching pods of the namespace. An empty selector counts none."""
        selector = self.selector
        return (PodSelector(_NO_POD if selector.empty else selector, frozenset((namespace,))),)


_NO_POD: Final = LabelSelector((), nothing=True)


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """The hard or the soft constraints of a pod. `own`: they come from the pod, not from the defaults."""

    items: tuple[ActiveConstraint, ...]
    own: bool
    keys: frozenset[str] = field(init=False)
    """The topology keys. One object, whose hash is computed once."""
    many: bool = field(init=False)
    """True if the counters of matching pods should not be kept. See `SelectorList`."""
    _selectors: SelectorList = field(init=False)

    def __post_init__(self) -> None:
        selectors = SelectorList([constraint.selector for constraint in self.items])
        object.__setattr__(self, "_selectors", selectors)
        object.__setattr__(self, "many", selectors.many)
        object.__setattr__(self, "keys", frozenset(constraint.topology_key for constraint in self.items))

    def __bool__(self) -> bool:
        return bool(self.items)

    def matching(self, labels: Labels) -> Sequence[int]:
        """The positions of the constraints whose selectors match these labels."""
        return self._selectors.matching(labels)


NONE: Final = Constraints((), own=True)
_Both = tuple[Constraints, Constraints]
_Labels = tuple[tuple[str, str], ...]


class _Variants:
    """The resolved forms of some constraints. `keys`: the pod's labels on which they depend, for `matchLabelKeys`."""

    __slots__ = ("keys", "resolved")

    def __init__(self, spread: SpreadConstraints, *, match_label_keys: bool) -> None:
        keys = [key for constraint in spread.items for key in constraint.match_label_keys] if match_label_keys else ()
        self.keys = tuple(dict.fromkeys(keys))
        self.resolved: dict[_Labels, _Both] = {}


class Resolver:
    """Finds the constraints of pods, for one profile."""

    def __init__(
        self, args: PodTopologySpreadArgs, features: Features, store: ObjectStore, services: ServiceSelectors
    ) -> None:
        self._inclusion = features.enabled("NodeInclusionPolicyInPodTopologySpread")
        self._match_label_keys = features.enabled("MatchLabelKeysInPodTopologySpread")
        self._own: WeakKeyDictionary[SpreadConstraints, _Variants] = WeakKeyDictionary()
        data: dict[ref[SpreadConstraints], _Variants] = self._own.data  # type: ignore[attr-defined]  # not public
        self._by_reference = data
        """The dict behind `_own`. Each decision reads it, because that calls no Python function."""
        self._selectors = DefaultSelectors(store, services)
        self._default_hard = tuple(c for c in args.constraints if c.when_unsatisfiable == "DoNotSchedule")
        self._default_soft = tuple(c for c in args.constraints if c.when_unsatisfiable == "ScheduleAnyway")
        self._defaulted: RecentCache[LabelSelector, _Both] = RecentCache(_MAX_CACHED)
        compact_regularly(self)

    def hard(self, pod: PodInfo) -> Constraints:
        """The constraints that filter nodes."""
        if pod.spread is not NO_SPREAD:
            return self._of_pod(pod)[0]
        return self._of_defaults(pod)[0] if self._default_hard else NONE

    def soft(self, pod: PodInfo) -> Constraints:
        """The constraints that score nodes."""
        if pod.spread is not NO_SPREAD:
            return self._of_pod(pod)[1]
        return self._of_defaults(pod)[1] if self._default_soft else NONE

    def _of_pod(self, pod: PodInfo) -> _Both:
        variants = self._by_reference.get(ref(pod.spread))
        if variants is None:
            variants = self._own[pod.spread] = _Variants(pod.spread, match_label_keys=self._match_label_keys)
        labels = tuple([(key, pod.labels[key]) for key in variants.keys if key in pod.labels]) if variants.keys else ()
        both = variants.resolved.get(labels)
        if both is None:
            if len(variants.resolved) * len(pod.spread.items) >= _MAX_CACHED:
                variants.resolved.clear()
            chosen = dict(labels)
            both = variants.resolved[labels] = (
                Constraints(tuple(self._resolve(c, chosen) for c in pod.spread.hard), own=True),
                Constraints(tuple(self._resolve(c, chosen) for c in pod.spread.soft), own=True),
            )
        return both

    def _resolve(self, constraint: SpreadConstraint, labels: Mapping[str, str]) -> ActiveConstraint:
        chosen = {key: labels[key] for key in constraint.match_label_keys if key in labels}
        return ActiveConstraint(
            max_skew=constraint.max_skew,
            topology_key=constraint.topology_key,
            selector=_requiring(constraint.selector, chosen),
            min_domains=constraint.min_domains,
            honor_affinity=constraint.honor_affinity or not self._inclusion,
            honor_taints=constraint.honor_taints and self._inclusion,
        )

    def _of_defaults(self, pod: PodInfo) -> _Both:
        selector = self._selectors.of(pod)
        if selector.empty:
            return NONE, NONE
        both = self._defaulted.get(selector)
        if both is None:
            both = self._default(selector)
            self._defaulted.put(selector, both)
        return both

    def _default(self, selector: LabelSelector) -> _Both:
        hard = tuple(self._resolve_default(c, selector) for c in self._default_hard)
        soft = tuple(self._resolve_default(c, selector) for c in self._default_soft)
        return Constraints(hard, own=False), Constraints(soft, own=False)

    def _resolve_default(self, constraint: DefaultConstraint, selector: LabelSelector) -> ActiveConstraint:
        return ActiveConstraint(
            max_skew=constraint.max_skew,
            topology_key=constraint.topology_key,
            selector=selector,
            min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            honor_affinity=constraint.node_affinity_policy != "Ignore" or not self._inclusion,
            honor_taints=constraint.node_taints_policy == "Honor" and self._inclusion,
        )


def _requiring(selector: LabelSelector, labels: Mapping[str, str]) -> LabelSelector:
    """The selector, which also requires these labels. Unchanged if it requires them already, or matches nothing.

    Equal inputs give the same object while it is in use, so that profiles share counts.
    """
    if selector.nothing or not labels:
        return selector
    key = (selector, frozenset(labels.items()))
    known = _required.known(key)
    if known is None:
        wanted = [Requirement(name, "In", frozenset((value,))) for name, value in labels.items()]
        missing = tuple(requirement for requirement in wanted if requirement not in selector.requirements)
        if not missing:
            return selector  # not kept, because the key would keep it forever
        known = _required.keep(key, LabelSelector((*missing, *selector.requirements)))
    return known


_required: Final[WeakValues[tuple[LabelSelector, frozenset[tuple[str, str]]], LabelSelector]] = WeakValues()


class DefaultSelectors:
    """The selectors of default constraints: for each pod those of its Services and its controller, combined."""

    def __init__(self, store: ObjectStore, services: ServiceSelectors) -> None:
        self._store = store
        self._services = services

    def of(self, pod: PodInfo) -> LabelSelector:
        """The selector for this pod; EVERYTHING if no Service and no known controller selects the pod."""
        labels = self._services.labels_for(pod.namespace, pod.labels)
        further = EVERYTHING
        owner = pod.owner
        if owner is not None:
            if owner.kind == "ReplicationController" and owner.api_version == "v1":
                controller = self._store.get(owner.kind, owner.name, pod.namespace)
                labels.update(plain_selector(controller) or {})
            elif owner.kind in ("ReplicaSet", "StatefulSet") and owner.api_version == "apps/v1":
                further = _selector_of(self._store.get(owner.kind, owner.name, pod.namespace))
        return _requiring(further, labels)


def _selector_of(controller: Object | None) -> LabelSelector:
    """`spec.selector` of a ReplicaSet or StatefulSet; EVERYTHING if it is missing or invalid."""
    selector = None if controller is None else (controller.get("spec") or {}).get("selector")
    if selector is None:
        return EVERYTHING
    try:
        return interned_selector(selector, "spec.selector")
    except InvalidObjectError:
        return EVERYTHING
