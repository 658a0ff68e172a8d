"""Which waiting pod the status of a queue names, with the bound that holds it back."""

from __future__ import annotations

from functools import partial

import pytest

from podwright.api.queue_status import QueueReport, status_of
from podwright.api.queue_view import view_status_of
from podwright.core.queues import shown
from podwright.core.queues.queues import QueueRules
from podwright.core.queues.shown import first_bound, is_owed, namespaces_of
from podwright.core.queues.tree import Quota
from podwright.simulator.queue_rows import rows_of
from support.queues.reclaims import GPU, QueuedCluster, queue

NOWHERE = {"nodeSelector": {"there": "none"}}


def test_a_gang_that_a_limit_holds_as_a_whole_is_named():
    cluster = QueuedCluster([16], [queue("q", gpu={"limit": 8})])
    cluster.gang("g", "q", 10)
    message = "q holds 0 of 8 nvidia.com/gpu, and the pod group requests 10"
    pod, bound = first_bound(cluster.queues, "q")
    assert (pod.name, bound.kind, bound.message) == ("g-0", "gang", message)
    report = QueueReport(queues=cluster.queues, name="q", generation=1, spec={}, previous={}, now="")
    expected = {"pod": "default/g-0", "message": message}
    assert status_of(report)["firstWaiting"] == expected
    assert view_status_of(report, namespaces_of(cluster.queues, "q")["default"])["firstWaiting"] == expected
    assert [(row.waiting, row.bound) for row in rows_of(cluster.queues)] == [("default/g-0", message)]
    cluster.queues.set(queue("q", gpu={"limit": 10}))
    assert first_bound(cluster.queues, "q") is None


def test_a_gang_that_waits_for_members_is_not():
    cluster = QueuedCluster([16], [queue("q", gpu={"limit": 8})])
    cluster.gang("g", "q", 10, min_count=11)
    assert first_bound(cluster.queues, "q") is None


def test_pods_that_wait_for_a_node_hide_no_bound():
    cluster = QueuedCluster([16], [queue("q", gpu={"limit": 2})])
    for number in range(100):
        cluster.waits(f"waits-{number}", "q", spec=NOWHERE)
    large = cluster.waits("large", "q", 4)
    assert first_bound(cluster.queues, "q")[0] is large
    assert namespaces_of(cluster.queues, "q") == {"default": large}


def test_each_namespace_has_its_first_pod_that_a_bound_holds_back():
    cluster = QueuedCluster([16], [queue("q", gpu={"limit": 2})])
    cluster.runs("runs", "q", "n0", namespace="placed")
    for name, gpus, namespace in (("a", 1, "x"), ("b", 4, "x"), ("c", 4, "x"), ("d", 4, "y"), ("e", 1, "z")):
        cluster.waits(name, "q", gpus, namespace=namespace)
    found = namespaces_of(cluster.queues, "q")
    names = {namespace: first and first.name for namespace, first in found.items()}
    assert names == {"placed": None, "x": "b", "y": "d", "z": None}


def test_bounds_are_asked_for_some_pods_and_once_for_each_gang(monkeypatch):
    cluster = QueuedCluster([16], [queue("q", gpu={"limit": 100})])
    cluster.gang("g", "q", 10)
    for number in range(90):
        cluster.waits(f"waits-{number}", "q", spec=NOWHERE)
    bounds, asked = cluster.queues.bounds, {"of": 0, "of_gang": 0}
    real = {name: getattr(bounds, name) for name in asked}

    def count(name, *args, **options):
        asked[name] += 1
        return real[name](*args, **options)

    for name in asked:
        monkeypatch.setattr(bounds, name, partial(count, name))
    monkeypatch.setattr(shown, "MOST_PODS", 50)
    assert first_bound(cluster.queues, "q") is None
    assert asked == {"of": 50 + 1, "of_gang": 1}, "a gang asks for one of its pods"
    assert namespaces_of(cluster.queues, "q") == {"default": None}
    assert asked == {"of": 2 * (50 + 1), "of_gang": 2}


def test_a_status_right_after_a_change_of_the_tree_has_capacity_and_share():
    cluster = QueuedCluster([16], [queue("q", gpu={"limit": 8})])
    cluster.waits("a", "q", 4)
    report = QueueReport(queues=cluster.queues, name="q", generation=1, spec={}, previous={}, now="")
    before = status_of(report)
    assert (before["capacity"], before["share"]) == ({GPU: "16"}, {GPU: "4"})
    assert is_owed(cluster.queues, "q")
    cluster.queues.set(QueueRules("other", quotas={"memory": Quota()}))  # that no queue has named, so the tree is built
    after = status_of(report)
    assert (after["capacity"][GPU], after["share"]) == ("16", {GPU: "4"})
    cluster.queues.remove("other")
    assert is_owed(cluster.queues, "q")


