"""PodIndex: the one door to all counts of placed pods. Each part starts to follow the cache when it is first asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from podwright.core.objects.affinity import PodAffinityTerm
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import Labels
from podwright.core.state.columns import DerivedColumns, NodeTable
from podwright.core.state.podindex.domains import ALL_WITH_KEY, DomainCache, Domains, Eligibility, Sums
from podwright.core.state.podindex.matches import MatchCounter, MatchIndex, NamespaceLabels, Picker
from podwright.core.state.podindex.terms import BUNDLED, Bundle, Groups, MatchedTerms, TermGroup, TermIndex


class PodIndex:
    """See the module. Made by the cache as `cache.pods_index`; what it returns is good until the cache changes."""

    def __init__(
        self,
        table: NodeTable,
        derived: DerivedColumns,
        namespaces: NamespaceLabels,
        attach: Callable[[Any], None],
    ) -> None:
        self._table = table
        self._namespaces = namespaces
        self._attach = attach
        self._domains = DomainCache(table, derived)

    @cached_property
    def matches(self) -> MatchIndex:
        """Counts of the placed pods that a selector picks."""
        index = MatchIndex(self._table, self._namespaces)
        self._attach(index)
        return index

    @cached_property
    def terms(self) -> TermIndex:
        """The affinity terms of placed pods."""
        index = TermIndex(self._namespaces)
        self._attach(index)
        return index

    def counter(self, pickers: tuple[Picker, ...], *, live: bool = False) -> MatchCounter:
        """The counter of the placed pods that all these pick; with `live`, of those that are not terminating."""
        return self.matches.counter(pickers, live=live)

    def picking(self, pod: PodInfo) -> MatchedTerms:
        """The terms of placed pods that mean this pod."""
        return self.terms.picking(pod)

    def picks(self, term: PodAffinityTerm, pod: PodInfo) -> bool:
        """Whether a term of a pending pod means this pod."""
        return Picker.of_term(term).picks(pod.namespace, pod.labels, self._namespaces)

    def namespace_labels(self, name: str) -> Labels | None:
        """None for a namespace that is not known."""
        return self._namespaces(name)

    def domains(self, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Domains:
        """The domains of a label key."""
        return self._domains.get(key, eligibility)

    def sums(self, counter: MatchCounter, key: str, eligibility: Eligibility = ALL_WITH_KEY) -> Sums:
        """A counter summed over the domains of a label key."""
        return self._domains.sums(counter, key, eligibility)

    def sums_of(self, groups: Groups) -> Iterator[tuple[str, Sums]]:
        """Topology keys with weights summed over their domains, which together are those of all the groups."""
        if len(groups) >= BUNDLED:
            small: dict[str, list[TermGroup]] = {}
            for group in groups:
                if len(group.at) < BUNDLED:
                    small.setdefault(group.topology_key, []).append(group)
            for key, bundled in small.items():
                yield key, Sums(Bundle(bundled), self._domains.get(key))
            groups = tuple(group for group in groups if len(group.at) >= BUNDLED)
        for group in groups:
            self.terms.keep_sums(group)
            yield group.topology_key, self._domains.sums(group, group.topology_key)
