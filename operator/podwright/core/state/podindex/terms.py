"""The affinity terms of placed pods, and which of them match a given pod.

Equal terms that differ at most in weight are one `TermGroup`, which sums their weights per row. Groups are found by the
labels that their selectors require, or, where very many may match, all at once (`term_rows`). Invariant: a group
contains exactly the terms of the placed pods, and is dropped with the last of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from podwright.core.objects.affinity import NO_POD_AFFINITY, PodAffinity, PodAffinityTerm
from podwright.core.objects.compaction import RecentCache, compact_regularly
from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.objects.selectors import Labels, LabelSelector
from podwright.core.state.observers import Batch, PlacementObserver, PodsInRows, one_by_one
from podwright.core.state.podindex.domains import Int64s, Rows, Sums
from podwright.core.state.podindex.pod_selector import NamespaceLabels
from podwright.core.state.podindex.selecting import SelectorIndex
from podwright.core.state.podindex.term_rows import GroupRows, TermRows

MAX_SUMMED: Final = 512
"""The number of groups whose sums over domains are cached."""
COMBINE_THRESHOLD: Final = 32
"""If at least this many groups match one pod, those in fewer rows than this are summed together, without caching."""
_MAX_MATCHED: Final = 128
"""For how many different pods the matching groups are kept."""
MANY_CANDIDATES: Final = 256
MANY_REQUIREMENTS: Final = 1024
"""If more groups than this, or groups with more requirements, may match one pod, all groups are matched and summed as
rows.
"""


class TermKind(IntEnum):
    """The kind of a term. Only preferred terms have weights; the others count 1 each."""

    ANTI_REQUIRED = 0
    REQUIRED = 1
    PREFERRED = 2
    ANTI_PREFERRED = 3


_WEIGHTED: Final = (TermKind.PREFERRED, TermKind.ANTI_PREFERRED)


class _GroupKey(NamedTuple):
    kind: TermKind
    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector


class TermGroup:
    """Equal terms of one kind. `at`: the sum of their weights by slot. `row`: the row in `TermRows`, if there are
    any.
    """

    __slots__ = ("affinities", "at", "key", "row", "sums")

    def __init__(self, key: _GroupKey) -> None:
        self.key = key
        self.at: dict[int, int] = {}
        self.sums: dict[Hashable, Sums] = {}
        self.affinities = 0
        """The number of distinct affinities of placed pods that have such a term."""
        self.row = -1

    @property
    def kind(self) -> TermKind:
        return self.key.kind

    @property
    def topology_key(self) -> str:
        return self.key.topology_key

    @property
    def selector(self) -> LabelSelector:
        return self.key.selector

    @property
    def scope(self) -> tuple[frozenset[str], LabelSelector]:
        """The namespaces by name, and the selector of further ones."""
        return self.key.namespaces, self.key.namespace_selector

    def per_row(self, rows: int) -> tuple[Rows | None, Int64s]:
        """The slots that have such terms, all below `rows`, and the sums of their weights."""
        del rows
        count = len(self.at)
        return np.fromiter(self.at.keys(), np.intp, count), np.fromiter(self.at.values(), np.int64, count)

    def at_row(self, row: int) -> int:
        return self.at.get(row, 0)

    def add(self, slot: int, delta: int) -> None:
        for sums in self.sums.values():
            sums.add(slot, delta, self)
        weight = self.at.get(slot, 0) + delta
        if weight:
            self.at[slot] = weight
        else:
            del self.at[slot]


class CombinedGroups:
    """Many small groups with one topology key, summed together for one decision."""

    __slots__ = ("_groups",)

    def __init__(self, groups: Iterable[TermGroup]) -> None:
        self._groups = groups

    def per_row(self, rows: int) -> tuple[Rows | None, Int64s]:
        """The slots of all groups, one entry for each group in a slot, and the sums of their weights."""
        del rows
        slots: list[int] = []
        weights: list[int] = []
        for group in self._groups:
            slots += group.at.keys()
            weights += group.at.values()
        return np.array(slots, np.intp), np.array(weights, np.int64)


Groups = tuple[TermGroup, ...] | GroupRows


class MatchedTerms(NamedTuple):
    """The groups that match a pod, by kind."""

    anti_required: Groups
    required: Groups
    preferred: Groups
    anti_preferred: Groups


NO_TERMS: Final = MatchedTerms((), (), (), ())
_NO_LABELS: Final[Labels] = {}


class _PlacedAffinity:
    """A PodAffinity of placed pods: the number of pods, and its terms as groups with weights."""

    __slots__ = ("pods", "terms")

    def __init__(self, terms: tuple[tuple[TermGroup, int], ...]) -> None:
        self.terms = terms
        self.pods = 0


class TermIndex(PlacementObserver):
    """All affinity terms of placed pods. They are by row, whatever node is in it."""

    def __init__(self, namespaces: NamespaceLabels) -> None:
        self._namespaces = namespaces
        self._groups: dict[_GroupKey, TermGroup] = {}
        self._affinities: dict[PodAffinity, _PlacedAffinity] = {}
        self._by_selector: SelectorIndex[TermGroup] = SelectorIndex()
        self._summed: OrderedDict[TermGroup, None] = OrderedDict()
        self._last: tuple[str, Labels, MatchedTerms] | None = None
        self._matched: RecentCache[tuple[str, LabelSet], MatchedTerms] = RecentCache(_MAX_MATCHED // 2)
        """By namespace and labels of a pod, if the groups were tried one by one. Valid until groups or namespaces
        change.
        """
        self._rows: TermRows | None = None
        compact_regularly(self)

    def compact(self) -> None:
        """Drops wasteful rows, and matches."""
        if self._rows is not None and self._rows.wasteful:
            self._rows = None
        self._forget_matches()

    def __len__(self) -> int:
        return len(self._groups)

    def matching_terms(self, pod: PodInfo) -> MatchedTerms:
        """The groups of terms that match this pod."""
        if not self._groups:
            return NO_TERMS
        last = self._last
        if last is not None and last[1] is pod.labels and last[0] == pod.namespace:
            return last[2]
        matched = self._matched.get((pod.namespace, pod.labels)) or self._match(pod.namespace, pod.labels)
        self._last = (pod.namespace, pod.labels, matched)
        return matched

    def _match(self, namespace: str, labels: LabelSet) -> MatchedTerms:
        namespace_labels = self._namespaces(namespace) or _NO_LABELS
        matched = self._matching_few(namespace, namespace_labels, labels)
        if matched is None:
            return MatchedTerms(*self._as_rows().matching(namespace, namespace_labels, labels))
        self._matched.put((namespace, labels), matched)
        return matched

    def _forget_matches(self) -> None:
        self._last = None
        if len(self._matched):
            self._matched.clear()

    def _matching_few(self, namespace: str, namespace_labels: Labels, labels: Labels) -> MatchedTerms | None:
        """The groups that match, tried one by one; None if that takes too long."""
        index = self._by_selector
        if len(self._groups) > MANY_CANDIDATES and index.count_candidates(namespace, labels) > MANY_CANDIDATES:
            return None
        found: tuple[list[TermGroup], ...] = ([], [], [], [])
        requirements = 0
        for group in index.candidates(namespace, labels):
            key = group.key
            requirements += len(key.selector.requirements)
            if requirements > MANY_REQUIREMENTS:
                return None
            if key.selector.matches(labels) and (
                namespace in key.namespaces or key.namespace_selector.matches(namespace_labels)
            ):
                found[key.kind].append(group)
        return MatchedTerms(*map(tuple, found)) if any(found) else NO_TERMS

    def _as_rows(self) -> TermRows:
        if self._rows is None:
            self._rows = TermRows(self._groups.values(), len(TermKind))
        return self._rows

    def mark_summed(self, group: TermGroup) -> None:
        """Marks the group's sums as used, and drops those of the least recently used group if there are too many."""
        self._summed[group] = None
        self._summed.move_to_end(group)
        if len(self._summed) > MAX_SUMMED:
            oldest, _ = self._summed.popitem(last=False)
            oldest.sums.clear()

    # PlacementObserver

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        affinity = pod.pod_affinity
        if affinity is NO_POD_AFFINITY:
            return
        placed = self._affinities.get(affinity)
        if placed is None:
            placed = self._affinities[affinity] = self._add_affinity(affinity)
        placed.pods += 1
        for group, weight in placed.terms:
            group.add(slot, weight)
        if self._rows is not None:
            self._add_to_rows(self._rows, placed, slot, 1)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        affinity = pod.pod_affinity
        if affinity is NO_POD_AFFINITY:
            return
        placed = self._affinities[affinity]
        for group, weight in placed.terms:
            group.add(slot, -weight)
        if self._rows is not None:
            self._add_to_rows(self._rows, placed, slot, -1)
        placed.pods -= 1
        if not placed.pods:
            del self._affinities[affinity]
            self._remove_affinity(placed)

    def _add_to_rows(self, rows: TermRows, placed: _PlacedAffinity, slot: int, pods: int) -> None:
        for group, weight in placed.terms:
            rows.add(group, slot, pods * weight)
        self._drop_unused_rows()

    def batch(self, pods: PodsInRows) -> Batch:
        return one_by_one(self, [each for each in pods if each[0].pod_affinity is not NO_POD_AFFINITY])

    def namespace_set(self, _name: str, _labels: Mapping[str, str]) -> None:
        self._forget_matches()
        if self._rows is not None:
            self._rows.namespaces_changed()

    def _add_affinity(self, affinity: PodAffinity) -> _PlacedAffinity:
        terms: dict[TermGroup, int] = {}
        for kind, term in terms_of(affinity):
            weight = term.weight if kind in _WEIGHTED else 1
            if weight and not term.selector.nothing:
                group = self._group(kind, term)
                terms[group] = terms.get(group, 0) + weight
        for group in terms:
            group.affinities += 1
        return _PlacedAffinity(tuple(terms.items()))

    def _group(self, kind: TermKind, term: PodAffinityTerm) -> TermGroup:
        key = _GroupKey(kind, term.topology_key, term.selector, term.namespaces, term.namespace_selector)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = TermGroup(key)
            single = len(term.namespaces) == 1 and term.namespace_selector.nothing
            most = self._by_selector.add(group, term.selector, next(iter(term.namespaces)) if single else None)
            if self._rows is not None:
                self._rows.append(group)
            elif most > MANY_CANDIDATES:
                self._as_rows()  # the next decision should not wait while thousands of terms are added at once
            self._forget_matches()
        return group

    def _remove_affinity(self, placed: _PlacedAffinity) -> None:
        for group, _ in placed.terms:
            group.affinities -= 1
            if not group.affinities:
                del self._groups[group.key]
                self._by_selector.remove(group)
                self._summed.pop(group, None)
                if self._rows is not None:
                    self._rows.remove(group)
                self._forget_matches()
        self._drop_unused_rows()

    def _drop_unused_rows(self) -> None:
        if self._rows is not None and self._rows.stale:
            self._rows = None
            self._forget_matches()


def terms_of(affinity: PodAffinity) -> Iterator[tuple[TermKind, PodAffinityTerm]]:
    """All terms of a pod with their kinds."""
    for kind, terms in (
        (TermKind.ANTI_REQUIRED, affinity.anti_required),
        (TermKind.REQUIRED, affinity.required),
        (TermKind.PREFERRED, affinity.preferred),
        (TermKind.ANTI_PREFERRED, affinity.anti_preferred),
    ):
        for term in terms:
            yield kind, term
