"""Pod groups and their members on the real API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from podwright.testing import ControlPlane, Versions, node, pod, wait_until, workload_api
from support.control_plane import operator_process as kit

OURS = "podwright"
ZONE = "topology.kubernetes.io/zone"
LABEL = "scheduling.x-k8s.io/pod-group"
CRD = kit.CHECKOUT / "crds" / "gangs"
SERVED = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
_API = workload_api(Versions.from_environ().kubernetes_minor)
WORKLOAD = _API.version if _API else ""
"""The version of the Workload API; empty if this version of Kubernetes has no PodGroups."""
SERVING_GROUPS: Mapping[str, Any] = _API.options if _API else {}
"""The fields of a control plane's options that make it serve PodGroups."""
SERVING_ALL: Mapping[str, Any] = SERVING_GROUPS
"""The same with all that further feature gates add: composite groups, groups of Jobs, and ResourceClaims of groups."""
if _API and Versions.from_environ().kubernetes_minor >= 37:
    _GATES = {**_API.composite_options["feature_gates"], "WorkloadWithJob": True, "DRAWorkloadResourceClaims": True}
    SERVING_ALL = {**_API.composite_options, "feature_gates": _GATES}
NEEDS_WORKLOAD_API = pytest.mark.kubernetes(36, "PodGroups")
ALL = "PodGroup" if WORKLOAD.endswith("/v1alpha2") else {"all": {}}
"""The disruption mode in which preemption evicts all members or none."""
PLUGINS = "scheduling.x-k8s.io/v1alpha1"


def install_crd(cluster: ControlPlane) -> None:
    """The custom PodGroup."""
    cluster.apply(CRD)
    wait_until(lambda: cluster.client.raw("GET", SERVED)[0] == 200, 30, "the API server serves custom pod groups")


def remove_crd(cluster: ControlPlane) -> None:
    """Removes the CRD with all groups."""
    cluster.kubectl("delete", "-k", str(CRD), "--wait=true")
    wait_until(lambda: cluster.client.raw("GET", SERVED)[0] == 404, 30, "the custom pod group is removed")


def remove_groups(cluster: ControlPlane, namespace: str) -> None:
    """Deletes all custom groups of a namespace."""
    cluster.client.request("DELETE", SERVED.replace("podgroups", f"namespaces/{namespace}/podgroups"))


class Case:
    """Groups and members in one namespace."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def nodes(self, count: int, cpu: str = "2", zones: int = 0) -> None:
        labels = [{ZONE: f"z{i % zones}"} if zones else None for i in range(count)]
        self.cluster.bulk.create([node(f"n{i}", cpu=cpu, labels=labels[i]) for i in range(count)])

    def group(self, name: str, min_count: int | None, **spec) -> dict:
        policy = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
        return self.create(WORKLOAD, name, {"schedulingPolicy": policy, **spec})

    def custom_group(self, name: str, min_member: int, **spec) -> dict:
        return self.create(PLUGINS, name, {"minMember": min_member, **spec})

    def create(self, version: str, name: str, spec: dict) -> dict:
        metadata = {"name": name, "namespace": self.namespace}
        return self.cluster.client.create(
            {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        )

    def members(self, group: str, numbers, *, cpu: str = "1", custom: bool = False, **spec) -> None:
        options = {"labels": {LABEL: group}} if custom else {"schedulingGroup": {"podGroupName": group}}
        self.cluster.bulk.create(
            [
                pod(
                    f"{group}-{i}", self.namespace, **{"scheduler": OURS, "cpu": cpu, "memory": None, **options, **spec}
                )
                for i in numbers
            ]
        )

    def places(self, group: str) -> list[str]:
        """The nodes of a group's placed members."""
        placed = kit.pods(self.cluster, self.namespace, fieldSelector="spec.nodeName!=")
        return [raw["spec"]["nodeName"] for raw in placed if raw["metadata"]["name"].startswith(f"{group}-")]

    def wait_placed(self, group: str, count: int) -> None:
        wait_until(lambda: len(self.places(group)) == count, 60, f"{count} of {group} are bound")

    def wait_passed_over(self, group: str, cpu: str | None = "10m") -> None:
        """Waits until a newer pod is bound, and checks that no member of the group is."""
        self.cluster.client.create(pod("plain", self.namespace, scheduler=OURS, cpu=cpu, memory=None))
        raw = pod("plain", self.namespace)
        wait_until(lambda: bool(self.cluster.client.read(raw)["spec"].get("nodeName")), 60, "a plain pod is bound")
        assert self.places(group) == []

    def condition(self, group: dict) -> dict:
        older = group["apiVersion"].endswith("/v1alpha2")
        return kit.condition(
            self.cluster.client.read(group), "PodGroupScheduled" if older else "PodGroupInitiallyScheduled"
        )

    def wait_condition(self, group: dict, status: str, reason: str) -> str:
        """Waits for this status and reason, and returns the condition's message."""
        what = f"the status of {group['metadata']['name']} says {reason}"
        wait_until(lambda: status_and_reason(self.condition(group)) == (status, reason), 60, what)
        return self.condition(group)["message"]

    def status(self, group: dict) -> dict:
        return self.cluster.client.read(group).get("status", {})

    def wait_phase(self, group: dict, phase: str) -> dict:
        wait_until(lambda: self.status(group).get("phase") == phase, 60, f"the phase is {phase}")
        return self.status(group)

    def set_phase(self, names, phase: str) -> None:
        for name in names:
            self.cluster.client.patch(pod(name, self.namespace), {"status": {"phase": phase}}, "status")

    def all_unscheduled(self, group: str, count: int) -> bool:
        """True if every member's PodScheduled condition is False."""
        mine = [
            raw for raw in kit.pods(self.cluster, self.namespace) if raw["metadata"]["name"].startswith(f"{group}-")
        ]
        return len(mine) == count and all(kit.condition(raw).get("status") == "False" for raw in mine)


def status_and_reason(condition):
    return condition.get("status"), condition.get("reason")
