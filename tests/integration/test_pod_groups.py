"""Pod groups of both APIs on the real API server: placed as a whole or not at all, and their status says so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

import operator_kit as kit
from podwright.testing import Binaries, ControlPlane, node, pod, wait_until

OURS = "podwright"
ZONE = "topology.kubernetes.io/zone"
LABEL = "scheduling.x-k8s.io/pod-group"
GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
CRD = kit.CHECKOUT / "crds" / "gangs"
EXAMPLES = kit.CHECKOUT / "manifests" / "examples" / "gangs"
SERVED = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
WORKLOAD = "scheduling.k8s.io/v1beta1"
PLUGINS = "scheduling.x-k8s.io/v1alpha1"


@pytest.fixture(scope="module")
def control_plane(binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane that has the Workload API, and with Podwright's objects but without the custom PodGroup."""
    versions = {WORKLOAD: True}
    with ControlPlane(binaries=binaries, feature_gates=GATES, runtime_config=versions) as cluster:
        kit.install(cluster)
        for name, value, policy in (("meek", 0, "Never"), ("eager", 1000, "PreemptLowerPriority")):
            priority = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            cluster.client.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **priority})
        yield cluster


@pytest.fixture
def cluster(empty_cluster: ControlPlane) -> ControlPlane:
    return empty_cluster


@pytest.fixture
def custom(cluster: ControlPlane) -> ControlPlane:
    """The same with the custom PodGroup."""
    install_crd(cluster)
    return cluster


def install_crd(cluster):
    cluster.apply(CRD)
    wait_until(lambda: cluster.client.raw("GET", SERVED)[0] == 200, 30, "the API server serves custom pod groups")


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
        """The nodes of a group's members that have one."""
        mine = [
            raw for raw in kit.pods(self.cluster, self.namespace) if raw["metadata"]["name"].startswith(f"{group}-")
        ]
        return [raw["spec"]["nodeName"] for raw in mine if raw["spec"].get("nodeName")]

    def wait_placed(self, group: str, count: int) -> None:
        wait_until(lambda: len(self.places(group)) == count, 60, f"{count} of {group} are bound")

    def wait_passed_over(self, group: str, cpu: str | None = "10m") -> None:
        """Waits until a pod that came later is bound, and none of the group."""
        self.cluster.client.create(pod("plain", self.namespace, scheduler=OURS, cpu=cpu, memory=None))
        raw = pod("plain", self.namespace)
        wait_until(lambda: bool(self.cluster.client.read(raw)["spec"].get("nodeName")), 60, "a plain pod is bound")
        assert self.places(group) == []

    def condition(self, group: dict) -> dict:
        return kit.condition(self.cluster.client.read(group), "PodGroupInitiallyScheduled")

    def wait_condition(self, group: dict, status: str, reason: str) -> str:
        """The condition's message, once it says this."""
        what = f"the status of {group['metadata']['name']} says {reason}"
        wait_until(lambda: said(self.condition(group)) == (status, reason), 60, what)
        return self.condition(group)["message"]

    def status(self, group: dict) -> dict:
        return self.cluster.client.read(group).get("status", {})

    def wait_phase(self, group: dict, phase: str) -> dict:
        wait_until(lambda: self.status(group).get("phase") == phase, 60, f"the phase is {phase}")
        return self.status(group)

    def set_phase(self, names, phase: str) -> None:
        for name in names:
            self.cluster.client.patch(pod(name, self.namespace), {"status": {"phase": phase}}, "status")

    def all_said_no(self, group: str, count: int) -> bool:
        """Whether every member's own status says that it was not placed."""
        mine = [
            raw for raw in kit.pods(self.cluster, self.namespace) if raw["metadata"]["name"].startswith(f"{group}-")
        ]
        return len(mine) == count and all(kit.condition(raw).get("status") == "False" for raw in mine)


def said(condition):
    return condition.get("status"), condition.get("reason")


@pytest.fixture
def case(cluster, namespace) -> Case:
    return Case(cluster, namespace)


