"""The doors of queues: while the API server serves an API of `QUEUE_KINDS`, its objects are queues of the core.

A queue that is invalid by itself stays as it last was: as this process knew it, or as its status says. What depends on
other queues, such as a missing parent, the core checks (`core.queues.validity`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from podwright.api.own_objects import last_valid
from podwright.api.queue_status import QueueReport, usage_of
from podwright.core.objects.raw import Raw
from podwright.core.queues.queues import queues_of
from podwright.core.queues.shown import NO_NODES, OVER_LIMIT, UNCOVERED
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.kinds import Resource
from podwright.kube.queues.kinds import QUEUE_KINDS, SCHEDULING_QUEUES, QueueKind
from podwright.kube.queues.names import QueueNames, counts_instead
from podwright.kube.watch.checked_door import CheckedDoor
from podwright.kube.write.object_status import SeenObject


class QueueDoor(CheckedDoor):
    """See the module. One API of queues. The statuses say what queues have, and what their pods wait for, as that API
    says it.
    """

    noun = "queue"
    refused = "QueueNotAccepted"

    def __init__(self, http: Http, kind: QueueKind, engine: Engine, names: QueueNames, **options: Any) -> None:
        """`options`: see CheckedDoor."""
        self.resource = kind.resource
        super().__init__(http, engine, **options)
        self.kind = kind.key
        self.about = kind.about
        self._kind = kind
        self._queues = queues_of(engine.cache)
        self._names = names

    def begin(self, _resource: Resource) -> None:
        self._names.begin(self._kind)

    def end(self, _resource: Resource) -> None:
        self._names.end(self._kind)

    def put(self, raw: Raw) -> None:
        kind, name = self._kind, self.key(raw)
        if kind.implied is not None and not self._known:
            self._names.claim(kind, kind.implied.name, kind.implied)
        if name not in self._known and (record := usage_of(raw.get("status"))) is not None:
            self._queues.records.setdefault(name, record)
        super().put(raw)
        if problem := self._known[name].problem:
            self._names.refuse(kind, name, problem)

    def take(self, name: str, raw: Raw) -> None:
        last = None if name in self._known else last_valid(raw, self._kind.parse)
        self._names.claim(self._kind, name, self._kind.parse(raw), last)

    def refuse(self, name: str, raw: Raw, *, first: bool) -> None:
        if first and (last := last_valid(raw, self._kind.parse)) is not None:
            self._names.claim(self._kind, name, last, last)

    def drop(self, key: str, _raw: Raw | None) -> None:
        kind = self._kind
        self.forget(key)
        self._names.release(kind, key)
        if kind.implied is not None and not self._known:
            self._names.release(kind, kind.implied.name)
        elif kind.implied is not None and key == kind.implied.name:
            self._names.claim(kind, key, kind.implied)

    def counts(self) -> Mapping[tuple[str], float]:
        """How many queues there are whose newest generation is accepted, and how many others. Nothing without
        queues.
        """
        known = self._known if self._names.counts(self._kind) else {}
        refused = sum(bool(self._problem(name, seen)[0]) for name, seen in known.items())
        return {("accepted",): len(known) - refused, ("refused",): refused} if known else {}

    async def prepare(self) -> None:
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
            orphan=at_parent and self._is_missing(self._queues.declared[name].parent),
            previous=seen.status,
            now=now,
        )
        return self._kind.status_of(report)

    def _is_missing(self, name: str) -> bool:
        return name not in self._queues.declared and name not in self._queues.refused

    def problem_of(self, name: str, seen: SeenObject, _status: Mapping[str, Any]) -> str:
        return self._problem(name, seen)[0] if self._names.counts(self._kind) else ""

    def warnings_of(self, status: Mapping[str, Any]) -> Mapping[str, str]:
        conditions = status.get("conditions", ()) if self._kind is SCHEDULING_QUEUES else ()
        told = (OVER_LIMIT, NO_NODES, UNCOVERED)
        return {each["type"]: each["message"] for each in conditions if each["type"] in told}

    def _problem(self, name: str, seen: SeenObject) -> tuple[str, bool]:
        """Returns the queue's problem, "" without one, and True if the problem is its parent."""
        holder = self._names.holder(name)
        if holder not in (None, self._kind):
            return f"metadata.name: {counts_instead(holder, self._kind)}", False
        found = None if seen.problem or holder is None else self._queues.problem(name)
        if found is None or not self._kind.refuses(found):
            return seen.problem, False
        return str(found), found.where == self._kind.parent


def queue_doors(http: Http, engine: Engine, *, shadow_only: bool = False, **options: Any) -> list[QueueDoor]:
    """One for each API. `shadow_only`: the queues of KAI and Volcano count for the policies that look at their pods.
    `options`: see CheckedDoor.
    """
    policies = engine.policies
    serves = policies.looks_at if shadow_only else policies.serves
    names = QueueNames(queues_of(engine.cache), serves)
    engine.told_of_policies.append(names.refresh)
    return [QueueDoor(http, kind=kind, engine=engine, names=names, **options) for kind in QUEUE_KINDS]


def counts_of(doors: Iterable[QueueDoor]) -> Mapping[tuple[str], float]:
    """The sum of their counts."""
    found: Counter[tuple[str]] = Counter()
    for door in doors:
        found.update(door.counts())
    return found
