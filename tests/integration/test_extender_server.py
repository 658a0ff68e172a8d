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


@pytest.fixture
def cluster(empty_cluster):
    kit.install(empty_cluster)
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
    }
    scheduler = cluster.start_scheduler({"extenders": [configured]})
    try:
        for number in range(3):
            cluster.client.create(pod(f"pod-{number}", namespace=namespace))
        kit.wait_bound(cluster, namespace, 3)
        assert {each["spec"]["nodeName"] for each in kit.pods(cluster, namespace)} == {"node-a"}
        for verb in ("filter", "prioritize", "bind"):
            assert extender.metric("podwright_extender_requests_total", verb=verb, result="success") == 3
        assert extender.metric("podwright_extender_requests_total", result="error") == 0
    finally:
        scheduler.stop()
        extender.process.stop(20)
    wait_until(lambda: not extender.process.alive, 20, "the extender has stopped")
