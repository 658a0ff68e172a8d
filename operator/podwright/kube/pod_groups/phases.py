"""What the status of a `scheduling.x-k8s.io` PodGroup should say: its phase, and how many members are where.

Members with a node are counted where their stream comes in, since finished pods leave the cache; those that wait are the
cache's. A group whose members are all another scheduler's is left to that one. Changes are gathered for a moment and written
by `group_status`. Source of phases and fields: the documentation and the controller of the scheduler-plugins project.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod_group import GROUP_LABEL, OLD_GROUP_LABEL, PLUGINS_API, PodGroup, group_of
from podwright.engine.engine import Engine
from podwright.kube.client.times import rfc3339
from podwright.kube.pod_groups.status import PodGroupStatusWriter
from podwright.kube.watch.reflector import Holding

GATHER_SECONDS: Final = 0.5
SETTLE_SECONDS: Final = 2.0
"""After the caches are complete, until pending pods that Kopf brings are there, too."""

PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
UNKNOWN: Final = "Unknown"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"
_ENDED: Final = (FINISHED, FAILED)
_PLACED_ONCE: Final = (SCHEDULED, RUNNING, UNKNOWN)
_PREFIX: Final = f"{PLUGINS_API}:"


@dataclass(frozen=True, slots=True)
class Counts:
    """A group's members: all of them, those with a node, and of these by phase."""

    total: int
    scheduled: int
    running: int
    succeeded: int
    failed: int


def phase(before: str, least: int, counts: Counts) -> str:
    """The group's phase; `least` members make it complete. A group that has ended stays so."""
    if before in _ENDED:
        return before
    if counts.succeeded >= least:
        return FINISHED
    active = counts.running + counts.succeeded
    if counts.failed and active + counts.failed >= least:
        return FAILED
    if counts.total < least:
        return PENDING
    if active >= least:
        return RUNNING
    if counts.scheduled >= least:
        return SCHEDULED
    return UNKNOWN if counts.scheduled and before in _PLACED_ONCE else SCHEDULING


@dataclass(frozen=True, slots=True)
class _Member:
    """A member with a node."""

    key: str
    phase: str
    ours: bool
    owners: str


