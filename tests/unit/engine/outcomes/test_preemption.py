"""Preemption: victims are evicted, the preemptor waits for them, and lower nominations to its node are cleared."""

from __future__ import annotations

import pytest

from support.engine.kit import Rig, custom_policy, deciding, on_node, ours, settle

TWO = {"cpu": "2"}


def full_node(*, waits: bool = True) -> Rig:
    """A node filled by two pods of lower priority. `waits`: the test completes the evictions."""
    rig = Rig()
    rig.evictor.waits = waits
    rig.node("a", allocatable=TWO)
    for name in ("one", "two"):
        rig.engine.assigned.put(on_node(ours(name, requests={"cpu": "1"}, priority=0), "a"))
    return rig


def evicted(rig: Rig) -> list[str]:
    return sorted(victim for victim, _, _ in rig.evictor.evicted)


async def test_the_preemptor_is_held_until_the_deletion_of_its_last_victim_has_begun():
    rig = full_node()
    rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        assert evicted(rig) == ["one", "two"]
        rig.evictor.answers["one"](True)
        rig.engine.assigned.drop("default/one", None)
        await settle()
        assert rig.counts == {"gated": 1}
        assert len(rig.evictor.evicted) == 2
        rig.evictor.answers["two"](True)
        await settle()
        rig.engine.assigned.drop("default/two", None)
        rig.now += 2
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("high", "a")]
    assert len(rig.evictor.evicted) == 2


async def test_the_preemptor_is_still_held_when_its_policy_changes():
    rig = full_node()
    policy = custom_policy("postFilter", "DefaultPreemption")
    policy["spec"] = {"strategy": {"type": "MostAllocated"}}
    assert rig.engine.policies.apply(policy).accepted
    rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        assert evicted(rig) == ["one", "two"]
        changed = {
            "metadata": {**policy["metadata"], "generation": 2},
            "spec": {"strategy": {"type": "LeastAllocated"}},
        }
        assert rig.engine.policies.apply(changed).accepted
        rig.now += 12
        rig.engine.activate_all()
        await settle()
        assert evicted(rig) == ["one", "two"]
        assert rig.counts == {"gated": 1}
        for name in ("one", "two"):
            rig.evictor.answers[name](True)
            rig.engine.assigned.drop(f"default/{name}", None)
        await settle()
        rig.now += 12
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("high", "a")]


async def test_the_preemptor_is_retried_when_the_victims_are_gone_before_the_evictions_are_answered():
    rig = full_node()
    rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        for name in ("one", "two"):
            rig.engine.assigned.drop(f"default/{name}", None)
        await settle()
        assert rig.cluster.bound == []
        for name in ("one", "two"):
            rig.evictor.answers[name](True)
        await settle()
        assert rig.cluster.bound == [("high", "a")]


async def test_a_failed_eviction_retries_the_preemptor_after_the_backoff_of_an_error():
    """An immediate retry would fail again, as fast as the API server can answer."""
    rig = full_node()
    rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        for _ in range(2):
            before = len(rig.evictor.evicted)
            for answer in rig.evictor.answers.values():
                answer(False)
            await settle()
            assert rig.counts == {"backoff": 1}
            assert len(rig.evictor.evicted) == before
            rig.now += 2
            rig.engine.wake()
            await settle()
            assert len(rig.evictor.evicted) == before + 2


async def test_a_victim_counts_as_terminating_from_the_decision_until_its_eviction_fails():
    rig = full_node()
    shown = on_node(ours("one", requests={"cpu": "1"}, priority=0, labels={"version": "2"}), "a")

    def one():
        pod = rig.engine.cache.placement("default/one").pods["default/one"]
        return pod.terminating, pod.preempted, pod.labels.get("version")

    rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        assert one() == (True, True, None)
        rig.engine.assigned.put(shown)
        assert one() == (True, True, "2")
        rig.evictor.answers["one"](False)
        assert one() == (False, False, "2")


@pytest.mark.parametrize("deleted", [pytest.param(True, id="deleted"), pytest.param(False, id="refused")])
async def test_preemptors_that_need_the_same_victim_wait_for_its_one_eviction(deleted):
    rig = Rig()
    rig.evictor.waits = True
    rig.node("a", allocatable=TWO)
    rig.engine.assigned.put(on_node(ours("low", requests=TWO, priority=0), "a"))
    for name in ("first", "second"):
        rig.pod(name, requests={"cpu": "1"}, priority=10)
    async with deciding(rig):
        assert rig.evictor.evicted == [("low", "first", "a")]
        rig.now += 400
        rig.engine.wake()
        await settle()
        assert rig.counts == {"gated": 2}
        rig.evictor.answers["low"](deleted)
        await settle()
        if deleted:
            rig.engine.assigned.drop("default/low", None)
        rig.now += 2
        rig.engine.wake()
        await settle()
        assert len(rig.cluster.bound) == (2 if deleted else 0)
        assert len(rig.evictor.evicted) == (1 if deleted else 2)


