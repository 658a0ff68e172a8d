"""Who schedules: Podwright, kube-scheduler, and the null scheduler, each as a process of its own under RBAC.

All serve the same `schedulerName`, so that one prepared cluster serves all: kube-scheduler's default profile is given that name.
Podwright runs as it is installed, as the service account of `manifests/base`; the null scheduler may do anything.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from benchmarks.workloads import SCHEDULER_NAME
from podwright.testing import ControlPlane, Process
from podwright.testing.resources import Json

_CHECKOUT = Path(__file__).parent.parent
_INSTALLED_KINDS = frozenset(
    {
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "CustomResourceDefinition",
    }
)
_FULL_POWER: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "benchmark"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "null", "namespace": "benchmark"}],
}


@dataclass(frozen=True, slots=True)
class Installed:
    """What `manifests/base` brings besides the Deployment, and the service account that it runs as."""

    objects: list[Json] = field(default_factory=list)
    account: tuple[str, str] = ("benchmark", "null")

    @classmethod
    def read(cls, cluster: ControlPlane, base: Path = _CHECKOUT / "manifests" / "base") -> "Installed":
        if not (base / "kustomization.yaml").exists():
            return cls()
        documents = [body for body in yaml.safe_load_all(cluster.kubectl("kustomize", str(base))) if body]
        objects = [body for body in documents if body["kind"] in _INSTALLED_KINDS]
        account = next(body["metadata"] for body in objects if body["kind"] == "ServiceAccount")
        return cls(objects, (account["namespace"], account["name"]))


def install(cluster: ControlPlane) -> tuple[str, str]:
    """Put into a cluster what schedulers need to run there; Podwright's service account."""
    installed = Installed.read(cluster)
    order = sorted(installed.objects, key=lambda body: body["kind"] != "Namespace")
    cluster.apply(*order, _FULL_POWER)
    return installed.account


@dataclass(frozen=True, slots=True)
class Series:
    """A scheduler under test: its name in results, and how to start it without waiting until it is ready."""

    name: str
    start: Callable[[ControlPlane, tuple[str, str]], Process]


def _start_kube_scheduler(cluster: ControlPlane, _account: tuple[str, str]) -> Process:
    return cluster.start_scheduler({"profiles": [{"schedulerName": SCHEDULER_NAME}]}, wait=False)


def _start_null(cluster: ControlPlane, _account: tuple[str, str]) -> Process:
    kubeconfig = cluster.service_account_kubeconfig("benchmark", "null")
    command: list[str | Path] = [sys.executable, "-m", "benchmarks.null_scheduler", kubeconfig, SCHEDULER_NAME]
    return cluster.start_process("null-scheduler", command, {"PYTHONPATH": str(_CHECKOUT)})


def podwright(arguments: tuple[str, ...] = (), name: str = "podwright") -> Series:
    """Podwright with further command line arguments."""

    def start(cluster: ControlPlane, account: tuple[str, str]) -> Process:
        kubeconfig = cluster.service_account_kubeconfig(*account)
        program: list[str | Path] = [
            sys.executable,
            "-m",
            "podwright.cli.main",
            "run",
            "--kubeconfig",
            kubeconfig,
            *arguments,
        ]
        return cluster.start_process(name, program)

    return Series(name, start)


KUBE_SCHEDULER = Series("kube_scheduler", _start_kube_scheduler)
NULL = Series("null", _start_null)
