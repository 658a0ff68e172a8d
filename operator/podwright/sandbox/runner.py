"""Starting and stopping a sandbox: in the running event loop (`Sandbox`), or in a thread (`SandboxThread`)."""

import asyncio
import threading
from pathlib import Path
from typing import Self

import yaml
from aiohttp import web

from podwright.sandbox.cluster import Cluster
from podwright.sandbox.deployments import Deployments
from podwright.sandbox.kubelet import Kubelet
from podwright.sandbox.server import BODY_LIMIT, Server


class Sandbox:
    """An API server on a free (or given) port of the loopback interface, and the cluster behind it.

    `history` is how many changes of each kind a watch may go back; with `kubelet=False` bound pods stay Pending, with
    `controllers=False` Deployments and ReplicaSets make no pods.
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
        self.cluster = Cluster(history)
        self._server = Server(self.cluster)
        self._port = port
        self._runner: web.ServerRunner | None = None
        self._helpers: list[Kubelet | Deployments] = [Kubelet(self.cluster, delay)] if kubelet else []
        if controllers:
            self._helpers.append(Deployments(self.cluster))
        self.url = ""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        server = web.Server(
            self._server.handle,
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=1024)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        for helper in self._helpers:
            helper.start()

    async def stop(self) -> None:
        for helper in self._helpers:
            helper.stop()
        self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self) -> str:
        """A kubeconfig for this sandbox, as YAML."""
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "sandbox", "cluster": {"server": self.url}}],
                "users": [{"name": "sandbox", "user": {"token": "sandbox"}}],
                "contexts": [
                    {"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox", "namespace": "default"}}
                ],
                "current-context": "sandbox",
            }
        )

    def write_kubeconfig(self, path: Path) -> Path:
        path.write_text(self.kubeconfig(), encoding="utf-8")
        return path

    def add_nodes(self, count: int, zones: int = 1, *, cpu: int = 8, memory_gib: int = 32, pods: int = 110) -> None:
        """Create `node-0001` … in zones `zone-a` … in turn, each of the same size."""
        kind = self.cluster.kinds.named("nodes")
        size = {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "pods": str(pods), "ephemeral-storage": "100Gi"}
        for number in range(1, count + 1):
            name = f"node-{number:04d}"
            labels = {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/region": "region-1",
                "topology.kubernetes.io/zone": f"zone-{chr(ord('a') + (number - 1) % zones)}",
            }
            status = {"capacity": size, "allocatable": size}
            self.cluster.create(kind, "", {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})


def _request(message: object, payload: object, protocol: object, writer: object, task: object) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)  # type: ignore[arg-type]


class SandboxThread:
    """A `Sandbox` with an event loop of its own in a daemon thread, for synchronous callers.

    Reach its objects over HTTP, or through `call`: the cluster belongs to that thread.
    """

    def __init__(self, **options: object) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sandbox", daemon=True)
        self.sandbox: Sandbox

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def __enter__(self) -> Sandbox:
        self._thread.start()

        async def start() -> Sandbox:
            sandbox = Sandbox(**self._options)  # type: ignore[arg-type]
            await sandbox.start()
            return sandbox

        self.sandbox = asyncio.run_coroutine_threadsafe(start(), self._loop).result()
        return self.sandbox

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.sandbox.stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
