"""Errors of groups and workloads on the real API server: the pods that they concern wait and say why, and an ordinary
pod is bound beside them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from podwright.core.objects.kai_groups import KAI_SUB_GROUP_LABEL
from podwright.testing import ControlPlane, pod, wait_until
from podwright.testing.workload_api import COMPOSITES
from support.control_plane import operator_process as kit
from support.gangs import kai, volcano
from support.gangs.pod_groups import LABEL, OURS, Case, install_crd, remove_crd
from support.groupings.workloads import reference

pytestmark = pytest.mark.kubernetes(37, "CompositePodGroups")
REF = {"workloadName": "any", "templateName": "any"}
LEAVES = 10_000


@pytest.fixture(scope="module")
def control_plane(serving_groups: ControlPlane) -> Iterator[ControlPlane]:
    """It also serves the groups of KAI and Volcano, and the operator may read Jobs."""
    cluster = serving_groups
    cluster.apply(kit.CHECKOUT / "manifests" / "groupings" / "job.yaml")
    cluster.client.request("DELETE", f"{kit.GROUP}/workloadgroupings/job")  # only the right to read Jobs stays
    for each in (kai, volcano):
        cluster.apply(each.CRD)
        wait_until(lambda each=each: cluster.client.raw("GET", each.SERVED)[0] == 200, 30, "the kind is served")
    yield cluster
    cluster.kubectl("delete", "crd", *(each.CRD["metadata"]["name"] for each in (kai, volcano)), "--wait=true")


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane) -> Iterator[kit.Operator]:
    with kit.running(control_plane, "--pod-intake=watch", "--pod-max-backoff-seconds=1") as operator:
        yield operator


@pytest.fixture
def case(operator: kit.Operator, empty_cluster: ControlPlane, namespace: str) -> Iterator[Case]:
    """Room for ten pods, and an ordinary pod that comes last."""
    case = Case(empty_cluster, namespace)
    case.nodes(1, cpu="10")
    yield case
    empty_cluster.client.create(pod("last", namespace, scheduler=OURS, cpu="10m", memory=None))
    wait_until(lambda: "last" in placed(case), 60, "an ordinary pod is bound")
    assert "Traceback" not in operator.log()


def placed(case: Case) -> set[str]:
    return {raw["metadata"]["name"] for raw in kit.pods(case.cluster, case.namespace) if raw["spec"].get("nodeName")}


def says(case: Case, reason: str, *parts: str) -> bool:
    notes = [str(event.get("note")) for event in kit.events(case.cluster, case.namespace, reason)]
    return any(all(part in note for part in parts) for note in notes)


def wait_says(case: Case, reason: str, *parts: str) -> None:
    wait_until(lambda: says(case, reason, *parts), 60, f"an event says {' '.join(parts)}")


def composite(case: Case, name: str, parent: str) -> None:
    spec = {"workloadRef": REF, "schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": parent}
    metadata = {"name": name, "namespace": case.namespace}
    case.cluster.client.create(
        {"apiVersion": COMPOSITES, "kind": "CompositePodGroup", "metadata": metadata, "spec": spec}
    )


def annotated(case: Case, name: str, part: str = "", **annotations: str) -> dict[str, Any]:
    raw = pod(name, case.namespace, scheduler=OURS, cpu="1", memory=None)
    raw["metadata"] |= {"annotations": annotations, "labels": {KAI_SUB_GROUP_LABEL: part} if part else {}}
    return case.cluster.client.create(raw)


def grouping(case: Case, name: str, **spec: Any) -> dict[str, Any]:
    return case.cluster.client.create(
        {"apiVersion": "podwright.dev/v1alpha1", "kind": "WorkloadGrouping", "metadata": {"name": name}, "spec": spec}
    )


def test_of_two_doors_the_most_specific_counts(case):
    case.cluster.client.create(kai.group("one", case.namespace, minMember=1))
    case.cluster.client.create(volcano.group("two", case.namespace, minMember=2))
    annotated(case, "p", **{"scheduling.k8s.io/group-name": "two", "pod-group-name": "one"})
    wait_says(case, "TwoPodGroups", "scheduling.run.ai", "scheduling.volcano.sh", "which counts")
    wait_says(case, "FailedScheduling", "waiting for minCount pods")
    assert placed(case) == set()


def test_of_two_doors_one_that_is_not_served_does_not_count(case):
    case.cluster.client.create(kai.group("one", case.namespace, minMember=1))
    raw = pod("p", case.namespace, scheduler=OURS, cpu="1", memory=None, labels={LABEL: "two"})
    raw["metadata"]["annotations"] = {"pod-group-name": "one"}
    case.cluster.client.create(raw)
    wait_until(lambda: placed(case) == {"p"}, 60, "the pod is bound with the group that is served")
    wait_says(
        case, "TwoPodGroups", "scheduling.x-k8s.io", "scheduling.run.ai, which counts while the other is not served"
    )


def test_pods_follow_when_the_group_that_they_name_more_specifically_is_served(case):
    case.cluster.client.create(kai.group("one", case.namespace, minMember=3))
    for index in range(2):
        raw = pod(f"p{index}", case.namespace, scheduler=OURS, cpu="1", memory=None, labels={LABEL: "two"})
        raw["metadata"]["annotations"] = {"pod-group-name": "one"}
        case.cluster.client.create(raw)
    wait_says(case, "FailedScheduling", "2 of 3 exist")
    assert placed(case) == set()
    install_crd(case.cluster)
    try:
        case.custom_group("two", 2)
        wait_until(lambda: placed(case) == {"p0", "p1"}, 60, "the pods are bound with the other group")
        wait_says(case, "TwoPodGroups", "scheduling.run.ai", "scheduling.x-k8s.io, which counts")
    finally:
        remove_crd(case.cluster)


def test_a_circle_of_composite_groups(case):
    for name, parent in (("a", "b"), ("b", "a")):
        composite(case, name, parent)
    case.group("leaf", 1, parentCompositePodGroupName="a", workloadRef=REF)
    case.members("leaf", [0])
    wait_says(case, "FailedScheduling", "whose parents form a circle")
    assert placed(case) == set()


def test_a_circle_of_sub_groups(case):
    parts = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]
    case.cluster.client.create(kai.group("round", case.namespace, subGroups=parts))
    annotated(case, "p", "a", **{"pod-group-name": "round"})
    wait_says(case, "FailedScheduling", "spec.subGroups", "parents form a circle")
    assert placed(case) == set()


def test_a_group_with_very_many_parts(case):
    """One part has its pods, and the others have none."""
    parts = [{"name": f"part-{index}", "minMember": 1} for index in range(LEAVES)]
    case.cluster.client.create(kai.group("wide", case.namespace, subGroups=parts, minSubGroup=1))
    case.cluster.client.create(kai.group("whole", case.namespace, subGroups=parts))
    for group in ("whole", "wide"):
        annotated(case, group, "part-7", **{"pod-group-name": group})
    wait_until(lambda: placed(case) == {"wide"}, 60, "the part that is enough is bound")
    wait_says(case, "FailedScheduling", "sub-group part-0 has 0 of 1 pods")


def test_a_minimum_above_the_number_of_pods(case):
    case.cluster.client.create(kai.group("large", case.namespace, minMember=5))
    for index in range(2):
        annotated(case, f"p{index}", **{"pod-group-name": "large"})
    wait_says(case, "FailedScheduling", "2 of 5 exist")
    assert placed(case) == set()


def test_a_group_of_another_namespace(case):
    """A pod names a group of its own namespace only."""
    elsewhere = kai.group("theirs", "default", minMember=1)
    case.cluster.client.create(elsewhere)
    annotated(case, "p", **{"pod-group-name": "theirs"})
    wait_says(case, "FailedScheduling", 'pod group "theirs" to appear')
    assert placed(case) == set()
    case.cluster.client.delete(elsewhere)


@pytest.mark.parametrize(
    ("owner", "spec", "reason"),
    [
        ("Nothing", {"minCount": "2"}, "OwnersUnreadable"),
        ("Job", {"minCount": "2", "key": f"'{'k' * 10_000}'"}, "InForce"),
        ("Job", {"minCount": "2"}, "InForce"),
    ],
    ids=["a kind without a CRD", "a key of 10,000 characters", "an owner that is gone"],
)
def test_a_workload_that_cannot_be_grouped(case, owner, spec, reason):
    version = "batch/v1" if owner == "Job" else "nowhere.example.com/v1"
    selected = {"apiVersion": version, "kind": owner}
    made = grouping(case, "bad", owner=selected, precedence=10, **spec)
    path = f"{kit.GROUP}/workloadgroupings/bad"
    get = lambda: kit.condition(case.cluster.client.request("GET", path), "Active").get("reason")
    wait_until(lambda: get() == reason, 60, f"the grouping says {reason}")
    job = {"apiVersion": version, "kind": owner, "metadata": {"name": "gone", "uid": "gone"}}
    if "key" in spec:
        container = {"name": "main", "image": "app"}
        body = {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
        metadata = {"name": "job", "namespace": case.namespace}
        job |= case.cluster.client.create({"apiVersion": version, "kind": owner, "metadata": metadata, "spec": body})
    raw = pod("p", case.namespace, scheduler=OURS, cpu="1", memory=None)
    raw["metadata"]["ownerReferences"] = [reference({**job, "apiVersion": version, "kind": owner})]
    case.cluster.client.create(raw)
    said = "cannot be read" if reason == "OwnersUnreadable" else f"Job {case.namespace}/gone"
    wait_says(case, "FailedScheduling", "spec.key: its value has 10000 characters" if "key" in spec else said)
    assert placed(case) == set()
    case.cluster.client.delete(made)
    wait_until(lambda: placed(case) == {"p"}, 60, "without the grouping, the pod is bound")


def test_a_group_that_is_made_anew_all_the_time(case):
    """It never stays incomplete for long in one version, but its pods are told even so."""
    client = case.cluster.client
    for index in range(3):
        annotated(case, f"p{index}", **{"pod-group-name": "again"})
    for turn in range(24):
        made = client.create(kai.group("again", case.namespace, minMember=4 + turn % 2))
        time.sleep(0.5)
        client.delete(made)
        if says(case, "FailedScheduling", "waiting for"):
            break
        time.sleep(0.5)
    wait_says(case, "FailedScheduling", "waiting for")
    assert placed(case) == set()
    client.create(kai.group("again", case.namespace, minMember=3))
    wait_until(lambda: len(placed(case)) == 3, 60, "the group is bound")
