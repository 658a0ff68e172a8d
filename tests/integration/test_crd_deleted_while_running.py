"""The SchedulerPolicy CRD is deleted while the operator runs, and comes back: the operator goes on, and says so in one
line.
"""

from __future__ import annotations

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process as kit

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/schedulerpolicies.podwright.dev"


@pytest.fixture
def cluster(control_plane: ControlPlane, empty_cluster: ControlPlane):
    kit.install(control_plane)
    yield empty_cluster
    kit.install(control_plane)


def packing(name):
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": name},
        "spec": {"strategy": {"type": "MostAllocated"}},
    }


@pytest.mark.parametrize("way", ["podwright run", "kopf run -m"])
def test_the_operator_goes_on_without_the_crd_and_watches_policies_again_when_it_is_back(cluster, namespace, way):
    cluster.client.create(node("only"))
    cluster.client.create(packing("first"))
    with kit.running(cluster, way=way) as operator:
        cluster.client.create(pod("before", namespace, scheduler="podwright"))
        kit.wait_bound(cluster, namespace, 1)
        cluster.client.request("DELETE", CRD)
        wait_until(lambda: cluster.client.raw("GET", kit.POLICIES)[0] == 404, 30, "the API server serves no policies")
        accepted = lambda: operator.metric("podwright_policies", state="accepted")
        wait_until(lambda: accepted() == 0, 30, "the operator knows of no policy")
        cluster.client.create(pod("meanwhile", namespace, scheduler="podwright"))
        kit.wait_bound(cluster, namespace, 2)
        kit.install(cluster)
        cluster.apply(packing("second"))
        kit.wait_accepted(cluster, "second")
        cluster.client.create(pod("after", namespace, scheduler="podwright"))
        kit.wait_bound(cluster, namespace, 3)
        assert kit.decision(cluster.client.read(pod("meanwhile", namespace)))["policy"] == "built-in-default"
        assert kit.decision(cluster.client.read(pod("after", namespace)))["policy"] == "second"
        assert operator.process.alive
    assert operator.process.returncode == 0
    assert "Traceback" not in operator.log()
