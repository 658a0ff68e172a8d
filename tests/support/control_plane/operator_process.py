"""Runs the operator as a separate process on the real control plane, and reads the cluster that it schedules."""

from __future__ import annotations

import http.client
import json
import math
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.engine.outcomes.binding import debug
from podwright.testing import ControlPlane, KubectlError, Process, wait_until
from podwright.testing.processes import ProcessError, free_port

CHECKOUT = Path(__file__).parents[3]
BASE = CHECKOUT / "manifests" / "base"
ACCOUNT = ("podwright-system", "podwright")
GROUP = "/apis/podwright.dev/v1alpha1"
POLICIES = f"{GROUP}/schedulerpolicies"
ANNOTATION = "podwright.dev/decision"
DEPLOYED_PORT = "--secure-port=10259"
POD_ENVIRON = {"PODWRIGHT_LEADER_ELECT_RESOURCE_NAMESPACE": ACCOUNT[0], "POD_NAMESPACE": ACCOUNT[0]}
"""The variables that the command line of manifests/base gets from its pod, for a process outside of one."""

_run = [sys.executable, "-m", "podwright", "run"]
_kopf = [sys.executable, "-m", "kopf", "run", "--all-namespaces"]
_COMPLAINT = re.compile(r"^[WE]\d{4} |\b(WARNING|ERROR)\b")
WAYS: Mapping[str, Sequence[str]] = {
    "podwright run": _run,
    "kopf run -m": [*_kopf, "-m", "podwright.controllers"],
    "kopf run FILE": [*_kopf, str(CHECKOUT / "operator" / "main.py")],
}


