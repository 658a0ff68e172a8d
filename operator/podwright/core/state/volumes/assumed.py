"""AssumedObjects: versions of objects that the scheduler assumes until the watch delivers them.

An assumed version replaces the stored one as long as that has the same resourceVersion, which means until
the watch delivers a newer version or the object is deleted. Source: kube-scheduler, volumebinding's assume cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from podwright.core.objects.compaction import compact_regularly
from podwright.core.state.object_store import Object, ObjectStore, key_of


class AssumedObjects:
    """An overlay over one kind of the store. Outdated entries are dropped when they are read, or at the next
    compaction.
    """

    def __init__(self, store: ObjectStore, kind: str) -> None:
        self._store = store
        self._kind = kind
        self._assumed: dict[tuple[str, str], Object] = {}
        self.changes = 0
        """Rises with each assumption, and when one is dropped."""
        compact_regularly(self)

    def compact(self) -> None:
        """Drops the outdated entries."""
        for _ in self:
            pass

    def get(self, name: str, namespace: str = "") -> Object | None:
        """The assumed version, or else the stored one."""
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
        """Assumes `raw`, a changed copy of the stored object. Raises ValueError if the stored object has changed
        meanwhile.
        """
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
        self.changes += 1

    def restore(self, raw: Object) -> None:
        """Drops the assumed version if it has the resourceVersion of `raw`. Otherwise it belongs to a later
        assumption.
        """
        key = key_of(raw)
        assumed = self._assumed.get(key)
        if assumed is not None and version_of(assumed) == version_of(raw):
            del self._assumed[key]
            self.changes += 1

    def __iter__(self) -> Iterator[Object]:
        """All assumed objects that are not outdated."""
        for namespace, name in tuple(self._assumed):
            current = self.get(name, namespace)
            if current is not None and (namespace, name) in self._assumed:
                yield current

    def __len__(self) -> int:
        return len(self._assumed)


def version_of(raw: Object) -> str:
    """The resourceVersion, or ""."""
    return str((raw.get("metadata") or {}).get("resourceVersion") or "")


def _join(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