class PodGroupPhases:
    """See the module. `run` is the work; `clock` gives seconds since the epoch."""

    def __init__(self, engine: Engine, writer: PodGroupStatusWriter, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._writer = writer
        self._clock = clock
        self._by_uid: dict[str, _Member] = {}
        self._by_group: dict[str, dict[str, _Member]] = {}
        self._said: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """By group: its uid, and what we said of it last."""
        self._changed: set[str] = set()
        self._any = asyncio.Event()
        self._begun = False
        engine.cache.groups.listen(self._touch)

    def watching(self, sink: Holding) -> Holding:
        """The stream of pods with a node, looked at on its way to `sink`."""
        return _Watched(sink, self)

    async def run(self, complete: asyncio.Event) -> None:
        """Says what has changed until it is cancelled, once the caches are `complete`."""
        await complete.wait()
        await asyncio.sleep(SETTLE_SECONDS)
        self._begun = True
        while True:
            await self._any.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self.say()

    def finish(self) -> None:
        """What is left to say at the end; nothing if too little was known ever to begin."""
        if self._begun:
            self.say()

    def say(self) -> None:
        """Hands what has changed to the writer."""
        changed, self._changed = self._changed, set()
        self._any.clear()
        for key in changed:
            group = self._engine.cache.groups.get(key)
            if group is None:
                self._said.pop(key, None)
            elif self._is_ours(key):
                self._say(group)

    # Members with a node

    @property
    def members(self) -> int:
        """How many there are, in all groups."""
        return len(self._by_uid)

    def placed(self, raw: Mapping[str, Any]) -> None:
        """A pod with a node is there, or changed. Never raises."""
        try:
            metadata, spec = raw["metadata"], raw["spec"]
            key = group_of(spec, metadata["labels"], str(metadata.get("namespace") or "default"))
            uid, ours = str(metadata["uid"]), self._engine.policies.serves(str(spec.get("schedulerName")))
            where = str((raw.get("status") or {}).get("phase") or "")
            member = _Member(key, where, ours, _owners(raw))
        except (InvalidObjectError, KeyError, TypeError, AttributeError):
            return  # the cache has complained of it
        before = self._by_uid.get(uid)
        if before == member:
            return
        if before is not None and before.key != key:
            self.gone(uid)
        if key.startswith(_PREFIX):
            self._by_uid[uid] = self._by_group.setdefault(key, {})[uid] = member
            self._touch(key)

    def gone(self, uid: str) -> None:
        """A pod with a node is there no more; one that is in no group is no error."""
        member = self._by_uid.pop(uid, None)
        if member is not None:
            members = self._by_group[member.key]
            del members[uid]
            if not members:
                del self._by_group[member.key]
            self._touch(member.key)

    # What is to be said

    def _touch(self, key: str) -> None:
        if key.startswith(_PREFIX):
            self._changed.add(key)
            self._any.set()

    def _is_ours(self, key: str) -> bool:
        """Whether nobody else looks after the group: one member of ours is enough, or none at all."""
        placed = self._by_group.get(key, {})
        waiting = self._engine.cache.groups.members(key).waiting
        return bool(waiting) or not placed or any(member.ours for member in placed.values())

    def _say(self, group: PodGroup) -> None:
        uid, said = self._said.get(group.key, ("", {}))
        if uid != group.uid:
            said = self._writer.fields_of(group.key)
        before = str(said.get("phase") or "")
        if before in _ENDED:
            return
        counts = self._count(group.key)
        fields: dict[str, Any] = {
            "phase": phase(before, group.min_count, counts),
            "scheduled": counts.scheduled,
            "running": counts.running,
            "succeeded": counts.succeeded,
            "failed": counts.failed,
        }
        started = said.get("scheduleStartTime")
        if started or fields["phase"] != PENDING:
            fields["scheduleStartTime"] = started or rfc3339(self._clock())
        owners = said.get("occupiedBy") or next(filter(None, self._owners(group.key)), "")
        if owners:
            fields["occupiedBy"] = owners
        self._said[group.key] = (group.uid, fields)
        self._writer.set_fields(group.key, fields)

    def _count(self, key: str) -> Counts:
        placed = self._by_group.get(key, {})
        phases = Counter(member.phase for member in placed.values())
        waiting = self._engine.cache.groups.members(key).waiting
        total = len(placed.keys() | waiting.keys())
        return Counts(total, len(placed), phases["Running"], phases["Succeeded"], phases["Failed"])

    def _owners(self, key: str) -> Iterable[str]:
        for pod in self._engine.cache.groups.members(key).waiting.values():
            if pod.raw is not None:
                yield _owners(pod.raw)
        for member in self._by_group.get(key, {}).values():
            yield member.owners


class _Watched:
    """A sink in front of another one, which tells of pods that name a group by label."""

    def __init__(self, sink: Holding, phases: PodGroupPhases) -> None:
        self._sink = sink
        self._phases = phases
        self.key = sink.key
        self.held = sink.held

    def put(self, raw: Mapping[str, Any]) -> None:
        self._sink.put(raw)
        labels = raw["metadata"].get("labels")
        if labels and (GROUP_LABEL in labels or OLD_GROUP_LABEL in labels):
            self._phases.placed(raw)
        elif self._phases.members:
            self._phases.gone(raw["metadata"].get("uid"))

    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        self._sink.drop(key, raw)
        self._phases.gone(key)


def _owners(raw: Mapping[str, Any]) -> str:
    """The pod's owners as the status names them: `namespace/name`, sorted, with commas between."""
    metadata = raw["metadata"]
    namespace = metadata.get("namespace") or "default"
    return ",".join(sorted(f"{namespace}/{owner['name']}" for owner in metadata.get("ownerReferences") or ()))
