"""An operator beside a sandbox with a few nodes, whose page tests look at."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podwright.api.crd import crd
from podwright.sandbox import SandboxThread
from podwright.testing import Process, node, pod
from podwright.testing.objects import collection_path
from podwright.testing.processes import free_port
from support.control_plane import operator_process
from support.examples.clusters import SandboxApi

RACK = "topology.kubernetes.io/rack"
ZONE = "topology.kubernetes.io/zone"


@dataclass
class Stage:
    """A cluster in a sandbox, its operator, and the operator's page."""

    api: SandboxApi
    operator: operator_process.Operator

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.operator.port}/page/"

    def create(self, *objects: dict[str, Any]) -> None:
        for raw in objects:
            self.api.request("POST", collection_path(raw), raw)

    def pod(self, name: str, cpu: str = "1", **spec: Any) -> None:
        self.create(pod(name, scheduler="podwright", cpu=cpu, memory="1Gi", **spec))

    def delete_pods(self, *names: str) -> None:
        for name in names:
            self.api.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")


def nodes(count: int, zones: int, racks: int = 2) -> list[dict[str, Any]]:
    """Nodes of 8 CPUs in zones, each with so many racks."""
    found = []
    for number in range(count):
        zone = "abcdefgh"[number * zones // count]
        labels = {ZONE: f"zone-{zone}", RACK: f"{zone}{number % racks + 1}"}
        found.append(node(f"node-{number + 1}", cpu="8", labels=labels))
    return found


@contextmanager
def staged(folder: Path, objects: Sequence[dict[str, Any]]) -> Iterator[Stage]:
    """A sandbox with these objects, and an operator that is ready."""
    with SandboxThread() as sandbox:
        api = SandboxApi(sandbox.url)
        api.request("POST", collection_path(crd()), crd())
        for raw in objects:
            api.request("POST", collection_path(raw), raw)
        port = free_port()
        kubeconfig = sandbox.write_kubeconfig(folder / "kubeconfig")
        command = [
            sys.executable,
            "-m",
            "podwright",
            "run",
            f"--kubeconfig={kubeconfig}",
            f"--health-address=127.0.0.1:{port}",
        ]
        operator = operator_process.Operator(Process("operator", command, folder / "operator.log"), port)
        operator.process.start()
        try:
            operator_process.wait_ready(operator)
            yield Stage(api, operator)
        finally:
            operator.process.stop(30)


@contextmanager
def simulated(folder: Path, objects: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The URL of the page of `podwright simulate --serve` on these objects."""
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    port = free_port()
    command = [sys.executable, "-m", "podwright", "simulate", "--serve", f"--listen=127.0.0.1:{port}", str(file)]
    server = operator_process.Operator(Process("simulations", command, folder / "simulations.log"), port)
    server.process.start()
    try:
        server.process.wait_ready(lambda: server.get("/healthz")[0] == 200, 30)
        yield f"http://127.0.0.1:{port}/page/"
    finally:
        server.process.stop(10)
