"""The world of a policy in shadow mode: the cluster as if all its decisions had been carried out."""

from __future__ import annotations

import random

import pytest

from podwright.core.objects.compaction import compact_all
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.engine.shadow import world as world_module
from podwright.engine.shadow.worlds import MOST, SIGNALS, TOO_MANY
from support.engine.kit import deciding, on_node, ours, settle, values
from support.engine.shadows import ShadowRig, shadow_policy, theirs
from support.objects.builders import make_pod

PACK = {"strategy": {"type": "MostAllocated"}}


@pytest.fixture
async def rig():
    found = ShadowRig()
    for name in ("a", "b", "c"):
        found.node(name, allocatable={"cpu": "4"})
    async with deciding(found):
        yield found


async def leaves(rig, raw):
    rig.engine.assigned.drop(raw["metadata"]["uid"], None)
    await rig.caught_up()


def world(rig, name="eye"):
    (found,) = rig.report(name)["policies"]
    return found["world"]


def places(rig, name="eye"):
    """Where the pods are in the policy's world."""
    found = rig.engine.shadow.worlds.of(rig.tally(name))
    return {pod.name: info.name for info in found.cache.nodes.values() for pod in info.pods.values()}


async def test_each_decision_is_made_on_what_came_of_the_one_before(rig):
    """The other scheduler spreads three pods over three nodes; the policy packs them on one. Against the cluster as it
    is, it would not know which.
    """
    await rig.apply(shadow_policy(**PACK))
    for name, node in (("x", "a"), ("y", "b"), ("z", "c")):
        await rig.placed(theirs(name, requests={"cpu": "1", "memory": "1Gi"}), node)
    await rig.caught_up()
    assert len(set(places(rig).values())) == 1
    found = world(rig)
    assert (found["cluster"]["inUse"], found["shadow"]["inUse"], found["cluster"]["nodes"]) == (3, 1, 3)
    assert found["cluster"]["utilisation"]["cpu"] == pytest.approx(1 / 4)
    assert found["shadow"]["utilisation"]["cpu"] == pytest.approx(3 / 4)
    assert found["cluster"]["allocated"] == found["shadow"]["allocated"]
    assert (found["elsewhere"], found["waiting"], found["unplaced"], found["settled"]) == (2, 0, 0, True)
    assert values(rig, "podwright_shadow_nodes_in_use") == {("eye", "cluster"): 3.0, ("eye", "shadow"): 1.0}
    assert values(rig, "podwright_shadow_utilization_ratio")["eye", "cpu", "shadow"] == pytest.approx(3 / 4)


async def test_pods_that_are_not_preemptible_by_their_policy_stay_within_the_guarantee_in_a_world(rig):
    queues = queues_of(rig.engine.cache)
    queues.set(QueueRules("team", quotas={"cpu": Quota(guarantee=1000)}))
    queues.preemptible_by_policy = lambda pod: not pod.name.startswith("firm")
    await rig.apply(shadow_policy(**PACK))
    await rig.caught_up()
    for name in ("firm0", "firm1", "other"):
        await rig.placed(theirs(name, requests={"cpu": "1"}, labels={QUEUE_LABEL: "team"}), "a")
    await rig.caught_up()
    assert places(rig).keys() == {"firm0", "other"}


async def test_limits_of_queues_hold_in_a_world_and_change_there(rig):
    """The other scheduler knows no queues."""
    queues = queues_of(rig.engine.cache)
    queues.set(QueueRules("team", quotas={"cpu": Quota(limit=1000)}))
    await rig.apply(shadow_policy(**PACK))
    await rig.caught_up()
    for name in ("x", "y"):
        await rig.placed(theirs(name, requests={"cpu": "1"}, labels={QUEUE_LABEL: "team"}), "a")
    await rig.placed(theirs("z", requests={"cpu": "1"}), "a")
    await rig.caught_up()
    assert places(rig).keys() == {"x", "z"}
    assert world(rig)["waiting"] == 1
    queues.set(QueueRules("team", quotas={"cpu": Quota(limit=2000)}))
    await rig.caught_up()
    assert places(rig).keys() == {"x", "y", "z"}
    queues.set(QueueRules("team", quotas={"cpu": Quota(limit=1000)}))
    queues.remove("team")
    await rig.caught_up()
    there = queues_of(rig.engine.shadow.worlds.of(rig.tally()).cache)
    assert not there.active
    queues.refuse("team", "spec: a value is required")
    await rig.caught_up()
    assert there.refused == {"team": "spec: a value is required"}
    queues.refuse("team", "")
    await rig.caught_up()
    assert (there.refused, there.active) == ({}, False)


