"""Read-only views for third-party plugins of objects that they could change: nodes, raw objects, and the cache of their
handle.

An attempt to change a view raises TypeError or AttributeError in the plugin, and counts as the plugin's own exception.
Podwright's own plugins get the objects themselves, at no cost. Nodes' labels and pods are immutable.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, NoReturn

from podwright.core.objects.frozen import FrozenList
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo, UsedPorts
from podwright.core.state.object_store import Object, ObjectStore

_READABLE: Final = frozenset(
    [
        "attach",
        "confirmed",
        "derived",
        "devices",
        "extension",
        "groups",
        "is_assumed",
        "namespace_labels",
        "nominator",
        "observer",
        "pauses",
        "pod_count",
        "pods_index",
        "services",
        "signals",
        "table",
        "version",
        "volumes",
    ]
)
"""The attributes of the cache, besides its nodes, that plugins use."""


class _ReadOnlyPorts(UsedPorts):
    __slots__ = ()

    def __init__(self, used: UsedPorts) -> None:
        self._used = used._used  # noqa: SLF001 -- the same ports

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("the ports of a node are read-only")

    add: Any = _refuse
    remove: Any = _refuse


class ReadOnlyNodeInfo(NodeInfo):
    """A NodeInfo that cannot be changed. Its clones can."""

    __slots__ = ("_info",)
    _info: NodeInfo

    def __init__(self, info: NodeInfo) -> None:
        _set_info(self, info)

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"node {self.name} is read-only: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"node {self.name} is read-only: {name} cannot be deleted")

    name = property(attrgetter("_info.name"))
    node = property(attrgetter("_info.node"))
    present = property(attrgetter("_info.present"))
    slot = property(attrgetter("_info.slot"))
    scoring_cpu = property(attrgetter("_info.scoring_cpu"))
    scoring_memory = property(attrgetter("_info.scoring_memory"))
    pods = property(lambda self: MappingProxyType(self._info.pods))
    requested = property(lambda self: MappingProxyType(self._info.requested))
    ports = property(lambda self: _ReadOnlyPorts(self._info.ports))

    def clone(self) -> NodeInfo:
        return self._info.clone()


_new: Final = object.__new__
_set_info: Final = ReadOnlyNodeInfo.__dict__["_info"].__set__


def view(info: NodeInfo) -> ReadOnlyNodeInfo:
    """The same as the class, in half of its time: called for each node that a filter sees."""
    made = _new(ReadOnlyNodeInfo)
    _set_info(made, info)
    return made


def read_only(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a method of a third-party plugin, with nodes that it cannot change."""
    return tuple([view(each) if type(each) is NodeInfo else each for each in args])


class ReadOnlyObject(Mapping[str, Any]):
    """A raw object that cannot be changed, nor anything in it. Its copies can be. Nothing is copied before it is
    read.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: Object) -> None:
        self._raw = raw

    def __getitem__(self, key: str) -> Any:
        return seen(self._raw[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __repr__(self) -> str:
        return repr(self._raw)

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(self._raw, memo)


def seen(value: Any) -> Any:
    """Returns a plugin's view of a raw object, or of a value in one."""
    if type(value) is dict:
        return ReadOnlyObject(value)
    return FrozenList(map(seen, value)) if type(value) is list else value


class ReadOnlyStore:
    """The raw objects of a third-party plugin's handle."""

    __slots__ = ("_store",)

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"plugins can only read the raw objects: the store gives them no {name}")

    @property
    def changes(self) -> int:
        return self._store.changes

    def version(self, kind: str) -> int:
        return self._store.version(kind)

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        found: Object | None = seen(self._store.get(kind, name, namespace))
        return found

    def list(self, kind: str, namespace: str | None = None) -> Iterable[Object]:
        return [seen(raw) for raw in self._store.list(kind, namespace)]


class _Nodes(Mapping[str, NodeInfo]):
    def __init__(self, nodes: Mapping[str, NodeInfo]) -> None:
        self._nodes = nodes

    def __getitem__(self, name: str) -> NodeInfo:
        return view(self._nodes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


class ReadOnlyCache:
    """The cache of a third-party plugin's handle."""

    __slots__ = ("_cache",)

    def __init__(self, cache: Cache) -> None:
        object.__setattr__(self, "_cache", cache)

    def __getattr__(self, name: str) -> Any:
        if name in _READABLE:
            return getattr(self._cache, name)
        raise AttributeError(f"plugins can only read the cache: it gives them no {name}")

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"the cache is read-only: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"the cache is read-only: {name} cannot be deleted")

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        return _Nodes(self._cache.nodes)

    @property
    def store(self) -> ReadOnlyStore:
        return ReadOnlyStore(self._cache.store)

    def node_at(self, slot: int) -> NodeInfo:
        return view(self._cache.node_at(slot))

    def present(self, name: str) -> NodeInfo | None:
        return _viewed(self._cache.present(name))

    def placement(self, uid: str) -> NodeInfo | None:
        return _viewed(self._cache.placement(uid))


def _viewed(info: NodeInfo | None) -> NodeInfo | None:
    return None if info is None else view(info)


class ReadOnlyHandle:
    """The handle of a third-party plugin."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.cache = ReadOnlyCache(handle.cache)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)
