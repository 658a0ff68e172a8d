"""Groups by rule in simulations: WorkloadGroupings put pods into groups as in the operator (engine/intake/owners.py).

A snapshot has the groupings and the owners of pods that they name. A pod whose owner it lacks waits, as it would there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import escape

from podwright.api.workload_grouping import grouping_in_force
from podwright.core.groupings import POD, Kind
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, body_of
from podwright.core.objects.pod_group import MADE_API, MADE_KIND, group_key, part_of_made
from podwright.core.objects.raw import Raw
from podwright.core.state.cache import Cache
from podwright.engine.intake.owners import OwnerObject, Owners, UnusableError, owner_object
from podwright.simulator.redaction import Named
from podwright.simulator.snapshot import NOT_SERVED

Put = Callable[[str, Raw], object]
"""Stores an object of a kind, until a trial ends or permanently."""


class MadeGroups:
    """See the module."""

    def __init__(self, cache: Cache) -> None:
        self.owners = Owners(self._pod)
        self._cache = cache
        self._pods: Mapping[str, Raw] = {}
        self._succeeded: dict[str, set[str]] = {}
        """The uids of members that have succeeded, by group."""
        self._parts: dict[str, dict[str, int]] = {}
        """The minimums of parts, by group."""

    def take_groupings(self, groupings: Iterable[Raw]) -> list[InvalidObjectError]:
        """Returns what is wrong with them. An invalid one stays as its status says that it last was valid."""
        problems = []
        for raw in groupings:
            found, problem = grouping_in_force(raw)
            if found is not None:
                self.owners.groupings[found.name] = found
            if problem is not None:
                problems.append(problem)
        self.owners.changed()
        if self.owners.read:
            self._cache.groups.serve(MADE_API)
        return problems

    def take_owners(self, objects: Iterable[Raw], missing: Mapping[str, str]) -> set[str]:
        """Takes the objects that groupings name, and all pods. `missing`: the kinds that could not be read, with the
        reason. Returns the kinds that count.
        """
        for kind in self.owners.read:
            why = missing.get(kind[1])
            self.owners.problems[kind] = f"the API server does not serve {kind[1]}" if why == NOT_SERVED else why or ""
        if not self.owners.read:
            return set()
        pods: dict[str, Raw] = {}
        for raw in objects:
            metadata = raw.get("metadata")
            if isinstance(metadata, Mapping) and (kind := kind_of(raw)) == POD:
                pods[str(metadata.get("uid"))] = raw
            elif isinstance(metadata, Mapping):
                with suppress(InvalidObjectError):  # the API server would refuse it
                    self.take_owner(raw, kind)
        self._pods = pods
        return {kind[1] for kind in self.owners.read}

    def take_owner(self, raw: Raw, kind: Kind) -> OwnerObject | None:
        """None if groupings do not read it. Raises InvalidObjectError."""
        version = str(raw.get("apiVersion") or "").rpartition("/")[2]
        if version not in self.owners.read.get(kind, ()):
            return None
        owner = owner_object(kind, version, raw)
        self.owners.seen(owner)
        return owner

    def joined(self, pod: PodInfo, put: Put, *, anew: bool = False) -> PodInfo:
        """The pod as a member of its group, which is made if it does not exist. `anew`: also if its owner has
        changed.
        """
        groups = self._cache.groups
        if not self.owners.read or pod.owner is None or (pod.group and groups.is_member(pod)):
            return pod
        try:
            raw = body_of(pod) or self._pods.get(pod.uid) or _BARE
            found = self.owners.group_of(pod, pod.owner, raw, smallest=0 if anew else 2)
        except UnusableError as problem:
            if not problem.waits:
                return pod
            key = group_key(MADE_API, pod.namespace, f"?{problem.owner.uid}")
            groups.awaited[key] = str(problem)
            return replace(pod, group=key)
        if found is None:
            return pod
        done = self._succeeded.setdefault(found.group, set())
        if pod.phase == "Succeeded":
            done.add(pod.uid)
        parts = self._parts.setdefault(found.group, {})
        is_new = bool(found.part) and found.size not in parts.values()
        size = parts.setdefault(found.part, found.size) if found.part else 0
        if anew or pod.phase == "Succeeded" or groups.get(found.group) is None or is_new:
            put(MADE_KIND, found.group_object(max(1, found.count - len(done)), parts.values()))
        return replace(pod, group=found.group, task=part_of_made(found.part, size) if size and not done else "")

    def _pod(self, uid: str) -> OwnerObject | None:
        raw = self._pods.get(uid)
        return None if raw is None else owner_object(POD, "v1", raw)


@dataclass(frozen=True, slots=True)
class ReadOwners:
    """The objects that groupings read: kinds of owners with versions, and the fields to keep."""

    kinds: Mapping[Kind, Sequence[str]]
    named: Mapping[Kind, Named]

    @classmethod
    def by(cls, groupings: Iterable[Raw]) -> ReadOwners:
        owners, texts = Owners(lambda _uid: None), dict[Kind, list[str]]()
        for grouping in filter(None, (grouping_in_force(raw)[0] for raw in groupings)):
            owners.groupings[grouping.name] = grouping
            for kind in grouping.read:
                texts.setdefault(kind, []).extend(grouping.texts)
        owners.changed()
        return cls(owners.read, {kind: Named.by(texts[kind]) for kind in owners.read})

    @property
    def annotations(self) -> Sequence[str]:
        """Patterns of the annotations that expressions may read."""
        return [escape(each) for each in sorted({each for named in self.named.values() for each in named.literals})]


_BARE: Raw = {"metadata": {}}


def kind_of(raw: Raw) -> Kind:
    return str(raw.get("apiVersion") or "").rpartition("/")[0], str(raw.get("kind"))
