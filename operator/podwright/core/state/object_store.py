"""ObjectStore: all objects that are neither nodes nor pods: volumes, claims, classes, services, controllers, budgets,
namespaces.

Objects are kept as the API server serves them. Each kind has a version that rises with every change, so that data
derived from a kind can be recognised as stale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from podwright.core.objects.compaction import compact_regularly, shrink
from podwright.core.objects.errors import InvalidObjectError

Object = Mapping[str, Any]
Listener = Callable[[Object | None, Object | None], None]
"""(the object before, or None; the object after, or None) of one change. Must not raise."""
Order = tuple[Sequence[str], Mapping[str, Sequence[str]]]
"""Namespaces, and the names of the objects in some of them."""


def key_of(raw: Object) -> tuple[str, str]:
    """(namespace, name); the namespace is empty for cluster-scoped objects. Raises InvalidObjectError."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise InvalidObjectError("metadata.name", "a name is required", kind=str(raw.get("kind") or "object"), name="?")
    return str(metadata.get("namespace") or ""), metadata["name"]


class ObjectStore:
    """Objects by kind, namespace and name, in the order in which they were first set."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, dict[str, Object]]] = {}
        self._versions: dict[str, int] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self.changes = 0
        """Rises with each change of any object."""
        compact_regularly(self)

    def listen(self, kind: str, listener: Listener) -> None:
        """Calls `listener` after every change of an object of this kind."""
        self._listeners.setdefault(kind, []).append(listener)

    def set(self, kind: str, raw: Object) -> None:
        """Adds or replaces an object. Raises InvalidObjectError without a name."""
        namespace, name = key_of(raw)
        objects = self._objects.setdefault(kind, {}).setdefault(namespace, {})
        before = objects.get(name)
        objects[name] = raw
        self._changed(kind, before, raw)

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Removes an object. An unknown one is ignored."""
        spaces = self._objects.get(kind, {})
        objects = spaces.get(namespace, {})
        before = objects.pop(name, None)
        if before is not None:
            if not objects:
                del spaces[namespace]
            self._changed(kind, before, None)

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        return self._objects.get(kind, {}).get(namespace, {}).get(name)

    def list(self, kind: str, namespace: str | None = None) -> Iterable[Object]:
        """All objects of a kind, of one namespace or (None) of all of them."""
        spaces = self._objects.get(kind, {})
        if namespace is not None:
            return spaces.get(namespace, {}).values()
        return [raw for space in spaces.values() for raw in space.values()]

    def order(self, kind: str, namespaces: Iterable[str]) -> Order:
        """The order of the objects in these namespaces, and of all namespaces, for `restore_order`."""
        spaces = self._objects.get(kind, {})
        return [*spaces], {namespace: [*spaces.get(namespace, ())] for namespace in namespaces}

    def restore_order(self, kind: str, order: Order) -> None:
        """The same objects as then have the same order again. Versions stay."""
        spaces = self._objects.get(kind, {})
        for namespace, names in order[1].items():
            objects = spaces.get(namespace, {})
            for name in names:
                objects[name] = objects.pop(name)
        for namespace in order[0]:
            spaces[namespace] = spaces.pop(namespace)

    def compact(self) -> None:
        """Frees the memory that the dictionaries needed when there were more objects."""
        for spaces in self._objects.values():
            shrink(spaces)
            for objects in spaces.values():
                shrink(objects)

    def version(self, kind: str) -> int:
        return self._versions.get(kind, 0)

    def _changed(self, kind: str, before: Object | None, after: Object | None) -> None:
        self.changes += 1
        self._versions[kind] = self._versions.get(kind, 0) + 1
        for listener in self._listeners.get(kind, ()):
            listener(before, after)