@pytest.fixture
def custom_case(custom, namespace) -> Case:
    return Case(custom, namespace)


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_a_gang_waits_for_its_members_and_is_placed_as_a_whole(case, intake):
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


def test_nothing_of_a_gang_is_placed_where_a_part_of_it_fits(case):
    case.nodes(2)
    with kit.running(case.cluster):
        group = case.group("train", 5)
        case.members("train", range(5))
        message = case.wait_condition(group, "False", "Unschedulable")
        assert "5" in message
        wait_until(lambda: case.all_said_no("train", 5), 30, "every member says why it waits")
        assert case.places("train") == []
        case.cluster.client.create(node("another", cpu="2"))
        case.wait_placed("train", 5)
        case.wait_condition(group, "True", "Scheduled")
    assert kit.over_committed(case.cluster) == {}


def test_of_two_gangs_that_half_fit_beside_each_other_one_is_placed_whole(case):
    case.nodes(3)
    for name in ("left", "right"):
        case.group(name, 4)
        case.members(name, range(4))
    with kit.running(case.cluster):
        wait_until(lambda: 4 in {len(case.places("left")), len(case.places("right"))}, 60, "one is placed")
        winner, loser = sorted(("left", "right"), key=lambda name: -len(case.places(name)))
        wait_until(lambda: case.all_said_no(loser, 4), 30, "the other one says that it waits")
        assert case.places(loser) == []
        for i in range(4):
            case.cluster.client.delete(pod(f"{winner}-{i}", case.namespace))
        case.wait_placed(loser, 4)


def test_of_a_basic_group_goes_who_can(case):
    case.nodes(1)
    with kit.running(case.cluster):
        group = case.group("batch", None)
        case.members("batch", range(3))
        case.wait_placed("batch", 2)
        case.wait_condition(group, "True", "Scheduled")


def test_a_group_goes_on_being_scheduled_once_a_pod_more_than_fits_comes(case):
    case.nodes(2)
    with kit.running(case.cluster):
        group = case.group("train", 3)
        case.members("train", range(4))
        case.wait_placed("train", 4)
        case.members("train", [4])
        wait_until(lambda: bool(kit.events(case.cluster, case.namespace, "FailedScheduling")), 30, "the fifth waits")
        assert said(case.condition(group)) == ("True", "Scheduled")


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        pytest.param({"priorityClassName": "system-cluster-critical"}, "same priority", id="another priority"),
        pytest.param({"priorityClassName": "meek"}, "same preemption policy", id="another preemption policy"),
        pytest.param({"scheduler": "second"}, ".spec.schedulerName", id="another scheduler name"),
    ],
)
def test_members_that_disagree_are_an_error_that_the_status_names(case, odd, words):
    case.nodes(2)
    case.cluster.client.create(
        {
            "apiVersion": "podwright.dev/v1alpha1",
            "kind": "SchedulerPolicy",
            "metadata": {"name": "second"},
            "spec": {"schedulerName": "second", "strategy": {"type": "Default"}},
        }
    )
    with kit.running(case.cluster):
        group = case.group("train", 3)
        case.members("train", range(2))
        case.members("train", [2], **odd)
        assert words in case.wait_condition(group, "False", "SchedulerError")
        assert case.places("train") == []


def test_a_topology_constraint_keeps_a_gang_in_one_domain(case):
    case.nodes(6, zones=3)
    with kit.running(case.cluster):
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


def test_topology_constraints_are_passed_over_where_their_gate_is_off(case):
    case.nodes(2, zones=2)
    with kit.running(case.cluster, "--feature-gates=TopologyAwareWorkloadScheduling=false"):
        case.group("train", 4, schedulingConstraints={"topology": [{"key": ZONE}]})
        case.members("train", range(4))
        case.wait_placed("train", 4)


