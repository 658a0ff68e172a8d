"""An engine whose queues come in as objects of the API server, and the statuses that are written about them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from podwright.core.queues.queues import queues_of
from podwright.kube.client.http import Http
from podwright.kube.queues.door import queue_doors
from podwright.kube.queues.kinds import QUEUE_KINDS, SCHEDULING_QUEUES, QueueKind
from support.engine.kit import Rig
from support.http.kit import Answer, Script, api, says
from support.objects.builders import make_policy
from support.objects.queues import other_queue, queue

NOON = 1_767_268_800.0

Raw = Mapping[str, Any]


class Queues:
    """A rig whose queues come in as objects, and the statuses that were written."""

    def __init__(self, http: Http, script: Script) -> None:
        self.rig = Rig()
        self.core = queues_of(self.rig.engine.cache)
        self.script = script
        doors = queue_doors(
            http, self.rig.engine, recorder=self.rig.recorder, scheduler_name="podwright", clock=lambda: NOON
        )
        self.doors = dict(zip(QUEUE_KINDS, doors, strict=True))
        self._given: dict[QueueKind, set[str]] = {}
        self.begin(SCHEDULING_QUEUES)

    def begin(self, kind: QueueKind) -> None:
        """The API server serves this API."""
        self.doors[kind].begin(kind.resource)

    def end(self, kind: QueueKind) -> None:
        """It no longer does."""
        door = self.doors[kind]
        for name in self._given.pop(kind, ()):
            door.drop(name, None)
        door.end(kind.resource)

    def serve(self, scheduler_name: str) -> None:
        """A policy serves this scheduler name."""
        raw = make_policy(scheduler_name, 1, f"uid-{scheduler_name}", schedulerName=scheduler_name)
        self.rig.engine.policies.apply(raw)
        self.rig.engine.policies_changed()

    def put(self, name: str, generation: int = 1, status: Raw | None = None, **spec: Any) -> None:
        self._put(SCHEDULING_QUEUES, {**queue(name, generation, **spec), "status": status or {}})

    def put_other(self, kind: QueueKind, name: str, status: Raw | None = None, **spec: Any) -> None:
        """The same for another API than that of SchedulingQueues."""
        self._put(kind, other_queue(kind.resource, name, status, **spec))

    def _put(self, kind: QueueKind, raw: Raw) -> None:
        self._given.setdefault(kind, set()).add(raw["metadata"]["name"])
        self.doors[kind].put(raw)

    def written_to(self, kind: QueueKind) -> dict[str, list[Raw]]:
        """The statuses of queues of this API, by name."""
        found: dict[str, list[Raw]] = {}
        for request in self.script.requests:
            if request.path.startswith(f"{kind.resource.collection}/"):
                test, replaced = request.body
                name = request.path.split("/")[-2]
                assert test == {"op": "test", "path": "/metadata/uid", "value": f"uid-{name}"}
                found.setdefault(name, []).append(replaced["value"])
        return found

    @property
    def written(self) -> dict[str, list[Raw]]:
        """Those of SchedulingQueues."""
        return self.written_to(SCHEDULING_QUEUES)

    def condition(self, name: str, type_: str = "Accepted", kind: QueueKind = SCHEDULING_QUEUES) -> Raw:
        return next(each for each in self.written_to(kind)[name][-1]["conditions"] if each["type"] == type_)


@asynccontextmanager
async def queues(answer: Answer | None = None) -> AsyncIterator[Queues]:
    async with api(default=answer or says(200, {})) as (http, script):
        made = Queues(http, script)
        running = [asyncio.create_task(each.run()) for each in made.doors.values()]
        yield made
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
