"""Filtering by spread constraints: the PreFilter state, and verdicts on one node and on all nodes.

A node passes a constraint if its domain has at most maxSkew matching pods more than the domain with the fewest,
counting the pod itself. Invariants: `filter` and `filter_all` agree, and counts after `update` equal a recount.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Bools, FilterResult
from podwright.core.framework.status import Status, unresolvable, unschedulable
from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.objects.selectors import LabelSelector
from podwright.core.plugins.spread.constraints import ActiveConstraint, Constraints
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.podindex import Domains, Eligibility, MatchCounter, PodIndex, Sums

_SKEWED: Final = unschedulable("node(s) didn't match pod topology spread constraints")
_NO_LABEL: Final = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
STATUSES: Final = (_NO_LABEL, _SKEWED)
_NO_KEYS: Final[frozenset[str]] = frozenset()


def eligibility_of(pod: PodInfo, constraint: ActiveConstraint, keys: frozenset[str], *, compare: bool) -> Eligibility:
    """The nodes that count for a constraint: those that have all `keys` and that its inclusion policies admit."""
    if len(keys) == 1 and constraint.topology_key in keys:
        keys = _NO_KEYS
    return Eligibility(
        keys,
        required_affinity(pod) if constraint.honor_affinity else None,
        pod.tolerations if constraint.honor_taints else None,
        compare,
    )


def required_affinity(pod: PodInfo) -> NodeAffinity | None:
    """The pod's node affinity if it can reject nodes; otherwise None."""
    affinity = pod.node_affinity
    return affinity if affinity.node_selector or affinity.required is not None else None


class DomainSums:
    """Sums of matching pods for one pod's constraints. If it has many, the counters behind them are not kept."""

    def __init__(self, index: PodIndex, pod: PodInfo, constraints: Constraints) -> None:
        self._index = index
        self._pod = pod
        self._keep = not constraints.many
        self._counters: dict[LabelSelector, MatchCounter] = {}

    def counter(self, constraint: ActiveConstraint) -> MatchCounter:
        """Counts the matching pods of the pod's namespace that are not terminating."""
        counter = self._counters.get(constraint.selector)
        if counter is None:
            selectors = constraint.selectors(self._pod.namespace)
            counter = self._index.counter(selectors, exclude_terminating=True, keep=self._keep)
            self._counters[constraint.selector] = counter
        return counter

    def of(self, constraint: ActiveConstraint, eligibility: Eligibility) -> Sums:
        """The matching pods by domain. Pods are not counted if no node counts."""
        domains = self._index.domains(constraint.topology_key, eligibility)
        if not domains.present:
            return Sums(None, domains)
        return self._index.sums(self.counter(constraint), constraint.topology_key, eligibility, domains)


class SpreadCounts:
    """The counts in the cluster for a pod's hard constraints. Computed on first use, and shared by dry runs."""

    def __init__(self, index: PodIndex, pod: PodInfo, constraints: Constraints, *, compare: bool) -> None:
        self._index = index
        self._pod = pod
        self._compare = compare
        self.constraints = constraints.items
        self._resolved = constraints
        self._keys = constraints.keys
        self._matched_by: dict[LabelSet, Sequence[int]] = {}

    @cached_property
    def impossible(self) -> bool:
        """True if no node has one of the keys. Then no node counts, so that nothing is skewed, and all nodes lack a
        label.
        """
        return not self._keys <= self._index.label_keys

    @property
    def nodes(self) -> int:
        """The number of rows of the node table."""
        return len(self._index.domains(self.constraints[0].topology_key).of_node)

    @cached_property
    def sums(self) -> tuple[Sums, ...]:
        """Matching pods by domain, one for each constraint."""
        sums = DomainSums(self._index, self._pod, self._resolved)
        pod, keys, compare = self._pod, self._keys, self._compare
        return tuple([sums.of(c, eligibility_of(pod, c, keys, compare=compare)) for c in self.constraints])

    @cached_property
    def least(self) -> tuple[int, ...]:
        """For each constraint the least number of matching pods in a domain."""
        return tuple([sums.least for sums in self.sums])

    @cached_property
    def limits(self) -> tuple[int, ...]:
        """For each constraint the maximum number of matching pods in a domain that can take one more."""
        return tuple([self.limit(i, least) for i, least in enumerate(self.least)])

    def limit(self, i: int, least: int) -> int:
        """The limit of a constraint with this least number. With fewer domains than minDomains, the least number counts
        as 0.
        """
        constraint = self.constraints[i]
        if self.sums[i].domains.present < constraint.min_domains:
            least = 0
        return constraint.max_skew + least - constraint.selector.matches(self._pod.labels)

    def matched_by(self, other: PodInfo) -> Sequence[int]:
        """The constraints whose selectors match another pod, which has the same namespace. Equal labels are compared
        once.
        """
        known = self._matched_by.get(other.labels)
        if known is None:
            known = self._matched_by[other.labels] = self._resolved.matching(other.labels)
        return known


