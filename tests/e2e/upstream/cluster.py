"""The cluster that the specs find: real etcd, kube-apiserver and kube-controller-manager, and KWOK for kubelets.

Everything that kube-apiserver admits and kube-controller-manager controls by default is on, and what schedules is the
cluster's `default-scheduler`, be it kube-scheduler or Podwright. KWOK's pods run as they are bound; what the specs ask of
a kubelet beyond that is in `kubelet.yaml`. Read `suite` next.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from podwright.testing import Binaries, ControlPlane, node, wait_until
from support.control_plane import operator_process as operator_kit

SCHEDULERS = ("kube-scheduler", "podwright")
NODES = 3
DEFAULT_SCHEDULER = "default-scheduler"
_SYSTEM_PODS = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")
"""Without a pod of each on each node the specs take the cluster for unwell, and wait a minute for them."""
_WORKLOAD_GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
_WORKLOAD_API = {"scheduling.k8s.io/v1beta1": True}
_MORE_STAGES = Path(__file__).with_name("kubelet.yaml")
_LEFT_TO_A_KUBELET = (
    {"key": ".spec.containers.[].lifecycle.preStop", "operator": "DoesNotExist"},
    {"key": ".metadata.deletionGracePeriodSeconds == 0", "operator": "NotIn", "values": ["true"]},
)
_BASE = ("namespace.yaml", "service-account.yaml", "cluster-role.yaml")

Json = dict[str, Any]


@contextmanager
def cluster(scheduler: str, binaries: Binaries | None = None, *, pod_groups: bool = True) -> Iterator[ControlPlane]:
    """A running cluster whose default scheduler is one of SCHEDULERS; with `pod_groups` it has Kubernetes' Workload API."""
    gates = {"feature_gates": _WORKLOAD_GATES, "runtime_config": _WORKLOAD_API} if pod_groups else {}
    with ControlPlane(binaries=binaries, disabled_admission=(), **gates) as control_plane:
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
        control_plane.apply(operator_kit.BASE / name)
    control_plane.apply(operator_kit.CHECKOUT / "crds")
    operator_kit.start(control_plane, "--scheduler-name", DEFAULT_SCHEDULER, "--pod-intake", "watch", name=scheduler)


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
    wait_until(lambda: _running(control_plane) == NODES * len(_SYSTEM_PODS), 60, "the pods of kube-system run")


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
    """KWOK's Stages with what a kubelet does besides, and specs rely on.

    KWOK deletes by name: a pod that somebody else deletes by force must be left alone, for the next of that name may be
    there already.
    """
    stages = [stage for stage in yaml.safe_load_all(published) if stage]
    for stage in stages:
        if stage["metadata"]["name"] == "pod-delete":
            stage["spec"]["selector"]["matchExpressions"].extend(_LEFT_TO_A_KUBELET)
    return yaml.safe_dump_all([*stages, *yaml.safe_load_all(_MORE_STAGES.read_text())])
