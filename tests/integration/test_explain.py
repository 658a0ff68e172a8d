"""`podwright explain` on a real API server beside a running operator: ten situations, and who may ask the operator
what.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from podwright.sandbox.patches import strategic
from podwright.simulator.explain.targets import explain_target, parse_target
from podwright.simulator.live import LiveConnection, snapshot_of
from podwright.simulator.loaded import load
from podwright.testing import ControlPlane, wait_until
from podwright.testing.processes import free_port
from support.control_plane import operator_process as kit
from support.control_plane.fixtures import empty
from support.explain.situations import SITUATIONS

REAL = [pytest.param(each, id=each.id) for each in SITUATIONS if each.real]
IGNORED = "SchedulerNameNotServed"
RBAC = "rbac.authorization.k8s.io/v1"
PLUGIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    kit.stay_installed(control_plane)
    return control_plane


@pytest.fixture(scope="module")
def operator(cluster):
    """An operator with the rights of manifests/base, and its secure port."""
    port = free_port()
    with kit.running(cluster, f"--secure-port={port}", "--bind-address=127.0.0.1") as running:
        yield running, f"https://127.0.0.1:{port}"


def create(cluster, raw, kind):
    metadata = {key: raw["metadata"][key] for key in ("name", "namespace", "labels") if raw["metadata"].get(key)}
    body = {"apiVersion": "v1", "kind": kind, **raw, "metadata": metadata}
    cluster.client.create(body)
    return body


def set_up(cluster, operator, situation):
    """The situation's objects. The operator knows nodes and placed pods before the pod comes: watches have no common
    order.
    """
    nodes, pods = (situation.cluster.objects[kind] for kind in ("nodes", "pods"))
    empty(cluster.client)
    kit.wait_known(operator[0], 0, 0)
    for raw in nodes:
        create(cluster, raw, "Node")
    for raw in pods:
        create(cluster, raw, "Pod")
    kit.wait_known(operator[0], len(nodes), len(pods))
    return create(cluster, situation.pod, "Pod")


def wait_decided(cluster, pod, reason):
    """Waits until the scheduler has said that the pod waits."""
    if reason != IGNORED:
        wait_until(lambda: kit.condition(cluster.client.read(pod)).get("status") == "False", 30, "the pod is rejected")
    return kit.condition(cluster.client.read(pod)).get("message", "")


def explained(cluster, name="waiting"):
    snapshot = snapshot_of(LiveConnection(kubeconfig=str(cluster.kubeconfig)))
    return explain_target(load(snapshot), snapshot, parse_target(f"pod/{name}", "default"))


def apply(cluster, change, pod):
    """Carries the change out on the API server."""
    for edit in change.edits:
        body = {
            "apiVersion": "v1",
            "kind": edit.kind,
            "metadata": {"name": edit.name, "namespace": edit.namespace or "default"},
        }
        match edit.verb:
            case "create":
                cluster.client.create({**edit.object})
            case "recreate":
                cluster.client.delete(pod)
                cluster.client.create(strategic(pod, edit.object, "Pod"))
            case "patch":
                cluster.client.patch(body, edit.object)
            case verb:
                raise AssertionError(verb)


def firsts(changes):
    """The first change of the pod and the first of the cluster that need no preemption."""
    for of in ("pod", "cluster"):
        yield from [change for change in changes if change.of == of and not change.after_preemption][:1]


@pytest.mark.parametrize("situation", REAL)
def test_the_true_cause_comes_first_and_the_least_change_places_the_pod(cluster, operator, situation):
    pod = set_up(cluster, operator, situation)
    message = wait_decided(cluster, pod, situation.reason)
    found = explained(cluster)
    assert found.cause.reason == situation.reason
    assert situation.says in found.cause.text
    if situation.reason not in (IGNORED, "Gated"):
        assert found.message == message
    changes = [*firsts(found.changes)]
    assert changes
    for number, change in enumerate(changes):
        if number:
            pod = set_up(cluster, operator, situation)
            wait_decided(cluster, pod, situation.reason)
        apply(cluster, change, pod)
        kit.wait_bound(cluster, "default", 1 + len(situation.cluster.objects["pods"]), 30)
        assert cluster.client.read(pod)["spec"]["nodeName"] == change.node


def test_kubectl_explains_a_pod_and_the_operator_tells_its_place_in_the_queue(cluster, binaries, operator):
    running, _ = operator
    situation = next(each for each in SITUATIONS if each.reason == "TooBig")
    wait_decided(cluster, set_up(cluster, operator, situation), situation.reason)
    environ = {**os.environ, "PATH": f"{PLUGIN}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.kubeconfig)}
    command = [str(binaries.path("kubectl")), "podwright", "explain", "pod/waiting", "-o", "json"]
    command += ["--operator", f"http://127.0.0.1:{running.port}"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=True)
    found = json.loads(done.stdout)
    assert found["causes"][0]["reason"] == "TooBig"
    assert (found["queue"]["place"], found["queue"]["rejectedBy"]) == ("unschedulable", ["NodeResourcesFit"])
    assert found["decisions"][0]["reasons"] == {"NodeResourcesFit": {"Insufficient cpu": 2}}


def account(cluster, name):
    """A service account's token."""
    kubeconfig = yaml.safe_load(cluster.service_account_kubeconfig("default", f"explain-{name}").read_text())
    return kubeconfig["users"][0]["user"]["token"]


