"""The operator works with the permissions of manifests/base, and survives missing permissions and failures of Kopf."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request

import pytest
import yaml

from podwright.testing import AnswerError, node, pod, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit

OURS = "podwright"
CRD = "customresourcedefinitions/schedulerpolicies.podwright.dev"


@pytest.fixture
def limited(cluster, namespace):
    """Makes a kubeconfig for an account with the permissions of manifests/base except for some resources."""
    made = []

    def make(*without: str):
        role, binding = yaml.safe_load_all((kit.BASE / "cluster-role.yaml").read_text())
        name = role["metadata"]["name"] = binding["metadata"]["name"] = f"limited-{namespace}"
        for rule in role["rules"]:
            rule["resources"] = [r for r in rule["resources"] if r not in without]
        role["rules"] = [rule for rule in role["rules"] if rule["resources"]]
        binding["roleRef"]["name"] = name
        binding["subjects"][0].update(name="limited", namespace=namespace)
        cluster.apply(role, binding)
        made.extend((role, binding))
        kubeconfig = cluster.service_account_kubeconfig(namespace, "limited")
        if "nodes" not in without:
            wait_until(lambda: kit.may(cluster, kubeconfig, "list", "nodes"), 20, "the role takes effect")
        return kubeconfig

    yield make
    for body in made:
        cluster.client.delete(body)


def test_the_command_line_of_the_deployment_works_as_its_service_account(cluster, namespace):
    cluster.client.create(node("only"))
    kubeconfig = cluster.service_account_kubeconfig(*kit.ACCOUNT)
    port = free_port()
    environ = {"KUBECONFIG": str(kubeconfig), **kit.POD_ENVIRON}
    process = cluster.start_process("deployed", kit.deployed_command(port), environ)
    operator = kit.Operator(process, port, scheme="https")
    try:
        kit.wait_ready(operator)
        assert operator.get("/livez") == (200, "ok")
        cluster.client.create(pod("mine", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 1, 20)
    finally:
        process.stop(30)
    assert process.returncode == 0
    for text in ("Traceback", "orbidden", " is off"):
        assert text not in operator.log()
    assert operator.complaints() == []


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_without_permission_to_read_policies_the_built_in_default_decides(cluster, namespace, limited, intake):
    kubeconfig = limited("schedulerpolicies")
    cluster.client.create(node("only"))
    with kit.running(cluster, f"--pod-intake={intake}", kubeconfig=kubeconfig) as operator:
        cluster.client.create(pod("mine", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 1, 20)
        assert kit.decision(cluster.client.read(pod("mine", namespace)))["policy"] == "built-in-default"
    assert "RBAC does not let us list it" in operator.log()
    assert "the built-in default policy decides" in operator.log()
    messages = re.sub(r"^[IWE]\d{4} \S+ +\d+ \S+ ", "", operator.log(), flags=re.MULTILINE)
    assert not re.search(r"(?<![\d.:])403(?!\d)", messages)


def test_missing_permissions_for_some_kinds_are_logged_and_survived(cluster, namespace, limited):
    kubeconfig = limited("csinodes", "deviceclasses", "customresourcedefinitions", "events")
    cluster.client.create(node("only"))
    with kit.running(cluster, kubeconfig=kubeconfig) as operator:
        cluster.client.create(pod("mine", namespace, scheduler=OURS))
        kit.wait_bound(cluster, namespace, 1, 20)
    assert "/apis/storage.k8s.io/v1/csinodes is off: RBAC does not let us list it" in operator.log()
    assert "/apis/resource.k8s.io/v1/deviceclasses is off" in operator.log()


def test_without_permission_to_read_nodes_the_operator_exits_with_an_error(cluster, limited):
    operator = kit.start(cluster, kubeconfig=limited("nodes"), ready=False)
    assert operator.process.wait(60) == 1
    assert "Error: /api/v1/nodes: RBAC does not let us list it" in operator.log()


def test_without_a_kubeconfig_the_operator_exits_with_an_error(cluster, tmp_path):
    operator = kit.start(cluster, kubeconfig=tmp_path / "missing", ready=False)
    assert operator.process.wait(60) == 1
    assert "does not exist" in operator.log()


def test_a_crd_that_is_installed_later_takes_effect(cluster, namespace):
    cluster.client.request("DELETE", f"/apis/apiextensions.k8s.io/v1/{CRD}")
    wait_until(lambda: cluster.client.raw("GET", kit.POLICIES)[0] == 404, 30, "the CRD is deleted")
    cluster.client.create(node("a"))
    cluster.client.create(node("b"))
    try:
        with kit.running(cluster) as operator:
            cluster.client.create(pod("before", namespace, scheduler=OURS))
            kit.wait_bound(cluster, namespace, 1, 20)
            wait_until(lambda: "the API server does not serve it" in operator.log(), 30, "the log says what is missing")
            kit.install(cluster)
            _create_policy(cluster)
            wait_until(lambda: _is_accepted(cluster), 30, "the policy is accepted")
            cluster.client.create(pod("after", namespace, scheduler=OURS))
            kit.wait_bound(cluster, namespace, 2, 20)
            assert kit.decision(cluster.client.read(pod("after", namespace)))["policy"] == "late"
    finally:
        kit.install(cluster)


def test_scheduling_continues_while_kopf_restarts(cluster, namespace):
    """The CRD that Kopf watches is deleted and re-created, which ends Kopf when its watch is rejected."""
    cluster.client.create(node("only"))
    try:
        with kit.running(cluster, environ={"PODWRIGHT_TEST": "1"}) as operator:
            cluster.client.request("DELETE", f"/apis/apiextensions.k8s.io/v1/{CRD}")
            wait_until(lambda: cluster.client.raw("GET", kit.POLICIES)[0] == 404, 30, "the CRD is deleted")
            for number in range(3):
                cluster.client.create(pod(f"p{number}", namespace, scheduler=OURS))
                kit.wait_bound(cluster, namespace, number + 1, 20)
            kit.install(cluster)
            _create_policy(cluster)
            wait_until(lambda: _is_accepted(cluster), 60, "the policy is accepted")
            assert operator.process.alive
    finally:
        kit.install(cluster)
    assert operator.process.returncode == 0


def test_readiness_names_the_missing_part_until_the_start_is_complete(cluster):
    cluster.api_server.pause()
    try:
        operator = kit.start(cluster, ready=False, kubeconfig=cluster.kubeconfig)
        wait_until(lambda: operator.get("/livez")[0] == 200, 30, "the operator is alive")
        code, body = operator.get("/readyz")
        assert code == 500
        assert "[-]informer-sync failed: not complete: start\n" in body
    finally:
        cluster.api_server.resume()
    wait_until(lambda: operator.ready, 60, "the operator is ready")
    assert operator.metric("scheduler_cache_size", type="nodes") == 0
    operator.process.stop(30)
    assert operator.process.returncode == 0


def _create_policy(cluster):
    body = {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": "late"},
        "spec": {"strategy": {"type": "NodeName"}},
    }

    def created() -> bool:
        try:
            cluster.client.create(body)
        except AnswerError as error:
            return error.reason == "AlreadyExists"
        return True

    wait_until(created, 30, "the policy can be created")


def _is_accepted(cluster) -> bool:
    return kit.condition(cluster.client.get(f"{kit.POLICIES}/late"), "Accepted").get("status") == "True"


def test_the_api_server_does_not_queue_renewals_of_the_lease_behind_bindings(cluster):
    """They have a priority level of their own, which the answer names by its uid."""
    flows = "/apis/flowcontrol.apiserver.k8s.io/v1"
    levels = {
        raw["metadata"]["uid"]: raw["metadata"]["name"]
        for raw in cluster.client.items(f"{flows}/prioritylevelconfigurations")
    }
    config = yaml.safe_load(cluster.service_account_kubeconfig(*kit.ACCOUNT).read_text())
    context = ssl.create_default_context(cafile=str(cluster.certificate_authority))

    def level_of(path):
        request = urllib.request.Request(f"{cluster.url}{path}")
        request.add_header("Authorization", f"Bearer {config['users'][0]['user']['token']}")
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                headers = answer.headers
        except urllib.error.HTTPError as error:
            headers = error.headers  # there may be no Lease yet
        return levels[headers["X-Kubernetes-PF-PriorityLevel-UID"]]

    lease = f"/apis/coordination.k8s.io/v1/namespaces/{kit.ACCOUNT[0]}/leases/podwright"
    wait_until(lambda: level_of(lease) == "leader-election", 30, "the API server applies the FlowSchema")
    assert level_of("/api/v1/pods?limit=1") == "workload-low"
