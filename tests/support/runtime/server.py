"""A runtime on an API server in memory, which records requests and can hold back its answers."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podwright.kube.options.options import Options
from podwright.kube.policies import controller
from podwright.kube.runtime import Runtime
from podwright.sandbox import Sandbox
from podwright.sandbox.server import SandboxServer as ApiServer
from support.objects import policies
from support.waiting import until

OURS = "podwright"
PENDING = "spec.nodeName=,"
Request = tuple[str, str, str]
"""Method, path, field selector."""


class Server:
    """The sandbox. It records its requests, can hold some of them back, and can change them."""

    def __init__(self, kubeconfig, monkeypatch) -> None:
        async def handle(request, answer):
            return await self._handle(request, answer)

        class Observed(ApiServer):
            async def handle(self, request):
                return await handle(request, super().handle)

        monkeypatch.setattr("podwright.sandbox.runner.SandboxServer", Observed)
        self.sandbox = Sandbox(delay=0, controllers=False)
        self.asked: list[Request] = []
        self.change = lambda request: request
        """Makes the request that is answered instead."""
        self._path = kubeconfig
        self._only: Callable[[Request], bool] = lambda _request: False
        self._held: list[Request] = []
        self._released = asyncio.Event()

    async def _handle(self, request, answer):
        selector = "" if "watch" in request.query else request.query.get("fieldSelector", "*")
        what = (request.method, request.path, selector)
        self.asked.append(what)
        if self._only(what):
            self._held.append(what)
            await self._released.wait()
        return await answer(self.change(request))

    def hold(self, only: Callable[[Request], bool]) -> None:
        """Holds these requests back from now on, until `release`."""
        self._only, self._held, self._released = only, [], asyncio.Event()

    async def holds(self) -> None:
        """Returns once a request is held back."""
        await until(lambda: self._held)

    def release(self) -> None:
        self._only = lambda _request: False
        self._released.set()

    def create(self, resource: str, name: str, namespace: str = "", **parts) -> dict:
        cluster = self.sandbox.cluster
        return cluster.create(cluster.kinds.named(resource), namespace, {"metadata": {"name": name}, **parts}).obj

    def node(self, name: str, pods: int = 110) -> None:
        size = {"cpu": "8", "memory": "32Gi", "pods": str(pods)}
        self.create("nodes", name, spec={}, status={"capacity": size, "allocatable": size})

    def pod(self, name: str, scheduler: str = OURS, **spec) -> dict:
        return self.create(
            "pods", name, "default", spec={"schedulerName": scheduler, "containers": [{"name": "c"}], **spec}
        )

    @property
    def bound(self) -> list[str]:
        """The names of pods in the order of their Bindings, deleted pods included."""
        return [path.split("/")[-2] for method, path, _ in self.asked if method == "POST" and path.endswith("/binding")]

    def lists_of_pending(self) -> int:
        """How often pending pods were listed."""
        return sum(map(lists("pods", PENDING), self.asked))

    def read(self, name: str) -> dict:
        return self.sandbox.cluster.store["pods"].entries["default", name].obj

    def pod_names(self) -> set[str]:
        return {name for _, name in self.sandbox.cluster.store["pods"].entries}

    def install_policies(self, *more: Path) -> None:
        """Serves SchedulerPolicies, and the kinds of these CRDs."""
        cluster = self.sandbox.cluster
        for crd in (policies.CRD, *more):
            kind = cluster.kinds.named("customresourcedefinitions.apiextensions.k8s.io")
            cluster.create(kind, "", policies.load(crd))

    def runtime(self, **options) -> Runtime:
        """A runtime; the caller starts and stops it."""
        return Runtime(Options(kubeconfig=str(self.sandbox.write_kubeconfig(self._path)), **options))


@asynccontextmanager
async def api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A running server. Policies are listed only once, because tests apply some that are not on the server."""
    monkeypatch.setattr(controller, "RELIST_SECONDS", 3600.0)
    monkeypatch.setattr(gc, "freeze", lambda: None)  # it would keep the garbage of this test for ever
    server = Server(tmp_path / "kubeconfig", monkeypatch)
    async with server.sandbox:
        yield server


@asynccontextmanager
async def running(server: Server, *, started: bool = True, **options) -> AsyncIterator[Runtime]:
    """A running runtime. With `started`, it has begun to decide."""
    runtime = server.runtime(**options)
    await runtime.start()
    try:
        if started:
            await until(lambda: not runtime.missing())
        yield runtime
    finally:
        server.release()
        await runtime.stop()


def lists(plural: str, selector: str = "*") -> Callable[[Request], bool]:
    return lambda request: request[0] == "GET" and request[1].endswith(f"/{plural}") and request[2].startswith(selector)
