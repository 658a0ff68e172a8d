"""Pod groups of both APIs on the real API server: they are placed completely or not at all, and their status shows
it.
"""

from __future__ import annotations

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import (
    ALL,
    NEEDS_WORKLOAD_API,
    OURS,
    SERVING_GROUPS,
    WORKLOAD,
    ZONE,
    Case,
    status_and_reason,
)

pytestmark = NEEDS_WORKLOAD_API
EXAMPLES = kit.CHECKOUT / "manifests" / "examples" / "gangs"


@pytest.fixture(scope="module")
def control_plane(serving_groups: ControlPlane) -> ControlPlane:
    return serving_groups


@pytest.fixture
def cluster(empty_cluster: ControlPlane) -> ControlPlane:
    return empty_cluster


@pytest.fixture
def case(cluster, namespace) -> Case:
    return Case(cluster, namespace)


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_a_gang_is_placed_once_all_members_exist(case, intake):
    case.nodes(2)
    with kit.running(case.cluster, f"--pod-intake={intake}") as operator:
        group = case.group("train", 3)
        case.members("train", range(2))
        case.wait_passed_over("train")
        case.members("train", [2])
        case.wait_placed("train", 3)
        assert case.wait_condition(group, "True", "Scheduled") == ""
        assert kit.over_committed(case.cluster) == {}
    assert "Traceback" not in operator.log()


def test_the_status_of_a_group_names_members_with_another_scheduler_name(case):
    """The operator does not watch pending pods of the default scheduler, so it finds such a member by a list."""
    case.nodes(2)
    with kit.reused(case.cluster) as operator:
        group = case.group("train", 2)
        case.members("train", [0])
        case.members("train", [1], scheduler="default-scheduler")
        message = case.wait_condition(group, "False", "SchedulerError")
        assert f'got: "default-scheduler" of pod {case.namespace}/train-1 and "podwright"' in message
        assert case.places("train") == []
        case.cluster.client.delete(pod("train-1", case.namespace))
        case.members("train", [2])
        case.wait_placed("train", 2)
        case.wait_condition(group, "True", "Scheduled")
    assert "Traceback" not in operator.log()


def test_no_member_is_placed_if_only_a_part_of_the_gang_fits(case):
    case.nodes(2)
    with kit.reused(case.cluster):
        group = case.group("train", 5)
        case.members("train", range(5))
        message = case.wait_condition(group, "False", "Unschedulable")
        assert "5" in message
        wait_until(lambda: case.all_unscheduled("train", 5), 30, "every member is marked Unschedulable")
        assert case.places("train") == []
        case.cluster.client.create(node("another", cpu="2"))
        case.wait_placed("train", 5)
        case.wait_condition(group, "True", "Scheduled")
    assert kit.over_committed(case.cluster) == {}


def test_members_of_a_basic_group_are_placed_one_by_one(case):
    case.nodes(1)
    with kit.reused(case.cluster):
        group = case.group("batch", None)
        case.members("batch", range(3))
        case.wait_placed("batch", 2)
        case.wait_condition(group, "True", "Scheduled")


def test_a_group_stays_scheduled_when_a_further_member_does_not_fit(case):
    case.nodes(2)
    with kit.reused(case.cluster):
        group = case.group("train", 3)
        case.members("train", range(4))
        case.wait_placed("train", 4)
        case.wait_condition(group, "True", "Scheduled")
        case.members("train", [4])
        wait_until(
            lambda: bool(kit.events(case.cluster, case.namespace, "FailedScheduling")),
            30,
            "the fifth member has failed",
        )
        assert status_and_reason(case.condition(group)) == ("True", "Scheduled")


@pytest.mark.parametrize(
    ("differing", "text"),
    [
        pytest.param({"priorityClassName": "system-cluster-critical"}, "same priority", id="another priority"),
        pytest.param({"priorityClassName": "meek"}, "same preemption policy", id="another preemption policy"),
        pytest.param({"scheduler": "second"}, ".spec.schedulerName", id="another scheduler name"),
    ],
)
def test_the_status_names_a_field_in_which_members_differ(case, differing, text):
    case.nodes(2)
    case.cluster.client.create(
        {
            "apiVersion": "podwright.dev/v1alpha1",
            "kind": "SchedulerPolicy",
            "metadata": {"name": "second"},
            "spec": {"schedulerName": "second", "strategy": {"type": "Default"}},
        }
    )
    with kit.reused(case.cluster):
        group = case.group("train", 3)
        case.members("train", range(2))
        case.members("train", [2], **differing)
        assert text in case.wait_condition(group, "False", "SchedulerError")
        assert case.places("train") == []


def test_a_topology_constraint_keeps_a_gang_in_one_domain(case):
    case.nodes(6, zones=3)
    with kit.reused(case.cluster):
        constraint = {"schedulingConstraints": {"topology": [{"key": ZONE}]}}
        too_large = case.group("large", 5, **constraint)
        case.members("large", range(5))
        case.wait_condition(too_large, "False", "Unschedulable")
        group = case.group("train", 4, **constraint)
        case.members("train", range(4))
        case.wait_placed("train", 4)
        case.wait_condition(group, "True", "Scheduled")
        assert len({int(name[1:]) % 3 for name in case.places("train")}) == 1
        assert case.places("large") == []


def test_a_policy_packs_a_gang_into_few_domains(case):
    case.cluster.client.create(
        {
            "apiVersion": "podwright.dev/v1alpha1",
            "kind": "SchedulerPolicy",
            "metadata": {"name": "packed"},
            "spec": {"pluginConfig": [{"name": "GangScheduling", "args": {"topologyKey": ZONE}}]},
        }
    )
    case.nodes(8, zones=4)
    with kit.reused(case.cluster):
        kit.wait_accepted(case.cluster, "packed")
        case.group("train", 6)
        case.members("train", range(6))
        case.wait_placed("train", 6)
        assert len({int(name[1:]) % 4 for name in case.places("train")}) == 2


