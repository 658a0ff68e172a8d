"""The status of pod groups: conditions of all APIs, and the fields of the custom resources.

Invariant: what a status says already is not written again, and a group that was scheduled once is never called
unscheduled. Types, reasons and rules follow the API reference of PodGroup and kube-scheduler's own writes. `phases`
decides what the fields say, engine/attempts/gangs what the conditions say; retries are in kube/write/queued_status.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod_group import APIS, GROVE_KIND, KAI_KIND, KIND, VOLCANO_KIND, PodGroup, group_key
from podwright.core.objects.raw import mapping_at
from podwright.core.objects.times import rfc3339
from podwright.core.state.object_store import key_of
from podwright.engine.ports import UNSCHEDULABLE, Verdict
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import MERGE_PATCH, STRATEGIC_PATCH
from podwright.kube.client.object_metadata import conditions_of
from podwright.kube.kinds import Resource
from podwright.kube.pod_groups import kai_conditions
from podwright.kube.write.queued_status import QueuedStatusWriter

log = logging.getLogger(__name__)

SCHEDULED: Final = "PodGroupInitiallyScheduled"
SCHEDULED_IN_V1ALPHA2: Final = "PodGroupScheduled"
SCHEDULED_IN_VOLCANO: Final = "Scheduled"
WAITING_IN_VOLCANO: Final = "Unschedulable"
"""True while a group of Volcano waits."""
VOLCANO_REASONS: Final = {UNSCHEDULABLE: "NotEnoughResources"}
"""Volcano's names of reasons."""
DISRUPTED: Final = "DisruptionTarget"
MINIMUM: Final = "podwright.dev/MinimumPlaced"
"""False while a gang that was scheduled once has fewer pods than its minimum. Groups to which that never happened do
not have it.
"""
LONGEST_MESSAGE: Final = 32_768
"""Characters that a condition's message may have."""


_SCHEDULED: Final = (SCHEDULED, SCHEDULED_IN_V1ALPHA2, SCHEDULED_IN_VOLCANO)


def was_scheduled(conditions: Mapping[str, Mapping[str, Any]]) -> bool:
    """True if these conditions say that the group was scheduled once."""
    return any(conditions.get(kind, {}).get("status") == "True" for kind in _SCHEDULED)


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """The new content of a condition, for this generation of the group."""

    status: str
    reason: str
    message: str
    generation: int

    def equals(self, raw: Mapping[str, Any]) -> bool:
        """True if a condition of the API says the same."""
        said = (raw.get("status"), raw.get("reason"), raw.get("message") or "", raw.get("observedGeneration") or 0)
        return said == (self.status, self.reason, self.message, self.generation)


@dataclass(slots=True, kw_only=True)
class _KnownGroup:
    """A group's status as it was read last, or as the response to our patch showed it."""

    kind: str
    namespace: str
    name: str
    uid: str
    conditions: dict[str, Mapping[str, Any]]
    fields: dict[str, Any]
    scheduled_once: bool
    version: str
    """The resourceVersion."""
    pool: str = ""
    """The node pool of a group of KAI."""
    written: Mapping[str, Any] | None = None
    """The fields that we wrote last. A change by another client stays: two writers that both restore their value would
    never stop.
    """

    def differs_from(self, fields: Mapping[str, Any]) -> bool:
        """True if these fields have to be written. A missing count is 0."""
        if fields == self.written:
            return False
        return any((self.fields.get(name) or None) != (value or None) for name, value in fields.items())


@dataclass(slots=True)
class _Change:
    """A change of the status: conditions by type, and fields; None leaves the fields unchanged."""

    about: str
    uid: str
    conditions: dict[str, GroupCondition] = field(default_factory=dict)
    fields: Mapping[str, Any] | None = None
    failures: int = 0

    def absorb(self, older: _Change) -> None:
        if older.uid != self.uid:
            return  # of another group, which had the same name
        self.conditions = {**older.conditions, **self.conditions}
        self.fields = older.fields if self.fields is None else self.fields


