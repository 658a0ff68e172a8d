"""CompositePodGroups on the real API server: a tree of pod groups is placed as a whole, with the conditions of
kube-scheduler.
"""

from __future__ import annotations

from typing import Any

import pytest

from podwright.testing import ControlPlane, node
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import Case

pytestmark = pytest.mark.kubernetes(37, "CompositePodGroups")


@pytest.fixture(scope="module")
def control_plane(serving_groups: ControlPlane) -> ControlPlane:
    return serving_groups


@pytest.fixture
def case(empty_cluster: ControlPlane, namespace: str) -> Case:
    return Case(empty_cluster, namespace)


WORKLOAD_REF = {"workloadName": "llm", "templateName": "any"}


def below(case: Case, parent: str, name: str, pods: int | None) -> dict[str, Any]:
    """A PodGroup."""
    return case.group(name, pods, parentCompositePodGroupName=parent, workloadRef=WORKLOAD_REF)


def composite(case: Case, name: str, groups: int | None, parent: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "workloadRef": WORKLOAD_REF,
        "schedulingPolicy": {"basic": {}} if groups is None else {"gang": {"minGroupCount": groups}},
        **({"parentCompositePodGroupName": parent} if parent else {}),
    }
    return case.cluster.client.create(
        {
            "apiVersion": "scheduling.k8s.io/v1alpha3",
            "kind": "CompositePodGroup",
            "metadata": {"name": name, "namespace": case.namespace},
            "spec": spec,
        }
    )


def test_a_tree_is_placed_as_a_whole_and_its_pod_groups_say_so(case):
    case.nodes(2)
    with kit.reused(case.cluster, "--pod-intake=watch") as operator:
        composite(case, "llm", 2)
        leader = below(case, "llm", "leader", 1)
        replicas = [below(case, "workers", f"r{i}", 2) for i in range(2)]
        case.members("leader", [0])
        case.wait_passed_over("leader")
        composite(case, "workers", 2, parent="llm")
        for name in ("r0", "r1"):
            case.members(name, range(2))
        for group in (leader, *replicas):
            case.wait_condition(group, "False", "Unschedulable")
        assert [case.places(name) for name in ("leader", "r0", "r1")] == [[], [], []]
        case.cluster.client.create(node("another", cpu="2"))
        for name, count in (("leader", 1), ("r0", 2), ("r1", 2)):
            case.wait_placed(name, count)
        for group in (leader, *replicas):
            case.wait_condition(group, "True", "Scheduled")
    assert "Traceback" not in operator.log()


def test_only_those_below_a_composite_group_are_placed_that_fit_completely(case):
    case.nodes(2)
    with kit.reused(case.cluster, "--pod-intake=watch"):
        composite(case, "llm", 1)
        fits, large = (below(case, "llm", name, count) for name, count in (("a", 3), ("b", 2)))
        case.members("a", range(3))
        case.members("b", range(2))
        case.wait_condition(fits, "True", "Scheduled")
        case.wait_condition(large, "False", "Unschedulable")
        case.wait_placed("a", 3)
        assert case.places("b") == []
