"""Owners: the objects above pods, and the group into which WorkloadGroupings put a pod because of them.

A pod's owners are its controller, the controller of that, and so on, as far as groupings read their kinds. The highest
owner that a grouping selects decides. `workloads` uses this while the scheduler runs, and the simulator on a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import orjson

from podwright.core.groupings import POD, Grouping, GroupingError, Kind
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import Owner, PodInfo, controller_of
from podwright.core.objects.pod_group import MADE_API, group_key, workload_label
from podwright.core.objects.raw import Raw, as_labels

MAX_DEPTH: Final = 8
"""How many owners above a pod are looked at."""
_VERSIONS: Final = ("resourceVersion", "generation")


@dataclass(frozen=True, slots=True)
class OwnerObject:
    """An owner. `body`: the object without status as JSON, None if only its metadata is known."""

    kind: Kind
    api_version: str
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    controller: Owner | None
    body: bytes | None

    @property
    def label(self) -> str:
        return workload_label(self.kind[1], self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Membership:
    """A pod's place in a group. `owners`: from its controller up to the one that the grouping selects; `values`: what
    the expressions read of the pod; `count`: the minimum.
    """

    grouping: Grouping
    namespace: str
    key: str
    owners: Sequence[OwnerObject]
    values: Raw
    count: int
    part: str
    """The part of the group; "" if the group has no parts."""
    size: int
    """The minimum of the part."""

    def unusable(self, text: str) -> UnusableError:
        return _unusable(self.grouping, self.owners[-1], text)

    @property
    def group(self) -> str:
        """The key of the group."""
        return group_key(MADE_API, self.namespace, f"{self.owners[-1].uid}.{self.key}")

    def group_object(self, least: int, sizes: Iterable[int] = ()) -> Raw:
        """The group as an object of MADE_KIND, with this minimum, and parts with these."""
        owner, name = self.owners[-1], f"{self.owners[-1].uid}.{self.key}"
        return {
            "apiVersion": owner.api_version,
            "kind": owner.kind[1],
            "metadata": {"name": name, "namespace": self.namespace, "uid": owner.uid},
            "spec": {"minCount": least, "owner": owner.name, "partSizes": sorted(set(sizes))},
        }


class UnusableError(Exception):
    """The pod's group is unknown for now. `owner`: that which has to change, or to come; `waits`: whether the pod
    waits; `unknown`: whether the owner has not been seen.
    """

    def __init__(self, text: str, owner: Owner | OwnerObject, kind: Kind, *, waits: bool, unknown: bool) -> None:
        super().__init__(text)
        self.owner, self.kind, self.waits, self.unknown = owner, kind, waits, unknown


def _unusable(grouping: Grouping, owner: OwnerObject, text: str) -> UnusableError:
    """The grouping has no usable value for a pod of the owner."""
    about = f"WorkloadGrouping {grouping.name}, {owner.label}: {text}"
    return UnusableError(about, owner, owner.kind, waits=grouping.waits, unknown=False)


class Owners:
    """See the module. `pod`: a pod by its uid, as the owner of others."""

    def __init__(self, pod: Callable[[str], OwnerObject | None]) -> None:
        self.groupings: dict[str, Grouping] = {}
        """The groupings in force, by name."""
        self.read: dict[Kind, tuple[str, ...]] = {}
        """The kinds of owners that are read, each in the first served version that groupings name."""
        self.problems: dict[Kind, str] = {}
        """Why kinds cannot be read. A kind that is not here is unknown until it is read; "" means that it is."""
        self._pod = pod
        self._by_kind: dict[Kind, list[Grouping]] = {}
        self._owners: dict[str, OwnerObject] = {}
        self._parsed: dict[str, tuple[OwnerObject, Raw]] = {}
        """The owners that were read last, by uid: the pods of one come one after the other."""

    def changed(self) -> None:
        """`groupings` has changed."""
        found = sorted(self.groupings.values(), key=lambda each: (-each.precedence, each.created, each.name))
        self._by_kind, self.read = {}, {}
        for grouping in found:
            self._by_kind.setdefault(grouping.kind, []).append(grouping)
            for kind, version in grouping.read.items() if grouping.min_count is not None else ():
                self.read[kind] = tuple(dict.fromkeys((*self.read.get(kind, ()), version)))
        for kind in [kind for kind in self.problems if kind not in self.read]:
            del self.problems[kind]

    def problem(self, grouping: Grouping) -> str:
        """Why owners of this grouping cannot be read; "" if they can."""
        problems = (self.problems.get(kind, "") for kind in grouping.read)
        return "; ".join(sorted({problem for problem in problems if problem}))

    def seen(self, owner: OwnerObject) -> bool:
        """Returns whether it is new or has changed."""
        changed = self._owners.get(owner.uid) != owner
        self._owners[owner.uid] = owner
        return changed

    def gone(self, uid: str) -> None:
        self._owners.pop(uid, None)

    def get(self, uid: str) -> OwnerObject | None:
        return self._owners.get(uid)

    def group_of(self, pod: PodInfo, owner: Owner, raw: Raw, *, smallest: int = 2) -> Membership | None:
        """None if no grouping makes a gang of the pod. `owner`: its controller; `smallest`: with this minimum, it is a
        gang. Raises UnusableError.
        """
        owners = self.owners_of(pod, owner)
        grouping = self._selecting(owners)
        if grouping is None or grouping.min_count is None:
            return None
        member = self._member_of(pod, raw, grouping, owners)
        return member if member.count >= smallest or member.part else None

    def has_minimum(self, pod: PodInfo) -> bool:
        """True if a grouping sets how many pods start together with this one, even if the number is 0."""
        try:
            grouping = None if pod.owner is None else self._selecting(self.owners_of(pod, pod.owner))
        except UnusableError:
            return False
        return grouping is not None and grouping.min_count is not None

    def owners_of(self, pod: PodInfo, owner: Owner) -> list[OwnerObject]:
        """The owners of a pod, its controller first, up to the first that owns itself. Raises UnusableError if one is
        not known.
        """
        found: list[OwnerObject] = []
        reference: Owner | None = owner
        while reference is not None and len(found) < MAX_DEPTH and all(reference.uid != each.uid for each in found):
            kind = (reference.api_version.rpartition("/")[0], reference.kind)
            if kind not in self.read:
                if kind in self._by_kind:  # of such an owner no more is known than its kind
                    found.append(_stub(kind, pod.namespace, reference))
                break
            known = self._pod(reference.uid) if kind == POD else self._owners.get(reference.uid)
            if known is None or known.namespace not in ("", pod.namespace):
                raise self._not_known(reference, kind, pod.namespace)
            found.append(known)
            reference = known.controller
        return found

    def minimum(self, grouping: Grouping, uids: Sequence[str], values: Raw) -> int | None:
        """The minimum of a group that exists, with the owners as they are now. None if one is gone. Raises
        GroupingError.
        """
        owners = [owner for uid in uids if (owner := self._owners.get(uid) or self._pod(uid)) is not None]
        return grouping.group_of([*map(self._body, owners)], values)[1] if len(owners) == len(uids) else None

    def compact(self) -> None:
        self._parsed.clear()

    # Internals

    def _selecting(self, owners: list[OwnerObject]) -> Grouping | None:
        """The grouping that selects the topmost of these owners that one does, which is the last from now on."""
        while owners:
            found = owners[-1]
            for grouping in self._by_kind.get(found.kind, ()):
                if grouping.selects(found.api_version, found.labels):
                    return grouping
            owners.pop()
        return None

    def _not_known(self, owner: Owner, kind: Kind, namespace: str) -> UnusableError:
        label, problem = workload_label(owner.kind, namespace, owner.name), self.problems.get(kind, "")
        text = f"{label} cannot be read: {problem}" if problem else f"waiting for {label}, the owner of the pod"
        waits = any(each.waits for each in self.groupings.values() if each.min_count is not None and kind in each.read)
        return UnusableError(text, owner, kind, waits=waits, unknown=not problem)

    def _member_of(self, pod: PodInfo, raw: Raw, grouping: Grouping, owners: Sequence[OwnerObject]) -> Membership:
        """Raises UnusableError."""
        values, bodies = _pod_values(pod, raw), [*map(self._body, owners)]
        try:
            key, count = grouping.group_of(bodies, values)
            part = grouping.part_of(bodies, values)
            size = max(1, grouping.minimum_of_part(bodies, values)) if part else 0
        except GroupingError as error:
            raise _unusable(grouping, owners[-1], str(error)) from error
        return Membership(grouping, pod.namespace, key, owners, values, count, part, size)

    def _body(self, owner: OwnerObject) -> Raw:
        known = self._parsed.get(owner.uid)
        if known is not None and known[0] is owner:
            return known[1]
        metadata = {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid, "labels": owner.labels}
        found = {"metadata": metadata} if owner.body is None else orjson.loads(owner.body)
        if len(self._parsed) >= MAX_DEPTH:
            self._parsed.clear()
        self._parsed[owner.uid] = owner, found
        return found


def owner_object(kind: Kind, version: str, raw: Raw) -> OwnerObject:
    """Raises InvalidObjectError."""
    api_version = f"{kind[0]}/{version}".lstrip("/")
    metadata = dict(raw["metadata"])
    metadata.pop("managedFields", None)
    body = {name: value for name, value in raw.items() if name != "status"}
    body |= {"apiVersion": api_version, "kind": kind[1]}
    return OwnerObject(
        kind,
        api_version,
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
        str(metadata.get("uid") or ""),
        as_labels(metadata.get("labels") or {}, "metadata.labels"),
        controller_of(metadata),
        bytes(
            memoryview(orjson.dumps({**body, "metadata": {k: v for k, v in metadata.items() if k not in _VERSIONS}}))
        ),
    )


def pod_as_owner(pod: PodInfo) -> OwnerObject:
    return OwnerObject(POD, "v1", pod.namespace, pod.name, pod.uid, pod.labels, pod.owner, None)


def _stub(kind: Kind, namespace: str, owner: Owner) -> OwnerObject:
    return OwnerObject(kind, owner.api_version, namespace, owner.name, owner.uid, {}, None, None)


def _pod_values(pod: PodInfo, raw: Raw) -> Raw:
    """The variable `pod`."""
    annotations = raw["metadata"].get("annotations")
    texts = annotations if isinstance(annotations, Mapping) else {}
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "labels": pod.labels,
        "annotations": {key: value for key, value in texts.items() if isinstance(value, str)},
    }