class SpreadPreFilterState:
    """The sums, and the changes of a dry run: by constraint the difference by domain, and the limits that they
    change.
    """

    __slots__ = ("_changes", "_counted", "_limits")

    def __init__(self, counted: SpreadCounts, changes: dict[int, dict[int, int]] | None = None) -> None:
        self._counted = counted
        self._changes: dict[int, dict[int, int]] = changes or {}
        self._limits: dict[int, int] = {}

    def clone(self) -> SpreadPreFilterState:
        return SpreadPreFilterState(self._counted, {i: dict(changed) for i, changed in self._changes.items()})

    def update(self, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int) -> None:
        """A dry run added `other` to the node (delta 1) or removed it (-1). As in kube-scheduler, terminating pods
        count here.
        """
        counted = self._counted
        if other.namespace != pod.namespace or counted.impossible:
            return
        for i in counted.matched_by(other):
            domains = counted.sums[i].domains
            domain = int(domains.counted[node.slot])
            if domain != domains.count:
                changed = self._changes.setdefault(i, {})
                changed[domain] = changed.get(domain, 0) + delta
                self._limits.pop(i, None)

    def filter(self, node: NodeInfo) -> Status | None:
        """The verdict of the first violated constraint."""
        counted = self._counted
        if counted.impossible:
            return _NO_LABEL
        labels = node.present.labels
        for i, constraint in enumerate(counted.constraints):
            if constraint.topology_key not in labels:
                return _NO_LABEL
            sums = counted.sums[i]
            domain = int(sums.domains.of_node[node.slot])
            count = int(sums.values[domain])
            if i in self._changes:
                count += self._changes[i].get(domain, 0)
            if count > self.limit(i):
                return _SKEWED
        return None

    def filter_all(self) -> FilterResult | None:
        """The verdict on all nodes; None: all pass."""
        counted = self._counted
        if counted.impossible:
            return self._reject_all()
        verdicts: list[tuple[Domains, Bools]] = []
        ok: Bools | None = None
        limits = counted.limits
        for i, sums in enumerate(counted.sums):
            domains, values, limit = sums.domains, sums.values, limits[i]
            if domains.everywhere and i not in self._changes and sums.greatest <= limit:
                continue
            if i in self._changes:
                values, limit = values.copy(), self.limit(i)
                for domain, delta in self._changes[i].items():
                    values[domain] += delta
            fits = values <= limit
            fits[domains.count] = False
            verdicts.append((domains, fits))
            fit = domains.per_node(fits)
            ok = fit if ok is None else ok & fit
        return None if ok is None else FilterResult(ok, lambda: (_codes(verdicts), STATUSES))

    def _reject_all(self) -> FilterResult:
        nodes = self._counted.nodes
        return FilterResult(np.zeros(nodes, np.bool_), lambda: (np.zeros(nodes, np.int8), STATUSES))

    def limit(self, i: int) -> int:
        """The maximum number of matching pods in a domain that can take one more, for one constraint."""
        changed = self._changes.get(i)
        if changed is None:
            return self._counted.limits[i]
        limit = self._limits.get(i)
        if limit is None:
            counted = self._counted
            least = counted.sums[i].least_with(changed, counted.least[i])
            limit = self._limits[i] = counted.limit(i, least)
        return limit


def _codes(verdicts: list[tuple[Domains, Bools]]) -> NDArray[np.int8]:
    """int8[nodes]: indices into STATUSES for the first constraint that each node violates. `verdicts` are by domain."""
    codes = np.zeros(len(verdicts[0][0].of_node), np.int8)
    undecided = np.ones(len(codes), np.bool_)
    for domains, fits in verdicts:
        fit = domains.per_node(fits)
        codes[undecided & ~fit & (domains.of_node != domains.count)] = 1
        undecided &= fit
    return codes
