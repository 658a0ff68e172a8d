"""The costs of policies in shadow mode: bounded lists, a share of the time, and memory that is freed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from types import SimpleNamespace

import pytest

from podwright.core.objects.compaction import compact_all
from podwright.core.state.deadline import TookLongError
from podwright.engine.records.metrics import Metrics
from podwright.engine.shadow import shadow_pods, tally, waiting_arrivals
from podwright.engine.shadow.shadow_time import SHARE, ShadowTime, earliest
from podwright.engine.shadow.tally import Skip
from support.engine.kit import deciding, on_node, settle, values
from support.engine.shadows import shadow_policy, small_and_large, theirs


@pytest.fixture
async def rig():
    found = small_and_large()
    async with deciding(found):
        yield found


async def test_of_too_many_pods_at_once_the_oldest_are_not_compared(rig, monkeypatch):
    monkeypatch.setattr(waiting_arrivals, "MOST_WAITING", 5)
    await rig.apply(shadow_policy())
    for number in range(8):
        raw = theirs(f"p-{number}", requests={"cpu": "1"})
        rig.engine.shadow.pods.put(raw)
        rig.engine.assigned.put(on_node(raw, "b"))
        assert rig.engine.shadow.waiting <= 5
    await rig.caught_up()
    assert (rig.tally().skipped, rig.tally().compared) == ({Skip.LATE: 3}, 5)
    assert values(rig, "podwright_shadow_skipped_pods_total") == {("eye", "late"): 3.0}


async def test_few_disagreements_are_remembered_and_their_texts_are_short(rig):
    rule = {"name": "none", "expression": "false", "message": "x" * 250}
    await rig.apply(shadow_policy(rules={"filters": [rule]}))
    for number in range(tally.REMEMBERED + 5):
        await rig.placed(theirs(f"p-{number}"), "a")
    await rig.caught_up()
    assert len(rig.tally().disagreements) == tally.REMEMBERED
    assert rig.tally().disagreements[-1].pod == f"default/p-{tally.REMEMBERED + 4}"
    await rig.appears(theirs("web", unschedulable="y" * 100_000))
    found = rig.engine.shadow.pods.get("default/web")
    assert len(found.seen.message) == shadow_pods.LONGEST


async def test_what_is_known_of_pods_that_left_is_bounded(rig):
    await rig.apply(shadow_policy())
    pods = rig.engine.shadow.pods
    for number in range(shadow_pods.REMEMBERED + 10):
        raw = theirs(f"p-{number}")
        pods.put(raw)
        pods.drop(raw["metadata"]["uid"], raw)
    assert len(pods) == 0
    assert pods.last_seen("default/p-9") is None
    assert pods.last_seen("default/p-10") is not None


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({"metadata": {}}, id="no uid"),
        pytest.param({"metadata": {"uid": "x", "name": "x"}, "spec": []}, id="a list as spec"),
        pytest.param({"metadata": {"uid": "x", "name": "x"}, "spec": {}, "status": {"conditions": 1}}, id="conditions"),
    ],
)
async def test_an_invalid_pod_is_no_subject(rig, raw):
    await rig.apply(shadow_policy())
    rig.engine.shadow.pods.put(raw)
    await settle()
    assert rig.outcomes() == {}


async def test_a_costly_pod_is_decided_when_it_appears_where_attempts_may_pause_and_in_no_world(rig):
    await rig.apply(shadow_policy())
    terms = [
        {"weight": 1, "podAffinityTerm": {"topologyKey": f"k-{n}", "labelSelector": {"matchLabels": {"a": f"{n}"}}}}
        for n in range(200)
    ]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    raw = theirs("big", spec={"affinity": affinity}, requests={"cpu": "1"})
    await rig.appears(raw)
    assert rig.engine.shadow.pods.get("default/big").seen.outlooks.keys() == {rig.tally().number}
    await rig.placed(raw, "a")
    await rig.caught_up()
    assert rig.tally().compared == 1
    world = rig.report()["policies"][0]["world"]
    assert (world["undecided"], world["elsewhere"]) == (1, 0)


@pytest.mark.parametrize("kind", ["costly", "with a claim", "nodes have changed"])
async def test_a_pod_that_must_be_decided_early_is_not_compared_if_that_was_too_late(rig, kind):
    """A transaction could not pause for it, or its volumes would tell where it is."""
    await rig.apply(shadow_policy())
    tolerations = [{"key": f"k-{number}", "operator": "Exists"} for number in range(5_000)]
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    raw = theirs("web", spec={"tolerations": tolerations} if kind == "costly" else {"volumes": volumes})
    if kind == "nodes have changed":
        await rig.appears(raw)
        rig.node("c")
    await rig.placed(raw, "a")
    await rig.caught_up()
    assert (rig.outcomes(), rig.tally().skipped) == ({}, {Skip.UNSEEN: 1})


async def test_memory_comes_back_when_pods_and_policies_go(rig):
    await rig.apply(shadow_policy(), shadow_policy("other", strategy={"type": "MostAllocated"}))
    await rig.caught_up()
    kept = []
    for number in range(300):
        raw = theirs(f"p-{number}", requests={"cpu": "1"}, labels={f"key-{number}": f"value-{number}"})
        await rig.placed(raw, "a")
        kept.append(weakref.ref(rig.engine.cache.placement(raw["metadata"]["uid"]).pods[raw["metadata"]["uid"]]))
    await rig.caught_up()
    world = rig.engine.shadow.worlds.of(rig.tally())
    assert world.cache.pod_count == 300
    for number in range(300):
        rig.engine.assigned.drop(f"default/p-{number}", None)
    await rig.caught_up()
    assert world.cache.pod_count == 0
    compact_all()
    gc.collect()
    assert sum(each() is not None for each in kept) <= 1, "a loop variable may hold the last one"
    gone = weakref.ref(world.cache)
    del world
    for name in ("eye", "other"):
        rig.engine.policies.remove(name)
    rig.engine.policies_changed()
    await settle()
    gc.collect()
    assert gone() is None
    assert rig.engine.shadow.due(rig.now) is None


class TestTime:
    """Half a second for each decision."""

    @pytest.fixture
    def time(self):
        found = SimpleNamespace(now=100.0, made=0, cycles=[], due=lambda now: now, names=frozenset("x"), waiting=0)

        def attempt():
            found.made += 1
            found.now += 0.5

        found.attempt = attempt

        found.time = ShadowTime(
            found,
            found.cycles,
            metrics=Metrics(lambda: found.now),
            clock=lambda: found.now,
            wake=lambda: None,
        )
        return found

    async def test_while_there_is_other_work_a_tenth_is_for_decisions(self, time):
        started, spent = time.now, 0.0
        while time.now < started + 100.0:
            if time.time.has_turn:
                await time.time.decide()
                spent += 0.5
            time.now += 0.01
        assert spent / (time.now - started) == pytest.approx(SHARE, abs=0.01)

    async def test_idle_time_is_for_decisions_unless_bindings_are_in_progress(self, time):
        await time.time.decide()
        assert not time.time.has_turn
        time.cycles.append("a binding")
        assert not time.time.use_idle_time()
        assert time.time.next_turn == pytest.approx(time.now + 4.5)
        time.cycles.clear()
        assert time.time.use_idle_time()

    async def test_while_a_child_decides_no_other_decision_is_due(self, time):
        answered = asyncio.Event()

        def attempt():
            raise TookLongError

        time.attempt, time.answers = attempt, SimpleNamespace(compute=answered.wait)
        await time.time.decide()
        assert (time.time.has_turn, time.time.next_turn) == (False, None)
        answered.set()
        await settle()
        assert time.time.use_idle_time()

    async def test_without_policies_in_shadow_mode_there_is_never_a_turn(self, time):
        time.names = frozenset()
        assert not time.time.has_turn
        assert time.time.next_turn is None
        assert not time.time.use_idle_time()


@pytest.mark.parametrize(("times", "first"), [((), None), ((None, None), None), ((None, 2.0), 2.0), ((3.0, 1.0), 1.0)])
def test_the_earliest_of_times_that_may_be_unknown(times, first):
    assert earliest(*times) == first