def test_the_workload_api_is_passed_over_where_its_gate_is_off(case):
    case.nodes(1)
    with kit.running(case.cluster, "--feature-gates=GenericWorkload=false"):
        group = case.group("train", 5)
        case.members("train", range(2))
        case.wait_placed("train", 2)
        assert "conditions" not in case.status(group)


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
    with kit.running(case.cluster):
        case.group("train", 6)
        case.members("train", range(6))
        case.wait_placed("train", 6)
        assert len({int(name[1:]) % 4 for name in case.places("train")}) == 2


def test_gangs_at_scale_are_placed_whole_or_not_at_all(case):
    """Room for two and a half of three gangs."""
    case.nodes(200, cpu="1")
    case.members("filler", range(75), cpu="1", nodeSelector=None, schedulingGroup=None)
    with kit.running(case.cluster, "--pod-intake=watch"):
        case.wait_placed("filler", 75)
        names = ("one", "two", "three")
        for name in names:
            case.group(name, 50)
            case.members(name, range(50))
        wait_until(lambda: sum(len(case.places(name)) for name in names) == 100, 90, "two gangs are placed")
        wait_until(lambda: any(case.all_said_no(name, 50) for name in names), 60, "the third says that it waits")
        assert sorted(len(case.places(name)) for name in names) == [0, 50, 50]
        assert kit.over_committed(case.cluster) == {}


def test_a_gang_preempts_as_much_as_it_needs_and_nothing_that_does_not_help(case):
    case.nodes(2)
    victims = {"schedulingGroup": None, "terminationGracePeriodSeconds": 0}
    case.members("low", range(4), **victims)
    with kit.running(case.cluster):
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
        assert len(kit.events(case.cluster, case.namespace, "Preempted")) == 3


def test_a_group_that_is_disrupted_as_a_whole_goes_as_a_whole_and_says_so(case):
    case.nodes(2)
    victims = {"terminationGracePeriodSeconds": 0}
    with kit.running(case.cluster):
        group = case.group("low", 3, disruptionMode={"all": {}})
        case.members("low", range(3), **victims)
        case.wait_placed("low", 3)
        urgent = pod("urgent", case.namespace, scheduler=OURS, cpu="2", memory=None, priorityClassName="eager")
        case.cluster.client.create(urgent)
        wait_until(lambda: bool(case.cluster.client.read(urgent)["spec"].get("nodeName")), 60, "it has a node")
        assert case.places("low") == []
        found = lambda: kit.condition(case.cluster.client.read(group), "DisruptionTarget")  # noqa: E731
        wait_until(lambda: said(found()) == ("True", "PreemptionByScheduler"), 30, "the group says so")
        assert said(case.condition(group)) == ("True", "Scheduled")


def test_the_example_of_the_workload_api_is_placed(case):
    case.nodes(1, cpu="8")
    with kit.running(case.cluster):
        case.cluster.kubectl("apply", "-n", case.namespace, "-f", str(EXAMPLES / "workload-gang.yaml"))
        case.wait_placed("pair", 2)


# The custom resource


def test_a_custom_group_shows_in_its_status_how_far_it_is(custom_case):
    case = custom_case
    case.nodes(2)
    with kit.running(case.cluster, "--pod-intake=watch"):
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


def test_a_custom_group_says_why_it_waits_and_when_a_member_fails(custom_case):
    case = custom_case
    case.nodes(1)
    with kit.running(case.cluster, "--pod-intake=watch"):
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


def test_an_operator_that_starts_anew_goes_on_with_a_custom_groups_status(custom_case):
    case = custom_case
    case.nodes(2)
    with kit.running(case.cluster, "--pod-intake=watch"):
        group = case.custom_group("train", 3)
        case.members("train", range(3), custom=True)
        case.wait_placed("train", 3)
        case.set_phase(["train-0", "train-1", "train-2"], "Running")
        status = case.wait_phase(group, "Running")
    case.set_phase(["train-0"], "Succeeded")
    with kit.running(case.cluster, "--pod-intake=watch"):
        wait_until(lambda: case.status(group).get("succeeded") == 1, 60, "one has succeeded")
        assert case.status(group) == status | {"running": 2, "succeeded": 1}


