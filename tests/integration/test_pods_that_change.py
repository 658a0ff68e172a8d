"""Pending pods are retried when their labels, their namespace's labels, or annotations that a plugin reads change."""

from __future__ import annotations

import pytest

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit

OURS = "podwright"
STRICT = {"tier": "strict"}
PLUGIN = '''
from podwright.core.framework.interface import FilterPlugin, Plugin, PreEnqueuePlugin
from podwright.core.framework.status import unresolvable, unschedulable


def approved(pod, by):
    return (pod.raw["metadata"].get("annotations") or {}).get("example.com/" + by) == "yes"


class Approved(Plugin, PreEnqueuePlugin, FilterPlugin):
    """Admits and places only pods with its annotations. It declares no queueing hints."""

    name = "Approved"

    def pre_enqueue(self, pod):
        return None if approved(pod, "gate") else unresolvable("not approved")

    def filter(self, _state, pod, _node):
        return None if approved(pod, "filter") else unschedulable("not approved")
'''


@pytest.fixture
def cluster(installed, empty_cluster):
    empty_cluster.client.create(node("a", labels={"zone": "1"}))
    return empty_cluster


def strict(**match):
    """A policy that rejects all nodes."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    args = {"addedAffinity": required}
    spec = {"precedence": 10, "match": match, "pluginConfig": [{"name": "NodeAffinity", "args": args}]}
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": "strict"},
        "spec": spec,
    }


def patch_metadata(cluster, path, **metadata):
    content = "application/merge-patch+json"
    cluster.client.request("PATCH", path, {"metadata": metadata}, content_type=content)


def wait_for(cluster, namespace, reason):
    def have_condition():
        return all(kit.condition(raw).get("reason") == reason for raw in kit.pods(cluster, namespace))

    wait_until(have_condition, 30, f"the pods have the reason {reason}")


@pytest.mark.parametrize("intake", ["kopf", "watch"])
@pytest.mark.parametrize("whose", ["the pod's", "the namespace's"])
def test_a_label_change_that_selects_another_policy_retries_the_pod(cluster, namespace, intake, whose):
    selector = {"matchLabels": STRICT}
    if whose == "the pod's":
        policy, path = strict(podSelector=selector), f"/api/v1/namespaces/{namespace}/pods/web"
    else:
        policy, path = strict(namespaceSelector=selector), f"/api/v1/namespaces/{namespace}"
        patch_metadata(cluster, path, labels=STRICT)
    cluster.client.create(policy)
    with kit.running(cluster, f"--pod-intake={intake}"):
        cluster.client.create(pod("web", namespace, scheduler=OURS, labels=STRICT))
        wait_for(cluster, namespace, "Unschedulable")
        patch_metadata(cluster, path, labels={"tier": None})
        kit.wait_bound(cluster, namespace, 1, 20)


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_an_annotation_change_retries_a_pod_that_a_third_party_plugin_rejected(cluster, namespace, intake, tmp_path):
    (tmp_path / "approved.py").write_text(PLUGIN)
    enabled = {point: {"enabled": [{"name": "Approved"}]} for point in ("preEnqueue", "filter")}
    policy = {**strict(), "spec": {"strategy": {"type": "Custom"}, "plugins": enabled}}
    cluster.client.create(policy)
    path = f"/api/v1/namespaces/{namespace}/pods/web"
    with kit.running(cluster, f"--pod-intake={intake}", f"--plugin-dir={tmp_path}") as operator:
        cluster.client.create(pod("web", namespace, scheduler=OURS))
        wait_until(lambda: operator.metric("scheduler_pending_pods", queue="gated") == 1, 30, "the pod is gated")
        patch_metadata(cluster, path, annotations={"example.com/gate": "yes"})
        wait_for(cluster, namespace, "Unschedulable")
        patch_metadata(cluster, path, annotations={"example.com/filter": "yes"})
        kit.wait_bound(cluster, namespace, 1, 20)
        attempts = operator.metric("scheduler_schedule_attempts_total", result="unschedulable", profile=OURS)
        assert attempts == 1
