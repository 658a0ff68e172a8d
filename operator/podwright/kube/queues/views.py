"""QueueViews: makes, in each namespace, a view of each queue that the namespace uses, writes its status, and removes it
once the namespace may no longer use the queue.

A namespace uses the queue that its label names, and those of its pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podwright.api.queue_status import QueueReport
from podwright.api.queue_view import VIEW_KIND, view_status_of
from podwright.api.scheduler_policy import GROUP
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import queues_of
from podwright.core.queues.shown import namespaces_of
from podwright.engine.engine import Engine
from podwright.kube.client.http import Http
from podwright.kube.kinds import QUEUE_VIEW
from podwright.kube.watch.checked_door import CheckedDoor
from podwright.kube.write.object_status import Request, SeenObject, gently

MAX_VIEWS: Final = 16
"""How many views a namespace has at most: the queue that its label names, then those of its pods, then those that it
has used.
"""


class QueueViewDoor(CheckedDoor):
    """See the module. Views are known as namespace/name."""

    resource = QUEUE_VIEW
    about = "views of queues"
    noun = "view of a queue"
    refused = ""

    def __init__(self, http: Http, engine: Engine, **options: Any) -> None:
        """`options`: see CheckedDoor."""
        super().__init__(http, engine, **options)
        self._queues = queues_of(engine.cache)
        self._first: dict[str, PodInfo | None] = {}
        """By key of each view that should exist: the namespace's first pod that a bound of the queue holds back."""

    def key(self, raw: Mapping[str, Any]) -> str:
        return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"

    def status_of(self, name: str, seen: SeenObject, now: str) -> Mapping[str, Any]:
        if name not in self._first:
            return seen.status
        queues, queue = self._queues, self.place_of(name)[0]
        if queues.get(queue) is None:
            return seen.status
        report = QueueReport(
            queues=queues, name=queue, generation=seen.generation, spec=None, previous=seen.status, now=now
        )
        return view_status_of(report, self._first[name])

    def problem_of(self, _name: str, _seen: SeenObject, _status: Mapping[str, Any]) -> str:
        return ""

    async def prepare(self) -> None:
        if self.served:
            self._first = await self._wanted()

    async def settle(self) -> None:
        """Makes the views that are missing, and deletes those that should not be there."""
        if not self.served:
            return
        missing = {key: self._creation(key) for key in self._first if key not in self._known}
        extra = {
            key: Request("DELETE", QUEUE_VIEW.path(*self.place_of(key)))
            for key in self._known
            if key not in self._first
        }
        await self.carry_out({**missing, **extra})

    def _creation(self, key: str) -> Request:
        name, namespace = self.place_of(key)
        raw = {
            "apiVersion": f"{GROUP}/{QUEUE_VIEW.version}",
            "kind": VIEW_KIND,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"queue": name},
        }
        return Request("POST", QUEUE_VIEW.collection_in(namespace), raw)

    async def _wanted(self) -> dict[str, PodInfo | None]:
        """The views that there should be, each with the first pod that a bound holds back."""
        queues = self._queues
        ranked: dict[str, dict[str, PodInfo | None]] = {}

        def rank(name: str) -> None:
            for namespace, first in namespaces_of(queues, name).items():
                ranked.setdefault(namespace, {})[name] = first

        if queues.active:
            for namespace, name in queues.membership.labelled():
                ranked[namespace] = {name: None}
            await gently(queues.names(), rank)
            for key in self._known:
                name, namespace = self.place_of(key)
                ranked.setdefault(namespace, {}).setdefault(name)
        return {
            f"{namespace}/{name}": first
            for namespace, found in ranked.items()
            for name, first in self._usable(namespace, found)
        }

    def _usable(self, namespace: str, found: Mapping[str, PodInfo | None]) -> Sequence[tuple[str, PodInfo | None]]:
        usable = [(name, first) for name, first in found.items() if self._queues.is_usable_in(name, namespace)]
        return usable[:MAX_VIEWS]