def bind(cluster, kind, name, *accounts):
    subjects = [{"kind": "ServiceAccount", "name": f"explain-{each}", "namespace": "default"} for each in accounts]
    cluster.apply(
        {
            "apiVersion": RBAC,
            "kind": f"{kind}Binding",
            "metadata": {"name": "explain", "namespace": "default"} if kind == "Role" else {"name": "explain"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": subjects,
        }
    )


def test_the_api_server_says_who_may_ask_about_which_pod(cluster, operator):
    running, url = operator
    situation = next(each for each in SITUATIONS if each.reason == "TooBig")
    wait_decided(cluster, set_up(cluster, operator, situation), situation.reason)
    tokens = {name: account(cluster, name) for name in ("both", "path", "pod")}
    role = {"kind": "Role", "metadata": {"name": "explain", "namespace": "default"}}
    rule = {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["waiting"], "verbs": ["get"]}
    cluster.apply({"apiVersion": RBAC, **role, "rules": [rule]})
    bind(cluster, "ClusterRole", "podwright-explain-reader", "both", "path")
    bind(cluster, "Role", "explain", "both", "pod")
    secure = kit.Operator(running.process, int(url.rpartition(":")[2]), scheme="https")
    path = "/debug/explain?namespace=default&pod=waiting"
    wait_until(lambda: secure.get(path, tokens["both"])[0] == 200, 30, "the roles take effect")
    assert json.loads(secure.get(path, tokens["both"])[1])["queue"]["place"] == "unschedulable"
    assert secure.get("/debug/explain?namespace=kube-system&pod=waiting", tokens["both"])[0] == 403
    assert secure.get(path, tokens["path"])[0] == 403
    assert secure.get(path, tokens["pod"])[0] == 403
    assert secure.get(path)[0] == 403
    reader = "system:serviceaccount:default:explain-both"
    status, body = secure.get(path, tokens["pod"], as_user=reader)
    assert (status, "cannot impersonate" in body) == (403, True)
    other = {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "resourceNames": ["explain-both"],
        "verbs": ["impersonate"],
    }
    cluster.apply({"apiVersion": RBAC, **role, "rules": [rule, other]})
    wait_until(lambda: secure.get(path, tokens["pod"], as_user=reader)[0] == 200, 30, "the rule takes effect")
    admin = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
    assert secure.get(path, admin, as_user="system:serviceaccount:default:explain-path")[0] == 403
