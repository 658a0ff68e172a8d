"""SelectorIndex: finds the selectors that may match a pod without trying all of them.

Each selector is indexed under one label that it requires, so that only the selectors under a pod's labels are
candidates for the pod. Invariant: every selector that matches a pod is among its candidates. A candidate need not
match.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.items_by_key import count, drop
from podwright.core.objects.selectors import Labels, LabelSelector

T = TypeVar("T", bound=Hashable)

MANY_VALUES: Final = 128
"""A requirement with more values than this is indexed under its key only. A bucket for each value would take more time
than it saves.
"""

_BucketKey = tuple[str | None, str, str | None]
"""(namespace or None for all, label key or "" for all, label value or None for all)"""


class SelectorIndex(Generic[T]):
    """Items by label selector and, if only pods of one namespace can match, by namespace."""

    def __init__(self) -> None:
        self._buckets: dict[_BucketKey, dict[T, None]] = {}
        self._keys_by_item: dict[T, tuple[_BucketKey, ...]] = {}
        self._items_by_namespace: dict[str | None, int] = {}
        compact_regularly(self)

    def __len__(self) -> int:
        return len(self._keys_by_item)

    def add(self, item: T, selector: LabelSelector, namespace: str | None) -> int:
        """Adds an item. `namespace` None: pods of all namespaces. Ignores the nil selector, and an item that was added
        before.

        Returns the most items that are indexed under one of its labels, this one included: all of them are candidates
        for the same pods. 0 if the item was ignored.
        """
        if selector.nothing or item in self._keys_by_item:
            return 0
        most = 0
        keys = self._choose_keys(selector, namespace)
        self._keys_by_item[item] = keys
        for key in keys:
            bucket = self._buckets.setdefault(key, {})
            bucket[item] = None
            most = max(most, len(bucket))
        count(self._items_by_namespace, namespace, 1)
        return most

    def remove(self, item: T) -> None:
        """Removes an item. An unknown item is not an error."""
        keys = self._keys_by_item.pop(item, ())
        for key in keys:
            drop(self._buckets, key, item)
        if keys:
            count(self._items_by_namespace, keys[0][0], -1)

    def candidates(self, namespace: str, labels: Labels) -> Iterator[T]:
        """The items whose selectors may match a pod with these labels in this namespace, without duplicates."""
        buckets = self._buckets
        for scope in (namespace, None):
            if scope not in self._items_by_namespace:
                continue
            for key, value in labels.items():
                yield from buckets.get((scope, key, value), ())
                yield from buckets.get((scope, key, None), ())
            yield from buckets.get((scope, "", None), ())

    def count_candidates(self, namespace: str, labels: Labels) -> int:
        """The number of `candidates`."""
        buckets = self._buckets
        count = 0
        for scope in (namespace, None):
            if scope in self._items_by_namespace:
                for key, value in labels.items():
                    count += len(buckets.get((scope, key, value), ()))
                    count += len(buckets.get((scope, key, None), ()))
                count += len(buckets.get((scope, "", None), ()))
        return count

    def _choose_keys(self, selector: LabelSelector, namespace: str | None) -> tuple[_BucketKey, ...]:
        """The keys of the buckets for a selector: those of the requirement that the fewest other selectors share."""
        best: tuple[_BucketKey, ...] = ((namespace, "", None),)
        least = -1
        for requirement in selector.requirements:
            many = len(requirement.values) > MANY_VALUES
            if requirement.operator == "In" and not many:
                keys: tuple[_BucketKey, ...] = tuple(
                    (namespace, requirement.key, value) for value in requirement.values
                )
                shared = sum(len(self._buckets.get(key, ())) for key in keys)
            elif requirement.operator in ("In", "Exists") and least < 0:
                keys, shared = ((namespace, requirement.key, None),), 1 << 30
            else:
                continue
            if least < 0 or shared < least:
                best, least = keys, shared
        return best
