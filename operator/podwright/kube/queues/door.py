"""The door of SchedulingQueues: while the API server serves them, they are the queues of the core.

A queue that is invalid by itself stays as it last was: as this process knew it, or as its status says. What depends on
other queues, such as a missing parent, the core checks (`core.queues.validity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.api.queue_status import usage_of
from podwright.api.scheduler_policy import GROUP, identity_of
from podwright.api.scheduling_queue import QUEUE_KIND, QUEUE_PLURAL, take_queue
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.queues.queues import queues_of
from podwright.engine.engine import Engine
from podwright.kube.kinds import QUEUE, Resource
from podwright.kube.queues.statuses import QueueStatuses

Raw = Mapping[str, Any]


class QueueDoor:
    """See the module."""

    kind: str = QUEUE_KIND
    about: str = "queues"
    candidates: Sequence[Resource] = (QUEUE,)
    crd: str = f"{QUEUE_PLURAL}.{GROUP}"

    def __init__(self, engine: Engine, statuses: QueueStatuses) -> None:
        self._engine = engine
        self._statuses = statuses

    def begin(self, _resource: Resource) -> QueueSink:
        return QueueSink(self._engine, self._statuses)

    def end(self, _resource: Resource) -> None:
        """All queues were dropped."""

    def changed(self) -> None:
        """Each queue has retried the pods that it may help."""


class QueueSink:
    """Takes SchedulingQueues into the core."""

    def __init__(self, engine: Engine, statuses: QueueStatuses) -> None:
        self.known: set[str] = set()
        self._invalid_objects = engine.invalid_objects
        self._queues = queues_of(engine.cache)
        self._statuses = statuses

    def key(self, raw: Raw) -> str:
        return identity_of(raw)[0]

    def put(self, raw: Raw) -> None:
        name, problem = self.key(raw), ""
        if name not in self.known and (record := usage_of(raw.get("status"))) is not None:
            self._queues.records.setdefault(name, record)
        try:
            take_queue(self._queues, raw, known=name in self.known)
        except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
            problem = str(error) if isinstance(error, InvalidObjectError) else described(error)
            self._invalid_objects.report(QUEUE_KIND, name, error)
        self.known.add(name)
        self._statuses.seen(name, raw, problem)

    def drop(self, key: str, _raw: Raw | None) -> None:
        self.known.discard(key)
        self._queues.remove(key)
        self._statuses.forget(key)
