"""Gangs of queues, as preemptors and as victims. ADR 0019 has the rule."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from podwright.core.gangs import gang_preemption
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.gang_preemption import may_preempt
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.pod_group import COMPOSITE_API, COMPOSITE_KIND, WORKLOAD_API, group_key
from support.gangs.kit import ZONE
from support.objects.builders import in_group
from support.queues.reclaims import QueuedCluster, queue


def test_a_gang_takes_the_share_of_its_queue_and_no_more():
    cluster = QueuedCluster([4, 4], [queue("a"), queue("b")])
    for i in range(8):
        cluster.runs(f"b{i}", "b", f"n{i % 2}", priority=1000)
    cluster.waits("b-more", "b")
    assert len(cluster.gang_victims(cluster.gang("four", "a", 4))) == 4
    assert cluster.gang_victims(cluster.gang("five", "a", 5)) == []


def test_whole_nodes_are_emptied_for_large_members():
    cluster = QueuedCluster([4, 4, 4, 4], [queue("a"), queue("b")])
    for i in range(16):
        cluster.runs(f"b{i}", "b", f"n{i % 4}", since=100 + i)
    cluster.waits("b-more", "b")
    decision = cluster.decide_gang(cluster.gang("gang", "a", 2, gpus=4))
    assert decision.preemption is not None
    assert len(decision.preemption.victims) == 8
    assert len({victim.node_name for victim in decision.preemption.victims}) == 2


def test_a_gang_gets_the_members_that_it_needs_if_its_share_is_not_enough_for_all():
    cluster = QueuedCluster([8], [queue("a"), queue("b")])
    for i in range(8):
        cluster.runs(f"b{i}", "b", "n0")
    cluster.waits("b-more", "b")
    cluster.gang("gang", "a", 6, min_count=3)
    assert len(cluster.gang_victims("gang")) == 3


def test_a_tree_gets_the_members_of_the_cheapest_part_if_its_share_is_not_enough_for_all():
    cluster = QueuedCluster([8], [queue("a"), queue("b")])
    for i in range(8):
        cluster.runs(f"b{i}", "b", "n0")
    cluster.waits("b-more", "b")
    cluster.cache.groups.serve(COMPOSITE_API)
    top = {"metadata": {"name": "llm", "namespace": "default"}}
    top["spec"] = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    cluster.cache.set_object(COMPOSITE_KIND, top)
    for name, size in (("large", 4), ("small", 2)):
        cluster.gang(name, "a", size)
        cluster.group(name, size, parentCompositePodGroupName="llm")
    group = cluster.cache.groups.get(group_key(COMPOSITE_API, "default", "llm"))
    pods = cluster.cache.groups.members(group.key).unplaced()
    assert may_preempt(cluster.framework, cluster.cache, group, pods)
    decision = decide(GangPlanner(cluster.framework, cluster.cache, group, lambda _n: 0), pods, cluster.now)
    assert set(decision.preemption.nominations) == {pod.uid for pod in pods if pod.name.startswith("small")}
    assert len(decision.preemption.victims) == 2


def test_a_gang_takes_from_lower_priorities_of_its_own_queue():
    cluster = QueuedCluster([4], [queue("a"), queue("b", gpu={"guarantee": 2})])
    for i in range(2):
        cluster.runs(f"low{i}", "a", "n0", priority=1)
        cluster.runs(f"b{i}", "b", "n0", priority=0)
    assert cluster.gang_victims(cluster.gang("gang", "a", 2, priority=2)) == ["low0", "low1"]
    assert cluster.gang_victims(cluster.gang("large", "a", 3, priority=2)) == []


def test_the_search_for_victims_may_end_at_each_pod():
    def points(running: int) -> int:
        cluster, found = QueuedCluster([4] * (running // 4), [queue("a"), queue("b")]), Counter[str]()
        for i in range(running):
            cluster.runs(f"b{i}", "b", f"n{i // 4}")
        cluster.waits("b-more", "b")
        cluster.cache.deadline.check = lambda: found.update(("point",))
        assert len(cluster.gang_victims(cluster.gang("gang", "a", 2))) == 2
        return found["point"]

    assert points(80) - points(40) >= 4 * 40


class TestVictims:
    """A gang of two runs in queue b on two nodes of four GPUs, beside single pods."""

    def cluster(self, singles: int, *, size: int = 2) -> QueuedCluster:
        cluster = QueuedCluster([4, 4], [queue("a"), queue("b")])
        cluster.group("victim", size)
        for i in range(size):
            cluster.runs(f"v{i}", "b", f"n{i % 2}", spec=in_group("victim"), priority=0)
        for i in range(singles):
            cluster.runs(f"b{i}", "b", f"n{i % 2}", priority=1)
        cluster.waits("b-more", "b", 8)
        return cluster

    def test_a_gang_is_evicted_as_a_whole(self):
        cluster = self.cluster(6)
        assert cluster.gang_victims(cluster.gang("gang", "a", 2)) == ["v0", "v1"]

    def test_a_gang_is_no_victim_if_its_queue_would_have_less_than_its_share(self):
        cluster = self.cluster(0, size=8)
        assert cluster.gang_victims(cluster.gang("gang", "a", 2)) == []
        assert cluster.victims(cluster.waits("a1", "a")) == []

    def test_a_gang_larger_than_what_its_queue_has_above_its_share_goes_for_a_guarantee(self):
        cluster = self.cluster(0, size=8)
        cluster.queues.set(queue("a", gpu={"guarantee": 2}))
        assert len(cluster.gang_victims(cluster.gang("gang", "a", 2))) == 8
        assert len(cluster.victims(cluster.waits("a1", "a"))) == 8
        cluster.queues.set(queue("b", gpu={"guarantee": 2}))
        assert cluster.gang_victims("gang") == []

    def test_a_gang_is_protected_until_its_last_pod_has_run_long_enough(self):
        cluster = QueuedCluster([2], [queue("a"), queue("b", reclaim_min_runtime=60.0)])
        cluster.group("victim", 2)
        cluster.runs("v0", "b", "n0", spec=in_group("victim"))
        cluster.runs("v1", "b", "n0", spec=in_group("victim"), since=59)
        cluster.queues.set(queue("b", gpu={"weight": 0}, reclaim_min_runtime=60.0))
        cluster.gang("gang", "a", 2)
        assert cluster.gang_victims("gang") == []
        cluster.now += 1
        assert cluster.gang_victims("gang") == ["v0", "v1"]


def test_a_gang_takes_from_another_department_what_its_own_cannot_give():
    """Only because the gang also takes from its own department may it take from another one."""
    queues = [queue("x"), queue("y"), *(queue(f"{d}{t}", d) for d in "xy" for t in "12")]
    cluster = QueuedCluster([16], queues)
    for team, count in {"x1": 6, "y1": 5, "y2": 5}.items():
        for i in range(count):
            cluster.runs(f"{team}-{i}", team, "n0")
        cluster.waits(f"{team}-more", team, 8)
    cluster.gang("gang", "x2", 4)
    assert [name.partition("-")[0] for name in cluster.gang_victims("gang")] == ["x1", "x1", "y1", "y2"]


@pytest.mark.parametrize(
    ("size", "priority", "others", "may"),
    [
        pytest.param(3, 0, 5, True, id="within its share, and another queue has more than its own"),
        pytest.param(3, 0, 4, False, id="within its share, and nobody has more than that"),
        pytest.param(4, 0, 5, False, id="above its share"),
        pytest.param(4, 2, 4, True, id="above its share, with pods of lower priority in its queue"),
    ],
)
def test_an_event_retries_a_gang_only_if_it_might_preempt(size, priority, others, may):
    cluster = QueuedCluster([8], [queue("a"), queue("department"), queue("b", "department")])
    cluster.runs("a1", "a", "n0", priority=1)
    for index in range(others):
        cluster.runs(f"b{index}", "b", "n0")
    cluster.waits("b-more", "b", 8)
    assert may_be_retried(cluster, cluster.gang("gang", "a", size, priority=priority)) is may
    assert bool(cluster.gang_victims("gang")) is may


def test_an_event_retries_a_gang_that_may_have_the_room_of_pods_that_terminate():
    cluster = QueuedCluster([2], [queue("a"), queue("b")])
    pod = cluster.runs("b", "b", "n0")
    cluster.waits("b-more", "b", 8)
    gang = cluster.gang("gang", "a", 1)
    assert not may_be_retried(cluster, gang)
    cluster.terminates(pod)
    assert may_be_retried(cluster, gang)


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_event_retries_a_gang_if_pods_have_run_for_too_long(name):
    cluster = QueuedCluster([8], [queue("a"), queue("b")])
    cluster.runs("there", name, "n0", 2)
    cluster.waits("b-more", "b", 8)
    gang = cluster.gang("gang", "a", 2)
    assert not may_be_retried(cluster, gang)
    cluster.queues.set(queue(name, max_runtime=60.0))
    assert may_be_retried(cluster, gang)


def may_be_retried(cluster: QueuedCluster, name: str) -> bool:
    group = cluster.cache.groups.get(group_key(WORKLOAD_API, "default", name))
    assert group is not None
    return may_preempt(cluster.framework, cluster.cache, group, cluster.cache.groups.members(group.key).unplaced())


def test_a_gang_in_one_zone_takes_its_share_from_one_zone():
    cluster = QueuedCluster([4, 4, 4, 4], [queue("a"), queue("b")])
    for i in range(16):
        cluster.runs(f"b{i}", "b", f"n{i % 4}", since=100 + i)
    cluster.waits("b-more", "b")
    cluster.gang("gang", "a", 2, gpus=4)
    cluster.group("gang", 2, schedulingConstraints={"topology": [{"key": ZONE}]})
    decision = cluster.decide_gang("gang")
    assert decision.preemption is not None
    assert {victim.node_name for victim in decision.preemption.victims} in ({"n0", "n2"}, {"n1", "n3"})


def test_a_gang_of_several_queues_takes_nothing():
    cluster = QueuedCluster([2], [queue("a"), queue("b"), queue("c")])
    cluster.runs("c1", "c", "n0")
    cluster.runs("c2", "c", "n0")
    cluster.gang("gang", "a", 1, min_count=2)
    cluster.cache.groups.add_waiting(cluster.waits("other", "b", spec=in_group("gang")))
    assert cluster.gang_victims("gang") == []


def test_free_room_is_taken_without_victims():
    cluster = QueuedCluster([4], [queue("a"), queue("b")])
    cluster.waits("b1", "b", 4)
    assert isinstance(cluster.decide_gang(cluster.gang("gang", "a", 4)), GangPlacement)


class TestLimits:
    def cluster(self) -> QueuedCluster:
        cluster = QueuedCluster([8], [queue("a", gpu={"limit": 4})])
        for i in range(4):
            cluster.runs(f"a{i}", "a", "n0", priority=i)
        return cluster

    def test_a_gang_takes_what_the_limit_forbids_from_lower_priorities(self):
        cluster = self.cluster()
        assert cluster.gang_victims(cluster.gang("gang", "a", 2, priority=3)) == ["a0", "a1"]
        assert cluster.gang_victims(cluster.gang("large", "a", 4, priority=3)) == []

    def test_a_gang_waits_for_terminating_pods_that_hold_what_the_limit_forbids(self):
        cluster = self.cluster()
        for pod in cluster.queues.placed_pods("a")[:2]:
            cluster.terminates(pod)
        decision = cluster.decide_gang(cluster.gang("gang", "a", 2, priority=3))
        assert not isinstance(decision, GangPlacement)
        assert decision.preemption is not None
        assert all(victim.terminating for victim in decision.preemption.victims)


def test_every_zone_is_tried_until_one_gives_enough(monkeypatch):
    cluster = QueuedCluster([4] * 50, [queue("a"), queue("b", reclaim_min_runtime=60.0)], zones=50)
    for i in range(200):
        cluster.runs(f"b{i}", "b", f"n{i // 4}", since=3600 if i >= 196 else 10)
    cluster.waits("b-more", "b")
    cluster.gang("gang", "a", 2)
    cluster.group("gang", 2, schedulingConstraints={"topology": [{"key": ZONE}]})
    assert cluster.gang_victims("gang") == ["b198", "b199"]
    monkeypatch.setattr(gang_preemption, "MOST_WORK", 40 * 2 * 5_050)
    assert cluster.gang_victims("gang") == []


def test_what_was_taken_in_a_zone_that_did_not_do_may_be_taken_in_the_next_one():
    cluster = QueuedCluster([4, 4], [queue("a"), queue("b", reclaim_min_runtime=60.0)])
    for i in range(8):
        cluster.runs(f"b{i}", "b", f"n{i // 4}", since=10 if i < 2 else 3600)
    cluster.waits("b-more", "b")
    cluster.gang("gang", "a", 2, gpus=2)
    cluster.group("gang", 2, schedulingConstraints={"topology": [{"key": ZONE}]})
    assert cluster.gang_victims("gang") == ["b4", "b5", "b6", "b7"]


@pytest.mark.parametrize(("min_count", "claims"), [(3, 1), (2, 2)])
def test_what_the_queue_may_take_is_computed_once_for_the_same_members(min_count, claims, monkeypatch):
    cluster, counts = QueuedCluster([4, 4], [queue("a"), queue("b")]), Counter[str]()
    for i in range(8):
        cluster.runs(f"a{i}", "a", f"n{i % 2}")
    cluster.waits("b-more", "b")
    cluster.gang("gang", "a", 3, min_count=min_count)
    cluster.group("gang", min_count, schedulingConstraints={"topology": [{"key": ZONE}]})
    for name in ("claim_of", "CapacityBounds"):
        count = partial(_counted, counts, name, getattr(gang_preemption, name))
        monkeypatch.setattr(gang_preemption, name, count)
    assert cluster.gang_victims("gang") == []
    assert counts == {"claim_of": claims, "CapacityBounds": claims}


def _counted(counts, name, call, *args):
    counts[name] += 1
    return call(*args)
