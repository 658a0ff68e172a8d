"""Scoring by preferred pod affinity: weights summed by topology key and domain.

A node's raw score sums weights over its domains: the weight of each preferred term of the pod, once for each placed pod
that matches it, and the weights of placed pods' terms that match the pod (hardPodAffinityWeight for required terms).
Anti-affinity counts as negative. Normalisation maps the lowest score to 0 and the highest to 100.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np

from podwright.core.framework.interface import MAX_SCORE, Feasible, Int16s, WholeNumbers
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.affinity.terms import own_terms
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.podindex import MatchedTerms, PodIndex, PodSelector, Sums

WeightedSums = Mapping[str, list[tuple[Sums, int]]]


class AffinityPreScoreState:
    """The sums and their weights by topology key, without sums that are 0 everywhere."""

    __slots__ = ("_index", "_sums")

    def __init__(self, index: PodIndex, sums: WeightedSums) -> None:
        self._index = index
        self._sums = sums

    def score(self, node: NodeInfo) -> int:
        """The raw score of one node."""
        labels = node.present.labels
        score = 0
        for key, weighted in self._sums.items():
            if key in labels:
                domain = self._index.domains(key).of_node[node.slot]
                score += sum(int(sums.values[domain]) * weight for sums, weight in weighted)
        return score

    def score_all(self, feasible: Feasible) -> WholeNumbers:
        """[feasible]: the raw scores of all feasible nodes. Read-only."""
        total: Any = None
        for key, weighted in self._sums.items():
            domains = self._index.domains(key)
            by_domain: Any = None
            for sums, weight in weighted:
                part = sums.values if weight == 1 else sums.values.astype(np.int64) * weight
                by_domain = part if by_domain is None else np.add(by_domain, part, dtype=np.int64)
            rows = domains.per_node(by_domain, feasible.take)
            total = rows if total is None else np.add(total, rows, dtype=np.int64)
        return cast("WholeNumbers", total)


def weighted_sums(index: PodIndex, pod: PodInfo, matched: MatchedTerms, hard_weight: int) -> WeightedSums:
    """The sums that score the pod, from its own terms and those of placed pods. Empty if no term matches."""
    found: dict[str, list[tuple[Sums, int]]] = {}
    for sums, key, weight in _contributions(index, pod, matched, hard_weight):
        if sums.total or sums.values.any():  # weights of both signs may add up to 0
            found.setdefault(key, []).append((sums, weight))
    return found


def _contributions(
    index: PodIndex, pod: PodInfo, matched: MatchedTerms, hard_weight: int
) -> Iterator[tuple[Sums, str, int]]:
    own = pod.pod_affinity
    terms = [(term, term.weight) for term in own.preferred]
    terms += [(term, -term.weight) for term in own.anti_preferred]
    if terms and own_terms(own).preferred.many:
        for key, (sums, _) in index.tallies(terms).items():
            yield sums, key, 1
    else:
        for term, weight in terms:
            counter = index.counter((PodSelector.of_term(term),))
            yield index.sums(counter, term.topology_key), term.topology_key, weight
    for groups, weight in ((matched.required, hard_weight), (matched.preferred, 1), (matched.anti_preferred, -1)):
        if weight and groups:
            for key, sums in index.sums_of_groups(groups):
                yield sums, key, weight


def normalize(scores: WholeNumbers) -> Int16s | int:
    """int16[feasible]: 100 · (score - lowest) / (highest - lowest), truncated; 0 if all are equal."""
    lowest, highest = int(scores[scores.argmin()]), int(scores[scores.argmax()])
    if lowest == highest:
        return 0
    shares = np.subtract(scores, lowest, dtype=np.float64)
    shares /= highest - lowest
    shares *= MAX_SCORE
    return shares.astype(np.int16)
