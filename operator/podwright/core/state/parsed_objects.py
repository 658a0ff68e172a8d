"""Parsed versions of stored objects, made on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from podwright.core.objects.compaction import compact_regularly
from podwright.core.state.object_store import Object, ObjectStore, key_of

T = TypeVar("T")


class ParsedObjects(Generic[T]):
    """A cache of the parsed objects of one kind by key, valid while the source is the same object. Deleted objects are
    dropped.
    """

    def __init__(self, store: ObjectStore, kind: str, parse: Callable[[Object], T]) -> None:
        self._parse = parse
        self._cache: dict[tuple[str, str], tuple[Object, T]] = {}
        store.listen(kind, self._changed)
        compact_regularly(self)

    def _changed(self, before: Object | None, _after: Object | None) -> None:
        if before is not None:
            self._cache.pop(key_of(before), None)

    def get(self, key: tuple[str, str], raw: Object) -> T:
        cached = self._cache.get(key)
        if cached is not None and cached[0] is raw:
            return cached[1]
        parsed = self._parse(raw)
        self._cache[key] = (raw, parsed)
        return parsed
