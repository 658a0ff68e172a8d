"""Starts the schedulers under test as separate processes: Podwright, kube-scheduler and the null scheduler.

All have the same `schedulerName`, so they share the prepared clusters: kube-scheduler's default profile gets that name.
Podwright runs as the service account of `manifests/base`, and the null scheduler as a cluster admin.
"""

import compileall
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import yaml

import podwright as package
from benchmarks.workloads import SCHEDULER_NAME
from podwright.testing import ControlPlane, Process
from podwright.testing.objects import Json
from podwright.testing.processes import free_port

CHECKOUT = Path(__file__).parent.parent
BASE = CHECKOUT / "manifests" / "base"
_NULL_IS_ADMIN: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "benchmark"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "null", "namespace": "benchmark"}],
}


@dataclass(frozen=True, slots=True)
class Installed:
    """How `manifests/base` runs Podwright: its service account (namespace, name), its arguments after `run`, its
    environment.
    """

    account: tuple[str, str]
    arguments: tuple[str, ...]
    environ: Mapping[str, str]


def install(cluster: ControlPlane, base: Path = BASE) -> Installed:
    """Apply what the schedulers need in a cluster: all of `manifests/base` except the Deployment.

    Also compiles Podwright to bytecode, as the image does: without it a start takes half a second longer.
    """
    compileall.compile_dir(Path(package.__file__).parent, quiet=2)
    documents: list[Json] = [body for body in yaml.safe_load_all(cluster.kubectl("kustomize", str(base))) if body]
    deployment = next(body for body in documents if body["kind"] == "Deployment")
    others = [body for body in documents if body is not deployment]
    cluster.apply(*sorted(others, key=lambda body: body["kind"] != "Namespace"), _NULL_IS_ADMIN)
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    arguments = container["args"]
    return Installed(
        (deployment["metadata"]["namespace"], pod["serviceAccountName"]),
        tuple(arguments[arguments.index("run") + 1 :]),
        {
            **{variable["name"]: variable["value"] for variable in container.get("env", ()) if "value" in variable},
            # A pod knows its namespace.
            "PODWRIGHT_LEADER_ELECT_RESOURCE_NAMESPACE": deployment["metadata"]["namespace"],
        },
    )


@dataclass(frozen=True, slots=True)
class Series:
    """A scheduler under test: its name in results, and a function that starts it without waiting until it is ready.

    `prepare`: what is done before, and is not measured.
    """

    name: str
    start: Callable[[ControlPlane, Installed], Process]
    prepare: Callable[[ControlPlane, Installed], object] | None = None


def _start_kube_scheduler(cluster: ControlPlane, _installed: Installed) -> Process:
    return cluster.start_scheduler({"profiles": [{"schedulerName": SCHEDULER_NAME}]}, wait=False)


def _start_null(cluster: ControlPlane, _installed: Installed, *arguments: str) -> Process:
    kubeconfig = cluster.service_account_kubeconfig("benchmark", "null")
    command = [sys.executable, "-m", "benchmarks.null_scheduler", kubeconfig, SCHEDULER_NAME, *arguments]
    return cluster.start_process("null-scheduler", command, {"PYTHONPATH": str(CHECKOUT)})


def _start_null_without_events(cluster: ControlPlane, installed: Installed) -> Process:
    return _start_null(cluster, installed, "--without-events")


def podwright(
    arguments: tuple[str, ...] = (),
    name: str = "podwright",
    program: Sequence[str] = ("-m", "podwright.cli.main"),
    environ: Mapping[str, str] | None = None,
) -> Series:
    """Podwright with `arguments` after the installed ones. `program` is what Python runs."""

    def start(cluster: ControlPlane, installed: Installed) -> Process:
        kubeconfig = cluster.service_account_kubeconfig(*installed.account)
        given = [argument for argument in installed.arguments if not argument.startswith("--secure-port")]
        given += [f"--health-address=127.0.0.1:{free_port()}", *arguments]
        command: list[str | Path] = [sys.executable, *program, "run", "--kubeconfig", kubeconfig, *given]
        return cluster.start_process(name, command, {**installed.environ, **(environ or {})})

    return Series(name, start)


_HELD_LEASE: Json = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "held", "namespace": "default"},
    "spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 86_400, "renewTime": "2026-01-01T00:00:00.000000Z"},
}


def with_standby(leader: Series, name: str) -> Series:
    """The same with a second instance that is ready before: it reads everything, and stands by for a Lease that nobody
    gives up.
    """

    def start_standby(cluster: ControlPlane, installed: Installed) -> Process:
        cluster.client.create(_HELD_LEASE)
        port = free_port()
        given = [argument for argument in installed.arguments if not argument.startswith("--secure-port")]
        lease = ["--leader-elect-resource-name=held", "--leader-elect-resource-namespace=default"]
        command: list[str | Path] = [sys.executable, "-m", "podwright.cli.main", "run", "--kubeconfig"]
        command += [cluster.kubeconfig, *given, f"--health-address=127.0.0.1:{port}", *lease]
        standby = cluster.start_process("standby", command, installed.environ)
        standby.wait_ready(lambda: is_ready(port), 60)
        return standby

    return Series(name, leader.start, start_standby)


def with_rules(series: Series, name: str) -> Series:
    """The same with a policy of five filters and three scores in CEL for all pods."""

    def apply_policy(cluster: ControlPlane, _installed: Installed) -> None:
        rules = {
            kind: [{"name": f"r{i}", "expression": text} for i, text in enumerate(texts)]
            for kind, texts in (("filters", RULE_FILTERS), ("scores", RULE_SCORES))
        }
        spec = {"schedulerName": SCHEDULER_NAME, "rules": rules}
        cluster.client.create(
            {
                "apiVersion": "podwright.dev/v1alpha1",
                "kind": "SchedulerPolicy",
                "metadata": {"name": "rules"},
                "spec": spec,
            }
        )

    return Series(name, series.start, apply_policy)


RULE_FILTERS = (
    'node.labels[?"topology.kubernetes.io/zone"].orValue("") != "closed"',
    'pod.namespace != "system" || node.labels[?"tier"].orValue("") == "system"',
    'node.taints.all(t, t.key != "dedicated" || t.value == pod.namespace)',
    "node.free.cpu >= 100 && node.free.memory >= 104857600",
    'node.podCount < 100 && !node.name.startsWith("gpu-")',
)
RULE_SCORES = (
    "node.free.cpu * 100 / node.allocatable.cpu",
    'node.labels[?"tier"].orValue("") == "spare" ? 20 : 100',
    "100 - 25 * size(node.taints)",
)
"""Over labels, taints and free resources."""


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


KUBE_SCHEDULER = Series("kube_scheduler", _start_kube_scheduler)
NULL = Series("null", _start_null)
NULL_WITHOUT_EVENTS = Series("null_without_events", _start_null_without_events)