def test_a_pod_whose_queue_is_at_its_share_of_a_full_cluster_is_named():
    cluster = QueuedCluster([4], [queue("top"), queue("a", "top"), queue("b")])
    cluster.runs("a1", "a", "n0")
    cluster.waits("b1", "b", 4)
    waiting = cluster.waits("a2", "a", 2)
    cluster.queues.shared_out()
    assert first_bound(cluster.queues, "a") is None, "there is room"
    cluster.runs("b2", "b", "n0", 2)
    pod, bound = first_bound(cluster.queues, "a")
    message = "a is at its share of nvidia.com/gpu (1 of 2, and the pod requests 2)"
    assert (pod, bound.kind, bound.message) == (waiting, "share", message)
    bounds = {row.name: row.bound for row in rows_of(cluster.queues)}
    assert bounds == {"a": message, "b": "b is at its share of nvidia.com/gpu (2 of 2)", "top": ""}
    report = QueueReport(queues=cluster.queues, name="a", generation=1, spec={}, previous={}, now="")
    assert status_of(report)["firstWaiting"] == {"pod": "default/a2", "message": message}


def test_a_pod_whose_queue_is_below_its_share_is_not():
    cluster = QueuedCluster([4], [queue("a"), queue("b")])
    cluster.runs("b1", "b", "n0", 4)
    cluster.waits("a1", "a", 2)
    cluster.queues.shared_out()
    assert first_bound(cluster.queues, "a") is None


def test_each_namespace_has_its_first_pod_that_finds_no_room_at_the_share():
    cluster = QueuedCluster([4], [queue("a"), queue("b")])
    cluster.runs("a0", "a", "n0", 2, namespace="placed")
    cluster.runs("b0", "b", "n0", 2)
    cluster.waits("b1", "b")
    first = cluster.waits("a1", "a", namespace="x")
    cluster.waits("a2", "a", namespace="x")
    cluster.queues.shared_out()
    found = namespaces_of(cluster.queues, "a")
    assert found == {"placed": None, "x": first}
    report = QueueReport(queues=cluster.queues, name="a", generation=1, spec={}, previous={}, now="")
    message = "a is at its share of nvidia.com/gpu (2 of 2)"
    assert view_status_of(report, found["x"])["firstWaiting"] == {"pod": "x/a1", "message": message}


def test_a_queue_without_quotas_shows_what_its_pods_and_those_below_have(monkeypatch):
    cluster = QueuedCluster([16], [QueueRules("all"), QueueRules("a", "all"), QueueRules("b", "all")])
    cluster.runs("a1", "a", "n0", 2, requests={"cpu": "1500m"})
    cluster.runs("b1", "b", "n0", 1)
    status = status_for(cluster, "a")
    assert status["summary"] == "cpu 1500m; nvidia.com/gpu 2"
    assert status["allocated"] == status["borrowed"] == {"cpu": "1500m", GPU: "2"}
    assert status_for(cluster, "all")["allocated"] == {"cpu": "1500m", GPU: "3"}
    assert {row.name: row.of(GPU).borrowed for row in rows_of(cluster.queues)} == {"all": 3, "a": 2, "b": 1}
    cluster.queues.set(queue("b", "all", gpu={"guarantee": 4}))
    assert status_for(cluster, "a")["summary"] == "cpu 1500m; nvidia.com/gpu 2 of 2", "the share"
    status = status_for(cluster, "b")
    assert (status["summary"], status["allocated"], status["lent"]) == ("nvidia.com/gpu 1 of 1", {GPU: "1"}, {GPU: "3"})
    assert "borrowed" not in status
    monkeypatch.setattr(shown, "MOST_BELOW", 2)
    assert status_for(cluster, "all")["allocated"] == {GPU: "3"}, "of many queues, what any of them names"


@pytest.mark.parametrize(
    ("siblings", "lent"),
    [
        pytest.param({"a": (2, 8), "b": (9, 4)}, {"a": {"b": 5}, "b": {"a": 5}}, id="no more than is borrowed"),
        pytest.param({"a": (2, 4), "b": (9, 4)}, {"a": {"b": 2}, "b": {"a": 2}}, id="no more than is unused"),
        pytest.param(
            {"a": (0, 2), "b": (0, 5), "c": (4, 0), "d": (2, 0), "e": (1, 1)},
            {"a": {"d": 1}, "b": {"c": 4, "d": 1}, "c": {"b": 4}, "d": {"b": 1, "a": 1}, "e": {}},
            id="the largest first",
        ),
        pytest.param({"a": (4, 2), "b": (4, 0)}, {"a": {}, "b": {}}, id="nobody lends"),
        pytest.param({"a": (2, 8, 0), "b": (9, 4)}, {"a": {}, "b": {}}, id="nobody may lend"),
        pytest.param({"a": (2, 8, 4), "b": (9, 4)}, {"a": {"b": 4}, "b": {"a": 4}}, id="no more than may be lent"),
        pytest.param({}, {}, id="no queue"),
    ],
)
def test_what_queues_have_above_their_guarantees_is_lent_by_those_below_theirs(siblings, lent):
    found = shown.lent_between({name: (*each, None)[:3] for name, each in siblings.items()})
    assert found == lent


def status_for(cluster, name):
    return status_of(QueueReport(queues=cluster.queues, name=name, generation=1, spec={}, previous={}, now=""))
