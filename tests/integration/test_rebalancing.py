"""Pods are moved on the real API server: evicted within budgets, created again by a controller, bound at their
place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.testing import ControlPlane, node, wait_until
from support.control_plane import operator_process as kit
from support.gangs.pod_groups import Case, install_crd, remove_crd
from support.rebalance.controller import Controller
from support.rebalance.kit import policy

RESERVATIONS = "/apis/podwright.dev/v1alpha1/reservations"
POLICY = "/apis/podwright.dev/v1alpha1/rebalancepolicies/{}"


@pytest.fixture
def controller(cluster: ControlPlane, namespace: str) -> Iterator[Controller]:
    kit.wait_listed(cluster, "rebalancepolicies")
    for name, cpu in (("n0", "6"), ("n1", "4"), ("n2", "5")):
        cluster.client.create(node(name, cpu=cpu))
    yield Controller(cluster, namespace)
    cluster.kubectl("delete", "rebal", "--all")


def rebalance(cluster: ControlPlane, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["rebalance", *arguments, "--kubeconfig", str(cluster.kubeconfig)])
    assert result.exit_code == 0, result.output
    return result.output


def asked(**spec: Any) -> dict[str, Any]:
    raw = policy(**{"cooldown": "0s", "interval": "1s", **spec})
    del raw["metadata"]["uid"], raw["metadata"]["generation"]
    return raw


def test_nodes_are_emptied_and_every_pod_runs_at_its_place(controller):
    cluster = controller.cluster
    for app, on in (("a", "n0"), ("a", "n0"), ("b", "n0"), ("c", "n1"), ("kept", "n2"), ("kept", "n2")):
        controller.runs(app, on)
    cluster.client.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "kept", "namespace": controller.namespace},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}},
        }
    )
    status = lambda: cluster.client.get(POLICY.format("tidy")).get("status") or {}
    plan = lambda: status().get("plan") or {}
    with kit.reused(cluster, "--pod-intake=watch"), controller.working():
        cluster.apply(asked())
        wait_until(lambda: plan().get("gain") == 1, 60, "the status shows the plan")
        assert controller.nodes_of("c") == ["n1"]
        assert "a PodDisruptionBudget that allows no disruption" in str(plan()["heldBack"])
        shown = rebalance(cluster, "plan")
        assert "empties node n1 (1 move)" in shown
        assert f"{plan()['first'][0]['pod']}  n1 -> n0" in shown
        read = plan()["hash"]
        assert f"(plan {read})" in shown
        cluster.apply(asked(mode="Enforce", approvedPlan="another"))
        wait_until(lambda: plan().get("ended") == "it is not the approved plan", 60, "another plan was approved")
        assert controller.nodes_of("c") == ["n1"]
        cluster.apply(asked(mode="Enforce", approvedPlan=read))
        wait_until(lambda: controller.nodes_of("c") == ["n0"], 60, "the pod runs at its place")
        wait_until(lambda: status().get("recentMoves") == 1 and plan().get("moves") == 0, 60, "plans are empty")
        assert controller.nodes_of("kept") == ["n2", "n2"]
        assert kit.over_committed(cluster) == {}
        events = lambda: cluster.kubectl("get", "events", "-n", controller.namespace)
        wait_until(lambda: " Rebalanced " in events() and "PodRebalanced" in events(), 30, "there are both events")
        assert "tidy stopped" in rebalance(cluster, "stop")
        wait_until(lambda: "Stopped" in cluster.kubectl("get", "rebal", "tidy"), 30, "kubectl shows that it is stopped")


def test_a_gang_that_waits_gets_room_and_nobody_else(controller):
    """n0 has 4 of 6 CPUs free, n1 has 3 of 4, n2 has 3 of 5. The gang needs 4 on two nodes."""
    cluster = controller.cluster
    install_crd(cluster)
    for app, on in (("a", "n0"), ("b", "n0"), ("c", "n2"), ("d", "n2"), ("e", "n1")):
        controller.runs(app, on)
    with kit.reused(cluster, "--pod-intake=watch"), controller.working():
        cluster.apply(asked(mode="Enforce", goals=[{"type": "MakeRoom", "gangs": ["*"]}], interval="1h"))
        case = Case(cluster, controller.namespace)
        case.custom_group("train", 2)
        case.members("train", range(2), cpu="4", custom=True)
        case.wait_placed("train", 2)
        assert len({*case.places("train")}) == 2
        status = lambda: cluster.client.get(POLICY.format("tidy")).get("status") or {}
        wait_until(lambda: status().get("recentMoves") == 1, 30, "one pod has moved")
        assert kit.over_committed(cluster) == {}
        wait_until(lambda: not cluster.client.items(RESERVATIONS), 30, "nothing is held any more")
    remove_crd(cluster)


def test_what_asks_for_something_else_does_not_get_the_place(controller):
    cluster = controller.cluster
    for app, on in (("a", "n0"), ("a", "n0"), ("c", "n1")):
        controller.runs(app, on)
    status = lambda: cluster.client.get(POLICY.format("tidy")).get("status") or {}
    with kit.reused(cluster, "--pod-intake=watch"), controller.working():
        controller.cpu = "2"
        cluster.apply(asked(mode="Enforce", holdFor="3s"))
        ended = lambda: (status().get("plan") or {}).get("ended", "")
        wait_until(lambda: "did not come to its place in time" in ended(), 60, "the status says what is missing")
        wait_until(lambda: "" not in controller.nodes_of("c"), 30, "the pod runs somewhere")
        assert kit.over_committed(cluster) == {}
        wait_until(lambda: not cluster.client.items(RESERVATIONS), 30, "nothing is held any more")


def test_an_invalid_policy_says_why_and_moves_nothing(controller):
    cluster = controller.cluster
    controller.runs("a", "n0")
    controller.runs("c", "n1")
    with kit.reused(cluster, "--pod-intake=watch"), controller.working():
        cluster.apply(asked(mode="Enforce", match={"namespaces": ["kube-system"]}))
        condition = lambda: cluster.kubectl("get", "rebal", "tidy", "-o", "wide")
        wait_until(lambda: "kube-system is a namespace of the system" in condition(), 60, "the condition says why")
        events = lambda: cluster.kubectl("get", "events", "-A")
        wait_until(lambda: "RebalancePolicyNotAccepted" in events(), 30, "there is an event")
        assert (controller.nodes_of("a"), controller.nodes_of("c")) == (["n0"], ["n1"])
