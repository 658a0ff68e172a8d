"""Workloads: the pod groups that WorkloadGroupings make of pods without a group.

`owners` finds the group. Its object exists in the object store only, and everything else treats it as any other group.
While an owner is unknown, the pod is a member of a group that does not exist, and so waits. Invariant: once a pod is in
a group, it stays there, whatever becomes of its owner, until groupings change.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain, islice
from typing import Any, Final

import orjson

from podwright.core.groupings import POD, Grouping, GroupingError, Kind
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import Owner, PodInfo, body_of
from podwright.core.objects.pod_group import MADE_API, MADE_KIND, group_key, part_of_made, workload_label
from podwright.core.objects.raw import Raw
from podwright.engine.intake.objects import KindStream
from podwright.engine.intake.owners import Membership, OwnerObject, Owners, UnusableError, owner_object, pod_as_owner
from podwright.engine.ports import Ports
from podwright.engine.raw_objects import as_sent
from podwright.engine.state import EngineState

GONE_SECONDS: Final = 10.0
"""For how long an owner may be unknown before it counts as gone: the watches have no common order."""
AT_ONCE: Final = 64
"""How many pods are taken in again, and minimums evaluated, in one step."""
MAX_SIZES: Final = 64
"""How many different minimums the parts of a group may have."""
UNGROUPED: Final = "WorkloadUnknown"
"""The reason of the event for pods that are scheduled without the group that they should have."""


_Place = tuple[str, str]
"""The key of a pod's group, and how the pod names its part of it."""
_NOWHERE: Final[_Place] = ("", "")
_Kept = Mapping[str, Any] | bytes
"""A pod that is to be taken in again: as JSON if it has a node, since nothing else keeps the object."""


@dataclass(slots=True)
class _Made:
    """A group. `sample`: the pod for which its minimum is evaluated."""

    grouping: Grouping
    owners: tuple[str, ...]
    """Their uids, from the pod's controller up to the owner that the grouping selects."""
    sample: Mapping[str, Any]
    count: int
    raw: Raw
    """The group as an object, with a minimum of `count` less those that have succeeded."""
    parts: dict[str, int] = field(default_factory=dict)
    """The minimums of its parts."""
    succeeded: set[str] = field(default_factory=set)
    """Uids of members that have succeeded, also if they are deleted by now."""


@dataclass(slots=True)
class _Wait:
    """Pods that wait for one owner. `unknown`: it has not been seen. `ignored`: they do not wait any more."""

    text: str
    since: float
    label: str
    kind: Kind
    waits: bool
    unknown: bool
    group: str
    ignored: bool = False
    pods: dict[str, _Kept] = field(default_factory=dict)


