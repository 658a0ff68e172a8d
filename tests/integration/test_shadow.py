"""Policies in shadow mode beside a real kube-scheduler, with the rights of manifests/overlays/shadow, none of which
lets anybody write on pods.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import product

import pytest
import yaml

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.objects.builders import make_policy

OVERLAY = kit.BASE.parent / "overlays" / "shadow"
ACCOUNT = ("podwright-system", "shadow")
RBAC = "rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
NAMES = ("same", "packed")
PODS = 60


@pytest.fixture(scope="module")
def cluster(control_plane):
    kit.stay_installed(control_plane)
    return control_plane


@pytest.fixture(scope="module")
def overlay(cluster):
    return [raw for raw in yaml.safe_load_all(cluster.kubectl("kustomize", str(OVERLAY))) if raw]


@pytest.fixture(scope="module")
def account(cluster, overlay):
    """A service account with the overlay's cluster role, beside the one of manifests/base, which other tests use."""
    (role,) = (raw for raw in overlay if raw["kind"] == "ClusterRole" and raw["metadata"]["name"] == "podwright")
    metadata = {"name": "podwright-shadow-test"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **metadata}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT[1], "namespace": ACCOUNT[0]}
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT[1], "namespace": ACCOUNT[0]}},
        {**role, "metadata": metadata},
        {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        },
    ]
    for raw in objects:
        cluster.client.create(raw)
    yield cluster.service_account_kubeconfig(*ACCOUNT)
    for raw in objects:
        cluster.client.delete(raw)


def test_the_role_lets_nobody_write_on_pods(cluster, account):
    """The API server's own authorizer says so."""
    resources = ("pods", "pods/status", "pods/binding", "pods/eviction", "pods/ephemeralcontainers", "pods/resize")
    verbs = ("create", "update", "patch", "delete", "deletecollection")
    wait_until(lambda: allowed(cluster, "list", "pods"), 30, "the role takes effect")
    rights = [*product(verbs, resources), ("create", "events"), ("update", "persistentvolumeclaims"), ("list", "pods")]
    assert {right for right in rights if allowed(cluster, *right)} == {("list", "pods")}


def allowed(cluster, verb, resource):
    """True if the account may do that in any namespace."""
    plural, _, part = resource.partition("/")
    group = "events.k8s.io" if plural == "events" else ""
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": part, "namespace": "default"}
    spec = {"user": f"system:serviceaccount:{ACCOUNT[0]}:{ACCOUNT[1]}", "resourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return cluster.client.request("POST", REVIEWS, review)["status"]["allowed"]


def policy(name, kind="Default"):
    return make_policy(name, mode="Shadow", schedulerName="default-scheduler", strategy={"type": kind})


def pods(namespace, below):
    """Pods of many kinds."""
    for i in range(PODS):
        app = f"app-{below(4)}"
        spread = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway")[below(2)],
            "labelSelector": {"matchLabels": {"app": app}},
        }
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"app-{below(4)}"}}}
        kinds = [
            {},
            {"topologySpreadConstraints": [spread]},
            {
                "affinity": {
                    "podAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]
                    }
                }
            },
            {
                "affinity": {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 80, "podAffinityTerm": term}]
                    }
                }
            },
            {"nodeSelector": {"zone": f"zone-{below(3)}"}},
            {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        ]
        cpu, memory = f"{100 + 50 * below(20)}m", f"{200 + 100 * below(30)}Mi"
        yield pod(f"pod-{i}", namespace, cpu=cpu, memory=memory, labels={"app": app}, **kinds[below(len(kinds))])
    yield pod("too-big", namespace, cpu="900")


@pytest.fixture
def policies(cluster):
    for each in (policy("same"), policy("packed", "MostAllocated")):
        cluster.client.create(each)
    yield
    for name in NAMES:
        cluster.client.delete(policy(name))