def test_a_gang_preempts_only_as_many_pods_as_it_needs(case):
    case.nodes(2)
    victims = {"schedulingGroup": None, "terminationGracePeriodSeconds": 0}
    case.members("low", range(4), **victims)
    with kit.reused(case.cluster):
        case.wait_placed("low", 4)
        large = case.group("large", 5, priorityClassName="eager")
        case.members("large", range(5), priorityClassName="eager")
        case.wait_condition(large, "False", "Unschedulable")
        case.wait_passed_over("large", cpu=None)
        assert len(case.places("low")) == 4
        group = case.group("train", 3, priorityClassName="eager")
        case.members("train", range(3), priorityClassName="eager")
        case.wait_placed("train", 3)
        case.wait_condition(group, "True", "Scheduled")
        assert len(case.places("low")) == 1
        preempted = lambda: len(kit.events(case.cluster, case.namespace, "Preempted"))
        wait_until(lambda: preempted() >= 3, 30, "the victims have events")
        assert preempted() == 3


def test_a_group_with_disruption_mode_all_is_preempted_as_a_whole(case):
    case.nodes(2)
    victims = {"terminationGracePeriodSeconds": 0}
    with kit.reused(case.cluster):
        group = case.group("low", 3, disruptionMode=ALL)
        case.members("low", range(3), **victims)
        case.wait_placed("low", 3)
        case.wait_condition(group, "True", "Scheduled")
        urgent = pod("urgent", case.namespace, scheduler=OURS, cpu="2", memory=None, priorityClassName="eager")
        case.cluster.client.create(urgent)
        wait_until(lambda: bool(case.cluster.client.read(urgent)["spec"].get("nodeName")), 60, "the preemptor is bound")
        wait_until(lambda: case.places("low") == [], 30, "the whole group is gone")
        found = lambda: kit.condition(case.cluster.client.read(group), "DisruptionTarget")
        wait_until(
            lambda: status_and_reason(found()) == ("True", "PreemptionByScheduler"), 30, "the group has the condition"
        )
        assert status_and_reason(case.condition(group)) == ("True", "Scheduled")


def test_the_workload_api_example_is_placed(case):
    case.nodes(1, cpu="8")
    with kit.reused(case.cluster):
        example = (EXAMPLES / "workload-gang.yaml").read_text().replace("scheduling.k8s.io/v1beta1", WORKLOAD)
        case.cluster.kubectl("apply", "-n", case.namespace, "-f", "-", stdin=example)
        case.wait_placed("pair", 2)


def test_one_of_two_competing_gangs_is_placed_completely(case):
    case.nodes(3)
    for name in ("left", "right"):
        case.group(name, 4)
        case.members(name, range(4))
    with kit.running(case.cluster):
        wait_until(lambda: 4 in {len(case.places("left")), len(case.places("right"))}, 60, "one gang is placed")
        winner, loser = sorted(("left", "right"), key=lambda name: -len(case.places(name)))
        wait_until(lambda: case.all_unscheduled(loser, 4), 30, "the other gang is marked Unschedulable")
        assert case.places(loser) == []
        for i in range(4):
            case.cluster.client.delete(pod(f"{winner}-{i}", case.namespace))
        case.wait_placed(loser, 4)


def test_topology_constraints_are_ignored_if_their_gate_is_off(case):
    case.nodes(2, zones=2)
    with kit.running(case.cluster, "--feature-gates=TopologyAwareWorkloadScheduling=false"):
        case.group("train", 4, schedulingConstraints={"topology": [{"key": ZONE}]})
        case.members("train", range(4))
        case.wait_placed("train", 4)


def test_the_workload_api_is_ignored_if_its_gate_is_off(case):
    case.nodes(1)
    with kit.running(case.cluster, "--feature-gates=GenericWorkload=false"):
        group = case.group("train", 5)
        case.members("train", range(2))
        case.wait_placed("train", 2)
        assert "conditions" not in case.status(group)


def test_large_gangs_are_placed_completely_or_not_at_all(case):
    """The nodes have room for two and a half of three gangs."""
    case.nodes(200, cpu="1")
    case.members("filler", range(75), cpu="1", nodeSelector=None, schedulingGroup=None)
    with kit.reused(case.cluster, "--pod-intake=watch"):
        case.wait_placed("filler", 75)
        names = ("one", "two", "three")
        for name in names:
            case.group(name, 50)
            case.members(name, range(50))
        wait_until(lambda: sum(len(case.places(name)) for name in names) == 100, 90, "two gangs are placed")
        wait_until(
            lambda: any(case.all_unscheduled(name, 50) for name in names), 60, "the third gang is marked Unschedulable"
        )
        assert sorted(len(case.places(name)) for name in names) == [0, 50, 50]
        assert kit.over_committed(case.cluster) == {}


@pytest.mark.kubernetes(37, "two versions of PodGroups")
def test_an_alpha_version_of_the_workload_api_suffices(binaries):
    version = "scheduling.k8s.io/v1alpha3"
    with ControlPlane(binaries=binaries, **{**SERVING_GROUPS, "runtime_config": {version: True}}) as cluster:
        kit.install(cluster)
        case = Case(cluster, "default")
        case.nodes(1)
        with kit.running(cluster, "--pod-intake=watch"):
            group = case.create(version, "train", {"schedulingPolicy": {"gang": {"minCount": 2}}})
            case.members("train", range(2))
            case.wait_placed("train", 2)
            case.wait_condition(group, "True", "Scheduled")
