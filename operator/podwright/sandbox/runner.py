"""Starts and stops a sandbox, in the running event loop (`Sandbox`) or in a thread (`SandboxThread`)."""

import asyncio
import threading
from pathlib import Path
from typing import Any, Self

import yaml
from aiohttp import web

from podwright.sandbox.cluster import SandboxCluster
from podwright.sandbox.deployments import Deployments
from podwright.sandbox.kubelet import Kubelet
from podwright.sandbox.server import BODY_LIMIT, SandboxServer


class Sandbox:
    """A cluster, and its API server on the given port of the loopback interface, or on a free one.

    `history`: how many changes of each kind a watch can go back. `kubelet=False`: bound pods stay Pending.
    `controllers=False`: Deployments and ReplicaSets create no pods. `delay`: seconds until a bound pod runs.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        history: int = 10_000,
        kubelet: bool = True,
        controllers: bool = True,
        delay: float = 0.05,
    ) -> None:
        self.cluster, self.url = SandboxCluster(history), ""
        self._port, self._server = port, SandboxServer(self.cluster)
        self._runner: web.ServerRunner | None = None
        helpers: list[Kubelet | Deployments] = [Kubelet(self.cluster, delay)] if kubelet else []
        helpers += [Deployments(self.cluster)] if controllers else []
        self._watchers = [item for helper in helpers for item in helper.watchers.items()]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        limits: Any = {"max_line_size": 64 * 1024, "max_field_size": 64 * 1024}
        server = web.Server(self._server.handle, request_factory=_request, handler_cancellation=True, **limits)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        for stored, watcher in self._watchers:
            self.cluster.store[stored].watchers.add(watcher)

    async def stop(self) -> None:
        for stored, watcher in self._watchers:
            self.cluster.store[stored].watchers.discard(watcher)
        self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def kubeconfig(self) -> str:
        """A kubeconfig for this sandbox, as YAML."""
        name = "sandbox"
        config: Any = {"apiVersion": "v1", "kind": "Config", "current-context": name}
        config["clusters"] = [{"name": name, "cluster": {"server": self.url}}]
        config["users"] = [{"name": name, "user": {"token": name}}]
        config["contexts"] = [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}]
        return yaml.safe_dump(config)

    def write_kubeconfig(self, path: Path) -> Path:
        path.write_text(self.kubeconfig(), encoding="utf-8")
        return path

    def add_nodes(self, count: int, zones: int = 1) -> None:
        """Creates nodes `node-0001` … of equal size, one after the other in zones `zone-a` …."""
        size = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        for number in range(count):
            name = f"node-{number + 1:04d}"
            labels = {
                f"kubernetes.io/{key}": value for key, value in (("hostname", name), ("os", "linux"), ("arch", "amd64"))
            }
            labels["topology.kubernetes.io/region"] = "region-1"
            labels["topology.kubernetes.io/zone"] = f"zone-{chr(ord('a') + number % zones)}"
            node: Any = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"capacity": size}}
            node["status"]["allocatable"] = size
            self.cluster.create(self.cluster.kinds.named("nodes"), "", node)


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)


class SandboxThread:
    """A `Sandbox` with its own event loop in a daemon thread, for synchronous callers.

    Access its objects only over HTTP: the cluster belongs to that thread. `nodes` and `zones`: see `add_nodes`.
    """

    def __init__(self, *, nodes: int = 0, zones: int = 1, **options: Any) -> None:
        self._options, self._nodes, self._zones = options, nodes, zones
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox", daemon=True)
        self._sandbox: Sandbox

    def __enter__(self) -> Sandbox:
        self._thread.start()
        self._sandbox = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self._sandbox

    async def _start(self) -> Sandbox:
        sandbox = Sandbox(**self._options)
        await sandbox.start()
        sandbox.add_nodes(self._nodes, self._zones)
        return sandbox

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._sandbox.stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
