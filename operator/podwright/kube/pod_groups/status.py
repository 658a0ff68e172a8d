"""The status of pod groups: conditions of both APIs, and the fields of the custom resource, patched behind the bindings.

WorkQueue are kept by group, the newest counts, and a few workers carry them out, one write a group at a time. What a status says
already is not written again, and that a group was scheduled once is never taken back. Source of types, reasons and rules:
the API reference of PodGroup, and kube-scheduler's own writes. What the fields should be is for `group_phases` to say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod_group import APIS, KIND, PodGroup, group_key
from podwright.core.state.object_store import key_of
from podwright.engine.ports import Verdict
from podwright.kube.client.errors import is_not_found, is_retryable_write, uid_mismatch
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import MERGE_PATCH, STRATEGIC_PATCH
from podwright.kube.client.objects import conditions_of
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import Resource
from podwright.kube.write.work_queue import PATIENCE, Work, WorkQueue

log = logging.getLogger(__name__)

SCHEDULED: Final = "PodGroupInitiallyScheduled"
SCHEDULED_OF_OLD: Final = "PodGroupScheduled"
"""What v1alpha2 calls it."""
DISRUPTED: Final = "DisruptionTarget"
LONGEST_MESSAGE: Final = 32_768
"""Characters that a condition's message may have."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a condition is to say of this generation."""

    status: str
    reason: str
    message: str
    generation: int

    def said_by(self, raw: Mapping[str, Any]) -> bool:
        """Whether a condition as it was read says so."""
        said = (raw.get("status"), raw.get("reason"), raw.get("message") or "", raw.get("observedGeneration") or 0)
        return said == (self.status, self.reason, self.message, self.generation)


@dataclass(slots=True)
class _Known:
    """A group's status as it was read last, or answered when we wrote it."""

    kind: str
    namespace: str
    name: str
    uid: str
    conditions: dict[str, Mapping[str, Any]]
    fields: dict[str, Any]
    once: bool
    """It was scheduled once."""
    written: Mapping[str, Any] | None = None
    """The fields that we wrote last. If somebody changes them, so be it: two that insist would write for ever."""


@dataclass(slots=True)
class _WorkItem:
    conditions: dict[str, Condition] = field(default_factory=dict)
    fields: Mapping[str, Any] | None = None
    tries: int = 0

    def absorb(self, older: _WorkItem) -> None:
        self.conditions = {**older.conditions, **self.conditions}
        self.fields = older.fields if self.fields is None else self.fields


