"""RBAC permissions that are granted while the operator runs take effect without a restart."""

from __future__ import annotations

import pytest
import yaml

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit

OURS = "podwright"


@pytest.fixture
def role(cluster, namespace):
    """The cluster role of manifests/base, bound to a separate account."""
    role, binding = yaml.safe_load_all((kit.BASE / "cluster-role.yaml").read_text())
    name = role["metadata"]["name"] = binding["metadata"]["name"] = f"late-{namespace}"
    binding["roleRef"]["name"] = name
    binding["subjects"][0].update(name="late", namespace=namespace)
    cluster.apply(binding)
    yield role
    cluster.client.delete(role)
    cluster.client.delete(binding)


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_policies_take_effect_once_the_operator_may_read_them(cluster, namespace, role, intake):
    rules = role["rules"]
    role["rules"] = [rule for rule in rules if "podwright.dev" not in rule["apiGroups"]]
    cluster.apply(role)
    kubeconfig = cluster.service_account_kubeconfig(namespace, "late")
    wait_until(lambda: kit.may(cluster, kubeconfig, "list", "nodes"), 20, "the role takes effect")
    cluster.bulk.create([node(name) for name in ("a", "b")])
    cluster.client.create(_policy("early"))
    with kit.running(cluster, f"--pod-intake={intake}", kubeconfig=kubeconfig) as operator:
        cluster.client.create(pod("before", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 1, 20)
        assert kit.decision(cluster.client.read(pod("before", namespace)))["policy"] == "built-in-default"
        wait_until(lambda: "RBAC does not let us list it" in operator.log(), 30, "the log says what is missing")
        role["rules"] = rules
        cluster.apply(role)
        wait_until(lambda: _accepted(cluster, "early"), 60, "the policy is accepted")
        cluster.client.create(pod("after", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 2, 20)
        assert kit.decision(cluster.client.read(pod("after", namespace)))["policy"] == "early"
        wait_until(lambda: "restarting Kopf" in operator.log() or intake == "watch", 20, "Kopf watches policies")
        cluster.client.create(_policy("late"))
        wait_until(lambda: _accepted(cluster, "late"), 30, "a new policy is accepted")
    assert operator.process.returncode == 0
    assert "Traceback" not in operator.log()


def _policy(name):
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": name},
        "spec": {"strategy": {"type": "NodeName"}},
    }


def _accepted(cluster, name):
    return kit.condition(cluster.client.get(f"{kit.POLICIES}/{name}"), "Accepted").get("status") == "True"
