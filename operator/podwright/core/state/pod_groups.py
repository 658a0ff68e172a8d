"""Pod groups and their members: which wait, and which have a node.

Groups come from the object store. The intake of pending pods reports waiting members; the cache, which this class
observes, reports placed and assumed ones. Reports about one pod may come in any order, and the pod counts once. Only
groups of an API that the API server serves count: a pod that names a group of another API is an ordinary pod. Of
several groups that a pod names, the most specific one that counts is the pod's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from math import inf
from typing import Final, Protocol

from podwright.core.objects.compaction import compact_regularly, shrink
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.items_by_key import count, drop
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import (
    ALL,
    COMPOSITE_API,
    GROVE_API,
    KAI_API,
    KIND,
    MADE_API,
    NAMED_OTHERWISE,
    PLUGINS_API,
    VOLCANO_API,
    WORKLOAD_API,
    PodGroup,
    group_key,
    metadata_only_pod_group,
    parse_pod_group,
)
from podwright.core.objects.watched_kinds import PRIORITY_CLASS
from podwright.core.state.hierarchies import Hierarchies
from podwright.core.state.levels import EXISTING, PLACED, Level, Levels, NamedParts
from podwright.core.state.object_store import Object, ObjectStore, key_of
from podwright.core.state.observers import Batch, PlacementObserver, PodsInRows, one_by_one

OnInvalidGroup = Callable[[str, str, Exception], object]
"""Called with (kind, namespace/name, error)."""


class WaitingObserver(Protocol):
    """Is told of pending pods as PodGroups is."""

    def add_waiting(self, pod: PodInfo) -> None: ...

    def remove_waiting(self, uid: str) -> None: ...


@dataclass(slots=True)
class Members:
    """One group's pods by uid. A pending pod that is assumed is in both dicts."""

    waiting: dict[str, PodInfo] = field(default_factory=dict)
    placed: dict[str, PodInfo] = field(default_factory=dict)
    ending: set[str] = field(default_factory=set)
    """Uids of placed pods that terminate. They count for no minimum: what replaces them starts as the gang that it is.
    """
    assumed: int = 0
    """How many pods are in both."""
    succeeded: dict[str, PodInfo] = field(default_factory=dict)
    """Pods that have finished, and count as placed for the minimums, if those of the API count such pods."""
    levels: Levels | None = None
    """The parts of a group whose parts have minimums of their own."""
    counted: dict[str, tuple[Level | None, bool, bool]] = field(default_factory=dict)
    """By uid, if there are levels: where the pod counts, and whether it counts as existing and as placed."""

    @property
    def total(self) -> int:
        return len(self.placed) - len(self.ending) + len(self.succeeded) + len(self.waiting) - self.assumed

    @property
    def placed_count(self) -> int:
        return len(self.placed) - len(self.ending) + len(self.succeeded)

    @property
    def unplaced_count(self) -> int:
        return len(self.waiting) - self.assumed

    @property
    def empty(self) -> bool:
        return not (self.waiting or self.placed or self.succeeded)

    @property
    def staying(self) -> Mapping[str, PodInfo]:
        """The pods that have a node and do not terminate."""
        return {uid: pod for uid, pod in self.placed.items() if uid not in self.ending} if self.ending else self.placed

    def add_waiting(self, pod: PodInfo) -> None:
        if pod.uid not in self.waiting:
            self.assumed += pod.uid in self.placed
        self.waiting[pod.uid] = pod
        if self.levels is not None:
            self._count(pod.uid, self.levels.of(pod))

    def remove_waiting(self, uid: str) -> None:
        if self.waiting.pop(uid, None) is not None:
            self.assumed -= uid in self.placed
            self._recount(uid)

    def add_placed(self, pod: PodInfo) -> None:
        if pod.uid not in self.placed:
            self.assumed += pod.uid in self.waiting
        self.placed[pod.uid] = pod
        if pod.terminating:
            self.ending.add(pod.uid)
        if self.levels is not None:
            self._count(pod.uid, self.levels.of(pod))

    def remove_placed(self, uid: str) -> None:
        if self.placed.pop(uid, None) is not None:
            self.assumed -= uid in self.waiting
            self.ending.discard(uid)
            self._recount(uid)

    def add_succeeded(self, pod: PodInfo) -> None:
        self.succeeded[pod.uid] = pod
        if self.levels is not None:
            self._count(pod.uid, self.levels.of(pod))

    def remove_succeeded(self, uid: str) -> None:
        if self.succeeded.pop(uid, None) is not None:
            self._recount(uid)

    def unplaced(self) -> list[PodInfo]:
        """Members without a node, in the order in which they were added."""
        return [pod for uid, pod in self.waiting.items() if uid not in self.placed]

    def divide(self, levels: Levels | None) -> None:
        """The group has these levels from now on."""
        self.levels = levels
        self.counted.clear()
        if levels is not None:
            for pod in (self.waiting | self.placed | self.succeeded).values():
                self._count(pod.uid, levels.of(pod))

    def _recount(self, uid: str) -> None:
        if self.levels is not None:
            self._count(uid, self.counted[uid][0])

    def _count(self, uid: str, level: Level | None) -> None:
        """The pod counts at this level, if it is still here."""
        assert self.levels is not None
        before, existed, was_placed = self.counted.pop(uid, (None, False, False))
        if before is not None:
            before.count(EXISTING, -existed)
            before.count(PLACED, -was_placed)
        done = uid in self.succeeded
        if done or uid in self.waiting or uid in self.placed:
            exists = uid not in self.ending
            placed = done or (exists and uid in self.placed)
            self.counted[uid] = level, exists, placed
            if level is not None:
                level.count(EXISTING, exists)
                level.count(PLACED, placed)
        if before is not None:
            self.levels.left(before)


