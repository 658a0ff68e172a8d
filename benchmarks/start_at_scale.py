"""Measures a start with 100,000 nodes and a million placed pods, which do not fit beside a real API server: from an
empty process to the first Binding, the memory of the process, and how long a warm standby takes to take over.

    python -m benchmarks.start_at_scale --nodes 10000    # a tenth: 10 pods on each node

The API server is the sandbox in a process of its own, whose lists of nodes and placed pods are generated page by page.
An object is as large as those of a real cluster: managed fields, conditions, volumes and tolerations included.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import web

from podwright.sandbox.cluster import SandboxCluster
from podwright.sandbox.kinds import Obj
from podwright.sandbox.runner import Sandbox
from podwright.sandbox.server import RequestTarget, SandboxServer
from podwright.testing.processes import free_port

CREATED: Final = "2026-01-01T00:00:00Z"
TEMPLATES: Final = 500
"""How many Deployments the pods belong to."""
_OWN: Final = b"OWN-NUMBER"
_NODE: Final = b"NODE-NUMBER"
LATEST: Final = 600.0
"""Seconds after which a start has failed."""


def _managed(manager: str, fields: Obj) -> list[Obj]:
    head = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": CREATED, "fieldsType": "FieldsV1"}
    return [{**head, "fieldsV1": fields}]


def _condition(name: str, number: int = 0) -> Obj:
    return {"type": name, "status": "True" if not number else "False", "lastTransitionTime": CREATED, "reason": "Known"}


def node(template: int) -> Obj:
    """A node of a cloud, in one of three zones."""
    name = "node-OWN-NUMBER"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "general-32",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": f"zone-{template}",
    }
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "200Gi"}
    conditions = [_condition(each, 1) for each in ("MemoryPressure", "DiskPressure", "PIDPressure")]
    return {
        "metadata": {
            "name": name,
            "uid": "node-uid-OWN-NUMBER",
            "resourceVersion": "1",
            "creationTimestamp": CREATED,
            "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
            "managedFields": _managed("kubelet", {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}}),
        },
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": f"cloud:///{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [*conditions, _condition("Ready")],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "images": [{"names": [f"registry.example/app-{i}:1"], "sizeBytes": 100_000_000 + i} for i in range(20)],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "operatingSystem": "linux", "architecture": "amd64"},
        },
    }


def pod(template: int) -> Obj:
    """A running pod of a Deployment, on one of the nodes."""
    name = f"app-{template}-5d8c7f9b64-OWN-NUMBER"
    labels = {"app": f"app-{template}", "pod-template-hash": "5d8c7f9b64"}
    requests = {"cpu": f"{100 + 10 * (template % 20)}m", "memory": f"{128 + 16 * (template % 20)}Mi"}
    mounts = [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    container = {
        "name": "app",
        "image": f"registry.example/app-{template % 20}:1",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(10)],
        "resources": {"requests": requests, "limits": requests},
        "volumeMounts": mounts,
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{template}-5d8c7f9b64", "controller": True}
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    return {
        "metadata": {
            "name": name,
            "namespace": f"team-{template % 50}",
            "uid": "00000000-0000-4000-8000-000000OWN-NUMBER",
            "resourceVersion": "1",
            "creationTimestamp": CREATED,
            "labels": labels,
            "ownerReferences": [{**owner, "uid": f"owner-{template}", "blockOwnerDeletion": True}],
            "managedFields": _managed("kube-controller-manager", {"f:spec": {f"f:{key}": {} for key in container}}),
        },
        "spec": {
            "schedulerName": "podwright",
            "nodeName": "node-NODE-NUMBER",
            "containers": [container],
            "volumes": [{"name": "token", "projected": {"sources": [token], "defaultMode": 420}}],
            "tolerations": tolerations,
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
        },
        "status": {
            "phase": "Running",
            "startTime": CREATED,
            "podIP": "10.0.0.2",
            "hostIP": "10.0.0.1",
            "qosClass": "Guaranteed",
            "conditions": [_condition(each) for each in ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
            "containerStatuses": [{"name": "app", "ready": True, "restartCount": 0, "started": True}],
        },
    }


class Pages:
    """Pages of a list as text. Objects of a template differ only in their number and in the number of their node, so
    the server takes little of the time that is measured.
    """

    def __init__(self, count: int, make: Callable[[int], Obj], nodes: int, templates: int) -> None:
        self._count = count
        self._nodes = nodes
        self._templates = [
            orjson.dumps(make(index)).replace(b"%", b"%%").replace(_OWN, b"%(own)06d").replace(_NODE, b"%(node)06d")
            for index in range(templates)
        ]

    def page(self, start: int, limit: int, version: int) -> bytes:
        """Objects from `start` on, at most `limit` (0: all)."""
        end = min(start + (limit or self._count), self._count)
        templates, nodes = self._templates, self._nodes
        items = b",".join(
            templates[i % len(templates)] % {b"own": i, b"node": i * 7919 % nodes} for i in range(start, end)
        )
        following = b',"continue":"%d"' % end if end < self._count else b""
        return b'{"metadata":{"resourceVersion":"%d"%b},"items":[%b]}' % (version, following, items)


class ListServer(SandboxServer):
    """Also has nodes and placed pods that exist in its lists alone."""

    def __init__(self, cluster: SandboxCluster, nodes: int, pods: int) -> None:
        super().__init__(cluster)
        self._pages = {"Node": Pages(nodes, node, nodes, 3), "Pod": Pages(pods, pod, nodes, TEMPLATES)}
        self._metadata = {
            "Node": Pages(nodes, lambda index: {"metadata": node(index)["metadata"]}, nodes, 3),
            "Pod": Pages(pods, lambda index: {"metadata": pod(index)["metadata"]}, nodes, TEMPLATES),
        }

    def _list(self, request: web.BaseRequest, target: RequestTarget) -> web.Response:
        kind, query = target.kind.kind, request.query
        selector = query.get("fieldSelector", "")
        generated = (kind == "Node" and not selector) or (kind == "Pod" and "spec.nodeName!=," in f"{selector},")
        if not generated:
            return super()._list(request, target)
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 0)
        pages = self._metadata if "PartialObjectMetadata" in request.headers.get("Accept", "") else self._pages
        body = pages[kind].page(start, limit, self.cluster.store.rv)
        return web.Response(body=body, content_type="application/json")


class ListSandbox(Sandbox):
    """A sandbox with such a server."""

    def __init__(self, nodes: int, pods: int, port: int) -> None:
        super().__init__(port=port, kubelet=False, controllers=False)
        self._server = ListServer(self.cluster, nodes, pods)


async def serve(nodes: int, pods: int, port: int) -> None:
    """Serves until SIGTERM. A pod waits from the start."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with ListSandbox(nodes, pods, port):
        await stop.wait()


