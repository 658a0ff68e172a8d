"""PodIndex: the interface to all counts of placed pods. Each part is built on first use and follows the cache from then
on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from podwright.core.objects.affinity import PodAffinityTerm
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import Labels
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.deadline import never
from podwright.core.state.podindex.domains import ALL_WITH_KEY, DomainCache, Domains, Eligibility, Sums
from podwright.core.state.podindex.matches import MatchCounter, MatchIndex
from podwright.core.state.podindex.pod_selector import NamespaceLabels, PodSelector, includes_namespace
from podwright.core.state.podindex.tally import Tally
from podwright.core.state.podindex.term_rows import GroupRows
from podwright.core.state.podindex.terms import (
    COMBINE_THRESHOLD,
    CombinedGroups,
    Groups,
    MatchedTerms,
    TermGroup,
    TermIndex,
)


class PodIndex:
    """See the module. The cache creates it as `cache.pods_index`. Its results are valid until the cache changes."""

    def __init__(
        self,
        table: NodeTable,
        derived: DerivedColumns,
        namespaces: NamespaceLabels,
        attach: Callable[[Any], None],
        pause: Callable[[], None] = never,
    ) -> None:
        """`pause` is called in long loops, where an attempt may pause."""
        self._pause = pause
        self._table = table
        self._namespaces = namespaces
        self._attach = attach
        self._domains = DomainCache(table, derived)
        self.label_keys: Final = table.label_keys
        """The keys of the labels that any node has. Stays up to date."""

    @cached_property
    def matches(self) -> MatchIndex:
        """Counts of the placed pods that a selector matches."""
        index = MatchIndex(self._table, self._namespaces, pause=self._pause)
        self._attach(index)
        return index

    @cached_property
    def terms(self) -> TermIndex:
        """The affinity terms of placed pods."""
        index = TermIndex(self._namespaces)
        self._attach(index)
        return index

    def follow(self) -> None:
        """Counts placed pods and their affinity terms from now on, so that no decision has to count all of them at
        once.
        """
        _ = self.matches, self.terms

    def counter(
        self, selectors: tuple[PodSelector, ...], *, exclude_terminating: bool = False, keep: bool = True
    ) -> MatchCounter:
        """The counter of the placed pods that match all these selectors. `exclude_terminating` leaves out terminating
        pods.

        `keep` False: for a pod with many of them, because each kept counter is updated with every other pod.
        """
        if keep:
            return self.matches.counter(selectors, exclude_terminating=exclude_terminating)
        return self.matches.count(selectors, exclude_terminating=exclude_terminating)

    def tallies(self, terms: Iterable[tuple[PodAffinityTerm, int]]) -> Mapping[str, tuple[Sums, Tally]]:
        """Tallies of a pending pod's terms and their sums over domains, by topology key. Leaves out keys that no node
        has.
        """
        by_key: dict[str, list[tuple[PodAffinityTerm, int]]] = {}
        for term, weight in terms:
            by_key.setdefault(term.topology_key, []).append((term, weight))
        found = {}
        known: dict[frozenset[tuple[PodSelector, int]], Tally] = {}
        for key, weighted in by_key.items():
            if key in self.label_keys:
                selectors = _weights(weighted)
                same = frozenset(selectors.items())
                tally = known.get(same) or known.setdefault(same, self.matches.tally(selectors))
                found[key] = self.sums(tally, key), tally
        return found

    def tally(self, terms: Iterable[tuple[PodAffinityTerm, int]]) -> Tally:
        """The sum of the weights of a pending pod's terms that match, for each placed pod."""
        return self.matches.tally(_weights(terms))

    def matching_terms(self, pod: PodInfo) -> MatchedTerms:
        """The affinity terms of placed pods that match this pod."""
        return self.terms.matching_terms(pod)

    def applies_to(self, term: PodAffinityTerm, namespace: str) -> bool:
        """True if a term of a pending pod applies to the pods of a namespace."""
        return includes_namespace(term, namespace, self._namespaces)

    def namespace_labels(self, name: str) -> Labels | None:
        """The labels of a namespace; None if it is unknown."""
        return self._namespaces(name)

    def domains(self, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Domains:
        """The domains of a label key."""
        return self._domains.get(key, eligibility)

    def sums(
        self,
        counter: MatchCounter | Tally,
        key: str,
        eligibility: Eligibility = ALL_WITH_KEY,
        domains: Domains | None = None,
    ) -> Sums:
        """The counts summed over the domains of a label key. `domains`: these domains, if the caller has them
        already.
        """
        return self._domains.sums(counter, key, eligibility, domains)

    def sums_of_groups(self, groups: Groups) -> Iterator[tuple[str, Sums]]:
        """Pairs of a topology key and weights summed over its domains. Together they include the weights of all
        groups.
        """
        if isinstance(groups, GroupRows):
            for key, weights in groups.weights(self._table):
                yield key, Sums(weights, self._domains.get(key))
            return
        if len(groups) >= COMBINE_THRESHOLD:
            small: dict[str, list[TermGroup]] = {}
            for group in groups:
                if len(group.at) < COMBINE_THRESHOLD:
                    small.setdefault(group.topology_key, []).append(group)
            for key, combined in small.items():
                yield key, Sums(CombinedGroups(combined), self._domains.get(key))
            groups = tuple(group for group in groups if len(group.at) >= COMBINE_THRESHOLD)
        for group in groups:
            self.terms.mark_summed(group)
            yield group.topology_key, self._domains.sums(group, group.topology_key)


def _weights(terms: Iterable[tuple[PodAffinityTerm, int]]) -> Mapping[PodSelector, int]:
    """The sum of the weights of each distinct selector."""
    weights: dict[PodSelector, int] = {}
    for term, weight in terms:
        selector = PodSelector.of_term(term)
        weights[selector] = weights.get(selector, 0) + weight
    return weights
