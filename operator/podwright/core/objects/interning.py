"""Interning: equal input is parsed to one object, so that caches can compare by identity.

Thousands of pods of one template share their tolerations, selectors and affinity. A parsed part is looked up by the JSON
bytes of its source. It is referenced weakly, so it lives as long as it is in use.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

import orjson

T = TypeVar("T")


class Interner(Generic[T]):
    """Parsed objects by the JSON bytes of their source. Their class needs a `__weakref__` slot."""

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: weakref.WeakValueDictionary[bytes, T] = weakref.WeakValueDictionary()

    def get(self, raw: object, build: Callable[[], T]) -> T:
        """The interned object for `raw`, or a new one from `build`. Errors of `build` propagate."""
        try:
            key = orjson.dumps(raw)
        except orjson.JSONEncodeError:  # such as a key that is not a string; `build` raises the precise error
            return build()
        value = self._objects.get(key)
        if value is None:
            value = build()
            self._objects[bytes(memoryview(key))] = (
                value  # a copy, because the bytes from orjson keep a 4 KB buffer allocated
            )
        return value

    def __len__(self) -> int:
        return len(self._objects)
