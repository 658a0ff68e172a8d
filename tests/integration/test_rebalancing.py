"""Pods are moved on the real API server: evicted within budgets, created again by a controller, bound at their place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.rebalance.kit import policy

OURS = "podwright"
POLICY = "/apis/podwright.dev/v1alpha1/rebalancepolicies/{}"


class Controller:
    """Creates a pod for each one that is missing, as a ReplicaSet does."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.wanted: dict[str, int] = {}
        self.made = 0

    def create(self, app: str, on: str = "") -> None:
        self.made += 1
        spec = {"nodeName": on} if on else {}
        raw = pod(
            f"{app}-{self.made}", self.namespace, scheduler=OURS, cpu="1", labels={"app": app},
            terminationGracePeriodSeconds=0, **spec,
        )  # fmt: skip
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"uid-{app}", "controller": True}
        raw["metadata"]["ownerReferences"] = [owner]
        self.cluster.client.create(raw)

    def runs(self, app: str, on: str) -> None:
        self.wanted[app] = self.wanted.get(app, 0) + 1
        self.create(app, on)

    def reconcile(self) -> None:
        there = [each["metadata"] for each in kit.pods(self.cluster, self.namespace)]
        for app, wanted in self.wanted.items():
            count = sum(each["labels"]["app"] == app and not each.get("deletionTimestamp") for each in there)
            for _ in range(wanted - count):
                self.create(app)

    @contextmanager
    def working(self) -> Iterator[None]:
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(0.2):
                self.reconcile()
            self.cluster.client.close()  # the connection of this thread

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def nodes_of(self, app: str) -> list[str]:
        found = [each for each in kit.pods(self.cluster, self.namespace) if each["metadata"]["labels"]["app"] == app]
        return sorted(each["spec"].get("nodeName", "") for each in found)


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
        assert "a PodDisruptionBudget allows no disruption" in str(plan()["heldBack"])
        shown = rebalance(cluster, "plan")
        assert "empties node n1 (1 move)" in shown
        assert f"{plan()['first'][0]['pod']}  n1 -> n0" in shown
        cluster.apply(asked(mode="Enforce"))
        wait_until(lambda: controller.nodes_of("c") == ["n0"], 60, "the pod runs at its place")
        wait_until(lambda: status().get("recentMoves") == 1 and plan().get("moves") == 0, 60, "plans are empty")
        assert controller.nodes_of("kept") == ["n2", "n2"]
        assert kit.over_committed(cluster) == {}
        events = lambda: cluster.kubectl("get", "events", "-n", controller.namespace)
        wait_until(lambda: " Rebalanced " in events() and "PodRebalanced" in events(), 30, "there are both events")
        assert "tidy stopped" in rebalance(cluster, "stop")
        wait_until(lambda: "Stopped" in cluster.kubectl("get", "rebal", "tidy"), 30, "kubectl shows that it is stopped")


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