class PodGroupStatusWriter:
    """Implements `GroupWriter`. `run` is the work; `clock` gives seconds since the epoch."""

    def __init__(self, http: Http, clock: Callable[[], float]) -> None:
        self._http = http
        self._clock = clock
        self._resources: dict[str, Resource] = {}
        self._known: dict[str, _Known] = {}
        self._work_queue = WorkQueue(Work[_WorkItem]("the status of pod groups", self._carry_out, self._failed))
        self._without_conditions: set[str] = set()
        """Kinds whose schema has none: the API server takes them out."""
        self._refusals: set[tuple[str, int]] = set()

    # What is there

    def serve(self, kind: str, resource: Resource) -> None:
        """Groups of this kind are written at this version from now on."""
        self._resources[kind] = resource
        self._without_conditions.discard(kind)

    def seen(self, kind: str, raw: Mapping[str, Any]) -> None:
        """The group as it is."""
        namespace, name = key_of(raw)
        key = group_key(APIS[kind], namespace, name)
        uid = str(raw["metadata"].get("uid") or "")
        status = raw.get("status")
        status = dict(status) if isinstance(status, Mapping) else {}
        conditions = conditions_of(raw)
        status.pop("conditions", None)
        once = any(conditions.get(kind, {}).get("status") == "True" for kind in (SCHEDULED, SCHEDULED_OF_OLD))
        before = self._known.get(key)
        known = self._known[key] = _Known(kind, namespace, name, uid, conditions, status, once)
        if before is not None and before.uid == uid:
            known.once, known.written = once or before.once, before.written

    def forget(self, key: str) -> None:
        """The group is gone."""
        self._known.pop(key, None)
        self._work_queue.drop(key)

    def fields_of(self, key: str) -> Mapping[str, Any]:
        """What the group's status says besides conditions; empty if it is not known."""
        known = self._known.get(key)
        return known.fields if known is not None else {}

    # What is wished for

    def scheduled(self, group: PodGroup) -> None:
        known = self._known.get(group.key)
        if known is not None:
            known.once = True
            self._work_item(group.key, self._type_of(known), Condition("True", "Scheduled", "", group.generation))

    def not_scheduled(self, group: PodGroup, verdict: Verdict) -> None:
        known = self._known.get(group.key)
        if known is not None and not known.once:
            message = verdict.message[:LONGEST_MESSAGE]
            self._work_item(
                group.key, self._type_of(known), Condition("False", verdict.reason, message, group.generation)
            )

    def disrupted(self, group: PodGroup, message: str) -> None:
        condition = Condition("True", "PreemptionByScheduler", message[:LONGEST_MESSAGE], group.generation)
        self._work_item(group.key, DISRUPTED, condition)

    def set_fields(self, key: str, fields: Mapping[str, Any]) -> None:
        """Sets these fields of the group's status."""
        known = self._known.get(key)
        if known is not None and (self._work_queue.open(key) or self._lacking(known, fields)):
            self._wished(key).fields = fields

    def _type_of(self, known: _Known) -> str:
        resource = self._resources.get(known.kind)
        return SCHEDULED_OF_OLD if resource is not None and resource.version == "v1alpha2" else SCHEDULED

    def _work_item(self, key: str, kind: str, condition: Condition) -> None:
        known = self._known.get(key)
        if known is None or known.kind in self._without_conditions:
            return
        if self._work_queue.open(key) or not condition.said_by(known.conditions.get(kind, {})):
            self._wished(key).conditions[kind] = condition

    def _wished(self, key: str) -> _WorkItem:
        wish = self._work_queue.get(key)
        if wish is None:
            wish = _WorkItem()
            self._work_queue.add(key, wish)
        return wish

    # Writing

    async def run(self) -> None:
        """Writes what is wished for, until it is cancelled."""
        await self._work_queue.run()

    async def flush(self, grace: float) -> None:
        """Waits until nothing waits to be written, at most `grace` seconds."""
        await self._work_queue.flush(grace)

    def _failed(self, key: str, wish: _WorkItem, error: ClusterError) -> None:
        if is_not_found(error) or uid_mismatch(error):
            return
        known = self._known.get(key)
        if known is None:
            return
        wish.tries += 1
        lasting = not is_retryable_write(error)
        if wish.tries == PATIENCE or (lasting and (known.kind, error.status) not in self._refusals):
            log.warning("cannot write the status of pod group %s: %s", key, error)
        if lasting:
            self._refusals.add((known.kind, error.status))
            return
        self._work_queue.again(key, wish, error)

    async def _carry_out(self, key: str, wish: _WorkItem) -> None:
        known = self._known.get(key)
        resource = None if known is None else self._resources.get(known.kind)
        if known is None or resource is None:
            return
        conditions = self._conditions(known, wish)
        fields = wish.fields if wish.fields is not None and self._lacking(known, wish.fields) else None
        if not conditions and fields is None:
            return
        status = dict(fields or {})
        if conditions:
            status["conditions"] = conditions
        body = {"metadata": {"uid": known.uid}, "status": status}
        path = resource.path(known.name, known.namespace, "status")
        form = STRATEGIC_PATCH if known.kind == KIND else MERGE_PATCH
        answer = await self._http.call("PATCH", path, body, form)
        if fields is not None:
            known.written = fields
        if self._known.get(key) is not known:
            return  # the watch has shown a newer one, or that it is gone
        self.seen(known.kind, answer)
        if conditions and not conditions_of(answer) and known.kind not in self._without_conditions:
            self._without_conditions.add(known.kind)
            log.info(
                "%s has no conditions in its schema: only events and pods say why a group waits", resource.collection
            )

    def _conditions(self, known: _Known, wish: _WorkItem) -> list[Mapping[str, Any]]:
        """The conditions to write. A custom resource's list is replaced as a whole, so there it is all of them."""
        found: dict[str, Mapping[str, Any]] = {}
        for kind, condition in wish.conditions.items():
            before = known.conditions.get(kind, {})
            taken_back = kind != DISRUPTED and known.once and condition.status != "True"
            if condition.said_by(before) or taken_back:
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
        if not found or known.kind == KIND:
            return list(found.values())
        return list({**known.conditions, **found}.values())

    @staticmethod
    def _lacking(known: _Known, fields: Mapping[str, Any]) -> bool:
        """Whether these have to be written. A count that is not there is 0."""
        if fields == known.written:
            return False
        return any((known.fields.get(name) or None) != (value or None) for name, value in fields.items())
