"""Writes the statuses of queues of one API: what they have, and what their pods wait for, as that API says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from podwright.api.queue_status import QueueReport
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.queues.queues import NO_NODES, OVER_LIMIT, Queues
from podwright.kube.client.http import Http
from podwright.kube.queues.kinds import SCHEDULING_QUEUES, QueueKind
from podwright.kube.queues.names import QueueNames
from podwright.kube.write.object_status import ObjectStatuses, SeenObject


class QueueStatuses(ObjectStatuses):
    """See the module."""

    about = "queue"
    refused = "QueueNotAccepted"

    def __init__(self, http: Http, kind: QueueKind, queues: Queues, names: QueueNames, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self.resource = kind.resource
        self._kind = kind
        self._queues = queues
        self._names = names

    def counts(self) -> Mapping[tuple[str], float]:
        """How many queues there are whose newest generation is accepted, and how many others. Nothing without
        queues.
        """
        known = self._known if self._names.counts(self._kind) else {}
        refused = sum(bool(self._problem(name, seen)[0]) for name, seen in known.items())
        return {("accepted",): len(known) - refused, ("refused",): refused} if known else {}

    def prepare(self) -> None:
        if self._queues.active and self._known:
            self._queues.shared_out()

    def status_of(self, name: str, seen: SeenObject, now: str) -> Mapping[str, Any]:
        if not self._names.counts(self._kind):
            return seen.status
        problem, at_parent = self._problem(name, seen)
        report = QueueReport(
            queues=self._queues,
            name=name,
            counts=self._names.holder(name) is self._kind,
            generation=seen.generation,
            spec=seen.spec,
            problem=problem,
            orphan=at_parent and self._queues.declared[name].parent not in self._queues.declared,
            previous=seen.status,
            now=now,
        )
        return self._kind.status_of(report)

    def problem_of(self, name: str, seen: SeenObject, _status: Mapping[str, Any]) -> str:
        return self._problem(name, seen)[0] if self._names.counts(self._kind) else ""

    def warnings_of(self, status: Mapping[str, Any]) -> Mapping[str, str]:
        conditions = status.get("conditions", ()) if self._kind is SCHEDULING_QUEUES else ()
        return {each["type"]: each["message"] for each in conditions if each["type"] in (OVER_LIMIT, NO_NODES)}

    def _problem(self, name: str, seen: SeenObject) -> tuple[str, bool]:
        """What is wrong with the queue, and whether it is its parent."""
        holder, resource = self._names.holder(name), self.resource
        if holder not in (None, self._kind):
            other = holder.resource
            text = f"a {other.kind} of {other.group} has this name, and counts instead of this {resource.kind}"
            return f"metadata.name: {text}", False
        found = None if seen.problem or holder is None else self._queues.problems.get(name)
        at_parent = found is not None and found.where == SCHEDULING_QUEUES.parent
        # Other APIs allow children that are guaranteed more than their parent.
        if found is None or not (at_parent or self._kind is SCHEDULING_QUEUES):
            return seen.problem, False
        where = self._kind.parent if at_parent else found.where
        return str(InvalidObjectError(where, found.problem).in_object(resource.kind, name)), at_parent


def counts_of(statuses: Iterable[QueueStatuses]) -> Mapping[tuple[str], float]:
    """The sum of their counts."""
    found: Counter[tuple[str]] = Counter()
    for each in statuses:
        found.update(each.counts())
    return found
