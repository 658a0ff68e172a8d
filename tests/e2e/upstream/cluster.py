"""The cluster that the specs run on: real etcd, kube-apiserver and kube-controller-manager, and KWOK as kubelets.

All admission plugins and controllers that are on by default are on. The `default-scheduler` is kube-scheduler or
Podwright. KWOK runs bound pods; `kubelet.yaml` adds the other kubelet behaviour that the specs need. Read `suite` next.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from podwright.core.objects.pod import KUBERNETES_DEFAULT_SCHEDULER_NAME
from podwright.testing import Binaries, ControlPlane, node, wait_until, workload_api
from support.control_plane import operator_process

SCHEDULERS = ("kube-scheduler", "podwright")
NODES = 3
_SYSTEM_PODS = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")
"""The specs consider the cluster unhealthy, and wait a minute, unless each node runs a pod of each."""
_MORE_STAGES = Path(__file__).with_name("kubelet.yaml")
_NOT_DELETED_BY_KWOK = (
    {"key": ".spec.containers.[].lifecycle.preStop", "operator": "DoesNotExist"},
    {"key": ".metadata.deletionGracePeriodSeconds == 0", "operator": "NotIn", "values": ["true"]},
)
_BASE = ("namespace.yaml", "service-account.yaml", "cluster-role.yaml")

Json = dict[str, Any]


@contextmanager
def cluster(scheduler: str, binaries: Binaries | None = None, *, pod_groups: bool = True) -> Iterator[ControlPlane]:
    """A running cluster whose default scheduler is one of SCHEDULERS.

    With `pod_groups`, it serves Kubernetes' Workload API, if its version has it.
    """
    binaries = binaries or Binaries()
    api = workload_api(binaries.versions.kubernetes_minor) if pod_groups else None
    with ControlPlane(binaries=binaries, disabled_admission=(), **(api.options if api else {})) as control_plane:
        flags = [f"--root-ca-file={control_plane.certificate_authority}"]
        control_plane.start_controller_manager(["*"], flags)
        stages = control_plane.folder / "stages.yaml"
        stages.write_text(kubelet_stages(control_plane.kwok_stages.read_text()))
        control_plane.start_kwok(stages=stages)
        control_plane.bulk.create(_node(number) for number in range(NODES))
        _start(control_plane, scheduler)
        _start_system_pods(control_plane)
        yield control_plane


def _start(control_plane: ControlPlane, scheduler: str) -> None:
    if scheduler == "kube-scheduler":
        control_plane.start_scheduler()
        return
    for name in _BASE:
        control_plane.apply(operator_process.BASE / name)
    control_plane.apply(operator_process.CHECKOUT / "crds")
    operator_process.start(
        control_plane, "--scheduler-name", KUBERNETES_DEFAULT_SCHEDULER_NAME, "--pod-intake", "watch", name=scheduler
    )


def _node(number: int) -> Json:
    zone = f"zone-{'abc'[number % 3]}"
    body = node(f"node-{number}", cpu="4", memory="16Gi", labels={"topology.kubernetes.io/zone": zone})
    for resources in (body["status"]["capacity"], body["status"]["allocatable"]):
        resources["ephemeral-storage"] = "100Gi"
    body["status"]["addresses"] = [{"type": "InternalIP", "address": f"192.0.2.{number + 1}"}]
    return body


def _start_system_pods(control_plane: ControlPlane) -> None:
    for name in _SYSTEM_PODS:
        control_plane.client.create(_daemon_set(name))
    wait_until(lambda: _running(control_plane) == NODES * len(_SYSTEM_PODS), 60, "all pods of kube-system run")


def _running(control_plane: ControlPlane) -> int:
    pods = control_plane.client.items("/api/v1/namespaces/kube-system/pods")
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def _daemon_set(name: str) -> Json:
    containers = [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}]
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": containers, "tolerations": [{"operator": "Exists"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    }


def kubelet_stages(published: str) -> str:
    """KWOK's Stages, extended by the kubelet behaviour that specs rely on.

    KWOK deletes pods by name. It must not delete a pod that is being force-deleted, because a new pod of the same name
    may already exist.
    """
    stages = [stage for stage in yaml.safe_load_all(published) if stage]
    for stage in stages:
        if stage["metadata"]["name"] == "pod-delete":
            stage["spec"]["selector"]["matchExpressions"].extend(_NOT_DELETED_BY_KWOK)
    return yaml.safe_dump_all([*stages, *yaml.safe_load_all(_MORE_STAGES.read_text())])
