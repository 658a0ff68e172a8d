"""Filtering by spread constraints: the PreFilter state, and verdicts on one node and on all nodes.

A node passes a constraint if its domain has at most maxSkew matching pods more than the domain with the fewest, counting the pod
itself. Invariants: `filter` and `filter_all` agree, and counts after `update` equal a recount.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import Bools, FilterResult
from podwright.core.framework.status import Status, unresolvable, unschedulable
from podwright.core.objects.affinity import NodeAffinity
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.spread.constraints import Constraint, Constraints
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.podindex import Domains, Eligibility, PodIndex, Sums

_SKEWED: Final = unschedulable("node(s) didn't match pod topology spread constraints")
_NO_LABEL: Final = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
STATUSES: Final = (_NO_LABEL, _SKEWED)


def eligibility_of(pod: PodInfo, constraint: Constraint, keys: tuple[str, ...], *, compare: bool) -> Eligibility:
    """The nodes that count for a constraint: those that have all `keys` and that its inclusion policies admit."""
    if keys == (constraint.topology_key,):
        keys = ()
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


class ClusterCounts:
    """The counts in the cluster for a pod's hard constraints. Computed on first use, and shared by dry runs."""

    def __init__(self, index: PodIndex, pod: PodInfo, constraints: Constraints, *, compare: bool) -> None:
        self._index = index
        self._pod = pod
        self._compare = compare
        self.constraints = constraints.items
        self._keys = constraints.keys

    @cached_property
    def sums(self) -> tuple[Sums, ...]:
        """Matching pods by domain, one for each constraint."""
        pod, index = self._pod, self._index
        return tuple(
            index.sums(
                index.counter(constraint.selectors(pod.namespace), exclude_terminating=True),
                constraint.topology_key,
                eligibility_of(pod, constraint, self._keys, compare=self._compare),
            )
            for constraint in self.constraints
        )

    @cached_property
    def self_matches(self) -> tuple[int, ...]:
        """For each constraint 1 if its selector matches the pod itself, else 0."""
        return tuple(int(constraint.selector.matches(self._pod.labels)) for constraint in self.constraints)


class PreFilterState:
    """The sums, and the changes of a dry run: for each constraint the difference by domain."""

    __slots__ = ("_changes", "_counted", "_limits")

    def __init__(self, counted: ClusterCounts, changes: tuple[dict[int, int], ...] | None = None) -> None:
        self._counted = counted
        self._changes = changes
        self._limits: tuple[int, ...] | None = None

    def clone(self) -> PreFilterState:
        changes = None if self._changes is None else tuple(dict(changed) for changed in self._changes)
        return PreFilterState(self._counted, changes)

    def update(self, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int) -> None:
        """A dry run added `other` to the node (delta 1) or removed it (-1). As in kube-scheduler, terminating pods count here."""
        if other.namespace != pod.namespace:
            return
        counted = self._counted
        for i, (constraint, sums) in enumerate(zip(counted.constraints, counted.sums, strict=True)):
            domain = int(sums.domains.counted[node.slot])
            if domain == sums.domains.count or not constraint.selector.matches(other.labels):
                continue
            if self._changes is None:
                self._changes = tuple({} for _ in counted.constraints)
            changed = self._changes[i]
            changed[domain] = changed.get(domain, 0) + delta
            self._limits = None

    def filter(self, node: NodeInfo) -> Status | None:
        """The verdict of the first violated constraint."""
        labels = node.present.labels
        limits = self.limits
        for i, constraint in enumerate(self._counted.constraints):
            if constraint.topology_key not in labels:
                return _NO_LABEL
            sums = self._counted.sums[i]
            domain = int(sums.domains.of_node[node.slot])
            count = int(sums.values[domain])
            if self._changes is not None:
                count += self._changes[i].get(domain, 0)
            if count > limits[i]:
                return _SKEWED
        return None

    def filter_all(self) -> FilterResult:
        """The verdict on all nodes."""
        verdicts: list[tuple[Domains, Bools]] = []
        limits = self.limits
        for i, sums in enumerate(self._counted.sums):
            domains, values = sums.domains, sums.values
            if self._changes is not None and self._changes[i]:
                values = values.copy()
                for domain, delta in self._changes[i].items():
                    values[domain] += delta
            fits = values <= limits[i]
            fits[domains.count] = False
            verdicts.append((domains, fits[domains.of_node]))
        ok = verdicts[0][1]
        for _, fit in verdicts[1:]:
            ok = ok & fit
        return FilterResult(ok, lambda: (_codes(verdicts), STATUSES))

    @property
    def limits(self) -> tuple[int, ...]:
        """For each constraint the maximum number of matching pods in a domain that can take one more."""
        if self._limits is None:
            counted = self._counted
            self._limits = tuple(
                constraint.max_skew + self._least(i, constraint) - counted.self_matches[i]
                for i, constraint in enumerate(counted.constraints)
            )
        return self._limits

    def _least(self, i: int, constraint: Constraint) -> int:
        """The global minimum; 0 if there are fewer domains than minDomains."""
        sums = self._counted.sums[i]
        if len(sums.domains.ids) < constraint.min_domains:
            return 0
        return sums.least(None if self._changes is None else self._changes[i])


def _codes(verdicts: list[tuple[Domains, Bools]]) -> NDArray[np.int8]:
    """int8[nodes]: indices into STATUSES for the first constraint that each node violates."""
    codes = np.zeros(len(verdicts[0][1]), np.int8)
    undecided = np.ones(len(codes), np.bool_)
    for domains, fit in verdicts:
        codes[undecided & ~fit & (domains.of_node != domains.count)] = 1
        undecided &= fit
    return codes
