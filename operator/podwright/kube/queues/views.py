"""QueueViews: makes, in each namespace, a view of each queue that the namespace uses, writes its status, and removes it
once the namespace may no longer use the queue.

A namespace uses the queue that its label names, and those of its pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from podwright.api.queue_status import QueueReport
from podwright.api.queue_view import VIEW_KIND, VIEW_PLURAL, view_status_of
from podwright.api.scheduler_policy import GROUP
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import Queues
from podwright.kube.client.http import Http
from podwright.kube.kinds import QUEUE_VIEW, Resource
from podwright.kube.write.object_status import ObjectStatuses, Request, SeenObject

MAX_VIEWS: Final = 16
"""How many views a namespace has at most: the queue that its label names, then those of its pods, then those that it has
used."""


class QueueViews(ObjectStatuses):
    """See the module. Views are known as namespace/name."""

    resource = QUEUE_VIEW
    about = "view of a queue"
    refused = ""

    def __init__(self, http: Http, queues: Queues, **options: Any) -> None:
        """`options`: those of ObjectStatuses."""
        super().__init__(http, **options)
        self.served = False
        """True while the API server serves the kind."""
        self._queues = queues
        self._first: dict[str, PodInfo | None] = {}
        """Of the views that there should be, by key: the first pod of the namespace that waits in the queue."""

    async def run_after(self, known: asyncio.Event) -> None:
        """Writes until it is cancelled, from the time when queues and pods are known: before, no queue seems to exist."""
        await known.wait()
        await self.run()

    def place_of(self, name: str) -> tuple[str, str]:
        namespace, _, own = name.partition("/")
        return own, namespace

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

    async def settle(self) -> None:
        """Makes the views that are missing, and deletes those that should not be there."""
        if not self.served:
            return
        self._first = await self._wanted()
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
        """The views that there should be, each with the first pod that waits."""
        queues = self._queues
        ranked: dict[str, dict[str, PodInfo | None]] = {}
        if queues.active:
            for namespace, name in queues.named_by_namespaces():
                ranked[namespace] = {name: None}
            for name in queues.names():
                for namespace, first in queues.namespaces_of(name).items():
                    ranked.setdefault(namespace, {})[name] = first
                await asyncio.sleep(0)
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


class QueueViewDoor:
    """While the API server serves QueueViews, there are some."""

    kind: str = VIEW_KIND
    about: str = "views of queues"
    candidates: Sequence[Resource] = (QUEUE_VIEW,)
    crd: str = f"{VIEW_PLURAL}.{GROUP}"

    def __init__(self, views: QueueViews) -> None:
        self._views = views

    def begin(self, _resource: Resource) -> QueueViewSink:
        self._views.served = True
        return QueueViewSink(self._views)

    def end(self, _resource: Resource) -> None:
        self._views.served = False

    def changed(self) -> None:
        """No pod waits for a view."""


class QueueViewSink:
    """Tells the writer which views there are."""

    def __init__(self, views: QueueViews) -> None:
        self._known: set[str] = set()
        self._views = views

    @property
    def known(self) -> Collection[str]:
        return self._known

    def key(self, raw: Mapping[str, Any]) -> str:
        return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"

    def put(self, raw: Mapping[str, Any]) -> None:
        key = self.key(raw)
        self._known.add(key)
        self._views.seen(key, raw, "")

    def drop(self, key: str, _raw: Mapping[str, Any] | None) -> None:
        self._known.discard(key)
        self._views.forget(key)
