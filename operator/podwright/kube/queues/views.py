"""QueueViews: makes, in each namespace, a view of each queue that the namespace uses, writes its status, and removes it
once the namespace may no longer use the queue.

A namespace uses the queue that its label names, and those of its pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from podwright.api.queue_status import QueueReport
from podwright.api.queue_view import VIEW_KIND, VIEW_PLURAL, view_status_of
from podwright.api.scheduler_policy import GROUP
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import Queues
from podwright.kube.client.errors import status_of
from podwright.kube.client.http import Http
from podwright.kube.kinds import QUEUE_VIEW, Resource
from podwright.kube.write.object_status import MOST_WRITES, RETRY, ObjectStatuses, SeenObject

log = logging.getLogger(__name__)

MAX_VIEWS: Final = 16
"""How many views a namespace has at most: the queue that its label names, then those of its pods, then those that it has
used."""
_EXPECTED: Final = (403, 404, 409)
"""A namespace that ends refuses objects; a view may be there, or gone, before the watch says so."""


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
        self._failures: dict[str, tuple[int, float]] = {}
        """By key of a view that could not be made or deleted: how often, and when it is tried again."""

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
        now = asyncio.get_running_loop().time()
        missing = [key for key in self._first if key not in self._known]
        extra = [key for key in self._known if key not in self._first]
        self._failures = {key: tried for key, tried in self._failures.items() if key in missing or key in extra}
        due = [key for key in (*missing, *extra) if self._failures.get(key, (0, 0.0))[1] <= now]
        for key in due[:MOST_WRITES]:
            await self._limit.take()
            await self._write_object(key)

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

    async def _write_object(self, key: str) -> None:
        name, namespace = self.place_of(key)
        problem: ClusterError | None = None
        raw = {
            "apiVersion": f"{GROUP}/{QUEUE_VIEW.version}",
            "kind": VIEW_KIND,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"queue": name},
        }
        try:
            if key in self._first:
                await self._http.call("POST", QUEUE_VIEW.collection_in(namespace), raw)
            else:
                await self._http.call("DELETE", QUEUE_VIEW.path(name, namespace))
        except ClusterError as error:
            problem = error
        # The watch tells whether it has worked.
        count = self._failures.get(key, (0, 0.0))[0] + 1
        self._failures[key] = count, asyncio.get_running_loop().time() + RETRY.pause(count, problem)
        if problem is not None and count == 1 and status_of(problem) not in _EXPECTED:
            log.info("cannot keep the view of queue %s in namespace %s: %s", name, namespace, problem)


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
