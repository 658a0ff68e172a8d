"""What the test of the examples has around it: a cluster whose nodes are known, in the sandbox or on a real API server."""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from podwright.sandbox import SandboxThread
from podwright.testing import ApiError, ControlPlane, Process, node, wait_until
from podwright.testing.objects import collection_path
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit

IMAGE = {"names": ["quay.io/jupyter/scipy-notebook:2025-03-14"], "sizeBytes": 4_000_000_000}
GPU = "nvidia.com/gpu"
USED = {
    "used-memory": {"cpu": "1", "memory": "20Gi"},
    "used-both": {"cpu": "4800m", "memory": "19660Mi"},
    "gpu-half": {"cpu": "1", "memory": "4Gi", GPU: "2"},
}
"""What is asked of a node by pods that are there from the beginning."""


def nodes() -> list[dict[str, Any]]:
    """Eight CPUs and 32 GiB each; two with four GPUs and a taint, one cordoned, one with a large image."""
    found = []
    for name, zone in (
        ("closed", "a"), ("empty-1", "a"), ("used-memory", "a"), ("used-both", "b"), ("with-image", "b"), ("gpu-free", "c"), ("gpu-half", "c"),
    ):  # fmt: skip
        labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/os": "linux"}
        taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}] if name.startswith("gpu") else None
        raw = node(name, cpu="8", labels=labels, taints=taints)
        if taints:
            raw["status"]["capacity"] = raw["status"]["allocatable"] = raw["status"]["allocatable"] | {GPU: "4"}
        if name == "closed":
            raw["spec"]["unschedulable"] = True
        if name == "with-image":
            raw["status"]["images"] = [IMAGE]
        found.append(raw)
    return found


def residents() -> list[dict[str, Any]]:
    """The pods that use what `USED` says."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": name,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "c", "resources": {"requests": amounts, "limits": amounts}}],
            },
        }
        for name, amounts in USED.items()
    ]


class Api(Protocol):
    def request(self, method: str, path: str, body: object = None) -> dict[str, Any]: ...


class SandboxApi:
    """JSON over HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url

    def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                said = json.load(error)
            raise ApiError(error.code, said.get("reason", ""), said.get("message", "")) from error


class Place:
    """A cluster with known nodes, an operator at work, and a way to apply files to it."""

    def __init__(self, api: Api, operator: kit.Operator) -> None:
        self.api, self._operator = api, operator

    def apply(self, path: Path, namespace: str) -> None:
        """Every object of a file as it stands there; what is in a namespace and names none goes to this one."""
        for raw in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if raw["kind"] != "SchedulerPolicy":
                raw["metadata"].setdefault("namespace", namespace)
            self.api.request("POST", collection_path(raw), raw)

    def items(self, path: str) -> list[dict[str, Any]]:
        return self.api.request("GET", path)["items"]

    def settle(self) -> None:
        """Waits until the operator knows of the residents only."""
        wait_until(
            lambda: self._operator.metric("scheduler_cache_size", type="pods") == len(USED),
            30,
            "the operator has seen that all pods are gone",
        )

    def set_up(self) -> None:
        for raw in (*nodes(), *residents()):
            self.api.request("POST", collection_path(raw), raw)
        self.settle()


class RealPlace(Place):
    def __init__(self, cluster: ControlPlane, operator: kit.Operator) -> None:
        super().__init__(cluster.client, operator)
        self._cluster = cluster

    def apply(self, path: Path, namespace: str) -> None:
        self._cluster.kubectl("apply", "-n", namespace, "-f", str(path))


@contextlib.contextmanager
def sandbox_place(folder: Path, crds: Sequence[dict[str, Any]]) -> Iterator[Place]:
    with SandboxThread() as sandbox:
        api = SandboxApi(sandbox.url)
        for crd in crds:
            api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        port = free_port()
        kubeconfig = sandbox.write_kubeconfig(folder / "kubeconfig")
        command: Sequence[str] = [sys.executable, "-m", "podwright", "run", f"--kubeconfig={kubeconfig}"]
        process = Process("operator", [*command, f"--health-address=127.0.0.1:{port}"], folder / "operator.log")
        operator = kit.Operator(process, port)
        process.start()
        try:
            kit.wait_ready(operator)
            place = Place(api, operator)
            place.set_up()
            yield place
        finally:
            process.stop(30)


@contextlib.contextmanager
def real_place(cluster: ControlPlane) -> Iterator[Place]:
    kit.install(cluster)
    controllers = cluster.start_controller_manager(["deployment-controller", "replicaset-controller"])
    try:
        with kit.running(cluster) as operator:
            place = RealPlace(cluster, operator)
            place.set_up()
            yield place
    finally:
        controllers.stop()
