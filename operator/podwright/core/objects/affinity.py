"""Node affinity, pod affinity and topology spread constraints of a pod, parsed and interned.

Each part is interned by its source and compared by identity. So results computed for one pod of a template are reused
for all its pods. Sources: the Kubernetes API reference of PodSpec, "Assigning Pods to Nodes", "Pod Topology Spread
Constraints".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.frozen import FrozenDict
from podwright.core.objects.interning import Interner
from podwright.core.objects.raw import as_labels, as_list, as_mapping, as_positive, entries, shortened
from podwright.core.objects.selectors import (
    NOTHING,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    parse_label_selector,
    parse_node_selector,
    parse_node_selector_term,
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NodeAffinity:
    """A pod's nodeSelector, its required terms and its weighted preferred terms.

    `problem` is the first error in the preferred terms that the API server accepts, or "". `size` is
    the number of requirements of nodeSelector and required terms.
    """

    node_selector: Mapping[str, str]
    required: NodeSelector | None
    preferred: tuple[tuple[int, NodeSelectorTerm], ...]
    problem: str = ""
    size: int = 0

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """True if a node satisfies nodeSelector and required affinity."""
        if any(labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.required is None or self.required.matches(labels, name)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PodAffinityTerm:
    """One (anti-)affinity term. Interned: the same term of the same namespace is one object.

    `namespaces` are the listed names; the pod's own namespace if the term has neither names nor a selector.
    `namespace_selector` is NOTHING if the term has none. `weight` is 0 for required terms.
    """

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector
    weight: int = 0

    def covers(self, namespace: str, namespace_labels: Mapping[str, str]) -> bool:
        """True if the term applies to pods of this namespace."""
        return namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """True if the term matches a pod with these labels, in this namespace with these labels."""
        return self.covers(namespace, namespace_labels) and self.selector.matches(labels)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PodAffinity:
    """A pod's required and preferred pod affinity and anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[PodAffinityTerm, ...] = ()
    anti_required: tuple[PodAffinityTerm, ...] = ()
    anti_preferred: tuple[PodAffinityTerm, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SpreadConstraint:
    """One topology spread constraint. `selector` does not include `match_label_keys`."""

    max_skew: int
    topology_key: str
    hard: bool
    selector: LabelSelector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool
    match_label_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SpreadConstraints:
    """A pod's constraints, in the order of its spec."""

    items: tuple[SpreadConstraint, ...]

    @property
    def hard(self) -> tuple[SpreadConstraint, ...]:
        return tuple(c for c in self.items if c.hard)

    @property
    def soft(self) -> tuple[SpreadConstraint, ...]:
        return tuple(c for c in self.items if not c.hard)


NO_NODE_AFFINITY: Final = NodeAffinity(FrozenDict(), None, ())
NO_POD_AFFINITY: Final = PodAffinity()
NO_SPREAD: Final = SpreadConstraints(())

_node_affinities: Final[Interner[NodeAffinity]] = Interner()
_pod_affinities: Final[Interner[PodAffinity]] = Interner()
_terms: Final[Interner[PodAffinityTerm]] = Interner()
_spreads: Final[Interner[SpreadConstraints]] = Interner()
_selectors: Final[Interner[LabelSelector]] = Interner()


def interned_selector(raw: object, where: str) -> LabelSelector:
    """A label selector, interned by its source. Raises InvalidObjectError."""
    return NOTHING if raw is None else _selectors.get(raw, lambda: parse_label_selector(raw, where))


def node_affinity_of(spec: Mapping[str, Any], *, allow_invalid_bounds: bool = False) -> NodeAffinity:
    """The node selector and node affinity of a pod's spec. Raises InvalidObjectError.

    `allow_invalid_bounds`: see `parse_node_selector_term`.
    """
    affinity = as_mapping(spec.get("affinity"), "spec.affinity").get("nodeAffinity")
    selector = spec.get("nodeSelector")
    if not affinity and not selector:
        return NO_NODE_AFFINITY
    return _node_affinities.get(
        (selector, affinity, allow_invalid_bounds),
        lambda: _node_affinity(selector, affinity, allow_invalid_bounds=allow_invalid_bounds),
    )


def _node_affinity(selector: object, raw: object, *, allow_invalid_bounds: bool) -> NodeAffinity:
    where = "spec.affinity.nodeAffinity"
    affinity = as_mapping(raw, where)
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = []
    problem = ""
    field = f"{where}.preferredDuringSchedulingIgnoredDuringExecution"
    for at, entry in entries(affinity.get("preferredDuringSchedulingIgnoredDuringExecution"), field):
        weight, where_term = _weight(entry, at), f"{at}.preference"
        term = parse_node_selector_term(entry.get("preference"), where_term, allow_invalid_bounds=allow_invalid_bounds)
        preferred.append((weight, term))
        if any(requirement.bound is None for requirement in term.expressions):
            problem = problem or f"{where_term}.matchExpressions: operators Gt and Lt take an integer"
    labels = FrozenDict(as_labels(selector, "spec.nodeSelector"))
    terms = None
    if required is not None:
        field = f"{where}.requiredDuringSchedulingIgnoredDuringExecution"
        terms = parse_node_selector(required, field, allow_invalid_bounds=allow_invalid_bounds)
    size = len(labels) + sum(len(term.expressions) + len(term.fields) for term in (terms.terms if terms else ()))
    return NodeAffinity(labels, terms, tuple(preferred), problem, size)


def pod_affinity_of(spec: Mapping[str, Any], namespace: str) -> PodAffinity:
    """The pod affinity and anti-affinity of a pod in this namespace. Raises InvalidObjectError."""
    affinity = as_mapping(spec.get("affinity"), "spec.affinity")
    raw, raw_anti = affinity.get("podAffinity"), affinity.get("podAntiAffinity")
    if not raw and not raw_anti:
        return NO_POD_AFFINITY
    return _pod_affinities.get((namespace, raw, raw_anti), lambda: _pod_affinity(raw, raw_anti, namespace))


def _pod_affinity(raw: object, raw_anti: object, namespace: str) -> PodAffinity:
    required, preferred = _affinity_terms(raw, "spec.affinity.podAffinity", namespace)
    anti_required, anti_preferred = _affinity_terms(raw_anti, "spec.affinity.podAntiAffinity", namespace)
    return PodAffinity(required, preferred, anti_required, anti_preferred)


def _affinity_terms(
    raw: object, where: str, namespace: str
) -> tuple[tuple[PodAffinityTerm, ...], tuple[PodAffinityTerm, ...]]:
    affinity = as_mapping(raw, where)
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    required = [_term(item, at, namespace, 0) for at, item in entries(affinity.get(key), f"{where}.{key}")]
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    preferred = []
    for at, entry in entries(affinity.get(key), f"{where}.{key}"):
        preferred.append(_term(entry.get("podAffinityTerm"), f"{at}.podAffinityTerm", namespace, _weight(entry, at)))
    return tuple(required), tuple(preferred)


def _term(raw: object, where: str, namespace: str, weight: int) -> PodAffinityTerm:
    return _terms.get((namespace, weight, raw), lambda: _parse_term(raw, where, namespace, weight))


def _parse_term(raw: object, where: str, namespace: str, weight: int) -> PodAffinityTerm:
    term = as_mapping(raw, where)
    topology_key = term.get("topologyKey")
    if not isinstance(topology_key, str) or not topology_key:
        raise InvalidObjectError(f"{where}.topologyKey", "a topology key is required")
    names = [str(n) for n in as_list(term.get("namespaces"), f"{where}.namespaces")]
    namespace_selector = term.get("namespaceSelector")
    if not names and namespace_selector is None:
        names = [namespace]
    return PodAffinityTerm(
        topology_key=topology_key,
        selector=interned_selector(term.get("labelSelector"), f"{where}.labelSelector"),
        namespaces=frozenset(names),
        namespace_selector=interned_selector(namespace_selector, f"{where}.namespaceSelector"),
        weight=weight,
    )


def spread_constraints_of(spec: Mapping[str, Any]) -> SpreadConstraints:
    """The topology spread constraints of a pod's spec. Raises InvalidObjectError."""
    raw = spec.get("topologySpreadConstraints")
    if not raw:
        return NO_SPREAD
    return _spreads.get(raw, lambda: parse_spread_constraints(raw, "spec.topologySpreadConstraints"))


def parse_spread_constraints(raw: object, where: str) -> SpreadConstraints:
    """A list of v1.TopologySpreadConstraint. Raises InvalidObjectError naming the field."""
    constraints = []
    for at, entry in entries(raw, where):
        action = entry.get("whenUnsatisfiable")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            raise InvalidObjectError(f"{at}.whenUnsatisfiable", f"{shortened(action)} is not a valid action")
        key = entry.get("topologyKey")
        if not isinstance(key, str) or not key:
            raise InvalidObjectError(f"{at}.topologyKey", "a topology key is required")
        constraints.append(
            SpreadConstraint(
                max_skew=as_positive(entry.get("maxSkew"), f"{at}.maxSkew"),
                topology_key=key,
                hard=action == "DoNotSchedule",
                selector=interned_selector(entry.get("labelSelector"), f"{at}.labelSelector"),
                min_domains=as_positive(entry.get("minDomains", 1), f"{at}.minDomains"),
                honor_affinity=_policy(entry, "nodeAffinityPolicy", "Honor", at),
                honor_taints=_policy(entry, "nodeTaintsPolicy", "Ignore", at),
                match_label_keys=tuple(map(str, as_list(entry.get("matchLabelKeys"), f"{at}.matchLabelKeys"))),
            )
        )
    return SpreadConstraints(tuple(constraints))


def _policy(entry: Mapping[str, Any], name: str, default: str, where: str) -> bool:
    value = entry.get(name) or default
    if value not in ("Honor", "Ignore"):
        raise InvalidObjectError(f"{where}.{name}", f"{shortened(value)} is neither Honor nor Ignore")
    return bool(value == "Honor")


def _weight(entry: Mapping[str, Any], where: str) -> int:
    weight = entry.get("weight")
    if type(weight) is not int or not 1 <= weight <= 100:
        raise InvalidObjectError(f"{where}.weight", "must be a whole number from 1 to 100")
    return weight