async def test_what_was_there_before_and_what_the_policy_does_not_look_at_is_where_it_is(rig):
    await rig.placed(theirs("old", requests={"cpu": "1"}), "c")
    await rig.apply(shadow_policy(match={"podSelector": {"matchLabels": {"app": "web"}}}, **PACK))
    await rig.caught_up()
    await rig.placed(theirs("other", requests={"cpu": "1"}), "b")
    await rig.placed(theirs("static"), "a", seen=False)
    await rig.placed(theirs("mine", requests={"cpu": "1", "memory": "1Gi"}, labels={"app": "web"}), "a")
    await rig.caught_up()
    found = places(rig)
    assert (found["old"], found["other"], found["static"]) == ("c", "b", "a")
    assert found["mine"] in ("b", "c")


async def test_a_pod_that_leaves_the_cluster_leaves_the_world_and_makes_room(rig):
    rig.engine.nodes.drop("b", None)
    rig.engine.nodes.drop("c", None)
    rig.node("small", allocatable={"cpu": "1"})
    await rig.apply(shadow_policy(strategy={"type": "NodeName"}))
    first = theirs("first", requests={"cpu": "1"})
    await rig.placed(first, "small")
    big = theirs("big", requests={"cpu": "4"})
    await rig.placed(big, "a")
    await rig.caught_up()
    assert places(rig) == {"first": "a"}
    assert (world(rig)["waiting"], world(rig)["elsewhere"]) == (1, 1)
    await leaves(rig, first)
    assert places(rig) == {"big": "a"}
    assert (world(rig)["waiting"], world(rig)["elsewhere"]) == (0, 0)
    await leaves(rig, big)
    assert places(rig) == {}


async def test_a_pod_that_only_the_policy_would_place_is_in_its_world_until_it_goes(rig):
    await rig.apply(shadow_policy())
    raw = theirs("web", requests={"cpu": "1"}, unschedulable="0/3 nodes")
    await rig.appears(raw)
    await rig.caught_up()
    assert places(rig) == {"web": "a"}
    assert (world(rig)["unplaced"], world(rig)["elsewhere"]) == (1, 0)
    rig.engine.shadow.pods.drop("default/web", raw)
    await rig.caught_up()
    assert places(rig) == {}


async def test_such_a_pod_stays_where_the_policy_has_put_it_when_the_other_places_it(rig):
    await rig.apply(shadow_policy())
    raw = theirs("web", requests={"cpu": "1"}, unschedulable="0/3 nodes")
    await rig.appears(raw)
    await rig.caught_up()
    await rig.placed(raw, "b")
    await rig.caught_up()
    assert places(rig) == {"web": "a"}
    assert (world(rig)["unplaced"], world(rig)["elsewhere"]) == (0, 1)


async def test_a_node_that_goes_makes_the_policy_decide_again_about_its_pods(rig):
    await rig.apply(shadow_policy(strategy={"type": "NodeName"}))
    await rig.placed(theirs("web", requests={"cpu": "1"}), "c")
    await rig.caught_up()
    assert places(rig) == {"web": "a"}
    rig.engine.nodes.drop("a", None)
    await rig.caught_up()
    assert places(rig) == {"web": "b"}
    rig.node("new")
    await rig.caught_up()
    assert world(rig)["shadow"]["nodes"] == 3


