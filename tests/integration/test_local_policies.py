"""LocalSchedulerPolicies on the real API server, written with a namespace editor's ordinary rights."""

from __future__ import annotations

import pytest
import yaml

from podwright.testing import KubectlError, node, pod, wait_until
from support.control_plane import operator_process as kit

BASE = {
    "apiVersion": "podwright.dev/v1alpha1",
    "kind": "SchedulerPolicy",
    "metadata": {"name": "teams"},
    "spec": {"delegation": {"rules": True, "maxRules": 2, "strategies": ["MostAllocated"]}},
}


def local(name, namespace, **spec):
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "LocalSchedulerPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


@pytest.fixture
def cluster(control_plane, empty_cluster):
    kit.stay_installed(control_plane)
    yield empty_cluster
    empty_cluster.kubectl("delete", "schedulerpolicies", "--all")


@pytest.fixture
def editor(cluster, namespace):
    """The kubeconfig of somebody with Kubernetes' role edit in the namespace."""
    kubeconfig = cluster.service_account_kubeconfig(namespace, "jane")
    grant = ("--clusterrole=edit", f"--serviceaccount={namespace}:jane", f"--namespace={namespace}")
    cluster.kubectl("create", "rolebinding", "editors", *grant)
    controllers = cluster.start_controller_manager(["clusterrole-aggregation-controller"])
    yield kubeconfig
    controllers.stop()
    cluster.kubectl("delete", "localschedulerpolicies", "--all", f"--namespace={namespace}")


def test_a_namespace_editor_writes_a_policy_that_its_pods_follow_and_a_too_greedy_one_is_refused(
    cluster, namespace, editor
):
    def kubectl(*arguments, stdin=None):
        return cluster.kubectl(*arguments, stdin=stdin, kubeconfig=editor)

    def apply(raw):
        return kubectl("apply", "-f", "-", stdin=yaml.safe_dump(raw))

    def may(verb, resource):
        return kit.may(cluster, editor, verb, resource, f"--namespace={namespace}")

    def status(name):
        return cluster.client.read(local(name, namespace)).get("status") or {}

    def accepted(name):
        return {each["type"]: each for each in status(name).get("conditions", ())}.get("Accepted", {})

    def missing_params():
        found = [each["message"] for each in status("pack").get("conditions", ()) if each["type"] == "ParamsMissing"]
        return "".join(found)

    for name in "abc":
        cluster.client.create(node(name, labels={"tier": name}))
    cluster.client.create(BASE)
    with kit.running(cluster) as operator:
        wait_until(lambda: may("create", "localschedulerpolicies"), 30, "the role edit includes local policies")
        assert not may("create", "schedulerpolicies")
        only_b = {"filters": [{"name": "b", "expression": "node.labels.tier == 'b'", "message": "node(s) are not b"}]}
        by_params = {"filters": [{"name": "tier", "expression": "node.labels.tier == params.tier"}]}
        apply(local("pack", namespace, strategy={"type": "MostAllocated"}, rules=only_b))
        wait_until(lambda: accepted("pack").get("status") == "True", 20, "the policy is accepted")
        assert status("pack")["boundedBy"] == ["teams"]
        cluster.bulk.create([pod(f"p{index}", namespace, scheduler="podwright") for index in range(4)])
        kit.wait_bound(cluster, namespace, 4)
        pods = cluster.client.items(f"/api/v1/namespaces/{namespace}/pods")
        assert {each["spec"]["nodeName"] for each in pods} == {"b"}
        assert f'"policy":"{namespace}/pack"' in pods[0]["metadata"]["annotations"][kit.ANNOTATION].replace(" ", "")
        decisions = lambda: operator.metric("podwright_policy_decisions_total", policy=f"{namespace}/pack")
        wait_until(lambda: decisions() >= 4, 30, "the decisions are counted")
        assert decisions() == 4

        from_config_map = {"paramsFrom": {"configMapRef": {"name": "tiers"}}, "rules": by_params}
        apply(local("pack", namespace, strategy={"type": "MostAllocated"}, **from_config_map))
        apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tiers"}, "data": {"tier": "c"}})
        wait_until(
            lambda: "cannot be read" in missing_params(), 20, "the status says that the operator lacks the right"
        )
        assert (
            'configmaps "tiers" is forbidden: User "system:serviceaccount:podwright-system:podwright"'
            in missing_params()
        )
        cluster.client.create(pod("later", namespace, scheduler="podwright"))
        grant = ("--verb=get", "--resource=configmaps", "--resource-name=tiers", f"--namespace={namespace}")
        cluster.kubectl("create", "role", "podwright-params", *grant)
        account = "--serviceaccount=podwright-system:podwright"
        cluster.kubectl("create", "rolebinding", "podwright-params", "--role=podwright-params", account, grant[-1])
        kit.wait_bound(cluster, namespace, 5)
        pods = cluster.client.items(f"/api/v1/namespaces/{namespace}/pods")
        assert {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods}["later"] == "c"
        wait_until(lambda: missing_params() == "", 20, "the params are not missing any more")

        apply(local("greedy", namespace, strategy={"type": "Random"}, precedence=1))
        wait_until(lambda: accepted("greedy").get("status") == "False", 20, "the policy is refused")
        assert accepted("greedy")["reason"] == "NotAllowed"
        assert accepted("greedy")["message"].startswith(
            "spec.strategy.type: Random is not delegated: SchedulerPolicy teams delegates only MostAllocated "
            "(its spec.delegation.strategies)."
        )
        table = kubectl("get", "lspol", f"--namespace={namespace}")
        rows = {line.split()[0]: line.split()[1:5] for line in table.splitlines()[1:]}
        assert rows == {
            "greedy": ["Random", "podwright", "False", "False"],
            "pack": ["MostAllocated", "podwright", "True", "True"],
        }
        kubectl("delete", "lspol", "greedy", f"--namespace={namespace}")
        invalid = local("wrong", namespace, match={"namespaceSelector": {}}, extenders=["x"])
        with pytest.raises(KubectlError, match="unknown field"):
            apply(invalid)
        changed = {**BASE, "spec": {"delegation": {"rules": False}}}
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(changed))
        wait_until(lambda: "does not delegate rules" in accepted("pack").get("message", ""), 20, "it is checked again")
