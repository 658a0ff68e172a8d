"""`podwright admission-check` on the real API server, with Kueue's CRDs and a stand-in for its controller."""

from __future__ import annotations

import pytest

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit
from support.kueue import stand_in
from support.kueue.stand_in import CHECK, Kueue, pod_set, reservations


@pytest.fixture(scope="module")
def kueue_installed(installed):
    kit.wait_listed(installed, "reservations")
    stand_in.install(installed)
    return installed


@pytest.fixture(scope="module")
def checking(kueue_installed):
    """The process goes on for all tests that do not kill it."""
    found = stand_in.start(kueue_installed, "--first-retry=1s", "--longest-retry=3s")
    yield found
    found.process.stop(30)


@pytest.fixture
def kueue(kueue_installed, empty_cluster, namespace):
    yield Kueue(empty_cluster, namespace)
    path = f"{stand_in.API}/namespaces/{namespace}/workloads"
    empty_cluster.client.request("DELETE", path)
    empty_cluster.client.request("DELETE", stand_in.RESERVATIONS)


def test_the_admission_check_is_active(kueue, checking):
    active = lambda: kit.condition(kueue.client.get(f"{stand_in.API}/admissionchecks/{CHECK}"), "Active")
    wait_until(lambda: active().get("status") == "True", 30, "the check is active")


def test_a_workload_that_fits_gets_a_place_and_its_pods_take_it(kueue, checking):
    cluster = kueue.cluster
    cluster.bulk.create([node("n0", cpu="4"), node("n1", cpu="4")])
    kueue.create("train", pod_set("driver"), pod_set("worker", 3, cpu="2"))
    kueue.reserve_quota("train")
    answer = kueue.wait_answered("train", "Ready")
    assert answer["message"] == "fits now: 4 pods on 2 nodes, held for the pods"
    assert [update["name"] for update in answer["podSetUpdates"]] == ["driver", "worker"]
    held = {each["metadata"]["name"]: each["spec"] for each in reservations(cluster)}
    assert sum(slot["count"] for spec in held.values() for slot in spec["slots"]) == 4
    with kit.running(cluster, "--pod-intake=watch"):
        cluster.bulk.create([pod(f"other-{i}", kueue.namespace, scheduler="podwright", cpu="1") for i in range(4)])
        kit.wait_bound(cluster, kueue.namespace, 1)
        kueue.admit("train")
        wait_until(lambda: len(kueue.nodes_of("train")) == 4, 60, "all pods of the Workload are bound")
        assert len(kueue.nodes_of("other")) == 1
    promised = sorted(slot["node"] for spec in held.values() for slot in spec["slots"] for _ in range(slot["count"]))
    assert sorted(kueue.nodes_of("train").values()) == promised
    assert kit.over_committed(cluster) == {}
    assert [event["regarding"]["name"] for event in kit.events(cluster, kueue.namespace, "FitsNow")] == ["train"]
