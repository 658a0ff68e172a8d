"""The whole road: pods as operators make them, in each setting that they have for schedulers, run as gangs on the real
API server. What brings no pod group is grouped by manifests/groupings, with the rights that these files grant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import orjson
import pytest

from podwright.simulator.hypotheses.hypothesis import Hypothesis
from podwright.simulator.live import LiveConnection, snapshot_of
from podwright.simulator.loaded import load
from podwright.simulator.replay.record import record
from podwright.simulator.simulation import simulate
from podwright.simulator.snapshot import Snapshot
from podwright.testing import Binaries, ControlPlane, node, pod, wait_until
from podwright.testing.objects import plural
from support.control_plane import operator_process as kit
from support.control_plane.fixtures import empty
from support.gangs import grove, kai, volcano
from support.gangs.pod_groups import SERVING_GROUPS, install_crd
from support.groupings.cases import ROAD
from support.groupings.controllers import RACK, VERSIONS, Object
from support.groupings.settings import SCHEDULERS
from support.groupings.workloads import reference
from support.objects.builders import make_policy

FOLDER = kit.CHECKOUT / "manifests" / "groupings"
GROUPINGS = f"{kit.GROUP}/workloadgroupings"
KINDS = (
    *("LeaderWorkerSet", "JobSet", "TrainJob", "RayCluster", "RayJob", "RayService"),
    *("PodCliqueSet", "PodCliqueScalingGroup", "PodClique"),
)
GROUPS = (volcano, kai, grove)


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
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """One that serves the groups of Kubernetes itself, if its version has them."""
    with ControlPlane(binaries=binaries, **SERVING_GROUPS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def with_operators(installed: ControlPlane) -> ControlPlane:
    """The kinds of the operators and of other schedulers, and all groupings."""
    installed.apply(*map(crd_of, KINDS), *(each.CRD for each in GROUPS))
    served = [f"/apis/{VERSIONS[kind]}/{plural(kind)}" for kind in KINDS] + [each.SERVED for each in GROUPS]
    for path in served:
        wait_until(lambda path=path: installed.client.raw("GET", path)[0] == 200, 30, f"{path} is served")
    install_crd(installed)
    installed.apply(FOLDER)
    return installed


@pytest.fixture(scope="module")
def operator(with_operators: ControlPlane) -> Iterator[kit.Operator]:
    """An operator that serves all these scheduler names."""
    for name in SCHEDULERS:
        with_operators.client.create(make_policy(name, schedulerName=name))
    allowed = "--allowed-scheduler-names=*,default-scheduler"
    with kit.running(with_operators, "--pod-intake=watch", "--pod-max-backoff-seconds=1", allowed) as running:
        for name in SCHEDULERS:
            kit.wait_accepted(with_operators, name)
        for name in ("leaderworkerset", "trainjob", "rayjob", "rayservice"):
            active = lambda name=name: condition(with_operators, name, "Active").get("reason") == "InForce"
            wait_until(active, 60, f"the grouping {name} is in force")
        yield running


class Road:
    """A stand-in controller's objects, and the room of the cluster."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.nodes = 0

    def __call__(self, kind: str, name: str, controller: Object | None = None, **parts: Any) -> Object:
        version = parts.get("version") or VERSIONS[kind]
        raw: Object = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": parts.get("spec") or {}}
        if kind == "Pod":
            raw["spec"] = {**pod(name, self.namespace, cpu="1", memory=None)["spec"], **raw["spec"]}
        elif kind in ("Job", "StatefulSet"):
            raw["spec"] = built_in(kind, raw["spec"])
        metadata = {field: dict(parts.get(field) or {}) for field in ("labels", "annotations")}
        if controller is not None:
            metadata["ownerReferences"] = [reference(controller)]
        raw["metadata"] = {"name": name, "namespace": self.namespace, **metadata}
        made = self.cluster.client.create(raw)
        return {**made, "apiVersion": version, "kind": kind}

    def change(self, made: Object, spec: Object) -> None:
        self.cluster.client.patch(made, {"spec": spec})

    def delete(self, made: Object) -> None:
        """The room that the pod leaves is not for others."""
        found = self.cluster.client.read(made)["spec"]["nodeName"]
        self.cluster.client.patch(node(found), {"spec": {"unschedulable": True}})
        self.cluster.client.delete(made)

    def domain(self, pod: Object, label: str) -> str:
        node_name = self.cluster.client.read(pod)["spec"]["nodeName"]
        labels = self.cluster.client.read(node(node_name))["metadata"]["labels"]
        return str(labels[label])

    def room(self, pods: int) -> None:
        """A node with room for so many pods."""
        self.nodes += 1
        self.cluster.client.create(node(f"n{self.nodes}", cpu=f"{pods * 1000 + 20}m", labels={RACK: "r0"}))

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
def road(with_operators: ControlPlane, operator: kit.Operator, namespace: str) -> Road:
    """No nodes and pods are there, and the operator knows of none."""
    empty(with_operators.client, policies=False)
    kit.wait_known(operator, 0, 0)
    return Road(with_operators, namespace)


