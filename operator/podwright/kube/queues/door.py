"""The doors of queues: while the API server serves an API of `QUEUE_KINDS`, its objects are queues of the core.

A queue that is invalid by itself stays as it last was: as this process knew it, or as its status says. What depends on
other queues, such as a missing parent, the core checks (`core.queues.validity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.api.queue_status import usage_of
from podwright.api.scheduler_policy import identity_of
from podwright.api.scheduling_queue import last_accepted
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.queues.queues import QueueRules, queues_of
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.kinds import Resource
from podwright.kube.queues.kinds import QUEUE_KINDS, QueueKind
from podwright.kube.queues.names import QueueNames
from podwright.kube.queues.statuses import QueueStatuses

Raw = Mapping[str, Any]


class QueueDoor:
    """See the module. One API of queues."""

    def __init__(self, kind: QueueKind, engine: Engine, names: QueueNames, statuses: QueueStatuses) -> None:
        self.kind = kind.key
        self.about = kind.about
        self.candidates: Sequence[Resource] = (kind.resource,)
        self.crd = f"{kind.resource.plural}.{kind.resource.group}"
        self._kind = kind
        self._engine = engine
        self._names = names
        self.statuses = statuses

    def begin(self, _resource: Resource) -> QueueSink:
        self._names.begin(self._kind)
        return QueueSink(self._kind, self._engine, names=self._names, statuses=self.statuses)

    def end(self, _resource: Resource) -> None:
        self._names.end(self._kind)

    def changed(self) -> None:
        """Each queue has retried the pods that it may help."""


def queue_doors(http: Http, engine: Engine, **options: Any) -> list[QueueDoor]:
    """One for each API. `options`: those of ObjectStatuses."""
    queues = queues_of(engine.cache)
    names = QueueNames(queues, engine.policies.serves)
    engine.told_of_policies.append(names.refresh)
    doors = []
    for kind in QUEUE_KINDS:
        statuses = QueueStatuses(http, kind, queues=queues, names=names, **options)
        doors.append(QueueDoor(kind, engine, names=names, statuses=statuses))
    return doors


class QueueSink:
    """Takes queues of one API into the core."""

    def __init__(self, kind: QueueKind, engine: Engine, names: QueueNames, statuses: QueueStatuses) -> None:
        self.known: set[str] = set()
        self._kind = kind
        self._invalid_objects = engine.invalid_objects
        self._queues = queues_of(engine.cache)
        self._names = names
        self._statuses = statuses

    def key(self, raw: Raw) -> str:
        return identity_of(raw)[0]

    def put(self, raw: Raw) -> None:
        kind, name, problem = self._kind, self.key(raw), ""
        if kind.implied is not None and not self.known:
            self._names.claim(kind, kind.implied.name, kind.implied)
        last = None if name in self.known else last_accepted(raw, kind.parse)
        if name not in self.known and (record := usage_of(raw.get("status"))) is not None:
            self._queues.records.setdefault(name, record)
        self.known.add(name)
        rules: QueueRules | None
        try:
            rules = kind.parse(raw)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            problem = str(error) if isinstance(error, InvalidObjectError) else described(error)
            rules = last
            self._invalid_objects.report(kind.resource.kind, name, error)
        if rules is not None:
            self._names.claim(kind, name, rules, last)
        self._statuses.seen(name, raw, problem)

    def drop(self, key: str, _raw: Raw | None) -> None:
        kind = self._kind
        self.known.discard(key)
        self._names.release(kind, key)
        if kind.implied is not None and not self.known:
            self._names.release(kind, kind.implied.name)
        elif kind.implied is not None and key == kind.implied.name:
            self._names.claim(kind, key, kind.implied)
        self._statuses.forget(key)
