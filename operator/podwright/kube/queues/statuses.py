"""Writes the statuses of SchedulingQueues: what they have, and what their pods wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.api.queue_status import status_of
from podwright.core.queues.queues import Queues
from podwright.kube.client.http import Http
from podwright.kube.kinds import QUEUE
from podwright.kube.write.object_status import ObjectStatuses, SeenObject


class QueueStatuses(ObjectStatuses):
    """See the module."""

    resource = QUEUE
    about = "queue"
    refused = "QueueNotAccepted"

    def __init__(self, http: Http, queues: Queues, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self._queues = queues

    def counts(self) -> Mapping[tuple[str], float]:
        """How many queues there are whose newest generation is accepted, and how many others. Nothing without
        queues.
        """
        problems = self._queues.problems if self._known else {}
        refused = sum(bool(known.problem) or name in problems for name, known in self._known.items())
        return {("accepted",): len(self._known) - refused, ("refused",): refused} if self._known else {}

    def prepare(self) -> None:
        if self._queues.active:
            self._queues.shared_out()

    def status_of(self, name: str, seen: SeenObject, now: str) -> dict[str, Any]:
        return status_of(
            self._queues,
            name,
            generation=seen.generation,
            problem=seen.problem,
            spec=seen.spec,
            previous=seen.status,
            now=now,
        )