class Workloads:
    """See the module. `take_again` takes a raw pod in once more; `relist` has all pods with a node listed again."""

    def __init__(self, state: EngineState, ports: Ports, take_again: Callable[[Raw], None]) -> None:
        self.active = False
        """True if there may be groups to make."""
        self.relist: Callable[[], object] = lambda: None
        self.on_read_changed: Callable[[], object] = lambda: None
        """Called when other kinds of owners are to be read."""
        self._cache = state.cache
        self._queue = state.queue
        self._clock = state.clock
        self._recorder = ports.recorder
        self._groups = KindStream(MADE_KIND, state, ports=ports)
        self._take_again = take_again
        self._owners = Owners(self._pod)
        self._made: dict[str, _Made] = {}
        self._made_of: dict[str, dict[str, None]] = {}
        """The keys of groups by the uid of each owner."""
        self._waits: dict[str, _Wait] = {}
        """By the owner's uid."""
        self._waits_for: dict[str, str] = {}
        """The owner's uid by the pod's."""
        self._again: deque[_Kept] = deque()
        self._all_again = False
        """True if groupings have changed, so that all pods are to be taken in again."""
        self._uncounted: dict[str, None] = {}
        """The keys of groups whose minimum is to be evaluated again."""
        self._taken = ""
        """The uid of the pod that is just taken in again."""
        self._scheduled = False
        compact_regularly(self)

    # Groupings and owners

    @property
    def read(self) -> Mapping[Kind, Sequence[str]]:
        """The kinds of owners to read, each with its versions: the first served one is to be read."""
        return self._owners.read

    @property
    def groupings(self) -> Mapping[str, Grouping]:
        """The groupings in force, by name."""
        return self._owners.groupings

    def group_counts(self) -> Mapping[str, int]:
        """How many groups each grouping makes now."""
        found: dict[str, int] = {}
        for made in self._made.values():
            found[made.grouping.name] = found.get(made.grouping.name, 0) + 1
        return found

    def problem(self, grouping: Grouping) -> str:
        """Why owners of this grouping cannot be read; "" if they can."""
        return self._owners.problem(grouping)

    def set(self, grouping: Grouping) -> None:
        """Adds or replaces a grouping."""
        self._owners.groupings[grouping.name] = grouping
        self._groupings_changed()

    def remove(self, name: str) -> None:
        """Removes a grouping."""
        if self._owners.groupings.pop(name, None) is not None:
            self._groupings_changed()

    def kind_read(self, kind: Kind, problem: str) -> None:
        """The kind's objects are known from now on, or cannot be read: `problem` says why."""
        if self._owners.problems.get(kind) != problem:
            self._owners.problems[kind] = problem
            for uid in [uid for uid, wait in self._waits.items() if wait.kind == kind]:
                self._retry(uid)

    def owner_seen(self, kind: Kind, version: str, raw: Raw) -> None:
        """An object of a kind that is read, in this version, was added, or has changed. Raises InvalidObjectError."""
        owner = owner_object(kind, version, raw)
        if not self._owners.seen(owner):
            return
        self._retry(owner.uid)
        self._uncounted.update(dict.fromkeys(self._made_of.get(owner.uid, ())))
        self._go_on()

    def owner_gone(self, uid: str) -> None:
        """The object is gone."""
        self._owners.gone(uid)

    # Pods

    def has_minimum(self, pod: PodInfo) -> bool:
        """True if a grouping sets how many pods start together with this one, even if the number is 0."""
        return self._owners.has_minimum(pod)

    def joined(self, pod: PodInfo, raw: Raw) -> PodInfo:
        """The pod as a member of its group, if groupings put it into one. Call it only while `active`."""
        groups = self._cache.groups
        if pod.owner is None or groups.is_member(pod):
            return pod
        key, part = self._present_group(pod.uid)
        if key not in self._made:
            key, part = self._group_of(pod, pod.owner, raw)
        return replace(pod, group=key, task=part) if (key, part) != (pod.group, pod.task) else pod

    def succeeded(self, pod: PodInfo) -> None:
        """The pod has succeeded. It counts as one of its group's minimum: what replaces a failed pod need not wait for
        others.
        """
        made = self._made.get(pod.group)
        if made is not None and pod.uid not in made.succeeded and len(made.succeeded) < made.count:
            made.succeeded.add(pod.uid)
            self._put(made)

    def left(self, uid: str) -> None:
        """The pod is gone."""
        owner = self._waits_for.pop(uid, "")
        wait = self._waits.get(owner)
        if wait is not None:
            wait.pods.pop(uid, None)
            if not wait.pods:
                self._end_wait(owner)

    def pod_known(self, uid: str) -> None:
        """A pod is in the cache or in the queue from now on. It may own others."""
        if uid in self._waits and uid != self._taken:
            self._retry(uid)

    def tick(self) -> None:
        """Finds out which owners are gone."""
        now = self._clock()
        for wait in [*self._waits.values()]:
            readable = wait.kind == POD or self._owners.problems.get(wait.kind) == ""
            if wait.unknown and readable and not wait.ignored and wait.since + GONE_SECONDS <= now:
                wait.unknown = False
                self._failed(wait, f"{wait.label} does not exist, and WorkloadGroupings make pod groups from it")

    def compact(self) -> None:
        """Drops groups without members, unless some have succeeded, and what replaces the others may yet come; and the
        parts without members of other groups.
        """
        self._owners.compact()
        groups, store = self._cache.groups, self._cache.store
        for raw in [*store.list(MADE_KIND)]:
            metadata = raw["metadata"]
            key = group_key(MADE_API, metadata["namespace"], metadata["name"])
            made, members = self._made.get(key), groups.members(key)
            if made is not None and made.parts:
                named = {pod.task for pod in chain(members.waiting.values(), members.placed.values())}
                made.parts = {part: size for part, size in made.parts.items() if part_of_made(part, size) in named}
            if not members.total and (made is None or not self._goes_on(made)):
                self._groups.drop(f"{metadata['namespace']}/{metadata['name']}", None)
                self._made.pop(key, None)
                for uid in () if made is None else made.owners:
                    drop(self._made_of, uid, key)

    # Internals

    def _groupings_changed(self) -> None:
        """Finds the kinds to read, and has all pods put into their groups again: once, however many groupings come
        together.
        """
        self._owners.changed()
        self._made, self._made_of = {}, {}
        for uid in [*self._waits]:
            self._end_wait(uid)
        self.active = bool(self.read)
        if self.active:
            self._cache.groups.serve(MADE_API)
        else:
            self._cache.groups.withdraw(MADE_API)
        self._all_again = True
        self._go_on()
        self.on_read_changed()

    def _present_group(self, uid: str) -> _Place:
        placed, queued = self._cache.placement(uid), self._queue.get(uid)
        pod = placed.pods[uid] if placed is not None else None if queued is None else queued.pod
        return _NOWHERE if pod is None else (pod.group, pod.task)

    def _group_of(self, pod: PodInfo, owner: Owner, raw: Raw) -> _Place:
        """Returns the pod's group and part: a group that does not exist if the pod has to wait, "" without a group."""
        try:
            found = self._owners.group_of(pod, owner, raw)
            place = ("", pod.task) if found is None else self._joined(found)
        except UnusableError as problem:
            if self._waits_for.get(pod.uid) != problem.owner.uid:
                self.left(pod.uid)
            return self._wait(pod, raw, problem), pod.task
        self.left(pod.uid)
        return place

    def _pod(self, uid: str) -> OwnerObject | None:
        placed, queued = self._cache.placement(uid), self._queue.get(uid)
        pod = placed.pods[uid] if placed is not None else None if queued is None else queued.pod
        return None if pod is None else pod_as_owner(pod)

    def _joined(self, found: Membership) -> _Place:
        """Makes the group if it does not exist, and returns the place in it. Raises UnusableError."""
        group = found.group
        if group not in self._made:
            made = _Made(
                found.grouping,
                tuple(each.uid for each in found.owners),
                sample=found.values,
                count=found.count,
                raw=found.group_object(1),
            )
            self._made[group] = made
            for uid in made.owners:
                self._made_of.setdefault(uid, {})[group] = None
            self._put(made)
        return group, self._part_of(self._made[group], found)

    def _part_of(self, made: _Made, found: Membership) -> str:
        """Returns the name of the pod's part. Once pods of the group have succeeded, it is "": new pods may be all that
        is left of a part. Raises UnusableError.
        """
        if not found.part or made.succeeded:
            return ""
        if found.part not in made.parts:
            sizes = {found.size, *made.parts.values()}
            if len(sizes) > MAX_SIZES:
                text = f"spec.subGroup.minCount: has more than {MAX_SIZES} different values in one group"
                raise found.unusable(text)
            is_new = found.size not in made.parts.values()
            made.parts[found.part] = found.size
            if is_new:
                self._put(made)
        return part_of_made(found.part, made.parts[found.part])

    def _count_again(self, group: str) -> None:
        """An owner of the group's pods has changed. The group keeps its minimum if the expression fails now, or an
        owner is gone.
        """
        made = self._made.get(group)
        if made is not None:
            with suppress(GroupingError):
                count = self._owners.minimum(made.grouping, made.owners, made.sample)
                if count is not None:
                    made.count = count
                    self._put(made)

    def _goes_on(self, made: _Made) -> bool:
        """True if some of its minimum have succeeded, and its owner may make pods for the others."""
        return 0 < len(made.succeeded) < made.count and self._owners.get(made.owners[-1]) is not None

    def _put(self, made: _Made) -> None:
        least = max(1, made.count - len(made.succeeded))
        spec = {**made.raw["spec"], "minCount": least, "partSizes": sorted(set(made.parts.values()))}
        made.raw = {**made.raw, "spec": spec}
        self._groups.put(made.raw)

    # Waiting for owners

    def _wait(self, pod: PodInfo, raw: Raw, problem: UnusableError) -> str:
        uid = problem.owner.uid
        group = group_key(MADE_API, pod.namespace, f"?{uid}")
        wait = self._waits.get(uid)
        if wait is None:
            kind = problem.owner.kind if isinstance(problem.owner, Owner) else problem.owner.kind[1]
            label = workload_label(kind, pod.namespace, problem.owner.name)
            wait = self._waits[uid] = _Wait(
                str(problem),
                self._clock(),
                label=label,
                kind=problem.kind,
                waits=problem.waits,
                unknown=problem.unknown,
                group=group,
            )
            if not problem.unknown:
                self._failed(wait, str(problem), pod)
            else:
                self._cache.groups.awaited[group] = str(problem)
        wait.pods[pod.uid] = as_sent(raw) if pod.node_name else raw
        self._waits_for[pod.uid] = uid
        return "" if wait.ignored else group

    def _failed(self, wait: _Wait, text: str, first: PodInfo | None = None) -> None:
        """The pods of the wait go on without a group, or wait for a reason that is known by now."""
        wait.text = text
        self._cache.groups.awaited[wait.group] = text
        if wait.waits:
            return
        wait.ignored = True
        pods = [*wait.pods.values()]
        queued = self._queue.get(next(iter(wait.pods), ""))
        regarding = first if first is not None else None if queued is None else queued.pod
        if regarding is not None and not regarding.node_name:
            note = f"{text}; its pods are scheduled one by one"
            self._recorder.record(regarding, "Warning", UNGROUPED, "Scheduling", note)
        self._take_in_again(pods)

    def _retry(self, uid: str) -> None:
        wait = self._waits.get(uid)
        if wait is not None:
            self._end_wait(uid)
            self._take_in_again(wait.pods.values())

    def _end_wait(self, uid: str) -> None:
        wait = self._waits.pop(uid)
        self._cache.groups.awaited.pop(wait.group, None)
        for pod in wait.pods:
            self._waits_for.pop(pod, None)

    def _take_in_again(self, pods: Iterable[_Kept]) -> None:
        self._again.extend(pods)
        self._go_on()

    def _go_on(self) -> None:
        if (self._again or self._uncounted or self._all_again) and not self._scheduled:
            try:
                asyncio.get_running_loop().call_soon(self.step)
            except RuntimeError:
                return  # no event loop runs yet
            self._scheduled = True

    def step(self) -> None:
        """Takes some pods in again whose groups may be others now, and evaluates the minimums of some groups."""
        self._scheduled = False
        if self._all_again:
            self._all_again = False
            pods = [queued.pod for uid in self._queue.uids() if (queued := self._queue.get(uid)) is not None]
            self._again.extend(body for pod in pods if pod.owner is not None and (body := body_of(pod)) is not None)
            self.relist()
        for group in [*islice(self._uncounted, AT_ONCE)]:
            del self._uncounted[group]
            self._count_again(group)
        for _ in range(min(AT_ONCE, len(self._again))):
            kept = self._again.popleft()
            raw = orjson.loads(kept) if isinstance(kept, bytes) else kept
            uid, version = raw["metadata"]["uid"], raw["metadata"].get("resourceVersion")
            placed, queued = self._cache.placement(uid), self._queue.get(uid)
            pod = queued.pod if queued is not None else None if placed is None else placed.pods[uid]
            # Of a pod that has finished, nothing else is known, but it may count as one that has succeeded.
            if pod is None and (raw.get("status") or {}).get("phase") != "Succeeded":
                continue
            if pod is None or pod.resource_version == (version or ""):
                self._taken = uid
                self._take_again(raw)
        self._taken = ""
        self._go_on()
