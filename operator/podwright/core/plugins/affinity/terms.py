"""Terms: a pod's affinity terms of one kind, evaluated on one other pod at a time. For events and dry runs.

A pod may have thousands of terms, and an event may concern thousands of waiting pods. So the prepared form of a list of
terms is kept as long as its PodAffinity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from weakref import WeakKeyDictionary, ref

from podwright.core.objects.affinity import PodAffinity, PodAffinityTerm
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import Labels
from podwright.core.state.podindex import PodIndex, SelectorList


class Terms:
    """See the module. `keys`: the distinct topology keys, in the order of the terms.

    `many`: the terms should be counted together. See `SelectorList`.
    """

    __slots__ = ("_selectors", "items", "keys", "many")

    def __init__(self, items: Sequence[PodAffinityTerm]) -> None:
        self.items = items
        self.keys = tuple(dict.fromkeys(term.topology_key for term in items))
        self._selectors = SelectorList([term.selector for term in items])
        self.many = self._selectors.many

    def selecting(self, labels: Labels) -> Sequence[PodAffinityTerm]:
        """The terms whose label selectors match, whatever the namespace."""
        return [self.items[i] for i in self._selectors.matching(labels)]

    def all_select(self, labels: Labels) -> bool:
        """True if there are terms, and the label selectors of all match, whatever the namespace."""
        return bool(self.items) and len(self.selecting(labels)) == len(self.items)

    def matching(self, index: PodIndex, pod: PodInfo) -> Iterator[PodAffinityTerm]:
        """The terms that match a pod."""
        return (term for term in self.selecting(pod.labels) if index.applies_to(term, pod.namespace))

    def any_match(self, index: PodIndex, pod: PodInfo) -> bool:
        """True if a term matches the pod."""
        return any(index.applies_to(term, pod.namespace) for term in self.selecting(pod.labels))

    def all_match(self, index: PodIndex, pod: PodInfo) -> bool:
        """True if there are terms, and all of them match the pod."""
        return self.all_select(pod.labels) and all(index.applies_to(term, pod.namespace) for term in self.items)


class OwnTerms:
    """A pod's terms. `preferred`: those of affinity and anti-affinity, in this order."""

    __slots__ = ("affinity", "anti_affinity", "preferred")

    def __init__(self, affinity: PodAffinity) -> None:
        self.affinity = Terms(affinity.required)
        self.anti_affinity = Terms(affinity.anti_required)
        self.preferred = Terms((*affinity.preferred, *affinity.anti_preferred))


class _KnownTerms:
    """The terms of each PodAffinity that is in use."""

    def __init__(self) -> None:
        self._terms: WeakKeyDictionary[PodAffinity, OwnTerms] = WeakKeyDictionary()
        data: dict[ref[PodAffinity], OwnTerms] = self._terms.data  # type: ignore[attr-defined]  # not public
        self._by_reference = data
        """The dict behind `_terms`. Each decision reads it, because that calls no Python function."""
        compact_regularly(self)

    def of(self, affinity: PodAffinity) -> OwnTerms:
        terms = self._by_reference.get(ref(affinity))
        if terms is None:
            terms = self._terms[affinity] = OwnTerms(affinity)
        return terms


own_terms: Final = _KnownTerms().of
"""The terms of a PodAffinity. The same object as long as the PodAffinity is in use."""