@contextmanager
def process(command: list[str], environ: dict[str, str] | None = None) -> Iterator[int]:
    """Runs the command, and ends it. Yields its process id."""
    out = subprocess.DEVNULL
    started = subprocess.Popen(command, env={**os.environ, **(environ or {})}, stdout=out, stderr=out)
    try:
        yield started.pid
    finally:
        started.terminate()
        started.wait(60)


def call(url: str, body: Obj | None = None) -> Any:
    """The answer to a GET, or to a POST of the body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.loads(response.read())


def until(condition: Callable[[], bool]) -> float:
    """Seconds until the condition holds. Raises TimeoutError after LATEST."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > LATEST:
            raise TimeoutError
        time.sleep(0.02)
    return time.monotonic() - started


def answers(url: str) -> bool:
    """True if the URL answers with success."""
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except OSError:
        return False
    return True


def holder(url: str) -> str:
    """Who holds the Lease."""
    return str(call(f"{url}/apis/coordination.k8s.io/v1/namespaces/default/leases/podwright")["spec"]["holderIdentity"])


def usage(pid: int) -> tuple[float, float]:
    """A process's CPU seconds and resident MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return (int(fields[11]) + int(fields[12])) / ticks, resident / 1e6


def create_pod(url: str, name: str) -> Callable[[], bool]:
    """Creates a waiting pod with a spread constraint, and returns a function that tells whether it is bound."""
    raw = pod(0)
    constraint = {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    spec = {key: value for key, value in raw["spec"].items() if key != "nodeName"}
    spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": {"matchLabels": {"app": "app-0"}}}]
    metadata = {"name": name, "namespace": "default", "labels": raw["metadata"]["labels"]}
    path = f"{url}/api/v1/namespaces/default/pods"
    call(path, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return lambda: bool(call(f"{path}/{name}")["spec"].get("nodeName"))


def measure(nodes: int, pods: int, folder: Path, *, standby: bool) -> dict[str, float]:
    """The figures of one start, and of one takeover."""
    port = free_port()
    url, kubeconfig = f"http://127.0.0.1:{port}", folder / "kubeconfig"
    cluster = {"clusters": [{"name": "lists", "cluster": {"server": url}}], "users": [{"name": "lists", "user": {}}]}
    context = {"name": "lists", "context": {"cluster": "lists", "user": "lists"}}
    kubeconfig.write_text(json.dumps({**cluster, "contexts": [context], "current-context": "lists"}))
    lease = ["--leader-elect", "--leader-elect-resource-namespace=default"] if standby else []

    def scheduler() -> tuple[list[str], str]:
        health = f"127.0.0.1:{free_port()}"
        command = [sys.executable, "-m", "podwright.cli.main", "run", "--kubeconfig", str(kubeconfig)]
        return [*command, "--pod-intake=watch", f"--health-address={health}", *lease], f"http://{health}/readyz"

    found: dict[str, float] = {}
    stub = [sys.executable, "-m", __spec__.name, "--serve", str(port), "--nodes", str(nodes), "--pods", str(pods)]
    malloc = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    with process(stub):
        until(lambda: answers(f"{url}/readyz"))
        bound = create_pod(url, "first")
        first, _ = scheduler()
        with process(first, malloc) as pid:
            found["first_binding_s"] = until(bound)
            found["cpu_s"], found["resident_mb"] = usage(pid)
            if standby:
                second, ready = scheduler()
                with process(second, malloc):
                    until(lambda: answers(ready))
                    leader = holder(url)
                    os.kill(pid, signal.SIGTERM)
                    released = until(lambda: holder(url) != leader)  # until then, the leader may bind the pod
                    found["takeover_s"] = released + until(create_pod(url, "second"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--pods", type=int, help="by default 10 for each node")
    parser.add_argument("--standby", action="store_true", help="also measure a takeover: needs the memory twice")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    pods = 10 * given.nodes if given.pods is None else given.pods
    if given.serve is not None:
        asyncio.run(serve(given.nodes, pods, given.serve))
        return
    with tempfile.TemporaryDirectory(prefix="podwright-start-") as folder:
        found = {"nodes": given.nodes, "pods": pods, **measure(given.nodes, pods, Path(folder), standby=given.standby)}
    print("   ".join(f"{name} {value:,.1f}" for name, value in found.items()))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
