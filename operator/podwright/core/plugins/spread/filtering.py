"""Filtering by spread constraints: what PreFilter keeps, for one node and for all of them.

A node passes a constraint if the matching pods in its domain, the pod itself included, exceed those of the least domain
by no more than maxSkew. Invariant: `filter` and `filter_all` agree, and after `update` so do they with a recount.
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
    """Which nodes count for a constraint: those with all `keys` that its inclusion policies admit."""
    if keys == (constraint.topology_key,):
        keys = ()
    return Eligibility(
        keys,
        required_affinity(pod) if constraint.honor_affinity else None,
        pod.tolerations if constraint.honor_taints else None,
        compare,
    )


def required_affinity(pod: PodInfo) -> NodeAffinity | None:
    """The pod's node affinity if it rules nodes out."""
    affinity = pod.node_affinity
    return affinity if affinity.node_selector or affinity.required is not None else None


class Counted:
    """What a pod's hard constraints count in the cluster, found when first asked for; dry runs share it."""

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
                index.counter(constraint.pickers(pod.namespace), live=True),
                constraint.topology_key,
                eligibility_of(pod, constraint, self._keys, compare=self._compare),
            )
            for constraint in self.constraints
        )

    @cached_property
    def selves(self) -> tuple[int, ...]:
        """1 for each constraint whose selector matches the pod itself, else 0."""
        return tuple(int(constraint.selector.matches(self._pod.labels)) for constraint in self.constraints)


class PreFilterState:
    """The sums, and by how much a dry run changed them: domain to difference, for each constraint."""

    __slots__ = ("_changes", "_counted", "_limits")

    def __init__(self, counted: Counted, changes: tuple[dict[int, int], ...] | None = None) -> None:
        self._counted = counted
        self._changes = changes
        self._limits: tuple[int, ...] | None = None

    def clone(self) -> PreFilterState:
        changes = None if self._changes is None else tuple(dict(changed) for changed in self._changes)
        return PreFilterState(self._counted, changes)

    def update(self, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int) -> None:
        """`other` was put on the node (delta 1) or taken off (-1). As in kube-scheduler, terminating ones count here."""
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
        """The verdict of the first constraint that the node breaks."""
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
        """The same for all nodes."""
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
        """The most matching pods that a domain may have, for each constraint, so that one more keeps the skew."""
        if self._limits is None:
            counted = self._counted
            self._limits = tuple(
                constraint.max_skew + self._least(i, constraint) - counted.selves[i]
                for i, constraint in enumerate(counted.constraints)
            )
        return self._limits

    def _least(self, i: int, constraint: Constraint) -> int:
        """The global minimum: 0 where there are fewer domains than minDomains."""
        sums = self._counted.sums[i]
        if len(sums.domains.ids) < constraint.min_domains:
            return 0
        return sums.least(None if self._changes is None else self._changes[i])


def _codes(verdicts: list[tuple[Domains, Bools]]) -> NDArray[np.int8]:
    """int8[nodes]: positions in STATUSES for the first constraint that a node breaks."""
    codes = np.zeros(len(verdicts[0][1]), np.int8)
    undecided = np.ones(len(codes), np.bool_)
    for domains, fit in verdicts:
        codes[undecided & ~fit & (domains.of_node != domains.count)] = 1
        undecided &= fit
    return codes