async def ten_wait(rig, monkeypatch):
    """Ten pods are on the only node, which the policy rejects. Three that wait are tried at a time."""
    monkeypatch.setattr(world_module, "RETRIED", 3)
    for name in ("a", "b"):
        rig.engine.nodes.drop(name, None)
    rig.node("c", allocatable={"cpu": "100"}, taints=[{"key": "spot", "effect": "NoSchedule"}])
    await rig.apply(shadow_policy(strategy={"type": "NodeName"}))
    for number in range(10):
        await rig.placed(theirs(f"p-{number}", requests={"cpu": "1"}), "c")
    await rig.caught_up()


async def test_when_a_node_has_room_for_all_that_wait_all_are_placed(rig, monkeypatch):
    """Not only the first few that are tried: as long as some can be placed, the next ones are tried."""
    await ten_wait(rig, monkeypatch)
    assert (world(rig)["waiting"], world(rig)["settled"]) == (10, True)
    rig.node("big", allocatable={"cpu": "7"})
    await settle()
    await rig.caught_up()
    assert (world(rig)["waiting"], world(rig)["settled"]) == (3, True)
    rig.node("bigger", allocatable={"cpu": "100"})
    await settle()
    await rig.caught_up()
    assert (world(rig)["waiting"], world(rig)["elsewhere"], world(rig)["settled"]) == (0, 10, True)


async def test_pods_that_wait_are_tried_in_slices_and_no_more_than_once_while_none_is_placed(rig, monkeypatch):
    await ten_wait(rig, monkeypatch)
    tried = []
    decide = world_module.schedule

    def counted(framework, cache, pod, *args, **options):
        tried.append(pod.name)
        return decide(framework, cache, pod, *args, **options)

    monkeypatch.setattr(world_module, "schedule", counted)
    rig.node("useless", allocatable={"cpu": "0"})
    await settle()
    await rig.caught_up()
    assert len(tried) == 3
    tried.clear()
    rig.node("big", allocatable={"cpu": "100"})
    await settle()
    await rig.caught_up()
    assert sorted(tried) == sorted(f"p-{number}" for number in range(10))


async def test_the_policy_decides_again_about_its_pods_when_their_node_comes_back(rig):
    await rig.placed(theirs("old", requests={"cpu": "1"}), "c")
    await rig.apply(shadow_policy(strategy={"type": "NodeName"}))
    await rig.placed(theirs("web", requests={"cpu": "1"}), "c")
    await rig.caught_up()
    assert places(rig) == {"old": "c", "web": "a"}
    rig.engine.nodes.drop("c", None)
    await rig.caught_up()
    assert places(rig) == {}
    compact_all()
    rig.node("c", allocatable={"cpu": "4"})
    await settle()
    await rig.caught_up()
    assert places(rig) == {"old": "c", "web": "a"}


async def test_pods_that_the_policy_could_not_decide_about_are_counted_as_long_as_they_are_there(rig):
    await rig.apply(shadow_policy())
    member = theirs("member", spec={"schedulingGroup": {"podGroupName": "g"}})
    await rig.placed(member, "a")
    await rig.caught_up()
    assert world(rig)["undecided"] == 1
    await leaves(rig, member)
    assert world(rig)["undecided"] == 0


async def test_of_pods_that_come_and_go_while_a_world_has_no_turn_nothing_is_kept(rig):
    await rig.apply(shadow_policy())
    await rig.caught_up()
    found = rig.engine.shadow.worlds.of(rig.tally())
    for number in range(50):
        raw = theirs(f"p-{number}", requests={"cpu": "1"})
        rig.engine.shadow.pods.put(raw)
        rig.engine.assigned.put(on_node(raw, "a"))
        rig.engine.shadow.pods.drop(raw["metadata"]["uid"], raw)
        rig.engine.assigned.drop(raw["metadata"]["uid"], None)
    assert found.has_work
    compact_all()
    assert not found.has_work


async def test_pods_of_daemon_sets_do_not_make_a_node_used(rig):
    await rig.apply(shadow_policy())
    owner = {"controller": True, "kind": "DaemonSet", "name": "d", "uid": "d", "apiVersion": "apps/v1"}
    await rig.placed(theirs("agent", metadata={"ownerReferences": [owner]}), "a")
    await rig.caught_up()
    assert (world(rig)["cluster"]["inUse"], world(rig)["shadow"]["inUse"]) == (0, 0)


