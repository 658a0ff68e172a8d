"""AssumedObjects: what the scheduler has decided about objects of one kind and the watch has not shown yet.

An assumed version stands in for the stored one as long as the stored one has the same resourceVersion, that is, until
the watch shows any newer version or the object is gone. Source: kube-scheduler, volumebinding's assume cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from podwright.core.state.object_store import Object, ObjectStore, key_of


class AssumedObjects:
    """An overlay over one kind of the store. Stale entries are dropped when they are met."""

    def __init__(self, store: ObjectStore, kind: str) -> None:
        self._store = store
        self._kind = kind
        self._assumed: dict[tuple[str, str], Object] = {}

    def get(self, name: str, namespace: str = "") -> Object | None:
        """The object as assumed, else as stored."""
        stored = self._store.get(self._kind, name, namespace)
        if not self._assumed:
            return stored
        assumed = self._assumed.get((namespace, name))
        if assumed is None:
            return stored
        if stored is not None and version_of(stored) == version_of(assumed):
            return assumed
        del self._assumed[namespace, name]
        return stored

    def assume(self, raw: Object) -> None:
        """Takes `raw`, a changed copy of the stored object, for the object. Raises ValueError if that has changed."""
        namespace, name = key_of(raw)
        stored = self._store.get(self._kind, name, namespace)
        if stored is None:
            raise ValueError(f"{self._kind} {_join(namespace, name)} is gone")
        if version_of(stored) != version_of(raw):
            raise ValueError(
                f"{self._kind} {_join(namespace, name)} is out of sync"
                f" (stored: {version_of(stored)}, assume: {version_of(raw)})"
            )
        self._assumed[namespace, name] = raw

    def restore(self, raw: Object) -> None:
        """Drops the assumed version, if it is of the same resourceVersion as `raw`; else it is somebody else's."""
        key = key_of(raw)
        assumed = self._assumed.get(key)
        if assumed is not None and version_of(assumed) == version_of(raw):
            del self._assumed[key]

    def __iter__(self) -> Iterator[Object]:
        """All assumed objects that still stand."""
        for namespace, name in tuple(self._assumed):
            current = self.get(name, namespace)
            if current is not None and (namespace, name) in self._assumed:
                yield current

    def __len__(self) -> int:
        return len(self._assumed)


def version_of(raw: Object) -> str:
    """The resourceVersion, empty if it has none."""
    return str((raw.get("metadata") or {}).get("resourceVersion") or "")


def _join(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
