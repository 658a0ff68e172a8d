"""Scoring by soft spread constraints: the PreScore state, raw scores and their normalisation.

A node's raw score is a sum over the constraints: the number of matching pods in the node's domain, times a weight that
grows with the number of domains that have feasible nodes. Lower is better. Nodes that lack one of the keys score 0,
except with the System default constraints.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.interface import MAX_SCORE, Bools, Feasible, Int64s
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.spread.constraints import ActiveConstraint, Constraints
from podwright.core.plugins.spread.filtering import DomainSums, eligibility_of
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.podindex import Domains, Eligibility, PodIndex, Sums

Floats = NDArray[np.float64]
_HALF: Final = 0.5
PAUSE_EVERY: Final = 16
"""Constraints, each of which may have to count all placed pods. Pods have one or two."""


class SpreadPreScoreState:
    """The counts and weights behind the scores of one pod, computed on first use."""

    def __init__(
        self,
        index: PodIndex,
        pod: PodInfo,
        feasible: Feasible,
        constraints: Constraints,
        *,
        all_keys: bool,
        compare: bool,
    ) -> None:
        self._index = index
        self._pod = pod
        self._feasible = feasible
        self._constraints = constraints
        self._all_keys = all_keys
        self._compare = compare
        self._domain_sums = DomainSums(index, pod, constraints)

    def score(self, node: NodeInfo) -> int:
        """The raw score of one feasible node."""
        labels = node.present.labels
        if self._all_keys and not all(key in labels for key in self._constraints.keys):
            return 0
        score = 0.0
        for i, constraint in enumerate(self._constraints.items):
            if constraint.topology_key in labels:
                score += self._count(i, constraint, node) * self._weights[i] + (constraint.max_skew - 1)
        whole = math.floor(score)
        return whole + (score - whole >= _HALF)

    def score_all(self, pause: Callable[[], None]) -> Int64s:
        """int64[feasible]: the raw scores of all feasible nodes. `pause` is called now and then if there are many
        constraints.
        """
        if self._all_keys and self._impossible:
            return np.zeros(len(self._feasible), np.int64)
        score: Floats | None = None
        for i, constraint in enumerate(self._constraints.items):
            if i % PAUSE_EVERY == PAUSE_EVERY - 1:
                pause()
            part = self._part(i, constraint)
            score = part if score is None else score + part
        assert score is not None
        whole = np.floor(score)
        whole += score - whole >= _HALF
        scores = whole.astype(np.int64)
        if self.ignored is not None:
            scores[self.ignored] = 0
        return scores

    def normalize(self, scores: Int64s) -> Int64s:
        """int64[feasible]: 100 · (highest + lowest - score) / highest; ignored nodes get 0."""
        counting = scores if self.ignored is None else scores[~self.ignored]
        if not len(counting):
            return np.zeros(len(scores), np.int64)
        highest, lowest = max(0, int(np.max(counting))), int(np.min(counting))
        if highest == 0:
            normal = np.full(len(scores), MAX_SCORE, np.int64)
        else:
            normal = MAX_SCORE * (highest + lowest - scores) // highest
        if self.ignored is not None:
            normal[self.ignored] = 0
        return normal

    @cached_property
    def ignored(self) -> Bools | None:
        """bool[feasible]: nodes that lack one of the keys; None if no node does."""
        if not self._all_keys:
            return None
        if self._impossible:
            return np.ones(len(self._feasible), np.bool_)
        ignored: Bools | None = None
        for domains in self._domains:
            if not domains.full:
                missing = self._feasible.take(domains.of_node) == domains.count
                ignored = missing if ignored is None else ignored | missing
        return ignored if ignored is not None and ignored.any() else None

    @cached_property
    def _impossible(self) -> bool:
        """True if no node has one of the keys."""
        return not self._constraints.keys <= self._index.label_keys

    @cached_property
    def _domains(self) -> tuple[Domains, ...]:
        """For each constraint the domains of the nodes that have its key."""
        return tuple(self._index.domains(constraint.topology_key) for constraint in self._constraints.items)

    @cached_property
    def _sums(self) -> tuple[Sums | None, ...]:
        """For each constraint the matching pods by domain; None if each node is a domain."""
        return tuple(
            None if constraint.per_node else self._domain_sums.of(constraint, self._eligibility(constraint))
            for constraint in self._constraints.items
        )

    def _eligibility(self, constraint: ActiveConstraint) -> Eligibility:
        keys = self._constraints.keys if self._all_keys else frozenset[str]()
        eligibility = eligibility_of(self._pod, constraint, keys, compare=self._compare)
        return eligibility if self._all_keys else eligibility._replace(missing_is_empty=True)

    @cached_property
    def _weights(self) -> tuple[float, ...]:
        return tuple(
            math.log(self._size(constraint, domains) + 2)
            for constraint, domains in zip(self._constraints.items, self._domains, strict=True)
        )

    def _size(self, constraint: ActiveConstraint, domains: Domains) -> int:
        """The number of domains of feasible nodes, without ignored nodes."""
        feasible, ignored = self._feasible, self.ignored
        if constraint.per_node:
            return len(feasible) - (0 if ignored is None else int(np.count_nonzero(ignored)))
        if feasible.all_rows and ignored is None and self._all_keys:
            return domains.present
        slots = feasible.slots if ignored is None else feasible.slots[~ignored]
        size = domains.distinct_among(slots)
        return size if self._all_keys else size + self._one_more_without_label(domains)

    def _one_more_without_label(self, domains: Domains) -> int:
        """1 if nodes without the label add a domain, that of the empty value; 0 if a node has this value anyway."""
        rows = self._feasible.take(domains.of_node)
        if domains.full or not (rows == domains.count).any():
            return 0
        return int(domains.empty == domains.count or not (rows == domains.empty).any())

    def _part(self, i: int, constraint: ActiveConstraint) -> Floats:
        """float64[feasible]: the part of the score from one constraint."""
        feasible, domains, sums = self._feasible, self._domains[i], self._sums[i]
        added = constraint.max_skew - 1
        if sums is None:
            counts = feasible.take(self._domain_sums.counter(constraint).column(len(domains.of_node)))
            part: Floats = np.multiply(counts, self._weights[i], dtype=np.float64)
            part += added
            if not domains.full:
                part[feasible.take(domains.of_node) == domains.count] = 0.0
            return part
        by_domain: Floats = np.multiply(sums.values, self._weights[i], dtype=np.float64)
        by_domain += added
        by_domain[domains.count] = 0.0
        return domains.per_node(by_domain, feasible.take)

    def _count(self, i: int, constraint: ActiveConstraint, node: NodeInfo) -> int:
        sums = self._sums[i]
        if sums is not None:
            return int(sums.values[sums.domains.of_node[node.slot]])
        (pod_selector,) = constraint.selectors(self._pod.namespace)
        return sum(
            not other.terminating
            and other.namespace == self._pod.namespace
            and pod_selector.selector.matches(other.labels)
            for other in node.pods.values()
        )