@dataclass
class Operator:
    """A running operator."""

    process: Process
    port: int
    log_start: int = 0
    """Where its lines start in the log file, which operators of the same name share."""
    scheme: str = "http"

    def get(self, path: str, token: str = "", seconds: float = 30, as_user: str = "") -> tuple[int, str]:
        """GET from its port, with `as_user` as this other user. Returns the status and the body; status 0 without a
        response within these seconds. Does not verify certificates.
        """
        request = urllib.request.Request(f"{self.scheme}://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        if as_user:
            request.add_header("Impersonate-User", as_user)
        try:
            with urllib.request.urlopen(request, timeout=seconds, context=_unverified()) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, http.client.HTTPException):  # the latter if it ends while it answers
            return 0, ""

    @property
    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def metric(self, name: str, /, **labels: str) -> float:
        """The sum of a metric's samples with these labels. Without a response NaN, which equals no number and is
        neither less nor greater.
        """
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        status, text = self.get("/metrics")
        if status == 0:
            return math.nan
        lines = text.splitlines()
        families = [line.split(" ")[2] for line in lines if line.startswith("# TYPE ")]
        assert not lines or any(name.startswith(family) for family in families), f"there is no metric {name}"
        found = [line for line in lines if line.split("{")[0].split(" ")[0] == name and all(w in line for w in wanted)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    def log(self) -> str:
        """The lines that it has logged."""
        return _read_from(self.process.log, self.log_start).decode()

    def complaints(self) -> list[str]:
        """Its warnings and errors, in the text format of `podwright run` or in one of Kopf's."""
        return [line for line in self.log().splitlines() if _COMPLAINT.search(line)]


_logs: dict[Path, int] = {}
"""The number of bytes of each log file that `binding_cycle_violations` has read."""


def binding_cycle_violations() -> list[str]:
    """New log lines of all operators about violations that debug mode caught (see
    podwright/engine/outcomes/binding/debug.py).
    """
    found: list[str] = []
    for path in [path for path in _logs if path.exists()]:
        text = _read_from(path, _logs[path])
        _logs[path] += len(text)
        found += [line for line in text.decode(errors="replace").splitlines() if debug.PREFIX in line]
    return found


def _read_from(path: Path, start: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read()


def install(cluster: ControlPlane) -> None:
    """Apply manifests/base. Without controllers, its Deployment starts no pods."""
    cluster.apply(BASE)
    wait_until(lambda: cluster.client.raw("GET", POLICIES)[0] == 200, 30, "the API server serves policies")


_KEPT = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    *(f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings")),
    *(f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("roles", "rolebindings")),
    "/api/v1/namespaces",
    "/api/v1/serviceaccounts",
)
"""The kinds of manifests/base that the operator needs, and that `empty_cluster` leaves."""
_installed: dict[ControlPlane, Mapping[str, str]] = {}


def stay_installed(cluster: ControlPlane) -> None:
    """`install`, unless an earlier call did it and the CRDs, the account and its rights are unchanged: kubectl takes a
    second of CPU to find that out.
    """
    if _installed.get(cluster) != _versions(cluster):
        install(cluster)
        _installed[cluster] = _versions(cluster)


def _versions(cluster: ControlPlane) -> Mapping[str, str]:
    """Of what is installed, by uid."""
    label = "app.kubernetes.io/name=podwright"
    found = [each["metadata"] for path in _KEPT for each in cluster.client.items(path, labelSelector=label)]
    return {metadata["uid"]: metadata["resourceVersion"] for metadata in found}


def wait_listed(cluster: ControlPlane, kind: str) -> None:
    """Wait until kubectl finds a kind of ours, by its plural. The API server lists it some 2 seconds after it serves
    it.
    """

    def listed() -> bool:
        status, body = cluster.client.raw("GET", GROUP)
        return status == 200 and kind in {each["name"] for each in json.loads(body)["resources"]}

    wait_until(listed, 30, f"the API server lists {kind}")


def may(cluster: ControlPlane, kubeconfig: Path, *what: str) -> bool:
    """True if the user may do this, for example `list nodes`. The API server learns of a new role by a watch."""
    try:
        return cluster.kubectl("auth", "can-i", *what, kubeconfig=kubeconfig).strip() == "yes"
    except KubectlError:  # kubectl exits with 1 for "no"
        return False


def start(
    cluster: ControlPlane,
    *arguments: str,
    way: str = "podwright run",
    environ: Mapping[str, str] | None = None,
    kubeconfig: Path | None = None,
    name: str = "operator",
    ready: bool = True,
) -> Operator:
    """Start an operator as the service account of manifests/base. With `ready`, wait until it is ready."""
    stop_reused(cluster)
    kubeconfig = kubeconfig or cluster.service_account_kubeconfig(*ACCOUNT)
    port = free_port()
    settings = {
        "PODWRIGHT_KUBECONFIG": str(kubeconfig),
        "PODWRIGHT_HEALTH_ADDRESS": f"127.0.0.1:{port}",
        "PYTHONWARNINGS": "default",
        **deployed_environ(),
        **(environ or {}),
    }
    earlier = {path: path.stat().st_size for path in cluster.logs.glob("*.log")}
    process = cluster.start_process(name, [*WAYS[way], *arguments], settings)
    operator = Operator(process, port, earlier.get(process.log, 0))
    _logs.setdefault(process.log, operator.log_start)
    if ready:
        wait_ready(operator)
    return operator


@cache
def deployed_environ() -> Mapping[str, str]:
    """The environment that manifests/base gives the operator."""
    container = yaml.safe_load((BASE / "deployment.yaml").read_text())["spec"]["template"]["spec"]["containers"][0]
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def wait_ready(operator: Operator, timeout: float = 60) -> None:
    """Wait until it is ready. Raises ProcessError if it has ended, even if another process answers on its port."""
    operator.process.wait_ready(lambda: operator.ready, timeout)
    if not operator.process.alive:
        raise ProcessError(f"another process answers on port {operator.port}\n{operator.process.log_tail()}")


@contextmanager
def running(cluster: ControlPlane, *arguments: str, **options: Any) -> Iterator[Operator]:
    """An operator that is stopped gracefully at the end of the block."""
    operator = start(cluster, *arguments, **options)
    try:
        yield operator
    finally:
        operator.process.stop(30)


_reused: dict[ControlPlane, tuple[Sequence[str], Operator]] = {}
"""The operator of each cluster that goes on for the next test."""


@contextmanager
def reused(cluster: ControlPlane, *arguments: str) -> Iterator[Operator]:
    """An operator with these arguments that goes on after the block, for the next one with the same arguments.

    Any other start of an operator on the cluster stops it, and so does the end of the test's module. Its log starts
    with the block, and it knows the nodes and placed pods of that time: watches have no common order.
    """
    known, operator = _reused.get(cluster, (None, None))
    if operator is None or known != arguments or not operator.process.alive:
        operator = start(cluster, *arguments)
        _reused[cluster] = arguments, operator
    wait_until(lambda: _known(operator) == _there(cluster), 30, "the operator knows the nodes and placed pods")
    yield replace(operator, log_start=operator.process.log.stat().st_size)
    assert operator.process.alive, operator.process.log_tail()


def stop_reused(*clusters: ControlPlane) -> None:
    """Stop gracefully the operators that go on for later tests: those of these clusters, or all."""
    for cluster in clusters or tuple(_reused):
        if cluster in _reused:
            _reused.pop(cluster)[1].process.stop(30)


def wait_known(operator: Operator, nodes: int, pods: int) -> None:
    """Wait until the operator knows so many nodes and placed pods. Watches have no common order, so it may see a pod
    before a node that was created earlier.
    """
    wait_until(lambda: _known(operator) == (nodes, pods), 30, f"the operator knows {nodes} nodes and {pods} pods")


def wait_queue_known(cluster: ControlPlane, name: str) -> None:
    """Wait until the operator that `reused` has started, if any, knows a queue, for the same reason."""
    if cluster in _reused:
        _, operator = _reused[cluster]
        known = lambda: f'queue="{name}"' in operator.get("/metrics")[1]
        wait_until(known, 30, f"the operator knows queue {name}")


def wait_accepted(cluster: ControlPlane, policy: str) -> None:
    """Wait until the operator has accepted a SchedulerPolicy."""
    accepted = lambda: condition(cluster.client.get(f"{POLICIES}/{policy}"), "Accepted").get("status") == "True"
    wait_until(accepted, 30, f"policy {policy} is accepted")


# Reading the cluster


def pods(cluster: ControlPlane, namespace: str = "", **query: str) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    return cluster.client.items(path, **query)


def bound(cluster: ControlPlane, namespace: str) -> int:
    return len(pods(cluster, namespace, fieldSelector="spec.nodeName!="))


def wait_bound(cluster: ControlPlane, namespace: str, count: int, timeout: float = 90) -> None:
    wait_until(lambda: bound(cluster, namespace) >= count, timeout, f"{count} pods of {namespace} are bound")


def over_committed(cluster: ControlPlane) -> dict[str, str]:
    """Nodes whose pods request more than is allocatable, according to the API server."""
    found = {}
    parsed = [parse_pod(raw) for raw in pods(cluster)]
    for raw in cluster.client.items("/api/v1/nodes"):
        node = parse_node(raw)
        mine = [pod for pod in parsed if pod.node_name == node.name and not pod.finished]
        sums = Counter[str]({"pods": len(mine)})
        for pod in mine:
            sums.update(pod.requests.amounts)
        excess = {r: (n, node.allocatable.get(r, 0)) for r, n in sums.items() if n > node.allocatable.get(r, 0)}
        if excess:
            found[node.name] = str(excess)
    return found


def _there(cluster: ControlPlane) -> tuple[int, int]:
    """The number of nodes, and of pods on nodes that have not finished."""
    placed = [pod for pod in map(parse_pod, pods(cluster)) if pod.node_name and not pod.finished]
    return len(cluster.client.items("/api/v1/nodes")), len(placed)


def _known(operator: Operator) -> tuple[float, float]:
    """The same as the operator knows it."""
    nodes, pods = (operator.metric("scheduler_cache_size", type=kind) for kind in ("nodes", "pods"))
    return nodes, pods


def foreign_marks(raw: Mapping[str, Any]) -> list[str]:
    """Finalizers on an object, and its annotations except the decision."""
    metadata = raw["metadata"]
    return [key for key in metadata.get("annotations", {}) if key != ANNOTATION] + metadata.get("finalizers", [])


def events(cluster: ControlPlane, namespace: str, reason: str) -> list[dict[str, Any]]:
    found = cluster.client.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [event for event in found if event["reason"] == reason]


def decision(raw: Mapping[str, Any]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(raw["metadata"]["annotations"][ANNOTATION])
    return parsed


def condition(raw: Mapping[str, Any], kind: str = "PodScheduled") -> dict[str, Any]:
    """A condition of an object's status, or an empty dict."""
    return next((c for c in raw.get("status", {}).get("conditions", ()) if c["type"] == kind), {})


def deployed_command(port: int) -> list[str]:
    """The command line of manifests/base, with this Python and another port."""
    (container,) = yaml.safe_load((BASE / "deployment.yaml").read_text())["spec"]["template"]["spec"]["containers"]
    command = [*container["command"], *container["args"]]
    assert command[0] == "podwright"
    position = command.index(DEPLOYED_PORT)
    command[position] = DEPLOYED_PORT.replace("10259", str(port))
    return [sys.executable, "-m", *command]


@cache
def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
