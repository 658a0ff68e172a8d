"""The status fields of PodGroups of `scheduling.x-k8s.io`, of Volcano and of Grove: their phase, and counts of their
members.

Assigned members are counted from their stream, since finished pods leave the cache; pending members are counted from
the cache. A group whose members all belong to another scheduler is left to that scheduler. Changes are collected for a
moment and handed to `status`, which writes them. Phases and fields follow the documentation and the controller of the
scheduler-plugins project, and `PodGroupPhase` in Volcano's API; operators create pods once a group is Inqueue.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podwright.api.volcano_queue import VOLCANO_SCHEDULER
from podwright.core.gangs.topology_domains import domains_of
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod_group import (
    GROUP_ANNOTATIONS,
    GROUP_LABEL,
    GROVE_API,
    GROVE_KIND,
    GROVE_LABEL,
    OLD_GROUP_LABEL,
    PLUGINS_API,
    VOLCANO_API,
    PodGroup,
    groups_named,
)
from podwright.core.objects.times import rfc3339
from podwright.engine.engine import Engine
from podwright.kube.pod_groups.group_status import PodGroupStatusWriter
from podwright.kube.watch.reflector import TakesPodTexts

COLLECT_SECONDS: Final = 0.5
"""How long changes are collected before they are written."""
SETTLE_SECONDS: Final = 2.0
"""How long after the caches are complete the first fields are written. Kopf brings the pending pods meanwhile."""

PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
UNKNOWN: Final = "Unknown"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"
INQUEUE: Final = "Inqueue"
COMPLETED: Final = "Completed"
STARTING: Final = "Starting"
_LABELS: Final = frozenset((GROUP_LABEL, OLD_GROUP_LABEL, GROVE_LABEL))
_ANNOTATIONS: Final = frozenset(GROUP_ANNOTATIONS)
_ENDED: Final = (FINISHED, FAILED)
_PLACED_ONCE: Final = (SCHEDULED, RUNNING, UNKNOWN)
_COUNTED: Final = (PLUGINS_API, VOLCANO_API, GROVE_API)
"""The APIs whose status has a phase."""


@dataclass(frozen=True, slots=True)
class MemberCounts:
    """Numbers of a group's members: all, with a node, and of the latter in each phase."""

    total: int
    scheduled: int
    running: int
    succeeded: int
    failed: int


def phase(before: str, min_count: int, counts: MemberCounts) -> str:
    """The group's phase; `min_count` members make it complete. A finished or failed group stays so."""
    if before in _ENDED:
        return before
    if counts.succeeded >= min_count:
        return FINISHED
    active = counts.running + counts.succeeded
    if counts.failed and active + counts.failed >= min_count:
        return FAILED
    if counts.total < min_count:
        return PENDING
    if active >= min_count:
        return RUNNING
    if counts.scheduled >= min_count:
        return SCHEDULED
    return UNKNOWN if counts.scheduled and before in _PLACED_ONCE else SCHEDULING


def volcano_phase(before: str, min_count: int, counts: MemberCounts) -> str:
    """The phase of a group of Volcano. As there, those that have failed or succeeded count as scheduled, but while
    others run, those that have failed are missing. A completed group stays so until it has other members with a node.
    Sources: `getPodGroupPhase` in `pkg/scheduler/framework/session.go`, and `OnSessionClose` in
    `pkg/scheduler/plugins/gang/gang.go`, at v1.16.0-alpha.1-42-ged72c7c8.
    """
    ended = counts.succeeded + counts.failed
    if before == COMPLETED and ended == counts.scheduled:
        return COMPLETED
    if counts.running and counts.scheduled - counts.failed < min_count:
        return UNKNOWN
    if counts.scheduled < min_count:
        return INQUEUE
    return COMPLETED if ended == counts.scheduled else RUNNING


def grove_phase(min_count: int, counts: MemberCounts) -> str:
    """The phase of a PodGang."""
    if counts.running + counts.succeeded >= min_count:
        return RUNNING
    return STARTING if counts.scheduled >= min_count else PENDING


def _is_counted(key: str) -> bool:
    return key.startswith(_COUNTED)


@dataclass(frozen=True, slots=True)
class _Member:
    """A member with a node. `ours`: it asks for a scheduler name that we serve."""

    group: str
    phase: str
    ours: bool
    owners: str
    named: Sequence[str] = ()
    """The groups that it names, if there are several. `group` is that which counts."""


