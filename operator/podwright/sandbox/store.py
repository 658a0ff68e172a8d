"""Objects with revisions, a bounded history of changes, and their watchers.

Invariant: an `Revision` and its object are immutable. Each write creates a new entry with the next revision; all kinds
share one revision counter, as in etcd. Each entry is encoded once. Everything runs in one event loop, without locks.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import orjson

from podwright.sandbox.errors import StatusError
from podwright.sandbox.kinds import Kind, Obj
from podwright.sandbox.selectors import ListSelection

Key = tuple[str, str]  # namespace ("" if cluster-scoped), name
FIRST_REVISION = 100  # a watch from revision 1 is too old, as on any but a new real server


class Revision:
    """One revision of one object."""

    __slots__ = ("data", "obj", "rv")

    def __init__(self, obj: Obj, rv: int) -> None:
        self.obj, self.rv = obj, rv
        self.data: bytes = orjson.dumps(obj)

    @property
    def key(self) -> Key:
        return self.obj["metadata"].get("namespace", ""), self.obj["metadata"]["name"]

    def copy(self) -> Any:
        """A mutable deep copy of the object."""
        return orjson.loads(self.data)


class StoreChange:
    """A write: `old` is None for a creation, `new` for a removal."""

    __slots__ = ("_lines", "_removed", "new", "old", "rv")

    def __init__(self, rv: int, old: Revision | None, new: Revision | None) -> None:
        self.rv, self.old, self.new = rv, old, new
        self._removed: Revision | None = None
        self._lines: dict[tuple[str, Kind], bytes] = {}

    @property
    def latest(self) -> Revision:
        """The new entry, or for a removal the old one with the revision of the removal."""
        return self.new or self.removed()

    def seen(self, selection: ListSelection) -> tuple[str, Revision] | None:
        """The event and entry that a watch with this selection gets. For an object that leaves the selection: DELETED
        and the old one.
        """
        before = self.old is not None and selection.matches(self.old.obj)
        if self.new is not None and selection.matches(self.new.obj):
            return ("MODIFIED" if before else "ADDED"), self.new
        return ("DELETED", self.removed()) if before else None

    def removed(self) -> Revision:
        """The old object with the revision of this change."""
        assert self.old is not None
        if self._removed is None:
            metadata = self.old.obj["metadata"] | {"resourceVersion": str(self.rv)}
            self._removed = Revision(self.old.obj | {"metadata": metadata}, self.rv)
        return self._removed

    def line(self, kind: Kind, event: str, entry: Revision) -> bytes:
        """The watch event as JSON, encoded once for all watches of this kind."""
        found = self._lines.get((event, kind))
        if found is None:
            found = self._lines[event, kind] = event_line(event, kind.encode(entry.obj, entry.data))
        return found


def event_line(event: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event.encode(), body)


class Collection:
    """All objects of one stored kind. `watchers` are called synchronously for each change."""

    def __init__(self, history: int) -> None:
        self.entries: dict[Key, Revision] = {}
        self.watchers: set[Callable[[StoreChange], None]] = set()
        self._history: deque[StoreChange] = deque(maxlen=history)
        self._floor = FIRST_REVISION
        self._order: list[Key] | None = []

    def select(self, selection: ListSelection) -> list[Revision]:
        """The matching entries, sorted by namespace and name."""
        if self._order is None:
            self._order = sorted(self.entries)
        entries = self.entries
        return [entries[key] for key in self._order if selection.matches(entries[key].obj)]

    def since(self, rv: int) -> list[StoreChange]:
        """The changes after a revision, oldest first. Raises ApiError 410 if the history no longer has all of them."""
        if rv < self._floor:
            raise StatusError(410, "Expired", f"too old resource version: {rv} ({self._floor})")
        return [change for change in self._history if change.rv > rv]

    def record(self, change: StoreChange) -> None:
        if change.new is None or change.old is None:
            self._order = None
        if change.new is None:
            del self.entries[change.removed().key]
        else:
            self.entries[change.new.key] = change.new
        if len(self._history) == self._history.maxlen:
            self._floor = self._history[0].rv
        self._history.append(change)
        for watcher in tuple(self.watchers):
            watcher(change)


class Store:
    """Collections by stored name, and their common revision counter."""

    def __init__(self, history: int) -> None:
        self.rv = FIRST_REVISION
        self._collections: dict[str, Collection] = defaultdict(lambda: Collection(history))

    def __getitem__(self, stored: str) -> Collection:
        return self._collections[stored]

    def write(self, stored: str, obj: Obj) -> Revision:
        """Stores a new revision. The store takes ownership of `obj`."""
        self.rv += 1
        obj["metadata"]["resourceVersion"] = str(self.rv)
        entry = Revision(obj, self.rv)
        self[stored].record(StoreChange(self.rv, self[stored].entries.get(entry.key), entry))
        return entry

    def remove(self, stored: str, entry: Revision) -> Revision:
        """Removes an object, and returns its last entry with the revision of the removal."""
        self.rv += 1
        change = StoreChange(self.rv, entry, None)
        self[stored].record(change)
        return change.removed()