class PodGroupStatusWriter(QueuedStatusWriter[_KnownGroup, _Change]):
    """Implements `GroupWriter`. Groups are known by their key."""

    written = "the status of pod groups"

    def __init__(self, http: Http, clock: Callable[[], float]) -> None:
        super().__init__(http, clock)
        self._resources: dict[str, Resource] = {}
        self._without_conditions: set[str] = set()
        """Kinds whose schema lacks conditions: the API server prunes them."""
        self._refusals: set[tuple[str, int]] = set()
        """Kinds and HTTP statuses of refusals that were logged."""

    # What the status says

    def use_version(self, kind: str, resource: Resource) -> None:
        """Groups of this kind are written at this version from now on."""
        self._resources[kind] = resource
        self._without_conditions.discard(kind)

    def seen(self, kind: str, raw: Mapping[str, Any]) -> None:
        """The group as the API server has it."""
        namespace, name = key_of(raw)
        key = group_key(APIS[kind], namespace, name)
        uid = str(raw["metadata"].get("uid") or "")
        fields = dict(mapping_at(raw, "status"))
        fields.pop("conditions", None)
        conditions, pool = conditions_of(raw), ""
        if kind == KAI_KIND:
            pool = kai_conditions.pool_of(raw)
            waiting = kai_conditions.waiting_of(fields, pool)
            conditions = {} if waiting is None else {SCHEDULED: waiting}
        before = self._known.get(key)
        known = _KnownGroup(
            kind=kind,
            namespace=namespace,
            name=name,
            uid=uid,
            conditions=conditions,
            fields=fields,
            scheduled_once=was_scheduled(conditions),
            version=str(raw["metadata"].get("resourceVersion") or ""),
            pool=pool,
        )
        if before is not None and before.uid == uid:
            known.scheduled_once, known.written = known.scheduled_once or before.scheduled_once, before.written
        self._known[key] = known

    def fields_of(self, key: str) -> Mapping[str, Any]:
        """Returns the fields of the group's status besides conditions; empty for an unknown group."""
        known = self._known.get(key)
        return known.fields if known is not None else {}

    # What it is to say

    def scheduled(self, group: PodGroup) -> None:
        known = self._known.get(group.key)
        if known is not None:
            known.scheduled_once = True
            condition = GroupCondition("True", "Scheduled", "", group.generation)
            self._enqueue_condition(group.key, self._scheduled_type(known), condition)
            change = self._queue.get(group.key)
            if MINIMUM in known.conditions or (change is not None and MINIMUM in change.conditions):
                self._enqueue_condition(group.key, MINIMUM, condition)

    def not_scheduled(self, group: PodGroup, verdict: Verdict) -> None:
        known = self._known.get(group.key)
        if known is not None and not known.scheduled_once:
            condition = GroupCondition("False", verdict.reason, verdict.message[:LONGEST_MESSAGE], group.generation)
            self._enqueue_condition(group.key, self._scheduled_type(known), condition)

    def below_minimum(self, group: PodGroup, verdict: Verdict) -> None:
        known = self._known.get(group.key)
        if known is not None and known.scheduled_once:
            condition = GroupCondition("False", verdict.reason, verdict.message[:LONGEST_MESSAGE], group.generation)
            self._enqueue_condition(group.key, MINIMUM, condition)

    def disrupted(self, group: PodGroup, message: str) -> None:
        condition = GroupCondition("True", "PreemptionByScheduler", message[:LONGEST_MESSAGE], group.generation)
        self._enqueue_condition(group.key, DISRUPTED, condition)

    def set_fields(self, key: str, fields: Mapping[str, Any]) -> None:
        """Sets these fields of the group's status."""
        known = self._known.get(key)
        if known is not None and (key in self._queue or known.differs_from(fields)):
            self._queued_change(key).fields = fields

    def _scheduled_type(self, known: _KnownGroup) -> str:
        if known.kind in (VOLCANO_KIND, GROVE_KIND):
            return SCHEDULED_IN_VOLCANO
        resource = self._resources.get(known.kind)
        return SCHEDULED_IN_V1ALPHA2 if resource is not None and resource.version == "v1alpha2" else SCHEDULED

    def _enqueue_condition(self, key: str, kind: str, condition: GroupCondition) -> None:
        known = self._known.get(key)
        if known is None or known.kind in self._without_conditions:
            return
        if known.kind == KAI_KIND:
            # KAI knows this condition alone, without a generation, and only while the group waits.
            waits = condition.status != "True"
            if kind != SCHEDULED or not (waits or known.conditions or key in self._queue):
                return
            condition = replace(condition, generation=0)
        elif known.kind == VOLCANO_KIND:
            condition = replace(condition, generation=0)  # its conditions have none
            if kind == SCHEDULED_IN_VOLCANO and condition.status != "True":
                reason = VOLCANO_REASONS.get(condition.reason, condition.reason)
                kind, condition = WAITING_IN_VOLCANO, replace(condition, status="True", reason=reason)
        if key in self._queue or not condition.equals(known.conditions.get(kind, {})):
            self._queued_change(key).conditions[kind] = condition

    def _queued_change(self, key: str) -> _Change:
        """The queued change of the group, which is known, or a new one."""
        change, uid = self._queue.get(key), self._known[key].uid
        if change is None or change.uid != uid:
            change = _Change(f"pod group {key}", uid)
            self._queue.add(key, change)
        return change

    # Writing

    def _first_refusal(self, key: str, error: ClusterError) -> bool:
        refusal = (self._known[key].kind, error.status)
        if refusal in self._refusals:
            return False
        self._refusals.add(refusal)
        return True

    async def _write(self, key: str, change: _Change) -> None:
        known = self._known.get(key)
        resource = None if known is None else self._resources.get(known.kind)
        if known is None or resource is None or known.uid != change.uid:
            return
        conditions = self._conditions_to_write(known, change)
        fields = change.fields if change.fields is not None and known.differs_from(change.fields) else None
        if not conditions and fields is None:
            return
        status = dict(fields or {})
        if conditions and known.kind == KAI_KIND:
            status[kai_conditions.FIELD] = kai_conditions.written(known.fields, known.pool, conditions[-1])
        elif conditions:
            status["conditions"] = conditions
        metadata = {"uid": known.uid}
        if conditions and known.kind != KIND:
            # The patch replaces the whole list: only if it is still the one that we know, with what others wrote.
            metadata["resourceVersion"] = known.version
        body = {"metadata": metadata, "status": status}
        path = resource.path(known.name, known.namespace, "status")
        answer = await self._http.call("PATCH", path, body, STRATEGIC_PATCH if known.kind == KIND else MERGE_PATCH)
        if fields is not None:
            known.written = fields
        if self._known.get(key) is not known:
            return  # meanwhile the watch has shown a newer status, or a deletion
        self.seen(known.kind, answer)
        if "conditions" in status and not conditions_of(answer) and known.kind not in self._without_conditions:
            self._without_conditions.add(known.kind)
            log.info(
                "%s has no conditions in its schema: only events and pods say why a group waits", resource.collection
            )

    def _conditions_to_write(self, known: _KnownGroup, change: _Change) -> list[Mapping[str, Any]]:
        """The conditions of the patch. A merge patch replaces the custom resource's list, so there it is the whole
        list.
        """
        found: dict[str, Mapping[str, Any]] = {}
        for kind, condition in change.conditions.items():
            before = known.conditions.get(kind, {})
            waits = kind == WAITING_IN_VOLCANO or (kind in _SCHEDULED and condition.status != "True")
            undoes_scheduled = known.scheduled_once and waits
            if condition.equals(before) or undoes_scheduled:
                continue
            same = before.get("status") == condition.status
            found[kind] = {
                "type": kind,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": condition.generation,
                "lastTransitionTime": before["lastTransitionTime"]
                if same and before.get("lastTransitionTime")
                else rfc3339(self._clock()),
            }
        if not found or known.kind in (KIND, KAI_KIND):
            return list(found.values())
        all_of_them = {**known.conditions, **found}
        if SCHEDULED_IN_VOLCANO in found:
            all_of_them.pop(WAITING_IN_VOLCANO, None)
        return list(all_of_them.values())
