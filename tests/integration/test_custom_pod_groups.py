"""Pod groups of the custom resource on the real API server: their status, and a CRD that is installed and removed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.gangs import volcano
from support.gangs.pod_groups import LABEL, OURS, Case, install_crd, remove_crd, remove_groups, status_and_reason


@pytest.fixture
def case(installed: ControlPlane, empty_cluster: ControlPlane, namespace: str) -> Iterator[Case]:
    install_crd(empty_cluster)
    yield Case(empty_cluster, namespace)
    remove_groups(empty_cluster, namespace)


def test_the_status_of_a_custom_group_shows_its_progress(case):
    case.nodes(2)
    with kit.reused(case.cluster, "--pod-intake=watch"):
        group = case.custom_group("train", 3)
        assert case.wait_phase(group, "Pending") == {
            "phase": "Pending", "scheduled": 0, "running": 0, "succeeded": 0, "failed": 0,
        }  # fmt: skip
        job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "2f2c6d52-1b1e-4f47-9c5a-6f1f2f0e3d11"}
        owned = [pod(f"train-{i}", case.namespace, scheduler=OURS, cpu="1", labels={LABEL: "train"}) for i in range(3)]
        for raw in owned:
            raw["metadata"]["ownerReferences"] = [job]
        case.cluster.bulk.create(owned)
        case.wait_placed("train", 3)
        status = case.wait_phase(group, "Scheduled")
        assert (status["scheduled"], status["running"]) == (3, 0)
        assert status["occupiedBy"] == f"{case.namespace}/train"
        started = status["scheduleStartTime"]
        case.set_phase(["train-0", "train-1", "train-2"], "Running")
        status = case.wait_phase(group, "Running")
        assert (status["running"], status["scheduleStartTime"]) == (3, started)
        case.set_phase(["train-0", "train-1", "train-2"], "Succeeded")
        status = case.wait_phase(group, "Finished")
        assert (status["running"], status["succeeded"]) == (0, 3)
        version = case.cluster.client.read(group)["metadata"]["resourceVersion"]
        for raw in owned:
            case.cluster.client.delete(raw)
        case.cluster.client.create(pod("after", case.namespace, scheduler=OURS))
        kit.wait_bound(case.cluster, case.namespace, 1)
        assert case.cluster.client.read(group)["metadata"]["resourceVersion"] == version


def test_the_status_of_a_custom_group_explains_why_it_waits_and_shows_failed_members(case):
    case.nodes(1)
    with kit.reused(case.cluster, "--pod-intake=watch"):
        group = case.custom_group("train", 3)
        case.members("train", range(3), custom=True)
        case.wait_phase(group, "Scheduling")
        assert "3" in case.wait_condition(group, "False", "Unschedulable")
        assert case.places("train") == []
        case.cluster.client.create(node("another", cpu="2"))
        case.wait_placed("train", 3)
        case.wait_condition(group, "True", "Scheduled")
        case.set_phase(["train-0", "train-1"], "Running")
        case.set_phase(["train-2"], "Failed")
        status = case.wait_phase(group, "Failed")
        assert (status["running"], status["failed"]) == (2, 1)


def test_pods_of_other_schedulers_do_not_count_as_members_of_a_custom_group(case):
    case.nodes(2)
    with kit.reused(case.cluster, "--pod-intake=watch"):
        group = case.custom_group("train", 3)
        case.members("train", range(2), custom=True)
        case.members("train", [2], custom=True, scheduler="other-scheduler")
        case.wait_phase(group, "Pending")
        case.wait_passed_over("train")


def test_a_custom_group_waits_for_its_min_resources(case):
    case.nodes(2)
    with kit.reused(case.cluster, "--pod-intake=watch"):
        group = case.custom_group("train", 2, minResources={"cpu": "5"})
        case.members("train", range(2), custom=True)
        assert "minResources" in case.wait_condition(group, "False", "Unschedulable")
        case.cluster.client.create(node("another", cpu="2"))
        case.wait_placed("train", 2)


def test_a_restarted_operator_continues_the_status_of_a_custom_group(case):
    case.nodes(2)
    with kit.running(case.cluster, "--pod-intake=watch"):
        group = case.custom_group("train", 3)
        case.members("train", range(3), custom=True)
        case.wait_placed("train", 3)
        case.set_phase(["train-0", "train-1", "train-2"], "Running")
        status = case.wait_phase(group, "Running")
    case.set_phase(["train-0"], "Succeeded")
    with kit.running(case.cluster, "--pod-intake=watch"):
        wait_until(lambda: case.status(group).get("succeeded") == 1, 60, "one member has succeeded")
        assert case.status(group) == status | {"running": 2, "succeeded": 1}


@pytest.mark.slow
def test_the_custom_resource_can_be_installed_and_removed_while_the_operator_runs(case):
    case.nodes(4)
    remove_crd(case.cluster)
    with kit.running(case.cluster, "--pod-intake=watch") as operator:
        case.members("early", range(2), custom=True)
        case.wait_placed("early", 2)
        install_crd(case.cluster)
        wait_until(
            lambda: "pod groups of scheduling.x-k8s.io are in use, in version v1alpha1" in operator.log(),
            30,
            "the operator detects the CRD",
        )
        case.members("train", range(2), custom=True)
        case.wait_passed_over("train")
        group = case.custom_group("train", 3)
        case.members("train", [2], custom=True)
        case.wait_placed("train", 3)
        case.wait_phase(group, "Scheduled")
        remove_crd(case.cluster)
        wait_until(
            lambda: "pod groups of scheduling.x-k8s.io are gone" in operator.log(),
            90,
            "the operator detects its removal",
        )
        case.members("late", range(2), custom=True)
        case.wait_placed("late", 2)
    install_crd(case.cluster)
    assert "Traceback" not in operator.log()


def test_groups_survive_a_restart_of_the_api_server(case):
    """A starting API server may report that it does not serve pod groups yet."""
    case.nodes(2)
    with kit.running(case.cluster, "--pod-intake=watch") as operator:
        group = case.custom_group("train", 3)
        case.members("train", range(2), custom=True)
        case.wait_phase(group, "Pending")
        case.cluster.api_server.kill()
        case.cluster.api_server.start()
        case.wait_passed_over("train")
        case.members("train", [2], custom=True)
        case.wait_placed("train", 3)
        case.wait_phase(group, "Scheduled")
        assert "are gone" not in operator.log().rpartition("caches are complete")[2]


@pytest.fixture
def volcano_case(cluster: ControlPlane, namespace: str) -> Iterator[Case]:
    """A cluster with Volcano's kind of groups, and a policy that serves its scheduler name."""
    cluster.apply(volcano.CRD)
    wait_until(
        lambda: cluster.client.raw("GET", volcano.SERVED)[0] == 200, 30, "the API server serves Volcano's groups"
    )
    spec = {"schedulerName": "volcano"}
    policy = {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": "volcano"}}
    cluster.client.create({**policy, "spec": spec})
    yield Case(cluster, namespace)
    cluster.kubectl("delete", "crd", volcano.CRD["metadata"]["name"], "--wait=true")


def test_a_group_of_volcano_is_scheduled_as_a_whole_without_an_edit(volcano_case):
    case, cluster = volcano_case, volcano_case.cluster
    case.nodes(1)

    def phase() -> str:
        return (cluster.client.read(made).get("status") or {}).get("phase", "")

    def members(numbers) -> None:
        raws = [pod(f"lws-{i}", case.namespace, scheduler="volcano", cpu="1", memory=None) for i in numbers]
        for raw in raws:
            raw["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "lws"}
        cluster.bulk.create(raws)

    with kit.running(cluster, "--pod-intake=watch"):
        kit.wait_accepted(cluster, "volcano")
        made = cluster.client.create(
            volcano.group("lws", case.namespace, minMember=3, minResources={"cpu": "3"}, priorityClassName="")
        )
        wait_until(lambda: phase() == "Inqueue", 60, "operators may create the pods of the group")
        members(range(2))
        case.wait_passed_over("lws")
        assert case.places("lws") == []
        members([2])
        waits = lambda: kit.condition(cluster.client.read(made), "Unschedulable")
        expected = ("True", "NotEnoughResources")
        wait_until(lambda: status_and_reason(waits()) == expected, 60, "the group has a condition")
        assert case.places("lws") == []
        cluster.client.create(node("another", cpu="2"))
        case.wait_placed("lws", 3)
        wait_until(lambda: phase() == "Running", 60, "enough pods have a node")
        case.set_phase([f"lws-{i}" for i in range(3)], "Running")
        wait_until(lambda: cluster.client.read(made)["status"]["running"] == 3, 60, "the group runs")
        assert phase() == "Running"
        conditions = lambda: [
            (each["type"], each["status"]) for each in cluster.client.read(made)["status"]["conditions"]
        ]
        wait_until(lambda: conditions() == [("Scheduled", "True")], 60, "the group no longer waits")
        case.set_phase([f"lws-{i}" for i in range(3)], "Succeeded")
        wait_until(lambda: phase() == "Completed", 60, "the group is complete")


def test_the_parts_of_a_group_of_volcano_are_placed_as_a_whole(volcano_case):
    case, cluster = volcano_case, volcano_case.cluster
    case.nodes(1, cpu="4")
    policy = {"name": "slice", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["slice"]}
    with kit.running(cluster, "--pod-intake=watch"):
        kit.wait_accepted(cluster, "volcano")
        cluster.client.create(volcano.group("tpu", case.namespace, minMember=2, subGroupPolicy=[policy]))
        raws = [pod(f"tpu-{i}", case.namespace, scheduler="volcano", cpu="1", memory=None) for i in range(4)]
        for index, raw in enumerate(raws):
            raw["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "tpu"}
            raw["metadata"]["labels"] = {"slice": str(index // 2)}
        cluster.bulk.create(raws[1:3])
        case.wait_passed_over("tpu")
        cluster.bulk.create([raws[0], raws[3]])
        case.wait_placed("tpu", 2)
        placed = [raw["metadata"] for raw in kit.pods(cluster, case.namespace) if raw["spec"].get("nodeName")]
        kept = {metadata["labels"]["slice"] for metadata in placed if "labels" in metadata}
        assert len(kept) == 1, "of the other part, nothing is placed, although one of its pods has room"
        cluster.client.create(node("another", cpu="1"))
        case.wait_placed("tpu", 4)
