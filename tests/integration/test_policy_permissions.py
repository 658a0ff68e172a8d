"""Who may write SchedulerPolicies, and with what content: the roles and the admission policies of manifests/ on the
real API server.
"""

from __future__ import annotations

import json
import uuid

import pytest
import yaml

from podwright.testing import KubectlError, wait_until
from support.control_plane import operator_process as kit

BOUNDS = kit.BASE.parent / "admission" / "bounded-policies.yaml"
USERS = BOUNDS.with_name("users-of-pods.yaml")
USER = "podwright.dev/user"
CONTROLLER = "system:serviceaccount:kube-system:job-controller"
READ, WRITE = ("get", "list", "watch"), ("create", "update", "patch", "delete")


@pytest.fixture(scope="module")
def cluster(control_plane):
    kit.stay_installed(control_plane)
    return control_plane


@pytest.fixture
def bounded(cluster):
    """The cluster with the example of an admission policy."""
    cluster.apply(BOUNDS)
    yield cluster
    cluster.kubectl("delete", "-f", str(BOUNDS))


def dry_run(cluster, **spec) -> str:
    """The error of creating this policy; empty if the API server accepts it."""
    raw = {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": "p"}, "spec": spec}
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(raw))
    except KubectlError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("role", "label", "verbs"),
    [
        pytest.param("podwright-policy-viewer", "aggregate-to-view", READ, id="the viewer reads"),
        pytest.param("podwright-policy-editor", "aggregate-to-admin", READ + WRITE, id="the editor reads and writes"),
    ],
)
def test_a_role_grants_exactly_its_verbs(cluster, namespace, role, label, verbs):
    kubeconfig = cluster.service_account_kubeconfig(namespace, "someone")
    binding = f"policies-{uuid.uuid4().hex[:8]}"
    cluster.kubectl(
        *("create", "clusterrolebinding", binding, f"--clusterrole={role}", f"--serviceaccount={namespace}:someone")
    )

    def may(verb: str) -> bool:
        return kit.may(cluster, kubeconfig, verb, "schedulerpolicies")

    try:
        wait_until(lambda: may("get"), 20, "the role takes effect")
        assert tuple(verb for verb in READ + WRITE if may(verb)) == verbs
        labels = cluster.client.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")["metadata"]["labels"]
        assert labels[f"rbac.authorization.k8s.io/{label}"] == "true"
    finally:
        cluster.kubectl("delete", "clusterrolebinding", binding)


def test_the_example_of_an_admission_policy_bounds_policies(bounded):
    def custom(**plugins):
        return {"strategy": {"type": "Custom"}, "plugins": plugins}

    wait_until(lambda: dry_run(bounded, precedence=101), 30, "the admission policy takes effect")
    assert "spec.precedence must be from 0 to 100" in dry_run(bounded, precedence=101)
    assert "must be podwright or start with team-" in dry_run(bounded, schedulerName="default-scheduler")
    off = {"disabled": [{"name": "*"}]}
    for point in ("multiPoint", "preFilter", "filter", "reserve", "bind"):
        assert "may only change preScore and score" in dry_run(bounded, **custom(**{point: off}))
    assert "may only enable" in dry_run(bounded, **custom(score={"enabled": [{"name": "Random"}]}))
    assert dry_run(bounded, **custom(score={"enabled": [{"name": "ImageLocality"}], **off}, preScore=off)) == ""
    assert dry_run(bounded, schedulerName="team-a", precedence=100) == ""


def test_admission_notes_who_creates_pods(cluster, namespace):
    cluster.apply(USERS)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "x"}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}

    def created(kind: str, spec, by: str, verb: str = "create", labels=None, **metadata) -> dict:
        api = {"Pod": "v1", "Deployment": "apps/v1"}.get(kind, "batch/v1")
        named = {"name": "train", "namespace": namespace, "labels": labels or {}, **metadata}
        raw = yaml.safe_dump({"apiVersion": api, "kind": kind, "metadata": named, "spec": spec})
        who = ("--as", by, "--as-group", "system:masters")
        return json.loads(cluster.kubectl(*verb.split(), *who, "-o", "json", "-f", "-", "--validate=false", stdin=raw))

    def user(pod) -> str:
        return pod["metadata"].get("labels", {}).get(USER, "")

    def dry(kind: str, spec, by: str, **metadata) -> dict:
        return created(kind, spec, by, "create --dry-run=server", **metadata)

    try:
        pod, forged = template["spec"], {USER: "bob"}
        wait_until(lambda: user(dry("Pod", pod, "ann@example.com")), 30, "the admission policy takes effect")
        assert user(dry("Pod", pod, "ann@example.com")) == "ann_example.com"
        assert user(dry("Pod", pod, "ann", labels=forged)) == "ann"
        assert user(dry("Pod", pod, "-" + 70 * "a" + ".")) == 62 * "a"
        assert user(dry("Pod", pod, "ann", labels=forged, ownerReferences=[owner])) == "ann"
        assert user(dry("Pod", pod, CONTROLLER, labels=forged, ownerReferences=[owner])) == "bob"
        assert user(dry("Job", {"template": template}, "ann")["spec"]["template"]) == "ann"
        cron = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}
        assert user(dry("CronJob", cron, "ann")["spec"]["jobTemplate"]["spec"]["template"]) == "ann"
        assert user(created("Pod", pod, "ann")) == "ann"
        assert user(created("Pod", pod, "bob", "apply", labels=forged)) == "ann"
    finally:
        cluster.kubectl("delete", "-f", str(USERS))
