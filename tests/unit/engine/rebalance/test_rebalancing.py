"""Plans that are carried out: places are held, pods evicted, and the places given back when something comes between."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.state.nominator import reservation_of
from podwright.engine.rebalance import rebalancing
from podwright.engine.rebalance.rebalancing import Hour
from support.engine.kit import Rig, deciding, on_node, ours, settle, values
from support.rebalance.kit import rules


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(rebalancing, "POLL_SECONDS", 0.0)


def owner(name, kind="ReplicaSet"):
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


class Fragmented:
    """n0 has room for two more pods, n1 and n2 have one pod each. Each pod has 1 of 4 CPUs."""

    def __init__(self, **spec):
        self.rig = Rig()
        self.engine = self.rig.engine
        self.evictor = self.rig.evictor
        self.evictor.waits = True
        for name in ("n0", "n1", "n2"):
            self.rig.node(name, allocatable={"cpu": "4"})
        for name, on in (("a", "n0"), ("b", "n0"), ("c", "n1"), ("d", "n2")):
            self.runs(name, on)
        self.generation = 0
        self.policy(**spec)

    def policy(self, **spec):
        self.generation += 1
        given = rules(**{"mode": "Enforce", "cooldown": "0s", **spec})
        import dataclasses

        self.engine.rebalancing.set(dataclasses.replace(given, generation=self.generation), Hour())

    def made(self, name, of="web", cpu="1", **more):
        given = {"labels": {"app": of}, "requests": {"cpu": cpu}, "metadata": {"ownerReferences": [owner(of)]}}
        return ours(name, **{**given, **more})

    def runs(self, name, on, **more):
        raw = self.made(name, **more)
        self.engine.assigned.put(on_node(raw, on))

    def comes(self, name, **more):
        """Its controller has created a pod."""
        raw = self.made(name, **more)
        self.engine.pending.put(raw)
        return raw

    def gone(self, name):
        self.engine.assigned.drop(f"default/{name}", None)

    async def later(self, seconds=0.0):
        self.rig.now += seconds
        self.engine.reservations.expire()
        self.engine.rebalancing.begin()
        await settle()
        self.engine.wake()
        await settle()

    async def evicted(self, name, deleted=True):
        """The eviction of this pod has an answer."""
        self.evictor.answers[name](deleted)
        await self.later()

    def bound(self, raw):
        """The watch shows a pod that was placed."""
        self.rig.confirm(raw, self.rig.placed_on(raw["metadata"]["name"]))

    @property
    def asked(self):
        return [name for name, _, _ in self.evictor.evicted]

    @property
    def held(self):
        nominator = self.engine.cache.nominator
        slots = [pod for name in nominator.nodes() for pod in nominator.on(name) if reservation_of(pod)]
        return sorted(slot.nominated_node_name for slot in slots)

    @property
    def progress(self):
        return self.engine.rebalancing.progress("tidy")

    @property
    def results(self):
        return {labels[0]: count for labels, count in values(self.rig, "podwright_rebalance_moves_total").items()}


async def test_a_pod_is_moved_to_its_place_and_then_the_next_one():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        assert (it.asked, it.held) == (["c"], ["n0"])
        assert it.evictor.within_budgets == {"c"}
        raw = it.comes("c2")
        await it.evicted("c")
        assert it.rig.placed_on("c2") == "n0"
        assert it.asked == ["c"]
        it.gone("c")
        it.bound(raw)
        await it.later()
        assert it.asked == ["c", "d"]
        raw = it.comes("d2")
        await it.evicted("d")
        it.gone("d")
        it.bound(raw)
        await it.later()
        assert (it.progress.moved, it.progress.gained, it.progress.ended) == (2, 2, "")
        assert (it.held, len(it.engine.cache.reservations)) == ([], 0)
        assert it.results == {"moved": 2}
        await it.later(600)
        assert it.asked == ["c", "d"]
        assert not it.progress.plan.steps


async def test_labels_that_a_pod_gets_on_its_node_say_nothing_about_the_pod_in_its_place():
    it = Fragmented()
    zone = "topology.kubernetes.io/zone"
    it.runs("c", "n1", labels={"app": "web", zone: "a", "role": "leader"})
    async with deciding(it.rig):
        await it.later()
        assert (it.asked, it.held) == (["c"], ["n0"])
        raw = it.comes("c2")
        await it.evicted("c")
        assert it.rig.placed_on("c2") == "n0"
        it.gone("c")
        raw["metadata"]["labels"] = {"app": "web", zone: "b"}
        it.bound(raw)
        await it.later()
        assert it.results == {"moved": 1}


async def test_events_say_what_moved_where_and_what_for():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        raw = it.comes("c2")
        await it.evicted("c")
        it.gone("c")
        it.bound(raw)
        await it.later()
    (event,) = {each for each in it.evictor.events if "n1" in each.note}
    assert event.reason == "Rebalanced"
    assert event.note == "moved from node n1 to n0 by rebalance policy tidy: empties node n1, gain 1 for 1 move"
    note = "pod default/c moved from node n1 to n0: empties node n1, gain 1 for 1 move"
    assert ("web", "PodRebalanced", note) in it.rig.recorder.events


async def test_other_pods_do_not_take_the_place():
    it = Fragmented()
    it.runs("e", "n0")
    async with deciding(it.rig):
        await it.later()
        assert it.held == ["n0"]
        for name in ("n1", "n2"):
            it.rig.node(name, allocatable={"cpu": "4"}, unschedulable=True)
        it.rig.pod("other", requests={"cpu": "1"})
        it.comes("other-template", cpu="500m")
        await it.later()
        assert not it.rig.placed_on("other")
        assert not it.rig.placed_on("other-template")
        it.comes("c2")
        await it.evicted("c")
        assert it.rig.placed_on("c2") == "n0"


async def test_with_mode_plan_nothing_moves():
    it = Fragmented(mode="Plan")
    async with deciding(it.rig):
        await it.later()
    assert (it.asked, it.held, it.progress.plan.gain) == ([], [], 2)


async def test_a_refused_eviction_gives_the_place_back_and_ends_the_plan():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        await it.evicted("c", deleted=False)
        assert it.held == []
        assert it.progress.ended == "the eviction of pod default/c was refused"
        assert it.asked == ["c"]
        assert it.engine.cache.placement("default/c").pods["default/c"].terminating is False
        await it.later(59)
        assert it.asked == ["c"]
        await it.later(2)
        assert it.asked == ["c", "c"]


async def test_a_controller_that_creates_nothing_is_spared_from_then_on():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        await it.evicted("c")
        it.gone("c")
        await it.later(299)
        assert it.held == ["n0"]
        await it.later(2)
        assert it.held == []
        assert "did not come to its place in time" in it.progress.ended
        await it.later(60)
        assert it.asked == ["c"]
        assert "its controller did not create a moved pod again in time" in str(it.progress.plan.held_back)
    assert it.results == {"timeout": 1}


async def test_a_more_important_pod_takes_the_place_and_ends_the_plan():
    it = Fragmented()
    it.runs("e", "n0")
    async with deciding(it.rig):
        await it.later()
        it.rig.pod("high", requests={"cpu": "1"}, priority=10, spec={"nodeName": ""})
        for name in ("n1", "n2"):
            it.rig.node(name, allocatable={"cpu": "4"}, unschedulable=True)
        await it.later()
        assert it.rig.placed_on("high") == "n0"
        assert it.held == []
        assert it.progress.ended == "others took the place of pod default/c"


async def test_a_pod_of_another_scheduler_in_the_place_ends_the_plan():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        it.runs("foreign", "n0", cpu="2", spec={"schedulerName": "other"})
        await it.later()
        assert it.held == []
        assert it.results == {"lost": 1}


async def test_the_plan_ends_when_the_cluster_has_changed():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        raw = it.comes("c2")
        await it.evicted("c")
        it.gone("c")
        it.runs("new", "n2")
        it.bound(raw)
        await it.later()
    assert it.asked == ["c"]
    assert it.progress.ended == "other pods have come to node n2"
    assert (it.progress.moved, it.progress.gained) == (1, 1)


@pytest.mark.parametrize("mode", ["Stop", "Plan"])
async def test_a_policy_that_is_stopped_holds_nothing_and_begins_nothing(mode):
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        assert it.held == ["n0"]
        it.policy(mode=mode)
        await it.later()
        assert it.held == []
        await it.evicted("c")
        it.gone("c")
        await it.later(1000)
    assert it.asked == ["c"]


@pytest.mark.parametrize("mode", ["Stop", "Plan", "removed"])
async def test_a_policy_that_is_stopped_while_its_step_is_proved_moves_nothing(mode, monkeypatch):
    it = Fragmented()
    elsewhere, asked = it.engine.elsewhere, []

    async def ask(decide):
        asked.append(decide())
        if len(asked) == 2:
            it.engine.rebalancing.remove("tidy") if mode == "removed" else it.policy(mode=mode)
        return asked[-1]

    monkeypatch.setattr(type(elsewhere), "ask", lambda _self, decide: ask(decide))
    async with deciding(it.rig):
        await it.later()
    assert asked[1] == ""
    assert (it.asked, it.held) == ([], [])


async def test_a_policy_that_is_removed_holds_nothing():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        it.engine.rebalancing.remove("tidy")
        await it.later()
    assert (it.held, it.asked) == ([], ["c"])


async def test_a_status_that_comes_back_changes_nothing():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        it.generation -= 1
        it.policy()
        await it.later()
        assert it.held == ["n0"]


async def test_moves_of_an_hour_are_bounded_also_after_a_takeover():
    it = Fragmented(maxMoves=1)
    async with deciding(it.rig):
        await it.later()
        raw = it.comes("c2")
        await it.evicted("c")
        it.gone("c")
        it.bound(raw)
        await it.later()
        await it.later(601)
        assert it.asked == ["c"]
        await it.later(3600)
        assert it.asked == ["c", "d"]
    other = Fragmented()
    other.engine.rebalancing.remove("tidy")
    other.engine.rebalancing.set(rules(mode="Enforce", cooldown="0s", maxMoves=5), Hour(since=900.0, moves=5))
    async with deciding(other.rig):
        await other.later()
    assert other.asked == []


async def test_several_moves_at_once():
    it = Fragmented(maxMovesAtOnce=2)
    it.gone("d")
    it.runs("d", "n1")
    it.runs("z", "n2", cpu="4")
    it.rig.node("n0", allocatable={"cpu": "5"})
    it.runs("e", "n0")
    async with deciding(it.rig):
        await it.later()
        assert sorted(it.asked) == ["c", "d"]
        assert it.held == ["n0", "n0"]
        raws = [it.comes(name) for name in ("c2", "d2")]
        for name in ("c", "d"):
            await it.evicted(name)
            it.gone(name)
        for raw in raws:
            it.bound(raw)
        await it.later()
        assert (it.progress.moved, it.progress.gained, it.held) == (2, 1, [])


async def test_an_older_policy_with_other_goals_refuses_the_second():
    it = Fragmented()
    younger = rules(mode="Enforce", goals=[{"type": "RepairViolations"}])
    import dataclasses

    it.engine.rebalancing.set(dataclasses.replace(younger, name="zweite", uid="z", created=5.0), Hour())
    assert it.engine.rebalancing.conflict("tidy") == ""
    assert "the older policy tidy has other goals" in it.engine.rebalancing.conflict("zweite")
    third = dataclasses.replace(rules(mode="Enforce"), name="third", uid="t", created=6.0)
    it.engine.rebalancing.set(third, Hour())
    assert it.engine.rebalancing.conflict("third") == ""


async def test_an_operator_that_decides_no_more_moves_nothing(monkeypatch):
    """As after it has lost its Lease. Its housekeeping goes on until the process ends."""
    monkeypatch.setattr("podwright.engine.engine.HOUSEKEEPING_SECONDS", 0)
    it = Fragmented()
    housekeeping = asyncio.create_task(it.engine.run_housekeeping())
    async with deciding(it.rig):
        await settle()
        assert (it.asked, it.held) == (["c"], ["n0"])
    it.evictor.answers["c"](False)
    it.rig.now += 1000
    await settle()
    assert (it.asked, it.held) == (["c"], [])
    housekeeping.cancel()


async def test_nothing_is_held_when_the_operator_stops():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        assert it.held == ["n0"]
        await it.engine.rebalancing.stop()
        await asyncio.sleep(0)
        assert it.held == []
