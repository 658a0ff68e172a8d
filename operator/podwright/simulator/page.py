"""The page of `podwright simulate --serve`: the loaded cluster, and explanations of its pods. It tries hypotheses with
the HTTP API beside it.

Everything is read in the worker's thread, between simulations, when the cluster is in the state in which it was loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, TypeVar

import orjson
from aiohttp import web

from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.scheduling_gates import SchedulingGates
from podwright.core.queue.queued_pod import Place
from podwright.engine.process.steps import Steps, at_once
from podwright.engine.view.waiting import PendingPod
from podwright.kube.serve.page.files import HEADERS
from podwright.kube.serve.page.routes import Page
from podwright.kube.serve.page.shown import Shown
from podwright.kube.serve.page.sight import DATA, SIGHT, Sight, is_file, wanted_namespace
from podwright.simulator.explain.explanation import explain_pod
from podwright.simulator.explain.results import as_object
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.world import NOW

T = TypeVar("T")
Run = Callable[[Callable[[Callable[[], bool]], Any]], Awaitable[Any]]
"""Runs work in the worker's thread. The work may ask whether it is to stop."""

POD: Final = "/page/pod"


class SimulationPage:
    """See the module."""

    def __init__(self, cluster: Callable[[], LoadedCluster], run: Run) -> None:
        self._cluster = cluster
        self._run = run
        self._page = Page(self._shown, self)

    @property
    def page(self) -> Page:
        """The paths that the operator's page has as well."""
        return self._page

    async def call(self, function: Callable[[], T], seconds: float) -> T:
        """See Asker."""
        async with asyncio.timeout(seconds):
            found: T = await self._run(lambda _stopped: function())
            return found

    async def compute(self, begin: Callable[[], Steps[T]], seconds: float) -> T:
        """See Asker."""
        return await self.call(lambda: at_once(begin()), seconds)

    def _shown(self) -> Shown:
        cluster = self._cluster()
        return Shown(
            cache=cluster.cache,
            pods=lambda: _pending(cluster),
            policies=cluster.policies,
            clock=cluster.clock,
            simulated=True,
        )

    async def explain(self, request: web.Request) -> web.Response:
        """The handler of POD: why the pod waits, or why it is on its node, and what would help."""
        namespace, name = request.query.get("namespace", ""), request.query.get("name", "")

        def explain(stopped: Callable[[], bool]) -> Any:
            cluster = self._cluster()
            pod = _find(cluster, f"{namespace}/{name}")
            if pod is None:
                return None
            return as_object(explain_pod(cluster, pod, raw=cluster.assigned.get(pod.uid), stopped=stopped))

        found = await self._run(explain)
        if found is None:
            raise web.HTTPNotFound(reason=f"there is no pod {namespace}/{name}"[:300])
        return web.Response(body=orjson.dumps(found, default=str), content_type="application/json", headers=HEADERS)


def prepare(request: web.Request) -> bool:
    """Notes which pods a request may see: all, or those of the namespace that it asks for. Returns True for a request
    about the cluster, and False for one for a file of the page.
    """
    if request.path in DATA:
        request[SIGHT] = Sight(wanted_namespace(request))
    return not is_file(request.path) or request.path == POD


def _pending(cluster: LoadedCluster) -> Iterator[PendingPod]:
    """No pod was tried, so pods are active unless gates hold them back. If the time of the snapshot is not known, pods
    count as new.
    """
    now = cluster.clock.now
    for pod in [*cluster.pending.values()]:
        since = pod.creation if pod.creation and now != NOW else now
        place, why = (Place.GATED, SchedulingGates.name) if pod.gates else (Place.ACTIVE, "")
        yield PendingPod(pod.namespace, pod.name, place.value, since, why=why)


def _find(cluster: LoadedCluster, key: str) -> PodInfo | None:
    """The pod with this namespace/name, whether it waits or has a node."""
    for pod in cluster.pending.values():
        if pod.key == key:
            return pod
    return next((pod for info in cluster.cache.nodes.values() for pod in info.pods.values() if pod.key == key), None)
