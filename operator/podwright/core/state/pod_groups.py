"""Pod groups and their members: who waits, and who has a place.

Groups come from the object store; waiting members are told of by whoever takes pending pods in, placed and assumed ones are
seen as the cache sees them. A pod counts once, whatever it is told of first. Only groups of an API that is served count:
where it is not, a pod that names one is a pod like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import APIS, PodGroup, group_key, nominal_pod_group, parse_pod_group
from podwright.core.state.object_store import Object, ObjectStore, key_of


@dataclass(slots=True)
class Members:
    """One group's pods by uid. A waiting pod that is assumed is in both."""

    waiting: dict[str, PodInfo] = field(default_factory=dict)
    placed: dict[str, PodInfo] = field(default_factory=dict)
    assumed: int = 0
    """How many are in both."""

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.placed) + len(self.waiting) - self.assumed

    def wait(self, pod: PodInfo) -> None:
        if pod.uid not in self.waiting:
            self.assumed += pod.uid in self.placed
        self.waiting[pod.uid] = pod

    def leave(self, uid: str) -> None:
        if self.waiting.pop(uid, None) is not None:
            self.assumed -= uid in self.placed

    def place(self, pod: PodInfo) -> None:
        if pod.uid not in self.placed:
            self.assumed += pod.uid in self.waiting
        self.placed[pod.uid] = pod

    def take_off(self, uid: str) -> None:
        if self.placed.pop(uid, None) is not None:
            self.assumed -= uid in self.waiting

    def unplaced(self) -> list[PodInfo]:
        """Those without a place, in the order in which they became known."""
        return [pod for uid, pod in self.waiting.items() if uid not in self.placed]


_NOBODY = Members()


class PodGroups:
    """See the module. A `PlacementObserver`, of pods alone."""

    def __init__(self, store: ObjectStore, complain: Callable[[str, str, Exception], object] | None = None) -> None:
        self.complain = complain
        """Called as (kind, namespace/name, error) for a group that cannot be understood: what was known of it stays."""
        self._groups: dict[str, PodGroup] = {}
        self._members: dict[str, Members] = {}
        self._waits_in: dict[str, str] = {}
        self._halves: dict[str, None] = {}
        self._refused: dict[str, tuple[PodGroup, InvalidObjectError]] = {}
        self._served: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []
        for kind in APIS:
            store.listen(kind, lambda before, after, kind=kind: self._changed(kind, before, after))  # type: ignore[misc]

    def serve(self, api: str) -> None:
        """The API server serves this API: pods that name a group of it wait for that group."""
        self._served.add(api)

    def withdraw(self, api: str) -> None:
        """The API server no longer serves this API: pods that name a group of it are pods like any other."""
        self._served.discard(api)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Has `listener` called with a group's key whenever the group or its members change."""
        self._listeners.append(listener)

    # Reading

    def named_by(self, pod: PodInfo) -> bool:
        """Whether the pod names a group that counts, be it there or not."""
        return bool(pod.group) and pod.group.partition(":")[0] in self._served

    def of(self, pod: PodInfo) -> PodGroup | None:
        """The pod's group; None if it has none, or its group is not there."""
        return self._groups.get(pod.group) if pod.group else None

    def get(self, key: str) -> PodGroup | None:
        return self._groups.get(key)

    def refused(self, key: str) -> tuple[PodGroup, InvalidObjectError] | None:
        """What is wrong with a group as it is now, and the group as far as its metadata say it; None if it can be understood."""
        return self._refused.get(key)

    def all(self) -> Collection[PodGroup]:
        return self._groups.values()

    def members(self, key: str) -> Members:
        """The group's pods; do not change them."""
        return self._members.get(key, _NOBODY)

    @property
    def halves(self) -> Collection[PodGroup]:
        """Gangs of which some members have a place, and fewer than must: what a broken-off start leaves behind."""
        return [self._groups[key] for key in self._halves if key in self._groups]

    def complete(self, pod: PodInfo) -> bool:
        """Whether the pod's group is there, and as many of its members as it needs."""
        group = self.of(pod)
        return group is not None and self.members(group.key).total >= group.min_count

    def just_complete(self, pod: PodInfo) -> bool:
        """Whether the pod's group is there, and as many of its members as it needs, but not one more."""
        group = self.of(pod)
        return group is not None and self.members(group.key).total == group.min_count

    def placed(self, key: str) -> int:
        """How many members have a place: bound, or assumed."""
        return len(self.members(key).placed)

    # Waiting members

    def waits(self, pod: PodInfo) -> None:
        """A pending pod is there, or changed; it may name another group than before, or none."""
        if self._waits_in.get(pod.uid, pod.group) != pod.group:
            self.left(pod.uid)
        if pod.group:
            self._members.setdefault(pod.group, Members()).wait(pod)
            self._waits_in[pod.uid] = pod.group
            self._tell(pod.group)

    def left(self, uid: str) -> None:
        """A pod is not pending any more; one that is not known is no error."""
        key = self._waits_in.pop(uid, "")
        if key:
            self._members[key].leave(uid)
            self._tidy(key)

    # What the cache sees

    def pod_added(self, pod: PodInfo, _slot: int) -> None:
        if pod.group:
            self._members.setdefault(pod.group, Members()).place(pod)
            self._tell(pod.group)

    def pod_removed(self, pod: PodInfo, _slot: int) -> None:
        if pod.group and (members := self._members.get(pod.group)) is not None:
            members.take_off(pod.uid)
            self._tidy(pod.group)

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        """Nothing here depends on nodes."""

    def namespace_set(self, name: str, labels: Mapping[str, str]) -> None:
        """Nor on namespaces."""

    # Internals

    def _changed(self, kind: str, before: Object | None, after: Object | None) -> None:
        namespace, name = key_of(after or before or {})
        key = group_key(APIS[kind], namespace, name)
        self._refused.pop(key, None)
        if after is None:
            self._groups.pop(key, None)
        else:
            self._served.add(APIS[kind])
            try:
                self._groups[key] = parse_pod_group(kind, after)
            except InvalidObjectError as error:
                if self.complain is not None:
                    self.complain("PodGroup", f"{namespace}/{name}", error)
                self._refused[key] = (nominal_pod_group(kind, after), error)
        self._tell(key)

    def _tidy(self, key: str) -> None:
        members = self._members[key]
        if not members.waiting and not members.placed:
            del self._members[key]
        self._tell(key)

    def _tell(self, key: str) -> None:
        group = self._groups.get(key)
        if group is not None and 0 < self.placed(key) < group.min_count:
            self._halves[key] = None
        else:
            self._halves.pop(key, None)
        for listener in self._listeners:
            listener(key)