@pytest.mark.kubernetes(36, "a kube-scheduler that scores balance as 1.37 does")
def test_with_the_default_policy_it_agrees_with_kube_scheduler_on_all_that_is_no_tie(
    empty_cluster, cluster, overlay, account, policies, namespace
):
    below = random.Random(4).randrange
    for i in range(12):
        taints = [{"key": "spot", "effect": "NoSchedule"}] if i % 4 == 3 else None
        labels = {"zone": f"zone-{i % 3}"}
        cluster.client.create(node(f"n-{i}", cpu=f"{3 + i}", memory=f"{8 + 3 * i}Gi", labels=labels, taints=taints))
    (deployment,) = (raw for raw in overlay if raw["kind"] == "Deployment")
    _, *arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--shadow-only" in arguments
    arguments = [each for each in arguments if not each.startswith("--secure-port")]
    scheduler = cluster.start_scheduler({"percentageOfNodesToScore": 100})
    try:
        with kit.running(cluster, *arguments, kubeconfig=account, name="shadow") as operator:
            wait_until(lambda: watches(operator), 30, "the pods of the default scheduler are watched")
            for count, raw in enumerate(pods(namespace, below), start=1):
                cluster.client.create(raw)
                wait_until(lambda count=count: compared(operator) == {count}, 30, f"{count} pods are compared")
            wait_until(lambda: settled(operator), 30, "all decisions are in the worlds")
            found = report(operator)
            same = found["same"]
            sys.stdout.write(json.dumps({name: each["outcomes"] for name, each in found.items()}))
            disagreements = [each for each in same["disagreements"] if each["outcome"] != "waitsToo"]
            assert disagreements == []
            assert same["agreement"] == 1.0
            outcomes = same["outcomes"]
            assert outcomes["agreed"] + outcomes["tied"] == PODS
            assert outcomes["agreed"] >= PODS // 2
            assert outcomes["waitsToo"] == 1
            assert found["packed"]["agreement"] < 1.0
            assert {each["outcome"] for each in found["packed"]["disagreements"]} == {"lower"}
            packed = found["packed"]["world"]
            assert packed["shadow"]["inUse"] < packed["cluster"]["inUse"]
            assert packed["shadow"]["utilisation"]["cpu"] > packed["cluster"]["utilisation"]["cpu"]
            assert (
                packed["shadow"]["allocated"] == packed["cluster"]["allocated"] == same["world"]["shadow"]["allocated"]
            )
            assert packed["undecided"] == packed["waiting"] == same["world"]["undecided"] == 0
            assert operator.complaints() == []
            assert operator.metric("podwright_shadow_skipped_pods_total") == 0
            text = printed(operator)
    finally:
        scheduler.stop()
    assert "Policy same, generation 1, beside scheduler default-scheduler" in text
    assert f"  Agreement, without ties: 100 % of {outcomes['agreed'] + 1}" in text
    for raw in kit.pods(cluster, namespace):
        assert kit.foreign_marks(raw) == []
        assert "podwright.dev/decision" not in raw["metadata"].get("annotations", {})
        writers = {each["manager"] for each in raw["metadata"]["managedFields"]}
        assert not [writer for writer in writers if "python" in writer.lower() or "podwright" in writer.lower()]


def watches(operator):
    status, text = operator.get("/metrics")
    return status == 200 and "pending pods of default-scheduler for shadow" in text


def compared(operator):
    """How many pods each policy has compared."""
    return {sum(each["outcomes"].values()) for each in report(operator).values()}


def settled(operator):
    return all(each["world"].get("settled") for each in report(operator).values())


def report(operator):
    status, body = operator.get("/debug/shadow")
    assert status == 200, body
    return {each["name"]: each for each in json.loads(body)["policies"]}


def printed(operator):
    """Returns the output of `podwright shadow report`."""
    command = [sys.executable, "-m", "podwright", "shadow", "report", f"--operator=http://127.0.0.1:{operator.port}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
