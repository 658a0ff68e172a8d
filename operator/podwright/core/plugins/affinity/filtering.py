"""Filtering by required pod affinity: the PreFilter state, and verdicts on one node and on all nodes.

Three numbers are counted by topology key and domain: pods that match all of the pod's required terms, pods that match
one of its required anti-affinity terms, and required anti-affinity terms of placed pods that match the pod. Invariants:
`filter` and `filter_all` agree, and counts after `update` equal a recount.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Bools, FilterResult
from podwright.core.framework.status import Status, unresolvable, unschedulable
from podwright.core.objects.affinity import PodAffinity
from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.objects.selectors import Labels
from podwright.core.plugins.affinity.terms import own_terms
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.podindex import Groups, PodIndex, PodSelector, Sums, Tally

_AFFINITY: Final = unresolvable("node(s) didn't match pod affinity rules")
_ANTI_AFFINITY: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
_EXISTING: Final = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
STATUSES: Final = (_AFFINITY, _ANTI_AFFINITY, _EXISTING)

FEW_TERMS: Final = 4
"""Up to this number, terms are compared with a pod one by one: that is faster than to look them up."""

SumsByKey = Mapping[str, Sequence[Sums]]


class AffinityCounts:
    """The counts in the cluster for one pod. Computed on first use, and shared by dry runs."""

    def __init__(self, index: PodIndex, pod: PodInfo, existing: Groups) -> None:
        self.index = index
        self.pod = pod
        self._terms = own_terms(pod.pod_affinity)
        self._existing = existing
        self._attracted: dict[tuple[str, LabelSet], bool] = {}
        self._repelled: dict[tuple[str, LabelSet], Mapping[str, int]] = {}
        self._repelling: dict[PodAffinity, Mapping[str, int]] = {}

    @property
    def required_keys(self) -> Sequence[str]:
        """The topology keys of the required affinity terms."""
        return self._terms.affinity.keys

    @cached_property
    def affinity(self) -> SumsByKey:
        """Pods that match all required terms, by the terms' topology keys."""
        terms = self.pod.pod_affinity.required
        if not terms:
            return {}
        selectors = tuple(dict.fromkeys(map(PodSelector.of_term, terms)))
        counter = self.index.counter(selectors, keep=not self._terms.affinity.many)
        return {key: (self.index.sums(counter, key),) for key in self.required_keys}

    @cached_property
    def anti_affinity(self) -> SumsByKey:
        """Pods that match a required anti-affinity term, by its topology key."""
        tallies = self._tallies if self._terms.anti_affinity.many else None
        if tallies is not None:
            return {key: (sums,) for key, (sums, _) in tallies.items()}
        found: dict[str, list[Sums]] = {}
        for term in self.pod.pod_affinity.anti_required:
            counter = self.index.counter((PodSelector.of_term(term),))
            found.setdefault(term.topology_key, []).append(self.index.sums(counter, term.topology_key))
        return found

    @cached_property
    def _tallies(self) -> Mapping[str, tuple[Sums, Tally]] | None:
        """The same by tallies; None if the terms are few."""
        terms = self._terms.anti_affinity
        return self.index.tallies((term, 1) for term in terms.items) if terms.many else None

    @cached_property
    def existing(self) -> SumsByKey:
        """Required anti-affinity terms of placed pods that match the pod, by topology key."""
        if not self._existing:
            return {}
        found: dict[str, list[Sums]] = {}
        for key, sums in self.index.sums_of_groups(self._existing):
            if sums.total:
                found.setdefault(key, []).append(sums)
        return found

    @cached_property
    def matches_itself(self) -> bool:
        """True if the pod matches all of its own required terms."""
        return self._terms.affinity.all_match(self.index, self.pod)

    # Another pod that a dry run adds or removes. Pods with the same labels, and those with the same terms, are compared
    # once.

    def is_attracted_by(self, other: PodInfo) -> bool:
        """True if another pod matches all required terms."""
        key = (other.namespace, other.labels)
        known = self._attracted.get(key)
        if known is None:
            known = self._attracted[key] = self._attracts(other)
        return known

    def _attracts(self, other: PodInfo) -> bool:
        if self._required_tally is not None:
            return self._required_tally.of(other) == self._required_tally.total
        return self._terms.affinity.all_match(self.index, other)

    @cached_property
    def _required_tally(self) -> Tally | None:
        """How many of the required terms match each pod; None if the terms are few."""
        terms = self._terms.affinity
        return self.index.tally((term, 1) for term in terms.items) if terms.many else None

    def repelled_by(self, other: PodInfo) -> Mapping[str, int]:
        """By topology key the number of required anti-affinity terms of the pod that match another pod."""
        key = (other.namespace, other.labels)
        known = self._repelled.get(key)
        if known is None:
            known = self._repelled[key] = self._count_repelled(other)
        return known

    def _count_repelled(self, other: PodInfo) -> Mapping[str, int]:
        if self._tallies is not None:
            counts = {key: tally.of(other) for key, (_, tally) in self._tallies.items()}
            return {key: count for key, count in counts.items() if count}
        return Counter(term.topology_key for term in self._terms.anti_affinity.matching(self.index, other))

    def repels(self, other: PodAffinity) -> Mapping[str, int]:
        """By topology key the number of another pod's required anti-affinity terms that match the pod."""
        known = self._repelling.get(other)
        if known is None:
            pod, namespace_labels = self.pod, self._namespace_labels
            known = self._repelling[other] = Counter(
                term.topology_key
                for term in own_terms(other).anti_affinity.selecting(pod.labels)
                if term.covers(pod.namespace, namespace_labels)
            )
        return known

    @cached_property
    def _namespace_labels(self) -> Labels:
        return self.index.namespace_labels(self.pod.namespace) or {}

    def repels_near(self, other: PodAffinity, labels: Labels) -> bool:
        """True if a required anti-affinity term of another pod, on a node with these labels, matches the pod."""
        terms = other.anti_required
        if len(terms) > FEW_TERMS:
            return any(key in labels for key in self.repels(other))
        pod = self.pod
        for term in terms:
            if term.topology_key not in labels or not term.selector.matches(pod.labels):
                continue
            if term.covers(pod.namespace, self._namespace_labels):
                return True
        return False

    def repelled_near(self, other: PodInfo, labels: Labels) -> bool:
        """True if a required anti-affinity term of the pod matches another pod on a node with these labels."""
        terms = self.pod.pod_affinity.anti_required
        if len(terms) > FEW_TERMS:
            return any(key in labels for key in self.repelled_by(other))
        index = self.index
        for term in terms:
            if term.topology_key not in labels or not term.selector.matches(other.labels):
                continue
            if index.applies_to(term, other.namespace):
                return True
        return False


