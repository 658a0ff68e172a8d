"""Clusters with known nodes for the tests of the examples, in the sandbox or on a real control plane."""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from podwright.sandbox import SandboxThread
from podwright.testing import AnswerError, ControlPlane, Process, node, wait_until
from podwright.testing.objects import collection_path
from podwright.testing.processes import free_port
from support.control_plane import operator_process

IMAGE = {"names": ["quay.io/jupyter/scipy-notebook:2025-03-14"], "sizeBytes": 4_000_000_000}
GPU = "nvidia.com/gpu"
SHARES = "example.com/gpu-milli"
USED = {
    "used-memory": {"cpu": "1", "memory": "20Gi"},
    "used-both": {"cpu": "4800m", "memory": "19660Mi"},
    "gpu-half": {"cpu": "1", "memory": "4Gi", GPU: "2"},
}
"""The requests on each node of the resident pods, which exist from the start."""
SIGNALS = f"--signals={Path(__file__).with_name('signals.yaml')}"
"""Lets the operator know the load of the nodes."""


def nodes() -> list[dict[str, Any]]:
    """Nodes of 8 CPUs and 32 GiB: two with four GPUs and a taint, one cordoned, one with a large image, and three
    others.
    """
    found = []
    for name, zone in (
        ("closed", "a"), ("empty-1", "a"), ("used-memory", "a"), ("used-both", "b"), ("with-image", "b"), ("gpu-free", "c"), ("gpu-half", "c"),
    ):  # fmt: skip
        labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/os": "linux"}
        taints = [{"key": GPU, "value": "present", "effect": "NoSchedule"}] if name.startswith("gpu") else None
        raw = node(name, cpu="8", labels=labels, taints=taints)
        if taints:
            raw["status"]["capacity"] = raw["status"]["allocatable"] = {
                **raw["status"]["allocatable"],
                GPU: "4",
                SHARES: "4000",
            }
        if name == "closed":
            raw["spec"]["unschedulable"] = True
        if name == "with-image":
            raw["status"]["images"] = [IMAGE]
        found.append(raw)
    return found


def residents() -> list[dict[str, Any]]:
    """One pod for each entry of `USED`."""
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
    """A synchronous JSON client for the sandbox."""

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
                status = json.load(error)
            raise AnswerError(error.code, status.get("reason", ""), status.get("message", "")) from error


class ExampleCluster:
    """A cluster with known nodes and a running operator."""

    def __init__(self, api: Api, operator: operator_process.Operator) -> None:
        self.api, self._operator = api, operator

    def apply(self, path: Path, namespace: str) -> None:
        """Creates every object of a file. Namespaced objects without a namespace go to `namespace`."""
        for raw in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if raw["kind"] != "SchedulerPolicy":
                raw["metadata"].setdefault("namespace", namespace)
            self.api.request("POST", collection_path(raw), raw)

    def items(self, path: str) -> list[dict[str, Any]]:
        return self.api.request("GET", path)["items"]

    def settle(self, delete_others: Callable[[], None] = lambda: None) -> None:
        """Waits until the operator's cache holds only the residents. Meanwhile, `delete_others` is called
        repeatedly.
        """

        def settled() -> bool:
            delete_others()
            return self._operator.metric("scheduler_cache_size", type="pods") == len(USED)

        wait_until(settled, 30, "the operator's cache holds only the residents")

    def set_up(self) -> None:
        for raw in (*nodes(), *residents()):
            self.api.request("POST", collection_path(raw), raw)
        self.settle()


class RealCluster(ExampleCluster):
    def __init__(self, cluster: ControlPlane, operator: operator_process.Operator) -> None:
        super().__init__(cluster.client, operator)
        self._cluster = cluster

    def apply(self, path: Path, namespace: str) -> None:
        self._cluster.kubectl("apply", "-n", namespace, "-f", str(path))


@contextlib.contextmanager
def sandbox_cluster(folder: Path, crds: Sequence[dict[str, Any]]) -> Iterator[ExampleCluster]:
    with SandboxThread() as sandbox:
        api = SandboxApi(sandbox.url)
        for crd in crds:
            api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        port = free_port()
        kubeconfig = sandbox.write_kubeconfig(folder / "kubeconfig")
        command: Sequence[str] = [sys.executable, "-m", "podwright", "run", f"--kubeconfig={kubeconfig}", SIGNALS]
        process = Process("operator", [*command, f"--health-address=127.0.0.1:{port}"], folder / "operator.log")
        operator = operator_process.Operator(process, port)
        process.start()
        try:
            operator_process.wait_ready(operator)
            example_cluster = ExampleCluster(api, operator)
            example_cluster.set_up()
            yield example_cluster
        finally:
            process.stop(30)


@contextlib.contextmanager
def real_cluster(cluster: ControlPlane) -> Iterator[ExampleCluster]:
    operator_process.install(cluster)
    controllers = cluster.start_controller_manager(["deployment-controller", "replicaset-controller"])
    try:
        with operator_process.running(cluster, SIGNALS) as operator:
            example_cluster = RealCluster(cluster, operator)
            example_cluster.set_up()
            yield example_cluster
    finally:
        controllers.stop()