def test_a_pod_of_another_scheduler_does_not_make_a_custom_group_complete(custom_case):
    case = custom_case
    case.nodes(2)
    with kit.running(case.cluster, "--pod-intake=watch"):
        group = case.custom_group("train", 3)
        case.members("train", range(2), custom=True)
        case.members("train", [2], custom=True, scheduler="somebody-else")
        case.wait_phase(group, "Pending")
        case.wait_passed_over("train")


def test_min_resources_hold_a_custom_group_back(custom_case):
    case = custom_case
    case.nodes(2)
    with kit.running(case.cluster, "--pod-intake=watch"):
        group = case.custom_group("train", 2, minResources={"cpu": "5"})
        case.members("train", range(2), custom=True)
        assert "minResources" in case.wait_condition(group, "False", "Unschedulable")
        case.cluster.client.create(node("another", cpu="2"))
        case.wait_placed("train", 2)


def test_an_alpha_version_alone_will_do(binaries):
    version = "scheduling.k8s.io/v1alpha3"
    with ControlPlane(binaries=binaries, feature_gates=GATES, runtime_config={version: True}) as cluster:
        kit.install(cluster)
        case = Case(cluster, "default")
        case.nodes(1)
        with kit.running(cluster, "--pod-intake=watch"):
            group = case.create(version, "train", {"schedulingPolicy": {"gang": {"minCount": 2}}})
            case.members("train", range(2))
            case.wait_placed("train", 2)
            case.wait_condition(group, "True", "Scheduled")


@pytest.mark.slow
def test_the_custom_resource_may_come_and_go_while_the_operator_runs(custom_case):
    case = custom_case
    case.nodes(4)
    remove_crd(case.cluster)
    with kit.running(case.cluster, "--pod-intake=watch") as operator:
        case.members("early", range(2), custom=True)
        case.wait_placed("early", 2)
        install_crd(case.cluster)
        wait_until(lambda: "x-k8s.io/v1alpha1 are scheduled as groups" in operator.log(), 30, "it is noticed")
        case.members("train", range(2), custom=True)
        case.wait_passed_over("train")
        group = case.custom_group("train", 3)
        case.members("train", [2], custom=True)
        case.wait_placed("train", 3)
        case.wait_phase(group, "Scheduled")
        remove_crd(case.cluster)
        wait_until(lambda: "x-k8s.io/v1alpha1 are gone" in operator.log(), 90, "that is noticed, too")
        case.members("late", range(2), custom=True)
        case.wait_placed("late", 2)
    assert "Traceback" not in operator.log()


def remove_crd(cluster):
    cluster.kubectl("delete", "-k", str(CRD), "--wait=true")
    wait_until(lambda: cluster.client.raw("GET", SERVED)[0] == 404, 30, "the custom pod group is gone")


def test_statuses_are_not_written_over_and_over(custom_case):
    """A pod that waits is tried again and again; a group whose status says so already is left in peace."""
    case = custom_case
    case.nodes(1)
    with kit.running(case.cluster, "--pod-intake=watch"):
        groups = [case.group("workload", 3), case.custom_group("custom", 3)]
        case.members("workload", range(3))
        case.members("custom", range(3), custom=True)
        for group in groups:
            case.wait_condition(group, "False", "Unschedulable")
        case.wait_phase(groups[1], "Scheduling")
        versions = [[case.cluster.client.read(group)["metadata"]["resourceVersion"] for group in groups]]
        for i in range(3):
            case.cluster.client.create(node(f"small-{i}", cpu="100m"))
            case.cluster.client.create(pod(f"plain-{i}", case.namespace, scheduler=OURS, cpu="50m", memory=None))
            kit.wait_bound(case.cluster, case.namespace, i + 1)
            versions.append([case.cluster.client.read(group)["metadata"]["resourceVersion"] for group in groups])
        writes = [sum(before != after for before, after in zip(*pair, strict=True)) for pair in pairwise(versions)]
        assert max(writes) <= len(groups)
