"""The whole road: pods as operators make them run as gangs on the real API server, by the groupings of
manifests/groupings, with the rights that these files grant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from podwright.testing.objects import plural
from support.control_plane import operator_process as kit
from support.groupings.cases import ROAD
from support.groupings.controllers import VERSIONS, Object
from support.groupings.workloads import reference

FOLDER = kit.CHECKOUT / "manifests" / "groupings"
GROUPINGS = f"{kit.GROUP}/workloadgroupings"
KINDS = ("LeaderWorkerSet", "JobSet", "TrainJob", "RayCluster", "RayJob", "RayService")


def crd_of(kind: str) -> Object:
    """The CRD of an operator's kind, which takes any spec."""
    group, version = VERSIONS[kind].split("/")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural(kind), "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural(kind)}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
    }


def condition(cluster: ControlPlane, name: str, kind: str) -> dict[str, Any]:
    found = cluster.client.request("GET", f"{GROUPINGS}/{name}")
    return kit.condition(found, kind)


@pytest.fixture(scope="module")
def with_operators(installed: ControlPlane) -> Iterator[ControlPlane]:
    """The kinds of the operators, and all groupings."""
    installed.apply(*map(crd_of, KINDS))
    for kind in KINDS:
        path = f"/apis/{VERSIONS[kind]}/{plural(kind)}"
        wait_until(lambda path=path: installed.client.raw("GET", path)[0] == 200, 30, f"{kind} is served")
    installed.apply(FOLDER)
    yield installed
    kit.stop_reused()
    installed.kubectl("delete", "-k", str(FOLDER), "--wait=true")
    for kind in KINDS:
        installed.kubectl("delete", "crd", crd_of(kind)["metadata"]["name"], "--wait=true")


class Road:
    """A stand-in controller's objects, and the room of the cluster."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.nodes = 0

    def __call__(self, kind: str, name: str, controller: Object | None = None, **parts: Any) -> Object:
        raw: Object = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": {}, "spec": parts.get("spec") or {}}
        if kind == "Pod":
            raw = {**raw, "spec": pod(name, self.namespace, scheduler="podwright", cpu="1", memory=None)["spec"]}
        elif kind in ("Job", "StatefulSet"):
            raw["spec"] = built_in(kind, raw["spec"])
        metadata = {field: dict(parts.get(field) or {}) for field in ("labels", "annotations")}
        if controller is not None:
            metadata["ownerReferences"] = [reference(controller)]
        raw["metadata"] = {"name": name, "namespace": self.namespace, **metadata}
        made = self.cluster.client.create(raw)
        return {**made, "apiVersion": VERSIONS[kind], "kind": kind}

    def room(self, pods: int) -> None:
        """A node with room for so many pods."""
        self.nodes += 1
        self.cluster.client.create(node(f"n{self.nodes}", cpu=f"{pods * 1000 + 20}m"))

    def placed(self) -> set[str]:
        return {
            raw["metadata"]["name"] for raw in kit.pods(self.cluster, self.namespace) if raw["spec"].get("nodeName")
        }

    def wait_decided(self) -> None:
        """Waits until a newer pod is bound, so that all older ones were tried."""
        name = f"plain-{self.nodes}"
        self.cluster.client.create(pod(name, self.namespace, scheduler="podwright", cpu="10m", memory=None))
        wait_until(lambda: name in self.placed(), 60, "a plain pod is bound")


def built_in(kind: str, spec: Object) -> Object:
    """The spec of a Job or a StatefulSet, with what the API server wants besides."""
    container = {"name": "main", "image": "app"}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    if kind == "Job":
        return {**spec, "template": template}
    template["spec"]["restartPolicy"] = "Always"
    return {**spec, "serviceName": "x", "selector": {"matchLabels": {"app": "x"}}, "template": template}


@pytest.fixture
def road(with_operators: ControlPlane, cluster: ControlPlane, namespace: str) -> Iterator[Road]:
    with kit.reused(cluster, "--pod-intake=watch", "--pod-max-backoff-seconds=1"):
        for name in ("leaderworkerset", "trainjob", "rayjob", "rayservice"):
            active = lambda name=name: condition(cluster, name, "Active").get("reason") == "InForce"
            wait_until(active, 60, f"the grouping {name} is in force")
        yield Road(cluster, namespace)


@pytest.mark.parametrize("name", [*ROAD])
def test_the_pods_of_a_workload_start_together_or_not_at_all(road, name):
    for gangs in ROAD[name](road):
        pods = [each for gang in gangs for each in gang]
        road.room(len(pods) - 1)
        road.wait_decided()
        placed = road.placed()
        assert not placed.issuperset(pods)
        assert all(len(gang) == 1 or placed.issuperset(gang) or placed.isdisjoint(gang) for gang in gangs), placed
        road.room(1)
        wait_until(lambda pods=pods: road.placed().issuperset(pods), 60, f"{', '.join(pods)} are bound")