async def test_a_victim_is_not_evicted_again_while_the_watch_lags():
    rig = full_node(waits=False)
    rig.node("b", allocatable={"cpu": "1"})
    spare = on_node(ours("spare", requests={"cpu": "1"}, priority=0), "b")
    rig.engine.assigned.put(spare)
    rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        assert evicted(rig) == ["one", "two"]
        rig.engine.assigned.put(on_node(ours("one", requests={"cpu": "1"}, priority=0, labels={"late": "yes"}), "a"))
        for _ in range(3):
            rig.engine.assigned.drop("default/spare", None)
            rig.engine.assigned.put(spare)
            rig.now += 20
            rig.engine.wake()
            await settle()
        assert evicted(rig) == ["one", "two"]
        for name in ("one", "two"):
            rig.engine.assigned.drop(f"default/{name}", None)
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("high", "a")]
        rig.engine.assigned.put(on_node(ours("one", requests={"cpu": "0"}, priority=0), "a"))
        assert not rig.engine.cache.placement("default/one").pods["default/one"].terminating


async def test_a_preemptor_that_is_deleted_is_forgotten():
    rig = full_node()
    raw = rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        rig.engine.pending.drop("default/high", raw)
        for name in ("one", "two"):
            rig.evictor.answers[name](False)
        await settle()
        assert rig.counts == {}
        rig.pod("high", requests=TWO, priority=10)
        await settle()
        assert len(rig.evictor.evicted) == 4


async def test_no_second_preemption_while_a_victim_terminates_even_before_the_watch_shows_the_nomination():
    rig = full_node()
    rig.node("b", allocatable=TWO)
    rig.engine.assigned.put(on_node(ours("three", requests=TWO, priority=0), "b"))
    rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        (place,) = {node for _, _, node in rig.evictor.evicted}
        victims = list(rig.evictor.answers)
        for name in victims:
            terminating = on_node(ours(name, requests=TWO if name == "three" else {"cpu": "1"}, priority=0), place)
            terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            terminating["status"]["conditions"] = [
                {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            ]
            rig.engine.assigned.put(terminating)
            rig.evictor.answers[name](True)
        rig.now += 400
        rig.engine.wake()
        await settle()
        assert sorted(rig.evictor.answers) == sorted(victims)


async def test_only_nominations_of_lower_priority_to_the_node_are_cleared():
    rig = full_node()
    rig.engine.pending.put({**ours("lower", requests=TWO, priority=5), "status": {"nominatedNodeName": "a"}})
    async with deciding(rig):
        rig.pod("high", requests=TWO, priority=10)
        await settle()
        assert rig.engine.cache.nominator.node_of("default/lower") == ""
        assert rig.engine.cache.nominator.node_of("default/high") == "a"
        assert ("lower", None, "") in rig.status.written


async def test_a_pod_that_loses_its_nomination_makes_room_for_others():
    rig = Rig()
    rig.node("a", allocatable=TWO)
    rig.engine.assigned.put(on_node(ours("there", requests={"cpu": "1"}, priority=100), "a"))
    nominated = ours("nominated", requests={"cpu": "1"}, priority=5, spec={"schedulingGates": [{"name": "later"}]})
    rig.engine.pending.put({**nominated, "status": {"nominatedNodeName": "a"}})
    async with deciding(rig):
        rig.pod("small", requests={"cpu": "1"}, priority=1)
        await settle()
        assert rig.cluster.bound == []
        rig.engine.pending.put({**nominated, "status": {}})
        await settle()
        assert rig.cluster.bound == [("small", "a")]


async def test_a_pod_that_gets_another_node_than_the_nominated_one_makes_room_for_others():
    rig = Rig()
    rig.node("a", allocatable=TWO)
    rig.engine.assigned.put(on_node(ours("there", requests={"cpu": "1"}, priority=100), "a"))
    gated = {"schedulingGates": [{"name": "later"}]}
    nominated = {"nominatedNodeName": "a"}
    rig.engine.pending.put(ours("nominated", requests={"cpu": "1"}, priority=5, spec=gated, status=nominated))
    async with deciding(rig):
        rig.pod("small", requests={"cpu": "1"}, priority=1)
        await settle()
        rig.node("b", taints=[{"key": "k", "effect": "NoSchedule"}], allocatable={"cpu": "1"}, labels={"pool": "b"})
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == []
        spec = {"nodeSelector": {"pool": "b"}, "tolerations": [{"operator": "Exists"}]}
        rig.engine.pending.put(ours("nominated", requests={"cpu": "1"}, priority=5, spec=spec, status=nominated))
        await settle()
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert rig.cluster.bound == [("nominated", "b"), ("small", "a")]


@pytest.mark.parametrize("why", ["there is no node", "preemption is off"])
async def test_a_nomination_is_cleared_when_preemption_cannot_renew_it(why):
    rig = Rig()
    if why == "preemption is off":
        rig.node("a", allocatable={"cpu": "1"})
        policy = custom_policy("postFilter", "DefaultPreemption")
        policy["spec"]["plugins"] = {"postFilter": {"disabled": [{"name": "*"}]}}
        assert rig.engine.policies.apply(policy).accepted
    rig.engine.pending.put(ours("web", requests={"cpu": "2"}, status={"nominatedNodeName": "gone"}))
    async with deciding(rig):
        assert [node for _, _, node in rig.status.written] == [""]
        assert rig.engine.cache.nominator.node_of("default/web") == ""


async def test_evictions_that_violate_a_disruption_budget_are_counted():
    rig = full_node(waits=False)
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    rig.engine.objects("PodDisruptionBudget").put(budget)
    rig.engine.assigned.put(on_node(ours("one", requests={"cpu": "1"}, priority=0, labels={"app": "db"}), "a"))
    rig.pod("high", requests=TWO, priority=10)
    async with deciding(rig):
        count = rig.ports.metrics.registry.get_sample_value
        assert count("scheduler_preemption_pdb_violations_total", {"preemptor": "pod"}) == 1