_NO_MEMBERS = Members()
_EVICTION_BY_DEFAULT: Final = {
    WORKLOAD_API: "AsDeclared",
    COMPOSITE_API: "AsDeclared",
    PLUGINS_API: "Whole",
    VOLCANO_API: "Whole",
    KAI_API: "Whole",
    GROVE_API: "Whole",
    MADE_API: "Whole",
}

_COUNTING_SUCCEEDED: Final = frozenset((VOLCANO_API,))
"""The APIs whose minimums count members that have succeeded, also those of parts: Volcano's `JobInfo.ReadyTaskNum`,
`ValidTaskNum` and `CheckTaskReady` do, the schedulers of the others drop finished pods. For groups of
WorkloadGroupings, the intake lowers the minimum.
"""


def _started(pod: PodInfo) -> tuple[float, float, str]:
    return (inf if pod.start_time is None else pod.start_time), pod.creation, pod.uid


def _described(key: str) -> str:
    api, _, name = key.partition(":")
    return f"{NAMED_OTHERWISE.get(api, KIND)} {name} of {api}"


def _named_both(other: str, counts: str) -> str:
    return f"the pod names {_described(other)}, but also {_described(counts)}"


def _is_composite(key: str) -> bool:
    return key.startswith(COMPOSITE_API)


