"""Finding the selectors that may pick a pod without trying them all.

Each selector is filed under one label that it requires, so a pod meets only those filed under its own labels. Invariant:
every selector that matches a pod is among its candidates; candidates need not match.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from podwright.core.objects.selectors import Labels, LabelSelector

T = TypeVar("T", bound=Hashable)

_Bucket = tuple[str | None, str, str | None]
"""(namespace or None for any, label key or "", label value or None for any)"""


class SelectorIndex(Generic[T]):
    """Items by a selector and, where they look into a single one, by namespace."""

    __slots__ = ("_buckets", "_homes", "_scopes")

    def __init__(self) -> None:
        self._buckets: dict[_Bucket, dict[T, None]] = {}
        self._homes: dict[T, tuple[_Bucket, ...]] = {}
        self._scopes: dict[str | None, int] = {}

    def __len__(self) -> int:
        return len(self._homes)

    def add(self, item: T, selector: LabelSelector, namespace: str | None) -> None:
        """Files an item. `namespace` None: pods of any namespace. The nil selector is filed nowhere, an item only once."""
        if selector.nothing or item in self._homes:
            return
        homes = self._cheapest(selector, namespace)
        self._homes[item] = homes
        for home in homes:
            self._buckets.setdefault(home, {})[item] = None
        self._scopes[namespace] = self._scopes.get(namespace, 0) + 1

    def remove(self, item: T) -> None:
        """Takes an item out; one that is not filed is no error."""
        homes = self._homes.pop(item, ())
        for home in homes:
            bucket = self._buckets[home]
            del bucket[item]
            if not bucket:
                del self._buckets[home]
        if homes:
            scope = homes[0][0]
            self._scopes[scope] -= 1
            if not self._scopes[scope]:
                del self._scopes[scope]

    def candidates(self, namespace: str, labels: Labels) -> Iterator[T]:
        """The items whose selectors may match a pod with these labels in this namespace, each once."""
        buckets = self._buckets
        for scope in (namespace, None):
            if scope not in self._scopes:
                continue
            for key, value in labels.items():
                yield from buckets.get((scope, key, value), ())
                yield from buckets.get((scope, key, None), ())
            yield from buckets.get((scope, "", None), ())

    def _cheapest(self, selector: LabelSelector, namespace: str | None) -> tuple[_Bucket, ...]:
        """Where to file a selector: under the requirement that it shares with the fewest others."""
        best: tuple[_Bucket, ...] = ((namespace, "", None),)
        least = -1
        for requirement in selector.requirements:
            if requirement.operator == "In":
                homes: tuple[_Bucket, ...] = tuple((namespace, requirement.key, value) for value in requirement.values)
                shared = sum(len(self._buckets.get(home, ())) for home in homes)
            elif requirement.operator == "Exists" and least < 0:
                homes, shared = ((namespace, requirement.key, None),), 1 << 30
            else:
                continue
            if least < 0 or shared < least:
                best, least = homes, shared
        return best
