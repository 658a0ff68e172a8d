"""Rules of policies on the real API server: filters, scores, their reasons, and params from a ConfigMap that changes
and goes.
"""

from __future__ import annotations

import time

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit
from support.objects.builders import make_policy

OURS = "podwright"
HOME = "kube-system"
"""The namespace of an operator that does not run in a pod."""


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    kit.stay_installed(control_plane)
    control_plane.kubectl("create", "role", "params", "-n", HOME, "--verb=list,watch", "--resource=configmaps")
    account = "--serviceaccount=podwright-system:podwright"
    control_plane.kubectl("create", "rolebinding", "params", "-n", HOME, "--role=params", account)
    return control_plane


@pytest.fixture
def cluster(installed, empty_cluster):
    yield empty_cluster
    empty_cluster.kubectl("delete", "schedulerpolicies", "--all")


def policy(**spec):
    return make_policy("ruled", **spec)


def config_map(tier):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tiers", "namespace": HOME},
        "data": {"tier": tier},
    }


def tiered(name, tier):
    raw = node(name)
    raw["metadata"]["labels"] = {"tier": tier}
    return raw


FILTER = {
    "name": "same-tier",
    "expression": "node.labels.tier == params.tier",
    "message": "node(s) had another tier",
}


def test_rules_decide_and_params_of_a_config_map_apply_at_once_and_stay_when_it_goes(cluster, namespace):
    for name, tier in (("a", "gold"), ("b", "silver")):
        cluster.client.create(tiered(name, tier))
    cluster.client.create(config_map("gold"))
    cluster.client.create(policy(paramsFrom={"configMapRef": {"name": "tiers"}}, rules={"filters": [FILTER]}))
    with kit.running(cluster):
        cluster.client.create(pod("first", namespace, scheduler=OURS))
        wait_until(lambda: node_of(cluster, "first", namespace) == "a", 20, "the pod is on the gold node")

        cluster.apply(config_map("platinum"))
        second = pod_that_waits(cluster, namespace)
        wait_until(lambda: rejected(cluster, namespace, second), 60, "the event says why the pod waits")
        assert "2 node(s) had another tier" in rejected(cluster, namespace, second)[0]["note"]

        cluster.apply(config_map("silver"))
        wait_until(lambda: node_of(cluster, second, namespace) == "b", 20, "the changed params help the pod")

        cluster.kubectl("delete", "configmap", "tiers", "-n", HOME)
        cluster.client.create(pod("third", namespace, scheduler=OURS))
        wait_until(lambda: node_of(cluster, "third", namespace) == "b", 20, "the last params stay in use")
        says = [f"ConfigMap {HOME}/tiers does not exist: its last content stays in use."]
        wait_until(lambda: missing(cluster) == says, 30, "the status says that the ConfigMap is gone")


def pod_that_waits(cluster, namespace):
    """The name of the first new pod that is rejected. Watches have no common order: the change of params may come after
    a pod.
    """
    for number in range(20):
        name = f"second-{number}"
        cluster.client.create(pod(name, namespace, scheduler=OURS))
        decided = lambda name=name: rejected(cluster, namespace, name) or node_of(cluster, name, namespace)
        wait_until(decided, 60, f"{name} is decided")
        if node_of(cluster, name, namespace) is None:
            return name
        time.sleep(0.1)
    raise AssertionError("the changed params reject no pod")


def node_of(cluster, name, namespace):
    found = {raw["metadata"]["name"]: raw["spec"].get("nodeName") for raw in kit.pods(cluster, namespace)}
    return found.get(name)


def missing(cluster):
    status = cluster.client.read(policy())["status"]
    return [each["message"] for each in status["conditions"] if each["type"] == "ParamsMissing"]


def rejected(cluster, namespace, name):
    found = kit.events(cluster, namespace, "FailedScheduling")
    return [event for event in found if event["regarding"]["name"] == name]