async def test_own_pods_are_decided_in_the_world_too(rig):
    await rig.apply(shadow_policy(schedulerName="podwright", strategy={"type": "NodeName"}))
    for name in ("x", "y"):
        rig.engine.pending.put(ours(name, requests={"cpu": "1"}))
    await settle()
    await rig.caught_up()
    assert places(rig) == {"x": "a", "y": "a"}
    assert len({node for _, node in rig.cluster.bound}) == 2


async def test_only_a_few_policies_have_worlds_and_none_that_reads_signals(rig):
    names = [f"p-{number}" for number in range(MOST + 1)]
    await rig.apply(*(shadow_policy(name) for name in names))
    await rig.caught_up()
    assert [each["world"].get("missing", "") for each in rig.report()["policies"]] == [""] * MOST + [TOO_MANY]
    assert SIGNALS.startswith("the policy reads signals")


async def test_a_world_goes_with_its_policy(rig):
    await rig.apply(shadow_policy())
    await rig.caught_up()
    rig.engine.policies.remove("eye")
    rig.engine.policies_changed()
    await settle()
    assert len(rig.engine.shadow.worlds) == 0
    await rig.placed(theirs("web"), "a")
    assert values(rig, "podwright_shadow_nodes_in_use") == {}


@pytest.mark.parametrize("seed", range(6))
async def test_at_random_a_world_of_a_policy_that_always_agrees_is_the_cluster(seed):
    """The other scheduler here follows the same rule: the first node by name with room. So wherever the world ends, it
    must be the cluster.
    """
    chance = random.Random(seed)
    rig, running, number = ShadowRig(), {}, 0
    for name in ("a", "b", "c", "d"):
        rig.node(name, allocatable={"cpu": "4"})
    async with deciding(rig):
        await rig.apply(shadow_policy(strategy={"type": "NodeName"}))
        for _ in range(60):
            action = chance.random()
            if action < 0.6:
                number += 1
                cpu = chance.choice([1, 2, 3])
                raw = theirs(f"p{number}", requests={"cpu": str(cpu)})
                used = {node: sum(n for _, n, where in running.values() if where == node) for node in "abcd"}
                node = next((node for node in "abcd" if used[node] + cpu <= 4), None)
                if node is not None:
                    running[raw["metadata"]["uid"]] = (raw, cpu, node)
                    await rig.placed(raw, node)
            elif running:
                raw, *_ = running.pop(chance.choice([*running]))
                rig.engine.assigned.drop(raw["metadata"]["uid"], None)
            if chance.random() < 0.1:
                await settle()
            await rig.caught_up()
        assert places(rig) == {raw["metadata"]["name"]: node for raw, _, node in running.values()}
        found = world(rig)
        assert found["cluster"] == found["shadow"]
        assert (found["elsewhere"], found["waiting"], found["undecided"]) == (0, 0, 0)
        assert rig.tally().agreement in (1.0, None)


async def test_changes_while_a_world_is_being_filled_are_not_lost():
    rig = ShadowRig()
    for number in range(300):
        rig.node(f"n-{number}")
        rig.engine.assigned.put(on_node(make_pod(f"old-{number}"), f"n-{number}"))
    async with deciding(rig):
        result = rig.engine.policies.apply(shadow_policy())
        assert result.accepted
        rig.engine.policies_changed()
        worlds = rig.engine.shadow.worlds
        while not len(worlds):
            rig.engine.shadow.attempt()
        rig.engine.shadow.attempt()
        rig.engine.assigned.drop("default/old-0", None)
        rig.engine.assigned.drop("default/old-299", None)
        rig.engine.nodes.drop("n-1", None)
        rig.node("late")
        rig.engine.assigned.put(on_node(make_pod("late"), "late"))
        await rig.caught_up()
        expected = {f"old-{number}": f"n-{number}" for number in range(2, 299)}
        assert places(rig) == {**expected, "late": "late"}
