"""One object for equal input, so that caches can go by identity.

Pods come from templates: thousands share their tolerations, selectors and affinity. A parsed part is looked up by the
JSON bytes of its source; the object lives as long as somebody holds it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

import orjson

T = TypeVar("T")


class Interner(Generic[T]):
    """Parsed objects by the bytes of what they were parsed from. Values need a `__weakref__` slot."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[bytes, T] = weakref.WeakValueDictionary()

    def get(self, raw: object, build: Callable[[], T]) -> T:
        """The object known for `raw`, or a new one from `build`, whose errors pass through."""
        try:
            key = orjson.dumps(raw)
        except orjson.JSONEncodeError:  # a key that is no string, an integer beyond 64 bits: `build` says what it is
            return build()
        value = self._known.get(key)
        if value is None:
            value = build()
            self._known[bytes(memoryview(key))] = value  # a copy: what orjson returns holds on to a buffer of 4 KB
        return value

    def __len__(self) -> int:
        return len(self._known)
