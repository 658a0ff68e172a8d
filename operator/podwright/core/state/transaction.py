"""CacheTransaction: changes that are tried out on the cache and rolled back, all of them or those since a checkpoint.

Invariant: a rollback leaves pods, sums, group members and nominations as they were at the checkpoint, in the same
order. Nothing is ever committed: the engine assumes the pods of a decision itself. Plans of pod groups, their
preemption and its reprieves use it. The dry run for a single pod does not: see `core.preemption.evaluator`.

A transaction keeps a log of what it did. `rollback` undoes it from the end. Removals and additions without anything
else between them are undone together, so that each node's sums are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Final, NewType, Self

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.nominator import Nominations

Checkpoint = NewType("Checkpoint", int)
START: Final = Checkpoint(0)


@dataclass(frozen=True, slots=True)
class _Assumed:
    pod: PodInfo
    node_name: str


@dataclass(frozen=True, slots=True)
class _Removed:
    uids: Collection[str]


@dataclass(frozen=True, slots=True)
class _AddedBack:
    uids: Collection[str]


@dataclass(frozen=True, slots=True)
class _NodePods:
    """The pods of a node, in order, before the first of them was removed."""

    node_name: str
    pods: dict[str, PodInfo]


@dataclass(frozen=True, slots=True)
class _GroupPods:
    """The placed members of a group, in order, before the first of them was removed."""

    key: str
    pods: Mapping[str, PodInfo]


@dataclass(frozen=True, slots=True)
class _NominationCleared:
    uid: str


@dataclass(frozen=True, slots=True)
class _Callback:
    """See `on_rollback`."""

    undo: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _PartialGroups:
    """The keys of partially placed groups, in order."""

    keys: Collection[str]


_Change = (
    _Assumed
    | _Removed
    | _AddedBack
    | _NodePods
    | _GroupPods
    | _PartialGroups
    | Nominations
    | _NominationCleared
    | _Callback
)


@dataclass(slots=True)
class _Pending:
    """Changes met by a rollback that are still to be undone together. The earliest state of each thing counts."""

    removed: dict[str, bool] = field(default_factory=dict)
    """By uid: whether the pod was off its node before."""
    nodes: dict[str, dict[str, PodInfo]] = field(default_factory=dict)
    groups: dict[str, Mapping[str, PodInfo]] = field(default_factory=dict)
    partial: Collection[str] | None = None

    def __bool__(self) -> bool:
        return bool(self.removed or self.nodes or self.groups) or self.partial is not None


class CacheTransaction:
    """See the module. A context manager; leaving the block rolls everything back.

    Transactions on one cache may be nested, and the inner one must end first. Nodes must not change meanwhile.
    """

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._log: list[_Change] = []
        self._saved: set[tuple[str, str]] = set()
        """The (kind, name) of everything that the log has saved since the last checkpoint or rollback."""
        self._pods: dict[str, PodInfo] = {}
        """By uid: every pod that was ever removed."""
        self._node_of: dict[str, str] = {}
        """By uid: the name of its node."""
        self._out: set[str] = set()
        """The uids of pods that are removed now."""
        self._assumed: set[str] = set()
        """The uids of removed pods that were assumed."""
        self._any_in_group = False
        """True if any pod that was ever removed names a group."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rollback()

    # Changes

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """`Cache.assume`. Raises ValueError if the pod is on a node already, or was removed by this transaction."""
        if pod.uid in self._out:
            raise ValueError(f"pod {pod.key} was removed and must be added back")
        if pod.group:
            self._save_partial_groups()
        self._save_reservations()
        self.cache.assume(pod, node_name)
        self._log.append(_Assumed(pod, node_name))

    def forget(self, pod: PodInfo) -> None:
        """Undoes the last change, which must be this pod's `assume`; else raises ValueError."""
        last = self._log[-1] if self._log else None
        if not isinstance(last, _Assumed) or last.pod is not pod:
            raise ValueError(f"pod {pod.key} is not the one that was assumed last")
        self._log.pop()
        self.cache.forget(pod.uid)

    def remove(self, pods: Iterable[PodInfo]) -> None:
        """Takes placed or assumed pods off their nodes. Raises ValueError for a pod that is not on an existing node."""
        cache, known, node_of = self.cache, self._pods, self._node_of
        by_node: dict[str, list[PodInfo]] = {}
        uids: list[str] = []
        groups: dict[str, None] = {}
        for pod in pods:
            uid = pod.uid
            info = cache.placement(uid)
            if info is None or info.node is None:
                raise ValueError(f"pod {pod.key} is on no node")
            there = known[uid] = info.pods[uid]
            node_of[uid] = info.name
            uids.append(uid)
            if there.group:
                groups[cache.groups.key_of(there)] = None
            siblings = by_node.get(info.name)
            if siblings is None:
                siblings = by_node[info.name] = []
            siblings.append(there)
        self._any_in_group |= bool(groups)
        for key in groups:
            self._save_group(key)
        for name in by_node:
            self._save_node(name)
        self._save_reservations()
        self._assumed.update(cache.remove_pods(by_node))
        self._out.update(uids)
        self._log.append(_Removed(uids))

    def add_back(self, uids: Collection[str]) -> None:
        """Puts pods that this transaction removed back on their nodes. Raises ValueError for any other pod."""
        if not self._out.issuperset(uids):
            raise ValueError("a pod that is to be added back was not removed")
        if self._any_in_group:
            self._save_partial_groups()
        self._save_reservations()
        self._put(uids)
        self._log.append(_AddedBack(uids))

    @property
    def removed(self) -> AbstractSet[str]:
        """The uids of the pods that are off their nodes now."""
        return self._out

    def removed_from(self, uid: str) -> str:
        """The name of the node from which this transaction removed the pod. Raises KeyError if it did not."""
        return self._node_of[uid]

    def clear_nomination(self, uid: str) -> None:
        """The pod is no longer nominated. A pod that is not is ignored."""
        if self.cache.nominator.node_of(uid):
            self._save_nominations()
            self.cache.nominator.remove(uid)
            self._log.append(_NominationCleared(uid))

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Calls `undo` when this point is rolled back, between the changes made after it and before it. It must not
        raise.
        """
        self._log.append(_Callback(undo))

    # Rollback

    def checkpoint(self) -> Checkpoint:
        """A point to roll back to. It is valid until an earlier one is rolled back to."""
        self._saved.clear()
        return Checkpoint(len(self._log))

    def rollback(self, to: Checkpoint = START) -> None:
        """Undoes every change made after the checkpoint, the last one first."""
        pending = _Pending()
        while len(self._log) > to:
            change = self._log.pop()
            match change:
                case _Removed():
                    pending.removed.update(dict.fromkeys(change.uids, False))
                case _AddedBack():
                    pending.removed.update(dict.fromkeys(change.uids, True))
                case _NodePods():
                    pending.nodes[change.node_name] = change.pods
                case _GroupPods():
                    pending.groups[change.key] = change.pods
                case _PartialGroups():
                    pending.partial = change.keys
                case Nominations():
                    self.cache.nominator.restore(change)
                case _NominationCleared():
                    pass  # a copy of all nominations was saved before
                case _Assumed():
                    pending = self._undo(pending)
                    self.cache.forget(change.pod.uid)
                case _Callback():
                    pending = self._undo(pending)
                    change.undo()
        self._undo(pending)
        self._saved.clear()

    def _undo(self, pending: _Pending) -> _Pending:
        """Undoes these changes and returns an empty collection for the next ones."""
        if not pending:
            return pending
        out = self._out
        self._take([uid for uid, removed in pending.removed.items() if removed and uid not in out])
        self._put([uid for uid, removed in pending.removed.items() if not removed and uid in out])
        for name, before in pending.nodes.items():
            self.cache.nodes[name].restore_order(before)
        for key, pods in pending.groups.items():
            self.cache.groups.restore_placed(key, pods)
        if pending.partial is not None:
            self.cache.groups.restore_partially_placed(pending.partial)
        return _Pending()

    # Internals

    def _take(self, uids: Collection[str]) -> None:
        if not uids:
            return
        self.cache.remove_pods(self._by_node(uids))
        self._out.update(uids)

    def _put(self, uids: Collection[str]) -> None:
        if not uids:
            return
        self.cache.restore_pods(self._by_node(uids), self._assumed)
        self._out.difference_update(uids)

    def _by_node(self, uids: Iterable[str]) -> Mapping[str, list[PodInfo]]:
        known, node_of = self._pods, self._node_of
        by_node: dict[str, list[PodInfo]] = {}
        for uid in uids:
            name = node_of[uid]
            pods = by_node.get(name)
            if pods is None:
                pods = by_node[name] = []
            pods.append(known[uid])
        return by_node

    def _save_node(self, name: str) -> None:
        if self._is_new("node", name):
            self._log.append(_NodePods(name, self.cache.nodes[name].pods.copy()))

    def _save_group(self, key: str) -> None:
        self._save_partial_groups()
        if self._is_new("group", key):
            self._log.append(_GroupPods(key, self.cache.groups.members(key).placed.copy()))

    def _save_partial_groups(self) -> None:
        if self._is_new("partial", ""):
            self._log.append(_PartialGroups(self.cache.groups.partially_placed_keys))

    def _save_reservations(self) -> None:
        """Pods take slots and give them back as they come and go, in an order of its own."""
        if self.cache.reservations and self._is_new("reservations", ""):
            self.on_rollback(self.cache.reservations.restorer())

    def _save_nominations(self) -> None:
        if self._is_new("nominations", ""):
            self._log.append(self.cache.nominator.copy())

    def _is_new(self, kind: str, name: str) -> bool:
        if (kind, name) in self._saved:
            return False
        self._saved.add((kind, name))
        return True