class PodGroups(PlacementObserver):
    """See the module.

    `on_invalid` is called when a group cannot be parsed; the last version that could be parsed stays.
    """

    def __init__(self, store: ObjectStore, on_invalid: OnInvalidGroup | None = None) -> None:
        self._on_invalid = on_invalid
        self._groups: dict[str, PodGroup] = {}
        self._members: dict[str, Members] = {}
        """By the key of the group that pods name, and also by that of the group at the top of its hierarchy."""
        self._hierarchies = Hierarchies()
        self._above: Mapping[str, str] = self._hierarchies.parents
        self._spares: dict[str, frozenset[str]] = {}
        """See `spares`, as of `_spares_at`."""
        self._spares_at = -1
        self._waiting_in: dict[str, str] = {}
        self._partially_placed: dict[str, None] = {}
        self._invalid: dict[str, tuple[PodGroup, InvalidObjectError]] = {}
        self._served: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []
        self._listeners_to_groups: list[Callable[[PodGroup | None, PodGroup | None], None]] = []
        self._listeners_to_apis: list[Callable[[Collection[str]], None]] = []
        self.also_told: list[WaitingObserver] = []
        """Who else is told of pending pods."""
        self.eviction_by_policy: Callable[[PodInfo], str | None] = lambda _member: None
        """The argument `eviction` of GangScheduling in a member's policy. Whoever knows policies sets it."""
        self.awaited: dict[str, str] = {}
        """Why members of groups wait that do not exist, by key, if there is more to say than that."""
        self.starting: set[str] = set()
        """The keys of gangs of which an attempt is just starting members: these wait in Permit until it knows which
        parts of the group may start.
        """
        self.changes = 0
        """Rises with each change of a group, of its members, or of the served APIs."""
        self._class_values: dict[str, int] = {}
        """The priorities of PriorityClasses."""
        self._naming: dict[str, dict[str, None]] = {}
        """The keys of the groups that name a PriorityClass, by its name."""
        self._priorities: dict[int, int] = {}
        """How many groups have each priority of their own."""
        for kind in ALL:
            store.listen(kind, partial(self._group_changed, kind))
        store.listen(PRIORITY_CLASS, self._class_changed)
        compact_regularly(self)

    def serve(self, api: str) -> None:
        """The API server serves this API: pods that name a group of it wait for that group."""
        self._served.add(api)
        self._served_changed(api)

    def withdraw(self, api: str) -> None:
        """The API server no longer serves this API: pods that name a group of it become ordinary pods."""
        self._served.discard(api)
        self._served_changed(api)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with a group's key whenever the group or its members change."""
        self._listeners.append(listener)

    def listen_to_groups(self, listener: Callable[[PodGroup | None, PodGroup | None], None]) -> None:
        """Calls `listener` with what a group was and is, whenever one comes, changes or goes."""
        self._listeners_to_groups.append(listener)

    def listen_to_apis(self, listener: Callable[[Collection[str]], None]) -> None:
        """Calls `listener` when the served APIs change, with the uids of the pods whose group may be another one
        now.
        """
        self._listeners_to_apis.append(listener)

    # Reading

    def is_member(self, pod: PodInfo) -> bool:
        """True if the pod names a group of a served API. The group itself may not exist."""
        return bool(pod.group) and pod.group.partition(":")[0] in self._served

    def key_of(self, pod: PodInfo) -> str:
        """The key of the pod's group, with which it is planned: that at the top of the hierarchy. Empty if the pod
        names none.
        """
        return self._hierarchies.root_of(pod.group) if pod.group in self._above else pod.group

    def class_priority(self, key: str) -> int | None:
        """The priority that the group's members have of the PriorityClass that it names; None: each has its own."""
        group = self._groups.get(key)
        return self._class_values.get(group.priority_class) if group is not None and group.priority_class else None

    def ranked(self, pod: PodInfo) -> PodInfo:
        """The pod in the group that counts, with the priority that counts. Whoever takes a pod in calls this first. It
        stays in a group that a WorkloadGrouping has made.
        """
        group = pod.group
        if group in pod.named_groups:
            group = self.counting(pod.named_groups) or group
        found = self.class_priority(group) if group else None
        priority = pod.own_priority if found is None else found
        if pod.priority == priority and pod.group == group:
            return pod
        return replace(pod, priority=priority, group=group)

    @property
    def priorities(self) -> Collection[int]:
        """The priorities that groups themselves have."""
        return self._priorities.keys()

    @property
    def knows_classes(self) -> bool:
        """True if PriorityClasses are read. Each cluster has some."""
        return bool(self._class_values)

    def class_from(self, priority: int) -> tuple[int, str] | None:
        """The lowest priority from this one up that a PriorityClass has, and the name of this class."""
        return min(((value, name) for name, value in self._class_values.items() if value >= priority), default=None)

    def counting(self, named: Sequence[str]) -> str:
        """The group that counts for a pod which names these, the most specific first: the first whose API is served.
        Empty if no API is.
        """
        return next((key for key in named if key.partition(":")[0] in self._served), "")

    def contradiction(self, pod: PodInfo) -> str:
        """A text for an event if the pod names another group beside the one that counts; else empty. Two others go
        without saying: the group that KAI's pod-grouper adds to each pod of Grove's gangs, and one that is less
        specific and whose API is not served.
        """
        counts = self.counting(pod.named_groups)
        if not counts:
            return ""
        first = pod.named_groups[0]
        if first != counts:
            return f"{_named_both(first, counts)}, which counts while the other is not served, or may not be read"
        apis = self._served - {KAI_API} if counts.startswith(GROVE_API) else self._served
        other = next((key for key in pod.named_groups[1:] if key.partition(":")[0] in apis), "")
        return f"{_named_both(other, counts)}, which counts" if other else ""

    def of(self, pod: PodInfo) -> PodGroup | None:
        """The pod's group, see `key_of`; None if the pod names none or the group does not exist."""
        key = pod.group
        return self._groups.get(self._hierarchies.root_of(key) if key in self._above else key)

    def root_of(self, key: str) -> str:
        """The key of the group at the top of a group's hierarchy, which need not exist."""
        return self._hierarchies.root_of(key)

    def named_by_pods(self, group: PodGroup) -> Sequence[PodGroup]:
        """The groups that pods name: those at the bottom of the hierarchy below a composite group, or the group
        itself.
        """
        if not group.composite:
            return (group,)
        return [found for key in self.keys_below(group) if (found := self._groups.get(key)) is not None]

    def keys_below(self, group: PodGroup) -> Iterator[str]:
        """The keys of the groups at the bottom of the hierarchy below a composite group."""
        return self._hierarchies.leaves(group.key)

    def evicted_with(self, pod: PodInfo) -> PodGroup | None:
        """The group whose placed members are all evicted if this placed pod is; None if the pod is evicted alone."""
        group = self.of(pod)
        if group is None:
            return None
        if self.evicted_whole(group):
            return group
        found, above = None, self._groups.get(pod.group)
        while group.composite and above is not None and above is not group:
            found = above if above.all_or_none else found
            above = self._groups.get(above.parent)
        return found

    def spares(self, group: PodGroup) -> frozenset[str]:
        """The uids of the placed members of a gang that are more than its minimum, and than that of their part: those
        that started last. Also those that terminate. None of a gang whose members must be disrupted together.
        """
        members = self.members(group.key)
        if group.all_or_none:
            return frozenset()
        if members.placed_count <= group.min_count or not self.minimum_placed(group):
            return frozenset(members.ending)
        if self._spares_at != self.changes:
            self._spares_at = self.changes
            self._spares.clear()
        if group.key not in self._spares:
            latest_first = sorted(members.staying.values(), key=_started, reverse=True)
            if members.levels is None:
                found = [pod.uid for pod in latest_first[: members.placed_count - group.min_count]]
            else:
                counted = members.counted
                found = members.levels.root.spares((pod.uid, counted[pod.uid][0]) for pod in latest_first)
            self._spares[group.key] = frozenset(members.ending.union(found))
        return self._spares[group.key]

    @property
    def may_shrink(self) -> bool:
        """True if there is a gang that is evicted as a whole, and has more placed members than its minimum."""
        return any(
            group.gang and self.members(key).placed_count > group.min_count and self.evicted_whole(group)
            for key, group in self._groups.items()
        )

    def placed_in(self, group: PodGroup) -> Collection[str]:
        """The uids of a group's placed members, also of one in a hierarchy."""
        if not group.composite:
            return self.members(group.key).placed
        return [uid for leaf in self._hierarchies.leaves(group.key) for uid in self.members(leaf).placed]

    def get(self, key: str) -> PodGroup | None:
        return self._groups.get(key)

    def invalid(self, key: str) -> tuple[PodGroup, InvalidObjectError] | None:
        """Why the group's current version cannot be parsed, with a PodGroup made from its metadata; None if it can
        be.
        """
        return self._invalid.get(key)

    def all(self) -> Collection[PodGroup]:
        return self._groups.values()

    def members(self, key: str) -> Members:
        """The group's pods; do not change them."""
        return self._members.get(key, _NO_MEMBERS)

    @property
    def served(self) -> Collection[str]:
        """The APIs that the API server serves."""
        return self._served

    @property
    def partially_placed(self) -> Collection[PodGroup]:
        """Gangs with some members placed, but fewer than the minimum. A start that was interrupted leaves such
        gangs.
        """
        return [self._groups[key] for key in self._partially_placed if key in self._groups]

    def complete(self, pod: PodInfo) -> bool:
        """True if the pod's group exists and has at least its minimum of members."""
        group = self.of(pod)
        return group is not None and self.has_minimum(group)

    def progress(self, group: PodGroup) -> str:
        """How far the workload of a gang is, by the workload's own name."""
        return f"{self.placed_text(group.key)}, {self.members(group.key).total} exist"

    def waiting(self) -> Sequence[str]:
        """The `progress` of each gang whose minimum is not placed, sorted. A hierarchy counts as one gang until its own
        minimum is placed.
        """
        gangs = (group for group in self._groups.values() if group.gang and not self.minimum_placed(group))
        waiting = (group for group in gangs if self.members(group.key).total and not self._starts_with_others(group))
        return sorted(map(self.progress, waiting))

    def placed_text(self, key: str) -> str:
        """How many pods of a group have a node, by the name of its workload. Of a group that does not exist, as
        well.
        """
        group, placed = self._groups.get(key), self.placed(key)
        if group is None:
            return f"{_described(key)}: {placed} with a node"
        name, least = group.workload or group.label, group.min_count
        if group.composite:  # whose minimum is a number of groups
            least = placed + self.lacking(group)
            if least == placed:
                return f"{name}: {placed} pods have a node"
        if placed > least:
            return f"{name}: {placed} pods have a node, of which {least} had to start together"
        return f"{name}: {placed} of {least} pods that start together have a node"

    def has_minimum(self, group: PodGroup) -> bool:
        """True if enough members exist."""
        members = self._members.get(group.key, _NO_MEMBERS)
        return members.total >= group.min_count if members.levels is None else members.levels.root.is_met(EXISTING)

    def minimum_placed(self, group: PodGroup) -> bool:
        """True if enough members are bound or assumed."""
        members = self._members.get(group.key, _NO_MEMBERS)
        return members.placed_count >= group.min_count if members.levels is None else members.levels.root.is_met(PLACED)

    def standing(self, group: PodGroup, uids: Collection[str]) -> Collection[str] | None:
        """Returns the placed members of `uids` that may start: the minimum of each part to which they belong is placed.
        None if the group's minimum is not. Pods of a part whose minimum is not placed do not count.
        """
        members = self.members(group.key)
        if members.levels is None:
            return uids if self.minimum_placed(group) else None
        levels = set(members.levels.root.standing()[1])
        return [uid for uid in uids if uid in members.counted and members.counted[uid][0] in levels] if levels else None

    def lacking(self, group: PodGroup, which: int = PLACED) -> int:
        """How many more members must be placed, or exist, at least; 0 if there is the minimum."""
        members = self.members(group.key)
        if members.levels is None:
            return max(0, group.min_count - (members.placed_count if which == PLACED else members.total))
        return members.levels.root.lacking(which)

    def minimum_left(self, group: PodGroup, without: Collection[str]) -> bool:
        """True if enough members would be placed without these placed members, by uid."""
        members = self.members(group.key)
        without = set(without) - members.ending
        if members.levels is None:
            return members.placed_count - len(without) >= group.min_count
        left = [level for uid in without if (level := members.counted[uid][0]) is not None]
        for level in left:
            level.count(PLACED, -1)
        met = members.levels.root.is_met(PLACED)
        for level in left:
            level.count(PLACED, 1)
        return met

    def has_close_parts(self, group: PodGroup) -> bool:
        """True if pods of a part of the group may not be anywhere."""
        levels = self.members(group.key).levels
        return levels is not None and levels.root.part_binds()

    def belongs_nowhere(self, pod: PodInfo) -> bool:
        """True if the pod's group has parts, and the pod belongs to none of them."""
        levels = self.members(self.key_of(pod)).levels
        return levels is not None and levels.of(pod) is None

    def just_completed(self, pod: PodInfo) -> bool:
        """True if the pod's group exists and has its minimum of members, but not without the pod."""
        group = self.of(pod)
        if group is None:
            return False
        members = self.members(group.key)
        if members.levels is None:
            return members.total == group.min_count
        level, root = members.counted.get(pod.uid, (None, False, False))[0], members.levels.root
        return level is not None and root.is_met(EXISTING) and not root.is_met_without(EXISTING, level)

    def placed(self, key: str) -> int:
        """How many members are bound or assumed, and do not terminate, or have succeeded where that counts."""
        return self.members(key).placed_count

    def evicted_whole(self, group: PodGroup) -> bool:
        """True if preemption evicts all members or none: the group says so, or the policy of the members of a gang. If
        neither says anything, gangs of APIs that have no disruption mode are evicted as a whole.
        """
        if group.all_or_none or not group.gang:
            return group.all_or_none
        first = next(iter(self.members(group.key).placed.values()), None)
        if first is None:
            return False
        return (self.eviction_by_policy(first) or _EVICTION_BY_DEFAULT[group.api]) == "Whole"

    # Waiting members

    def add_waiting(self, pod: PodInfo) -> None:
        """Adds or replaces a pending pod. It may have left its group for another one, or for none."""
        if self._waiting_in.get(pod.uid, pod.group) != pod.group:
            self.remove_waiting(pod.uid)
        if pod.group:
            self._waiting_in[pod.uid] = pod.group
            for key in self._keys(pod.group):
                self._members_of(key).add_waiting(pod)
                self._members_changed(key)
        for other in self.also_told:
            other.add_waiting(pod)

    def remove_waiting(self, uid: str) -> None:
        """The pod is no longer pending. An unknown uid is ignored."""
        for other in self.also_told:
            other.remove_waiting(uid)
        named = self._waiting_in.pop(uid, "")
        for key in self._keys(named) if named else ():
            self._members[key].remove_waiting(uid)
            self._drop_if_empty(key)

    def add_succeeded(self, pod: PodInfo) -> None:
        """A pod has succeeded. Where an API's minimums count such pods, what replaces others need not wait for it."""
        if pod.group.partition(":")[0] in _COUNTING_SUCCEEDED:
            self._members_of(pod.group).add_succeeded(pod)
            self._members_changed(pod.group)

    def remove_succeeded(self, uid: str, group: str) -> None:
        """A pod that has succeeded is gone, or has left this group."""
        members = self._members.get(group)
        if members is not None and uid in members.succeeded:
            members.remove_succeeded(uid)
            self._drop_if_empty(group)

    # PlacementObserver

    def pod_added(self, pod: PodInfo, _slot: int) -> None:
        for key in self._keys(pod.group) if pod.group else ():
            self._members_of(key).add_placed(pod)
            self._members_changed(key)

    def pod_changed(self, pod: PodInfo) -> None:
        """A placed member has a newer version, which may say when it started. A pending one says more than is kept."""
        for key in self._keys(pod.group):
            placed = self.members(key).placed
            if (known := placed.get(pod.uid)) is not None:
                self.changes += known.start_time != pod.start_time
                placed[pod.uid] = pod

    def pod_removed(self, pod: PodInfo, _slot: int) -> None:
        for key in self._keys(pod.group) if pod.group else ():
            if (members := self._members.get(key)) is not None:
                members.remove_placed(pod.uid)
                self._drop_if_empty(key)

    def batch(self, pods: PodsInRows) -> Batch:
        return one_by_one(self, [each for each in pods if each[0].group])

    def compact(self) -> None:
        """Frees the memory that the dictionaries of groups needed when there were more members."""
        for members in self._members.values():
            shrink(members.waiting)
            shrink(members.placed)
            shrink(members.succeeded)
            shrink(members.counted)

    # For transactions

    @property
    def partially_placed_keys(self) -> Collection[str]:
        """A copy of the keys of partially placed groups, in order."""
        return tuple(self._partially_placed)

    def restore_partially_placed(self, keys: Iterable[str]) -> None:
        """Brings the partially placed groups back into the order of `keys`."""
        current = self._partially_placed
        self._partially_placed = {key: None for key in keys if key in current} | current

    def restore_placed(self, key: str, pods: Mapping[str, PodInfo]) -> None:
        """Brings the group's placed members back into the order of `pods`, a copy of `Members.placed`."""
        members = self._members.get(key)
        if members is not None:
            current = members.placed
            members.placed = {uid: pod for uid, pod in pods.items() if uid in current}
            members.placed.update({uid: pod for uid, pod in current.items() if uid not in pods})

    # Internals

    def _starts_with_others(self, group: PodGroup) -> bool:
        """True if a hierarchy above the group has not started yet."""
        top = self._groups.get(self._hierarchies.root_of(group.key))
        return top is not None and top is not group and not self.minimum_placed(top)

    def _group_changed(self, kind: str, before: Object | None, after: Object | None) -> None:
        namespace, name = key_of(after or before or {})
        key = group_key(ALL[kind], namespace, name)
        self._invalid.pop(key, None)
        if (was := self._groups.get(key)) is not None:
            self._note_priority(was, there=False)
        if after is None:
            self._groups.pop(key, None)
            self._relink(key)
            if (members := self._members.get(key)) is not None:
                members.divide(None)
                if members.empty:
                    del self._members[key]
        else:
            if ALL[kind] not in self._served:
                self.serve(ALL[kind])
            try:
                group = self._groups[key] = parse_pod_group(kind, after)
                if not self._relink(key):
                    self._divide(group)
            except InvalidObjectError as error:
                if self._on_invalid is not None:
                    self._on_invalid("PodGroup", f"{namespace}/{name}", error)
                self._invalid[key] = (metadata_only_pod_group(kind, after), error)
            if (known := self._groups.get(key)) is not None:
                self._note_priority(known, there=True)
        for listener in self._listeners_to_groups:
            listener(was, self._groups.get(key))
        self._members_changed(key)

    def _served_changed(self, api: str) -> None:
        self.changes += 1
        if api == COMPOSITE_API:
            self._relink_all()
        concerned = [
            uid
            for members in self._members.values()
            for uid, pod in chain(members.waiting.items(), members.placed.items())
            if pod.named_groups
        ]
        for listener in self._listeners_to_apis:
            listener(concerned)

    def _note_priority(self, group: PodGroup, *, there: bool) -> None:
        if group.priority is not None:
            count(self._priorities, group.priority, 1 if there else -1)
        if group.priority_class and there:
            self._naming.setdefault(group.priority_class, {})[group.key] = None
        elif group.priority_class:
            drop(self._naming, group.priority_class, group.key)

    def _class_changed(self, before: Object | None, after: Object | None) -> None:
        name = key_of(after or before or {})[1]
        value = None if after is None else after.get("value")
        if type(value) is int:
            self._class_values[name] = value
        else:
            self._class_values.pop(name, None)
        for key in [*self._naming.get(name, ())]:
            self._members_changed(key)

    def _keys(self, named: str) -> Sequence[str]:
        """The keys under which the pods count that name this group."""
        return (named, self._hierarchies.root_of(named)) if named in self._above else (named,)

    def _members_of(self, key: str) -> Members:
        members = self._members.get(key)
        if members is None:
            members = self._members[key] = Members(levels=self._hierarchies.below(key) if _is_composite(key) else None)
        return members

    def _relink_all(self) -> None:
        for group in [*self._groups.values()]:
            if group.parent or group.composite:
                self._relink(group.key)

    def _relink(self, key: str) -> bool:
        """The group has come, changed or gone. Returns whether it is in a hierarchy, or was."""
        group, hierarchies = self._groups.get(key), self._hierarchies
        linked = group is not None and COMPOSITE_API in self._served and (group.composite or bool(group.parent))
        if not linked and key not in hierarchies:
            return False
        leaves = [*hierarchies.leaves(key)]
        roots = dict.fromkeys(map(hierarchies.root_of, leaves))
        for leaf in leaves:
            self._leave(leaf)
        if group is not None and linked:
            hierarchies.set(group)
        else:
            hierarchies.remove(key)
        for leaf in leaves:
            self._join(leaf)
            roots[hierarchies.root_of(leaf)] = None
        for root in roots:
            self._members_changed(root)
        return True

    def _leave(self, leaf: str) -> None:
        """The pods that name this group no longer count for the group at the top."""
        root, pods = self._hierarchies.root_of(leaf), self._members.get(leaf)
        members = self._members.get(root)
        if root == leaf or pods is None or members is None:
            return
        for uid in pods.waiting:
            members.remove_waiting(uid)
        for uid in pods.placed:
            members.remove_placed(uid)
        if members.empty:
            del self._members[root]

    def _join(self, leaf: str) -> None:
        """The pods that name this group count for the group at the top."""
        root, pods = self._hierarchies.root_of(leaf), self._members.get(leaf)
        if root == leaf or pods is None:
            return
        members = self._members_of(root)
        for pod in pods.waiting.values():
            members.add_waiting(pod)
        for pod in pods.placed.values():
            members.add_placed(pod)

    def _divide(self, group: PodGroup) -> None:
        if group.tree is not None and group.part_of is not None:
            members = self._members.setdefault(group.key, Members())
            members.divide(NamedParts(group.tree, group.part_of))
        elif (known := self._members.get(group.key)) is not None:
            known.divide(None)

    def _drop_if_empty(self, key: str) -> None:
        members = self._members[key]
        if (members.levels is None or _is_composite(key)) and members.empty:
            del self._members[key]
        self._members_changed(key)

    def _members_changed(self, key: str) -> None:
        self.changes += 1
        if key in self._above and key not in self._invalid:
            self._partially_placed.pop(key, None)
            return  # the group at the top is told
        group, members = self._groups.get(key), self._members.get(key, _NO_MEMBERS)
        if group is not None and len(members.placed) > len(members.ending) and not self.minimum_placed(group):
            self._partially_placed[key] = None
        else:
            self._partially_placed.pop(key, None)
        for listener in self._listeners:
            listener(key)