def whole(placed: set[str], gangs: Iterable[Collection[str]]) -> bool:
    """True if of each gang all pods are placed or none. While its Bindings are under way, that is not so."""
    return all(len(gang) == 1 or placed.issuperset(gang) or placed.isdisjoint(gang) for gang in gangs)


@pytest.mark.parametrize("name", [*ROAD])
def test_the_pods_of_a_workload_start_together_or_not_at_all(road, name):
    for gangs in ROAD[name](road):
        pods = [each for gang in gangs for each in gang]
        road.room(len(pods) - 1)
        road.wait_decided()
        wait_until(lambda gangs=gangs: whole(road.placed(), gangs), 60, "no gang is bound in part")
        assert not road.placed().issuperset(pods)
        road.room(1)
        wait_until(lambda pods=pods: road.placed().issuperset(pods), 60, f"{', '.join(pods)} are bound")


def test_a_snapshot_and_a_recording_form_the_same_gangs(road, tmp_path):
    (pods,) = next(iter(ROAD["Trainer: torch"](road)))
    connection = LiveConnection(kubeconfig=str(road.cluster.kubeconfig))
    path = tmp_path / "recording.jsonl"
    with path.open("wb") as file:
        asyncio.run(record(connection, file, 0, asyncio.Event()))
    recorded = [orjson.loads(line)["object"] for line in path.read_bytes().splitlines()]
    for objects in (snapshot_of(connection).objects, recorded):
        cluster = load(Snapshot(objects=objects))
        (group,) = [each for each in cluster.cache.groups.all() if road.namespace in each.label]
        assert (group.label, group.min_count) == (f"TrainJob {road.namespace}/llama", len(pods))
        assert cluster.cache.groups.members(group.key).total == len(pods)
        assert cluster.cache.groups.progress(group) in simulate(cluster, Hypothesis()).gangs


def test_the_parts_that_a_grouping_makes_start_as_a_whole(road):
    """Of two slices of two pods, one is enough to start."""
    client = road.cluster.client
    spec = {
        "owner": {"apiVersion": "batch/v1", "kind": "Job", "selector": {"matchLabels": {"sliced": "yes"}}},
        "precedence": 10,
        "minCount": "owner.spec.completions / 2",
        "subGroup": {"key": "pod.labels['slice']", "minCount": "int(owner.metadata.annotations['slice-size'])"},
    }
    meta = {"name": "sliced"}
    made = client.create(
        {"apiVersion": "podwright.dev/v1alpha1", "kind": "WorkloadGrouping", "metadata": meta, "spec": spec}
    )
    wait_until(lambda: condition(road.cluster, "sliced", "Active").get("reason") == "InForce", 60, "it is in force")
    job = road("Job", "job", labels={"sliced": "yes"}, annotations={"slice-size": "2"}, spec={"completions": 4})
    pods = [f"{slice_}-{index}" for slice_ in "ab" for index in range(2)]
    own = {"schedulerName": "podwright"}
    for name in (pods[0], pods[2]):
        road("Pod", name, job, labels={"slice": name[0]}, spec=own)
    road.room(3)
    road.wait_decided()
    assert road.placed().isdisjoint(pods), "no slice is complete"
    for name in (pods[1], pods[3]):
        road("Pod", name, job, labels={"slice": name[0]}, spec=own)
    wait_until(lambda: len(road.placed() & {*pods}) == 2, 60, "one slice is bound")
    road.nodes += 1
    road.wait_decided()
    placed = road.placed() & {*pods}
    assert placed in ({"a-0", "a-1"}, {"b-0", "b-1"})
    road.room(1)
    wait_until(lambda: road.placed().issuperset(pods), 60, "both slices are bound")
    client.delete(made)