class DomainCounts:
    """Counts by topology key and domain, and the changes of a dry run."""

    __slots__ = ("_changes", "_find", "_index")

    def __init__(
        self, index: PodIndex, find: Callable[[], SumsByKey], changes: dict[str, dict[int, int]] | None = None
    ) -> None:
        self._index = index
        self._find = find
        self._changes = changes

    def clone(self) -> DomainCounts:
        changes = None if self._changes is None else {key: dict(changed) for key, changed in self._changes.items()}
        return DomainCounts(self._index, self._find, changes)

    def update(self, key: str, node: NodeInfo, delta: int) -> None:
        if key not in node.present.labels:
            return
        if self._changes is None:
            self._changes = {}
        domain = int(self._index.domains(key).of_node[node.slot])
        changed = self._changes.setdefault(key, {})
        changed[domain] = changed.get(domain, 0) + delta

    @property
    def keys(self) -> Iterable[str]:
        """The topology keys that may have counts."""
        found = self._find().keys()
        return found if self._changes is None else dict.fromkeys((*found, *self._changes))

    @property
    def empty(self) -> bool:
        """True if all counts are 0."""
        total = sum(sums.total for group in self._find().values() for sums in group)
        if self._changes is not None:
            total += sum(delta for changed in self._changes.values() for delta in changed.values())
        return total == 0

    def at(self, key: str, node: NodeInfo) -> int:
        """The count in the domain of a node that has the label."""
        domain = int(self._index.domains(key).of_node[node.slot])
        count = sum(int(sums.values[domain]) for sums in self._find().get(key, ()))
        if self._changes is not None:
            count += self._changes.get(key, {}).get(domain, 0)
        return count

    def counted_near(self, node: NodeInfo) -> bool:
        """True if one of the node's domains has a count above 0."""
        labels = node.present.labels
        return any(key in labels and self.at(key, node) > 0 for key in self.keys)

    def column(self, key: str) -> Bools:
        """bool[nodes]: whether the node's domain of this key has a count above 0."""
        domains = self._index.domains(key)
        found = self._find().get(key, ())
        changed = None if self._changes is None else self._changes.get(key)
        if len(found) == 1 and not changed:
            return domains.per_node(found[0].values > 0)
        values = np.zeros(domains.count + 1, np.int64)
        for sums in found:
            values += sums.values
        for domain, delta in (changed or {}).items():
            values[domain] += delta
        return domains.per_node(values > 0)

    def counted_mask(self) -> Bools | None:
        """bool[nodes]: whether one of the node's domains has a count above 0. None: no node's has."""
        found: Bools | None = None
        for key in self.keys:
            column = self.column(key)
            found = column if found is None else found | column
        return found