class PodGroupPhases:
    """See the module. `run` is the work; `clock` gives seconds since the epoch."""

    def __init__(self, engine: Engine, writer: PodGroupStatusWriter, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._writer = writer
        self._clock = clock
        self._by_uid: dict[str, _Member] = {}
        self._by_group: dict[str, dict[str, _Member]] = {}
        self._written: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """By group: its uid, and the fields that we wrote last."""
        self._changed: set[str] = set()
        self._has_changes = asyncio.Event()
        self._running = False
        compact_regularly(self)
        engine.cache.groups.listen(self._mark_changed)
        engine.cache.groups.listen_to_apis(self._choose_again)

    def counting(self, sink: TakesPodTexts) -> TakesPodTexts:
        """A sink for assigned pods that counts members and passes everything on to `sink`."""
        return _CountingSink(sink, self)

    async def run(self, complete: asyncio.Event) -> None:
        """Writes changes until it is cancelled, once the caches are `complete`."""
        await complete.wait()
        await asyncio.sleep(SETTLE_SECONDS)
        self._running = True
        while True:
            await self._has_changes.wait()
            await asyncio.sleep(COLLECT_SECONDS)
            self.write_changes()

    def finish(self) -> None:
        """Writes the last changes at the end; none if the caches never were complete."""
        if self._running:
            self.write_changes()

    def write_changes(self) -> None:
        """Hands the fields of changed groups to the writer."""
        changed, self._changed = self._changed, set()
        self._has_changes.clear()
        for key in changed:
            group = self._engine.cache.groups.get(key)
            if group is None:
                self._written.pop(key, None)
            elif self._is_ours(group):
                self._write(group)

    # Assigned members

    @property
    def members(self) -> int:
        """The number of assigned members of all groups."""
        return len(self._by_uid)

    def placed(self, raw: Mapping[str, Any]) -> None:
        """An assigned pod was added, or has changed. Never raises."""
        try:
            metadata, spec = raw["metadata"], raw["spec"]
            namespace = str(metadata.get("namespace") or "default")
            named = groups_named(spec, metadata.get("labels") or {}, namespace, metadata.get("annotations"))
            uid, ours = str(metadata["uid"]), self._engine.policies.serves(str(spec.get("schedulerName")))
            pod_phase = str((raw.get("status") or {}).get("phase") or "")
            owners, several = _owners_of(raw), named if len(named) > 1 else ()
            member = _Member(self._of(named), pod_phase, ours=ours, owners=owners, named=several)
        except (InvalidObjectError, KeyError, TypeError, AttributeError):
            return  # the cache has reported it as invalid
        self._put(uid, member)

    def _put(self, uid: str, member: _Member) -> None:
        before = self._by_uid.get(uid)
        if before == member:
            return
        if before is not None and before.group != member.group:
            self.gone(uid)
        if any(map(_is_counted, (member.group, *member.named))):
            self._by_uid[uid] = self._by_group.setdefault(member.group, {})[uid] = member
            self._mark_changed(member.group)

    def _choose_again(self, _uids: Collection[str]) -> None:
        """Other APIs are served now."""
        for uid, member in [*self._by_uid.items()]:
            if member.named:
                self._put(uid, replace(member, group=self._of(member.named)))

    def _of(self, named: Sequence[str]) -> str:
        """The one of the groups that a pod names that counts."""
        return self._engine.cache.groups.counting(named) or next(iter(named), "")

    def gone(self, uid: str) -> None:
        """An assigned pod is gone. It need not be a member of a group."""
        member = self._by_uid.pop(uid, None)
        if member is not None:
            drop(self._by_group, member.group, uid)
            self._mark_changed(member.group)

    # Fields

    def _mark_changed(self, key: str) -> None:
        if _is_counted(key):
            self._changed.add(key)
            self._has_changes.set()

    def _is_ours(self, group: PodGroup) -> bool:
        """True if no other scheduler owns the group: it has a member that we schedule, or no members, and we schedule
        in place of Volcano if it is Volcano's. False if Grove made it beside a PodGang, to which the pods belong.
        """
        key, groups = group.key, self._engine.cache.groups
        placed, waiting = self._by_group.get(key, {}), groups.members(key).waiting
        if waiting or any(member.ours for member in placed.values()):
            return True
        beside_gang = GROVE_API in groups.served and group.workload == f"{GROVE_KIND} {group.label}"
        if placed or beside_gang or group.api == GROVE_API:
            return False
        return not key.startswith(VOLCANO_API) or self._engine.policies.serves(VOLCANO_SCHEDULER)

    def _write(self, group: PodGroup) -> None:
        uid, written = self._written.get(group.key, ("", {}))
        if uid != group.uid:
            written = self._writer.fields_of(group.key)
        before = str(written.get("phase") or "")
        if before in _ENDED:
            return
        counts = self._count(group.key)
        if group.api == GROVE_API:
            self._set(group, {"phase": grove_phase(group.min_count, counts), **self._placement_score(group)})
            return
        fields: dict[str, Any] = {
            "running": counts.running,
            "succeeded": counts.succeeded,
            "failed": counts.failed,
        }
        if group.api == VOLCANO_API:
            fields["phase"] = volcano_phase(before, group.min_count, counts)
            if before == fields["phase"] == COMPLETED:
                return  # with the counts that it had
        else:
            fields |= self._times_and_owners(group, written, phase(before, group.min_count, counts), counts)
        self._set(group, fields)

    def _set(self, group: PodGroup, fields: Mapping[str, Any]) -> None:
        self._written[group.key] = (group.uid, fields)
        self._writer.set_fields(group.key, fields)

    def _placement_score(self, group: PodGroup) -> Mapping[str, float]:
        """1 if all placed members are in one domain of the preferred label, else the part of 1 that is left to each
        domain. Only of a gang whose minimum is placed.
        """
        cache = self._engine.cache
        if not cache.groups.minimum_placed(group):
            return {}
        preferred = group.near.preferred
        used = domains_of(cache, preferred, cache.groups.members(group.key).staying) if preferred else ()
        return {"placementScore": round(1 / max(1, len(used)), 3)}

    def _times_and_owners(
        self, group: PodGroup, written: Mapping[str, Any], now: str, counts: MemberCounts
    ) -> Mapping[str, Any]:
        """The fields that only groups of scheduling.x-k8s.io have. `now`: their phase."""
        fields: dict[str, Any] = {"phase": now, "scheduled": counts.scheduled}
        started = written.get("scheduleStartTime")
        if started or fields["phase"] != PENDING:
            fields["scheduleStartTime"] = started or rfc3339(self._clock())
        owners = written.get("occupiedBy") or next(filter(None, self._owners(group.key)), "")
        if owners:
            fields["occupiedBy"] = owners
        return fields

    def _count(self, key: str) -> MemberCounts:
        placed = self._by_group.get(key, {})
        phases = Counter(member.phase for member in placed.values())
        waiting = self._engine.cache.groups.members(key).waiting
        total = len(placed.keys() | waiting.keys())
        return MemberCounts(
            total=total,
            scheduled=len(placed),
            running=phases["Running"],
            succeeded=phases["Succeeded"],
            failed=phases["Failed"],
        )

    def _owners(self, key: str) -> Iterable[str]:
        for pod in self._engine.cache.groups.members(key).waiting.values():
            if pod.raw is not None:
                yield _owners_of(pod.raw)
        for member in self._by_group.get(key, {}).values():
            yield member.owners


class _CountingSink:
    """Passes assigned pods on to another sink, and those that name a group by label or annotation to the phases,
    too.
    """

    takes_pod_texts = True

    def __init__(self, sink: TakesPodTexts, phases: PodGroupPhases) -> None:
        self._sink = sink
        self._phases = phases
        self.key = sink.key
        self.held = sink.held

    def put(self, raw: Mapping[str, Any]) -> None:
        self.put_all((raw,))

    def put_all(self, raws: Sequence[Mapping[str, Any]]) -> None:
        self._sink.put_all(raws)
        for raw in raws:
            self._count(raw)

    def _count(self, raw: Mapping[str, Any]) -> None:
        labels, annotations = raw["metadata"].get("labels") or (), raw["metadata"].get("annotations") or ()
        try:
            names_group = not _LABELS.isdisjoint(labels) or not _ANNOTATIONS.isdisjoint(annotations)
        except TypeError:  # the cache has reported it as invalid
            names_group = False
        if names_group:
            self._phases.placed(raw)
        elif self._phases.members:
            self._phases.gone(raw["metadata"].get("uid"))

    def drop(self, key: str, raw: Mapping[str, Any] | None) -> None:
        self._sink.drop(key, raw)
        self._phases.gone(key)


def _owners_of(raw: Mapping[str, Any]) -> str:
    """The pod's owners as the status names them: `namespace/name`, sorted, separated by commas."""
    metadata = raw["metadata"]
    namespace = metadata.get("namespace") or "default"
    return ",".join(sorted(f"{namespace}/{owner['name']}" for owner in metadata.get("ownerReferences") or ()))
