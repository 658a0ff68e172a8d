"""Dicts of dicts that hold several items for each key, and counts by key. Neither keeps an empty entry.

`items.setdefault(key, {})[item] = …` adds an item.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Hashable)


def drop(items: dict[K, dict[T, Any]], key: K, item: T) -> None:
    """Removes an item of a key. An unknown one is ignored."""
    if (known := items.get(key)) is not None:
        known.pop(item, None)
        if not known:
            del items[key]


def count(counts: dict[K, int], key: K, by: int) -> None:
    """Adds `by` to the count of a key."""
    if total := counts.get(key, 0) + by:
        counts[key] = total
    else:
        counts.pop(key, None)
