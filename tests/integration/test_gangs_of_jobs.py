"""Jobs with `spec.scheduling` on the real API server: the Job controller makes their pod groups (WorkloadWithJob)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import OURS, WORKLOAD, Case

pytestmark = pytest.mark.kubernetes(37, "gangs of Jobs")
CONTROLLERS = ["job-controller", "podgroup-protection-controller"]


@pytest.fixture(scope="module")
def control_plane(serving_groups: ControlPlane) -> Iterator[ControlPlane]:
    controllers = serving_groups.start_controller_manager(CONTROLLERS)
    yield serving_groups
    controllers.kill()


@pytest.fixture
def case(empty_cluster: ControlPlane, namespace: str) -> Case:
    return Case(empty_cluster, namespace)


def job(case: Case, name: str, pods: int, policy: dict) -> None:
    template = pod("any", case.namespace, scheduler=OURS, cpu="1", memory=None)
    spec = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "scheduling": {"schedulingPolicy": policy},
        "template": {"spec": {**template["spec"], "restartPolicy": "Never"}},
    }
    metadata = {"name": name, "namespace": case.namespace}
    case.cluster.client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


def test_the_pods_of_a_job_are_the_gang_that_its_controller_makes(case):
    case.nodes(1)
    with kit.reused(case.cluster, "--pod-intake=watch") as operator:
        job(case, "train", 3, {"gang": {"minCount": 3}})
        groups = lambda: case.cluster.client.items(f"/apis/{WORKLOAD}/namespaces/{case.namespace}/podgroups")
        waits = lambda: kit.condition(groups()[0], "PodGroupInitiallyScheduled") if groups() else {}
        says = lambda: waits().get("reason") == "Unschedulable" and "2 scheduled" in waits()["message"]
        wait_until(says, 60, "the group of the Job says that it waits")
        assert case.places("train") == []
        case.cluster.client.create(node("another", cpu="1"))
        case.wait_placed("train", 3)
        wait_until(lambda: waits().get("status") == "True", 60, "the group says that it was scheduled")
    for text in ("Traceback", "orbidden"):
        assert text not in operator.log()


def test_the_pods_of_a_job_without_a_gang_start_one_by_one(case):
    case.nodes(1)
    with kit.reused(case.cluster, "--pod-intake=watch"):
        job(case, "one-by-one", 3, {"basic": {}})
        case.wait_placed("one-by-one", 2)
