"""`podwright extender` on the real API server, called by the real kube-scheduler."""

import pytest

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.extender.process import start_extender

POLICY = {
    "apiVersion": "podwright.dev/v1alpha1",
    "kind": "SchedulerPolicy",
    "metadata": {"name": "by-name"},
    "spec": {"schedulerName": "default-scheduler", "strategy": {"type": "NodeName"}},
}


ALLOWED_ONLY = {
    "schedulerName": "default-scheduler",
    "strategy": {"type": "Default"},
    "pluginConfig": [
        {
            "name": "NodeAffinity",
            "args": {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "allowed", "operator": "In", "values": ["yes"]}]}
                        ]
                    }
                }
            },
        }
    ],
}
"""Places pods on nodes with a label, which kube-scheduler does not know of."""


@pytest.fixture
def cluster(installed, empty_cluster):
    empty_cluster.client.create(POLICY)
    empty_cluster.bulk.create([node(f"node-{each}") for each in "abcd"])
    return empty_cluster


@pytest.mark.parametrize("node_cache", [True, False])
def test_kube_scheduler_places_pods_by_a_policy(cluster, namespace, node_cache):
    extender = start_extender(cluster)
    configured = {
        "urlPrefix": f"http://127.0.0.1:{extender.port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 100,
        "nodeCacheCapable": node_cache,
        "httpTimeout": "60s",  # a request that takes longer is repeated, and counts again
    }
    scheduler = cluster.start_scheduler({"extenders": [configured]})
    try:
        for number in range(3):
            cluster.client.create(pod(f"pod-{number}", namespace=namespace))
        kit.wait_bound(cluster, namespace, 3)
        assert {each["spec"]["nodeName"] for each in kit.pods(cluster, namespace)} == {"node-a"}
        answered = lambda verb: extender.metric("podwright_extender_requests_total", verb=verb, result="success")
        wait_until(lambda: answered("bind") >= 3, 30, "the bindings are counted: a pod is bound before its request is")
        for verb in ("filter", "prioritize", "bind"):
            assert answered(verb) == 3
        assert extender.metric("podwright_extender_requests_total", result="error") == 0
    finally:
        scheduler.stop()
        extender.process.stop(20)
    wait_until(lambda: not extender.process.alive, 60, "the extender has stopped")


@pytest.mark.parametrize("node_cache", [True, False])
def test_kube_scheduler_preempts_only_where_the_named_policy_would(cluster, namespace, node_cache):
    """The policy is for pods of another scheduler; its name in the URL makes it decide here. Without node cache,
    victims are whole pods.
    """
    policy = {**POLICY, "metadata": {"name": "allowed-only"}, "spec": {**ALLOWED_ONLY, "schedulerName": "nobody"}}
    cluster.client.create(policy)
    cluster.client.add_priority_class("urgent", 1000)
    cluster.client.create(node("allowed", labels={"allowed": "yes"}))
    names = [f"node-{each}" for each in "abcd"]
    for name in (*names, "allowed"):
        filling = pod(f"on-{name}", namespace=namespace, cpu="4", terminationGracePeriodSeconds=0, nodeName=name)
        cluster.client.create(filling)
    extender = start_extender(cluster)
    configured = {
        "urlPrefix": f"http://127.0.0.1:{extender.port}/policies/allowed-only",
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "weight": 1,
        "nodeCacheCapable": node_cache,
    }
    scheduler = cluster.start_scheduler({"extenders": [configured]})
    try:
        cluster.client.create(pod("wants-room", namespace=namespace, cpu="1", priorityClassName="urgent"))

        def found():
            return {each["metadata"]["name"]: each["spec"].get("nodeName") for each in kit.pods(cluster, namespace)}

        wait_until(lambda: found()["wants-room"], 60, "the pod has a node")
        assert found() == {"wants-room": "allowed", **{f"on-{name}": name for name in names}}
        assert extender.metric("podwright_extender_requests_total", verb="preempt", result="success") >= 1
        assert extender.metric("podwright_extender_requests_total", verb="filter", result="success") >= 1
    finally:
        scheduler.stop()
        extender.process.stop(20)
        cluster.client.request("DELETE", "/apis/scheduling.k8s.io/v1/priorityclasses/urgent")


def test_an_unknown_policy_is_in_the_pods_event(cluster, namespace):
    extender = start_extender(cluster)
    configured = {
        "urlPrefix": f"http://127.0.0.1:{extender.port}/policies/none",
        "filterVerb": "filter",
        "nodeCacheCapable": True,
    }
    scheduler = cluster.start_scheduler({"extenders": [configured]})
    try:
        cluster.client.create(pod("asks", namespace=namespace))
        told = lambda: [event["note"] for event in kit.events(cluster, namespace, "FailedScheduling")]
        wait_until(told, 60, "the pod has an event")
        assert 'there is no SchedulerPolicy "none", which the URL of the extender names' in told()[0]
    finally:
        scheduler.stop()
        extender.process.stop(20)


def test_kube_scheduler_places_pods_by_the_measured_load(cluster, namespace, tmp_path):
    """`--signals` of the extender, as of the operator."""
    key = "example.com/load"
    for name, load in zip("abcd", (90, 80, 5, 70), strict=True):
        cluster.kubectl("annotate", "node", f"node-{name}", f"{key}={load}")
    signals = tmp_path / "signals.yaml"
    signals.write_text(f"signals: [{{name: load, resource: cpu, annotation: {{key: {key}}}}}]\n")
    spec = {"schedulerName": "nobody", "signals": ["load"], "strategy": {"type": "LoadAware"}}
    cluster.client.create({**POLICY, "metadata": {"name": "by-load"}, "spec": spec})
    extender = start_extender(cluster, f"--signals={signals}")
    configured = {
        "urlPrefix": f"http://127.0.0.1:{extender.port}/policies/by-load",
        "prioritizeVerb": "prioritize",
        "weight": 100,
        "nodeCacheCapable": True,
    }
    scheduler = cluster.start_scheduler({"extenders": [configured]})
    try:
        cluster.client.create(pod("idle-wanted", namespace=namespace))
        kit.wait_bound(cluster, namespace, 1)
        assert [each["spec"]["nodeName"] for each in kit.pods(cluster, namespace)] == ["node-c"]
        assert extender.metric("podwright_signal_nodes", signal="load") == 4
    finally:
        scheduler.stop()
        extender.process.stop(20)
