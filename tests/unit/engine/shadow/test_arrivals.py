"""Every pod that another scheduler has placed is compared, or counted as skipped: whatever comes in one burst, goes
again, or is seen in another order.
"""

from __future__ import annotations

import pytest

from podwright.core.objects.compaction import compact_all
from podwright.engine.shadow import shadow_pods, waiting_arrivals
from podwright.engine.shadow.comparison import ComparisonOutcome
from podwright.engine.shadow.tally import Skip
from support.engine.kit import deciding, on_node, settle, values
from support.engine.shadows import shadow_policy, small_and_large, theirs


@pytest.fixture
async def rig():
    found = small_and_large()
    async with deciding(found):
        yield found


def comes(rig, raw, node="b"):
    """All that the watches tell of a pod, before the policy has a turn."""
    rig.engine.shadow.pods.put(raw)
    rig.engine.assigned.put(on_node(raw, node))
    rig.engine.shadow.pods.drop(raw["metadata"]["uid"], raw)


def places(rig):
    found = rig.engine.shadow.worlds.of(rig.tally())
    return {pod.name: info.name for info in found.cache.nodes.values() for pod in info.pods.values()}


async def test_all_pods_of_a_burst_are_compared_though_few_are_remembered(rig, monkeypatch):
    monkeypatch.setattr(shadow_pods, "REMEMBERED", 3)
    await rig.apply(shadow_policy())
    for number in range(30):
        comes(rig, theirs(f"p-{number}", requests={"cpu": "1"}))
    await rig.caught_up()
    assert (rig.tally().compared, rig.tally().skipped) == (30, {})


async def test_as_many_pods_are_remembered_as_may_wait(rig):
    """The watch of pending pods may be ahead by a whole burst."""
    assert shadow_pods.REMEMBERED >= waiting_arrivals.MOST_WAITING


async def test_pods_that_go_before_their_turn_are_counted(rig):
    await rig.apply(shadow_policy())
    await rig.caught_up()
    for number in range(30):
        comes(rig, theirs(f"p-{number}", requests={"cpu": "1"}))
        if number % 3:
            rig.engine.assigned.drop(f"default/p-{number}", None)
    await rig.caught_up()
    assert (rig.tally().compared, rig.tally().skipped) == (10, {Skip.GONE: 20})
    assert values(rig, "podwright_shadow_skipped_pods_total") == {("eye", "gone"): 20.0}


async def test_pods_that_are_gone_do_not_wait_for_their_turn(rig):
    await rig.apply(shadow_policy())
    await rig.caught_up()
    for number in range(30):
        comes(rig, theirs(f"p-{number}", requests={"cpu": "1"}))
        if number:
            rig.engine.assigned.drop(f"default/p-{number}", None)
    compact_all()
    assert rig.engine.shadow.waiting == 1
    await rig.caught_up()
    assert (rig.tally().compared, rig.tally().skipped) == (1, {Skip.GONE: 29})


@pytest.mark.parametrize("taken_over", [False, True])
async def test_the_watch_of_pending_pods_may_be_behind(rig, taken_over):
    await rig.apply(shadow_policy(strategy={"type": "NodeName"}))
    await rig.caught_up()
    raw = theirs("web", requests={"cpu": "1"})
    rig.engine.assigned.put(on_node(raw, "b"))
    if taken_over:
        await rig.caught_up()
        assert places(rig) == {"web": "b"}
    assert rig.outcomes() == {}
    await rig.appears(raw)
    rig.engine.shadow.pods.drop("default/web", raw)
    await rig.caught_up()
    assert rig.tally().compared == 1
    assert places(rig) == {"web": "a"}, "in its world, the policy decides about the pod too"


async def test_a_pod_whose_claim_would_tell_its_node_is_not_judged_when_its_watch_is_behind(rig):
    await rig.apply(shadow_policy())
    raw = theirs("web", spec={"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]})
    rig.engine.assigned.put(on_node(raw, "b"))
    await settle()
    await rig.appears(raw)
    rig.engine.shadow.pods.drop("default/web", raw)
    await rig.caught_up()
    assert (rig.outcomes(), rig.tally().skipped) == ({}, {Skip.UNSEEN: 1})


async def test_a_pod_that_is_not_seen_for_long_was_created_with_its_node(rig):
    await rig.apply(shadow_policy())
    raw = theirs("static", requests={"cpu": "1"})
    rig.engine.assigned.put(on_node(raw, "b"))
    rig.now += waiting_arrivals.UNSEEN_SECONDS + 1
    compact_all()
    await rig.appears(raw)
    await rig.caught_up()
    assert (rig.outcomes(), rig.tally().skipped) == ({}, {})


async def test_few_pods_that_were_not_seen_are_kept(rig, monkeypatch):
    monkeypatch.setattr(waiting_arrivals, "MOST_WAITING", 5)
    await rig.apply(shadow_policy())
    pods = [theirs(f"p-{number}", requests={"cpu": "1"}) for number in range(8)]
    for raw in pods:
        rig.engine.assigned.put(on_node(raw, "b"))
    for raw in pods:
        rig.engine.shadow.pods.put(raw)
    await rig.caught_up()
    assert rig.tally().compared == 5


class TestPoliciesThatChange:
    async def test_a_policy_does_not_judge_pods_that_came_before_it(self, rig):
        await rig.apply(shadow_policy())
        await rig.caught_up()
        comes(rig, theirs("before"))
        await rig.apply(shadow_policy(), shadow_policy("late"))
        await rig.caught_up()
        assert (rig.tally().compared, rig.tally("late").compared) == (1, 0)

    async def test_a_policy_of_the_same_name_and_generation_does_not_answer_as_the_one_before_it(self, rig):
        """The pods stay, because another policy looks at them."""
        other, fits = shadow_policy("other"), ("eye", "fits")
        none = {"filters": [{"name": "none", "expression": "false", "message": "never"}]}
        await rig.apply(other, shadow_policy())
        await rig.appears(theirs("web", requests={"cpu": "1"}, unschedulable="0/2 nodes"))
        assert rig.outcomes() == {ComparisonOutcome.PLACEABLE: 1}
        rig.engine.policies.remove("eye")
        rig.engine.policies_changed()
        await settle()
        assert fits not in values(rig, "podwright_shadow_unplaced_pods")
        await rig.apply(other, shadow_policy())
        assert rig.outcomes() == {ComparisonOutcome.PLACEABLE: 1}
        await rig.apply(other, shadow_policy(generation=2, rules=none))
        assert rig.outcomes() == {ComparisonOutcome.WAITS_TOO: 1}
        assert rig.report("eye")["policies"][0]["unplaced"] == {"fits": 0, "waits": 1}