class AffinityPreFilterState:
    """The three counts of one pod."""

    def __init__(
        self, counted: AffinityCounts, counts: tuple[DomainCounts, DomainCounts, DomainCounts] | None = None
    ) -> None:
        self._counted = counted
        self._affinity, self._anti_affinity, self._existing = counts or (
            DomainCounts(counted.index, lambda: counted.affinity),
            DomainCounts(counted.index, lambda: counted.anti_affinity),
            DomainCounts(counted.index, lambda: counted.existing),
        )

    def clone(self) -> AffinityPreFilterState:
        counts = (self._affinity.clone(), self._anti_affinity.clone(), self._existing.clone())
        return AffinityPreFilterState(self._counted, counts)

    def update(self, other: PodInfo, node: NodeInfo, delta: int) -> None:
        """A dry run added `other` to the node (delta 1) or removed it (-1)."""
        counted = self._counted
        own = counted.pod.pod_affinity
        if other.pod_affinity.anti_required:
            for key, terms in counted.repels(other.pod_affinity).items():
                self._existing.update(key, node, delta * terms)
        if own.required and counted.is_attracted_by(other):
            for key in counted.required_keys:
                self._affinity.update(key, node, delta)
        if own.anti_required:
            for key, terms in counted.repelled_by(other).items():
                self._anti_affinity.update(key, node, delta * terms)

    def filter_with(self, others: Iterable[PodInfo], node: NodeInfo) -> Status | None:
        """The verdict on the node as if `others` were on it. Only for a state without dry runs, while no pod comes or
        goes.
        """
        counted = self._counted
        own = counted.pod.pod_affinity
        if own.required:
            with_them = self.clone()
            for other in others:
                with_them.update(other, node, 1)
            return with_them.filter(node)
        anti_affinity, existing = self._masks
        labels = node.present.labels
        if anti_affinity is not None and anti_affinity[node.slot]:
            return _ANTI_AFFINITY
        if own.anti_required:
            for other in others:
                if counted.repelled_near(other, labels):
                    return _ANTI_AFFINITY
        if existing is not None and existing[node.slot]:
            return _EXISTING
        for other in others:
            if counted.repels_near(other.pod_affinity, labels):
                return _EXISTING
        return None

    @cached_property
    def _masks(self) -> tuple[Bools | None, Bools | None]:
        return self._anti_affinity.counted_mask(), self._existing.counted_mask()

    def repelled(self) -> Bools | None:
        """bool[nodes]: those that anti-affinity rejects, the pod's own or that of placed pods. None: no node."""
        own, existing = self._masks
        return existing if own is None else own if existing is None else own | existing

    def filter(self, node: NodeInfo) -> Status | None:
        """The first violated rule: the pod's affinity, its anti-affinity, the anti-affinity of placed pods."""
        if not self._matches_affinity(node):
            return _AFFINITY
        if self._anti_affinity.counted_near(node):
            return _ANTI_AFFINITY
        return _EXISTING if self._existing.counted_near(node) else None

    def _matches_affinity(self, node: NodeInfo) -> bool:
        labels = node.present.labels
        keys = self._counted.required_keys
        if not all(key in labels for key in keys):
            return False
        return all(self._affinity.at(key, node) > 0 for key in keys) or self._first_of_group

    @property
    def _first_of_group(self) -> bool:
        """True if no placed pod matches the required terms, but the pod itself does: then it may be the first of its
        group.
        """
        return self._affinity.empty and self._counted.matches_itself

    def filter_all(self) -> FilterResult | None:
        """The verdict on all nodes; None if all pass."""
        matching = self._affinity_mask() if self._counted.pod.pod_affinity.required else None
        anti_affinity = self._anti_affinity.counted_mask()
        existing = self._existing.counted_mask()
        ok: Bools | None = matching
        for bad in (anti_affinity, existing):
            if bad is not None:
                ok = ~bad if ok is None else ok & ~bad
        return None if ok is None else FilterResult(ok, lambda: (_codes(len(ok), matching, anti_affinity), STATUSES))

    def _affinity_mask(self) -> Bools:
        """bool[nodes]: whether the required terms hold. They do not on nodes that lack a key."""
        keys = self._counted.required_keys
        if self._first_of_group:
            found = [self._counted.index.domains(key) for key in keys]
            columns = [domains.of_node != domains.count for domains in found]
        else:
            columns = [self._affinity.column(key) for key in keys]
        return functools.reduce(np.logical_and, columns)


def _codes(rows: int, matching: Bools | None, anti_affinity: Bools | None) -> NDArray[np.int8]:
    """int8[nodes]: indices into STATUSES, for rejected nodes."""
    codes = np.full(rows, 2, np.int8)
    if anti_affinity is not None:
        codes[anti_affinity] = 1
    if matching is not None:
        codes[~matching] = 0
    return codes
