"""Plans that are carried out: places are held, pods evicted, and the places given back when something comes between."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from podwright.core.objects.pod_group import COMPOSITE_API, COMPOSITE_KIND, KIND
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.engine.rebalance import moves
from podwright.engine.rebalance.recent import RecentMoves
from support.engine.kit import FakeEvictor, deciding, settle, values
from support.objects.builders import make_pod_group
from support.rebalance.fragmented import READY, Fragmented
from support.rebalance.kit import budget, rules


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(moves, "POLL_SECONDS", 0.0)


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
        assert (len(it.progress.moved), it.progress.gained, it.progress.ended) == (2, 2, "")
        assert (it.held, len(it.engine.cache.reservations)) == ([], 0)
        assert it.results == {"moved": 2}
        await it.later(600)
        assert it.asked == ["c", "d"]
        assert not it.progress.plan.steps


async def test_only_the_approved_plan_is_carried_out_and_only_as_it_was_read():
    it = Fragmented(mode="Plan")
    async with deciding(it.rig):
        await it.later()
        read = it.progress.plan.hash
        it.policy(approvedPlan="0123456789abcdef")
        await it.later()
        assert (it.asked, it.progress.ended) == ([], "it is not the approved plan")
        it.runs("new", "n1")
        it.policy(approvedPlan=read)
        await it.later()
        assert (it.asked, it.progress.ended) == ([], "it is not the approved plan"), "the cluster has changed"
        it.gone("new")
        await it.later(600)
        assert (it.asked, it.progress.plan.hash) == (["c"], read)
        await it.moves("c", "c2")
        await it.moves("d", "d2")
        assert (len(it.progress.moved), it.progress.ended) == (2, "")
        it.runs("e", "n1")
        it.runs("f", "n2")
        await it.later(600)
        assert (it.progress.plan.hash not in ("", read), it.progress.ended) == (True, "it is not the approved plan")
        assert it.asked == ["c", "d"]


@pytest.mark.parametrize(
    "goals",
    [
        [{"type": "EmptyNodes", "count": 9}],
        [{"type": "EmptyNodes", "count": 3}, {"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 3}],
    ],
)
async def test_a_plan_for_goals_that_are_out_of_reach_is_shown_and_moves_nothing(goals):
    it = Fragmented(goals=goals)
    async with deciding(it.rig):
        await it.later()
        await it.later(601)
        assert len(it.progress.plan.moves) == 2
        assert (it.asked, it.held, it.progress.ended) == ([], [], "its goals ask for more than there can be")


async def test_room_is_made_as_far_as_there_are_moves_for_it():
    """The pod that stays may end."""
    it = Fragmented(goals=[{"type": "MakeRoom", "requests": {"cpu": "4"}, "count": 3}])
    async with deciding(it.rig):
        await it.later()
        assert "no moves make room" in str(it.progress.plan.held_back)
        assert it.asked == ["c"]


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
        assert it.asked == ["c", "d"]
        assert "was refused an eviction" in str(it.progress.plan.held_back)
        await it.evicted("d", deleted=False)
        await it.later(600)
        assert it.asked == ["c", "d", "c"]


async def test_an_eviction_is_wanted_while_its_place_is_held():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        assert it.evictor.wanted["c"]()
        it.policy(mode="Stop")
        await it.later()
        assert not it.evictor.wanted["c"]()


async def test_a_pod_whose_place_cannot_be_written_does_not_keep_others_from_moving():
    """As one with more labels than a Reservation may have."""
    it = Fragmented()

    async def keep(reservation):
        return "too many labels" if reservation.name == "rebalance-default/c" else ""

    it.engine.rebalancing.moves.keep = keep
    async with deciding(it.rig):
        await it.later()
        assert (it.asked, it.held) == ([], [])
        assert "cannot be written: too many labels" in it.progress.ended
        await it.later(61)
        assert it.asked == ["d"]


@pytest.mark.parametrize("fails", ["keep", "proof", "room"])
async def test_whatever_fails_before_an_eviction_leaves_no_place(fails, monkeypatch):
    goals = [{"type": "MakeRoom", "gangs": ["*"]}] if fails == "room" else [{"type": "EmptyNodes"}]
    it, prove = Fragmented(goals=goals), RebalancePlanner.prove

    async def keep(_reservation):
        held.append(len(it.held))
        if fails == "proof":
            return ""
        raise RuntimeError("unexpected")

    def proves(planner, step, *, only=None, **options):
        if only is not None:
            raise RuntimeError("unexpected")
        return prove(planner, step, only=only, **options)

    held, it.engine.rebalancing.moves.keep = [], keep
    monkeypatch.setattr(RebalancePlanner, "prove", proves)
    async with deciding(it.rig):
        if fails == "room":
            it.runs("e", "n1")
            it.gang("train", 2, "3")
        await it.later(5)
        assert held
        assert (it.asked, it.engine.rebalancing.moves.held()) == ([], {})


async def test_a_window_that_ends_while_the_place_is_written_lets_no_move_begin():
    it = Fragmented(windows=[{"start": "00:16", "duration": "2m"}])

    async def keep(_reservation):
        it.rig.now += 120
        return ""

    it.engine.rebalancing.moves.keep = keep
    async with deciding(it.rig):
        await it.later()
        assert (it.asked, it.held) == ([], [])
        assert it.progress.ended == "the time window of the policy is over"


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


@pytest.mark.parametrize(("grace", "longer"), [(900, 900), (1 << 30, 3600), (-5, 0), ("x", 0), (None, 0)])
async def test_a_place_is_held_for_as_much_longer_as_the_pod_has_to_end(grace, longer):
    it = Fragmented()
    it.runs("c", "n1", spec={"terminationGracePeriodSeconds": grace})
    async with deciding(it.rig):
        await it.later()
        await it.evicted("c")
        await it.later(longer + 299)
        assert it.held == ["n0"]
        it.gone("c")
        await it.later(2)
        assert (it.held, it.results) == ([], {"timeout": 1})


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
        assert it.progress.ended == "others took the place of pod default/c, or its node takes no pods any more"


async def test_a_pod_of_another_scheduler_in_the_place_ends_the_plan():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        it.runs("foreign", "n0", cpu="2", spec={"schedulerName": "other"})
        await it.later()
        assert it.held == []
        assert it.results == {"lost": 1}


@pytest.mark.parametrize(
    "change", [{"unschedulable": True}, {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}]
)
async def test_a_place_on_a_node_that_takes_no_pods_any_more_ends_the_plan_and_spares_no_controller(change):
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        await it.evicted("c")
        it.gone("c")
        it.rig.node("n0", allocatable={"cpu": "4"}, **change)
        await it.later()
        assert (it.held, it.results) == ([], {"lost": 1})
        assert not it.engine.rebalancing.moves.spared()


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
    assert (len(it.progress.moved), it.progress.gained) == (1, 1)


async def test_a_policy_that_is_stopped_holds_nothing_and_begins_nothing():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        assert it.held == ["n0"]
        it.policy(mode="Stop")
        await it.later()
        assert it.held == []
        await it.evicted("c")
        it.gone("c")
        await it.later(1000)
    assert it.asked == ["c"]


@pytest.mark.parametrize("spec", [{"mode": "Plan"}, {"match": {"podSelector": {"matchLabels": {"app": "db"}}}}])
async def test_other_rules_let_a_move_end_whose_pod_was_evicted_and_begin_no_other_of_the_plan(spec):
    it = two_to_move(maxMovesAtOnce=2)
    async with deciding(it.rig):
        await it.later()
        await it.evicted("c")
        it.gone("c")
        (place,) = it.held
        it.policy(**spec)
        await it.later(200)
        assert it.held == [place]
        raw = it.comes("c2")
        await it.later()
        assert it.rig.placed_on("c2") == place
        it.bound(raw)
        await it.later()
        assert (it.asked, it.held, it.results) == (["c"], [], {"moved": 1})


async def test_other_rules_give_the_place_back_of_a_pod_that_was_not_evicted():
    """Its eviction is not tried again: the pod may not be one of the policy's any more."""
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        it.policy(mode="Plan")
        assert not it.evictor.wanted["c"]()
        await it.evicted("c", deleted=False)
        assert (it.held, it.results) == ([], {"stopped": 1})
        it.policy()
        await it.later()
        assert it.asked == ["c", "c"], "no eviction was refused"


async def test_other_rules_in_the_last_move_of_a_step_let_the_step_end():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        it.policy(interval="60s", maxMoves=1)
        await it.moves("c", "c2")
        assert values(it.rig, "podwright_rebalance_gain_total") == {(): 1}
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
        await it.later(2400)
        assert it.asked == ["c"]
        await it.later(1200)
        assert it.asked == ["c", "d"]
    other = Fragmented()
    other.engine.rebalancing.remove("tidy")
    other.engine.rebalancing.set(rules(mode="Enforce", cooldown="0s", maxMoves=5), RecentMoves([(900.0, 5)]))
    async with deciding(other.rig):
        await other.later()
    assert other.asked == []


def two_to_move(**spec):
    """c and d are on n1, n0 and n3 have room for one pod each, and n2 is full."""
    it = Fragmented(**spec)
    it.gone("d")
    it.runs("d", "n1")
    it.runs("z", "n2", cpu="4")
    it.runs("e", "n0")
    it.rig.node("n3", allocatable={"cpu": "4"})
    it.runs("y", "n3", cpu="3")
    return it


async def test_several_moves_at_once():
    it = two_to_move(maxMovesAtOnce=2, maxMovesAtOncePerOwner=2)
    async with deciding(it.rig):
        await it.later()
        assert sorted(it.asked) == ["c", "d"]
        assert it.held == ["n0", "n3"]
        raws = [it.comes(name) for name in ("c2", "d2")]
        for name in ("c", "d"):
            await it.evicted(name)
            it.gone(name)
        for raw in raws:
            it.bound(raw)
        await it.later()
        assert (len(it.progress.moved), it.progress.gained, it.held) == (2, 1, [])


async def test_a_move_waits_whose_place_is_written_while_a_pod_of_its_controller_comes():
    it, begun = two_to_move(maxMovesAtOnce=2, maxMovesAtOncePerOwner=2), []

    async def keep(reservation):
        begun.append(reservation.replaced.uid)
        if len(begun) == 2:
            comes.append(it.comes("c2"))
        return ""

    comes, it.engine.rebalancing.moves.keep = [], keep
    async with deciding(it.rig):
        await it.later()
        assert (it.asked, it.progress.ended) == (["c"], "")
        await it.evicted("c")
        it.gone("c")
        it.bound(comes[0])
        await it.later(2)
        assert it.asked == ["c", "d"]


async def test_a_pod_of_the_same_controller_is_taken_for_one_move_only():
    it = Fragmented(maxMovesAtOnce=2, maxMovesAtOncePerOwner=2)
    it.gone("d")
    it.runs("d", "n1")
    it.runs("z", "n2", cpu="4")
    it.rig.node("n0", allocatable={"cpu": "5"})
    it.runs("e", "n0")
    async with deciding(it.rig):
        await it.later()
        assert it.asked == ["c"], "both go to n0"
        await it.moves("c", "c2")
        assert it.results == {"moved": 1}
        await it.moves("d", "d2")
        assert (it.rig.placed_on("d2"), it.results) == ("n0", {"moved": 2})


async def test_an_older_policy_with_other_goals_refuses_the_second():
    it = Fragmented()
    younger = rules(mode="Enforce", goals=[{"type": "RepairViolations"}])
    it.engine.rebalancing.set(dataclasses.replace(younger, name="zweite", uid="z", created=5.0), RecentMoves())
    assert it.engine.rebalancing.conflict("tidy") == ""
    assert "the older policy tidy has other goals" in it.engine.rebalancing.conflict("zweite")
    third = dataclasses.replace(rules(mode="Enforce"), name="third", uid="t", created=6.0)
    it.engine.rebalancing.set(third, RecentMoves())
    assert it.engine.rebalancing.conflict("third") == ""


async def test_an_operator_that_decides_no_more_moves_nothing(monkeypatch):
    """As after it has lost its Lease. Its housekeeping goes on until the process ends."""
    monkeypatch.setattr("podwright.engine.engine.HOUSEKEEPING_SECONDS", 0)
    monkeypatch.setattr("podwright.engine.engine.RECLAIM_EVERY", 1000)  # full collections of all tests' objects
    it = Fragmented()
    housekeeping = asyncio.create_task(it.engine.run_housekeeping())
    async with deciding(it.rig):
        await settle()
        assert (it.asked, it.held) == (["c"], ["n0"])
    it.evictor.answers["c"](False)
    it.rig.now += 1000
    await settle()
    assert it.asked == ["c"]
    housekeeping.cancel()


async def test_a_move_has_ended_when_the_new_pod_is_ready_as_the_old_one_was():
    it = Fragmented()
    it.runs("c", "n1", status=READY)
    async with deciding(it.rig):
        await it.later()
        await it.moves("c", "c2")
        await it.later(200)
        assert (it.asked, it.results) == (["c"], {})
        it.runs("c2", "n0", status=READY)
        await it.later()
        assert (it.asked, it.results) == (["c", "d"], {"moved": 1})


async def test_a_controller_whose_new_pod_is_not_ready_is_spared_from_then_on():
    it = Fragmented()
    it.runs("c", "n1", status=READY)
    async with deciding(it.rig):
        await it.later()
        await it.moves("c", "c2")
        await it.later(301)
        assert it.progress.ended == "what ReplicaSet/web created in place of pod default/c was not ready in time"
        await it.later(60)
        assert it.asked == ["c"]
        assert it.results == {"notReady": 1}


@pytest.mark.parametrize(
    ("spec", "began"),
    [
        ({}, ["c"]),
        ({"maxMovesAtOncePerOwner": 2}, ["c", "d"]),
        ({"maxMovesAtOncePerOwner": 2, "maxMovesAtOncePerNode": 1}, ["c"]),
    ],
)
async def test_moves_at_once_are_bounded_for_each_owner_and_node(spec, began):
    it = two_to_move(maxMovesAtOnce=9, **spec)
    async with deciding(it.rig):
        await it.later()
        assert sorted(it.asked) == began


async def test_no_move_begins_outside_the_windows():
    """The clock begins at 00:16:40."""
    it = Fragmented(windows=[{"start": "00:17", "duration": "2m"}])
    async with deciding(it.rig):
        await it.later()
        assert it.progress is None
        await it.later(20)
        assert it.asked == ["c"]
        it.rig.now += 120
        await it.moves("c", "c2")
        assert (it.asked, it.results) == (["c"], {"moved": 1})
        assert it.progress.ended == "the time window of the policy is over"


async def test_a_place_is_written_before_the_pod_is_evicted():
    it = Fragmented()
    written, answers = [], ["", "forbidden"]

    async def keep(reservation):
        written.append(reservation)
        assert len(it.asked) == len(written) - 1
        return answers.pop(0)

    it.engine.rebalancing.moves.keep = keep
    async with deciding(it.rig):
        await it.later()
        assert it.asked == ["c"]
        assert written[0].name == "rebalance-default/c"
        assert [slot.node for slot in written[0].slots] == ["n0"]
        await it.moves("c", "c2")
        assert (it.asked, it.held) == (["c"], [])
        assert it.progress.ended == "the place of pod default/d cannot be written: forbidden"


class TestPlacesOfAnotherProcess:
    @pytest.fixture
    async def place(self):
        """Another process holds a place on n0 for what comes after c."""
        first = Fragmented()
        async with deciding(first.rig):
            await first.later()
            (place,) = first.engine.rebalancing.moves.held().values()
        return place

    async def test_the_pod_goes_to_its_place_and_only_then_others_move(self, place):
        it = Fragmented()
        it.gone("c")
        it.runs("d", "n2", labels={"app": "other"})
        it.engine.reservations.set(dataclasses.replace(place, until=it.rig.now + 300))
        async with deciding(it.rig):
            it.rig.pod("other", requests={"cpu": "2"}, spec={"nodeSelector": {}})
            await it.later()
            assert (it.asked, it.held) == ([], ["n0"])
            raw = it.comes("c2")
            await it.later()
            assert it.rig.placed_on("c2") == "n0"
            it.bound(raw)
            await it.later()
            assert it.results == {"moved": 1}
            assert it.asked == ["d"]

    async def test_the_place_of_a_pod_that_was_not_evicted_is_given_back(self, place):
        it = Fragmented()
        it.engine.reservations.set(dataclasses.replace(place, until=it.rig.now + 300))
        async with deciding(it.rig):
            await it.later(5)
            assert (it.asked, it.held) == ([], ["n0"])
            await it.later(6)
            assert (it.asked, it.held) == (["c"], ["n0"])
            assert not it.results

    async def test_a_place_to_which_nothing_comes_is_given_back(self, place):
        it = Fragmented()
        it.gone("c")
        it.runs("d", "n2", of="db")
        it.engine.reservations.set(dataclasses.replace(place, until=it.rig.now + 300))
        async with deciding(it.rig):
            await it.later(299)
            assert it.held == ["n0"]
            await it.later(2)
            assert it.asked == ["d"]

    async def test_a_controller_that_created_nothing_in_time_is_spared(self, place):
        it = Fragmented()
        it.gone("c")
        it.engine.reservations.set(dataclasses.replace(place, until=it.rig.now + 300))
        async with deciding(it.rig):
            await it.later()
            await it.later(301)
            assert (it.asked, it.held, it.results) == ([], [], {"timeout": 1})
            assert it.engine.rebalancing.moves.spared() == {"uid-web": it.rig.now + 86_400}
        ((name, reason, note),) = it.rig.recorder.events
        assert (name, reason) == ("web", "PodNotRebalanced")
        assert note == (
            "pod default/c was to move to node n0, but what ReplicaSet/web created in place of pod default/c did not "
            "come to its place in time"
        )

    async def test_a_place_whose_node_takes_no_pods_any_more_is_given_back(self, place):
        it = Fragmented(mode="Plan")
        it.gone("c")
        it.engine.reservations.set(dataclasses.replace(place, until=it.rig.now + 300))
        async with deciding(it.rig):
            await it.later()
            it.rig.node("n0", allocatable={"cpu": "4"}, unschedulable=True)
            await it.later()
            assert (it.held, it.results, it.engine.rebalancing.moves.spared()) == ([], {"lost": 1}, {})

    async def test_a_pod_that_is_being_bound_when_the_time_is_over_has_come(self, place):
        it = Fragmented()
        it.gone("c")
        it.engine.reservations.set(dataclasses.replace(place, until=it.rig.now + 300))
        async with deciding(it.rig):
            await it.later()
            raw = it.comes("c2")
            await it.later()
            await it.later(301)
            assert (it.asked, len(it.engine.cache.reservations), it.results) == ([], 0, {})
            it.bound(raw)
            await it.later()
            assert (it.results, it.engine.rebalancing.moves.spared()) == ({"moved": 1}, {})

    @pytest.mark.parametrize("mode", ["Stop", "removed"])
    async def test_no_place_is_held_once_every_policy_is_stopped_or_gone(self, place, mode):
        it = Fragmented(mode="Plan")
        it.gone("c")
        it.engine.reservations.set(dataclasses.replace(place, until=it.rig.now + 300))
        async with deciding(it.rig):
            await it.later()
            assert it.held == ["n0"], "a plan holds on to what was begun"
            it.engine.rebalancing.remove("tidy") if mode == "removed" else it.policy(mode=mode)
            await it.later()
            assert (it.held, it.results) == ([], {})


class TestGangs:
    GANGS = ({"type": "MakeRoom", "gangs": ["*"]},)

    def fragmented(self, **spec):
        """The gang needs 3 CPUs on two nodes, of which two have 3 free: n0 and n1 have 2."""
        it = Fragmented(goals=[*self.GANGS], **spec)
        it.runs("e", "n1")
        return it

    def composite(self):
        """The same. A group needs two parts."""
        it = self.fragmented()
        it.engine.cache.groups.serve(COMPOSITE_API)
        metadata = {"name": "llm", "namespace": "default", "uid": "llm"}
        spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
        it.engine.objects(COMPOSITE_KIND).put({"metadata": metadata, "spec": spec})
        return it

    async def moved_for_parts(self, it):
        """The parts of the group come. Returns the pod that is moved for them."""
        await it.later()
        for part in ("prefill", "decode"):
            it.gang(part, 1, "3", parent="llm")
        await it.later(5)
        (moved,) = it.asked
        return moved

    async def test_each_part_of_a_composite_group_has_its_room_held_and_gets_it(self):
        it = self.composite()
        async with deciding(it.rig):
            moved = await self.moved_for_parts(it)
            held = it.engine.rebalancing.moves.held().values()
            groups = [each.group.rpartition("/")[2] for each in held if each.group]
            assert sorted(groups) == ["decode", "prefill"]
            it.rig.pod("thief", requests={"cpu": "2"})
            await it.moves(moved, "again")
            await it.later(10)
            where = {it.rig.placed_on(f"{part}-0") for part in ("prefill", "decode")}
            assert len(where - {""}) == 2
            assert it.results == {"moved": 1}
            await it.later()
            assert not it.engine.rebalancing.moves.held(), it.progress.ended

    async def test_a_gang_waits_a_plan_makes_its_room_and_the_gang_gets_it(self):
        it = self.fragmented()
        async with deciding(it.rig):
            await it.later()
            assert not it.asked
            pods = it.gang("train", 2, "3")
            await it.later(5)
            assert len(it.asked) == 1
            (moved,) = it.asked
            assert "n2" in it.held
            it.rig.pod("thief", requests={"cpu": "2"})
            it.gang("rival", 2, "3")
            it.engine.activate_all()  # it is tried too early, and backs off
            await it.moves(moved, "again")
            await it.later()
            where = {it.rig.placed_on(f"train-{i}") for i in range(2)}
            assert len(where - {""}) == 2
            for raw in pods:
                it.bound(raw)
            await it.later()
            assert not it.rig.placed_on("rival-0")
            assert not it.rig.placed_on("thief")
            assert it.results == {"moved": 1}
            assert values(it.rig, "podwright_rebalance_gain_total") == {(): 2}
            assert not it.engine.rebalancing.moves.held()

    async def test_a_gang_that_comes_while_nodes_are_emptied_waits_for_a_step_and_not_for_all(self):
        it = Fragmented(goals=[*self.GANGS, {"type": "EmptyNodes"}])
        async with deciding(it.rig):
            await it.later()
            assert [step.empties for step in it.progress.plan.steps] == [["n1"], ["n2"]]
            it.gang("train", 3, "3")
            await it.later(6)
            begun = it.progress.time
            await it.moves("c", "c2")
            assert it.asked == ["c"]
            assert values(it.rig, "podwright_rebalance_plans_total") == {("ended",): 1, ("empty",): 1}
            assert begun < it.progress.time == it.rig.now, "at once"

    async def test_while_a_gang_waits_plans_that_move_nothing_follow_each_other_ever_later(self):
        it = self.fragmented()
        async with deciding(it.rig):
            it.gang("train", 2, "3")
            await it.later(5)
            for count, seconds in enumerate((5, 10, 20), start=1):
                await it.evicted(it.asked[-1], deleted=False)
                assert "was refused" in it.progress.ended
                await it.later(seconds - 1)
                assert len(it.asked) == count
                await it.later(1)
                assert len(it.asked) == count + 1

    async def test_while_a_gang_waits_a_plan_that_ends_after_a_step_is_followed_by_another_at_once(self):
        it = self.fragmented()
        it.rig.node("n3", allocatable={"cpu": "4"})
        for name in ("f", "g"):
            it.runs(name, "n3")
        async with deciding(it.rig):
            for name in ("train", "eval"):
                it.gang(name, 1, "4")
            await it.later(5)
            assert len(it.progress.plan.steps) == 2
            await it.moves(it.asked[0], "again")
            assert len(it.asked) == 2, it.progress
            await it.evicted(it.asked[1], deleted=False)
            assert len(it.asked) == 3

    async def test_room_that_the_gang_does_not_take_is_given_back(self):
        it = self.fragmented()
        async with deciding(it.rig):
            it.gang("train", 2, "3")
            await it.later(5)
            (moved,) = it.asked
            for number in range(2):
                it.engine.pending.drop(f"default/train-{number}", None)
            await it.moves(moved, "again")
            assert "does not wait any more" in it.progress.ended
            assert it.held == []

    async def test_room_of_a_composite_group_whose_parts_are_deleted_is_given_back(self):
        it = self.composite()
        async with deciding(it.rig):
            moved = await self.moved_for_parts(it)
            for part in ("prefill", "decode"):
                it.engine.pending.drop(f"default/{part}-0", None)
                it.engine.objects(KIND).drop(f"default/{part}", None)
            await it.moves(moved, "again")
            assert not it.engine.rebalancing.moves.held(), it.progress.ended

    async def test_room_of_a_group_that_is_created_again_is_given_back(self):
        it = self.fragmented()
        async with deciding(it.rig):
            it.gang("train", 2, "3")
            await it.later(5)
            assert len(it.engine.rebalancing.moves.held()) == 2
            group = make_pod_group("train", 2)
            group["metadata"]["uid"] = "another"
            it.engine.objects(KIND).put(group)
            it.policy(mode="Stop")
            await it.later()
            assert not it.engine.rebalancing.moves.held()

    @pytest.mark.parametrize("grace", [0, 900])
    async def test_room_is_held_for_the_gang_while_the_pod_ends_the_new_one_gets_ready_and_the_gang_starts(self, grace):
        it = self.fragmented()
        for name, on in (("a", "n0"), ("b", "n0"), ("c", "n1"), ("d", "n2"), ("e", "n1")):
            it.runs(name, on, spec={"terminationGracePeriodSeconds": grace})
        async with deciding(it.rig):
            it.gang("train", 2, "3")
            await it.later(5)
            (room,) = [each for each in it.engine.rebalancing.moves.held().values() if each.group]
            assert room.until - it.rig.now == 3 * 300 + grace

    async def test_the_gang_of_another_process_keeps_its_room(self):
        first = self.fragmented()
        async with deciding(first.rig):
            first.gang("train", 2, "3")
            await first.later(5)
            rooms = [each for each in first.engine.rebalancing.moves.held().values() if each.group]
        it = self.fragmented()
        it.gang("train", 2, "3")
        it.engine.reservations.set(dataclasses.replace(rooms[0], until=it.rig.now + 3000))
        it.policy(mode="Plan")
        async with deciding(it.rig):
            await it.later()
            assert len(it.held) == 2
            await it.later(599)
            assert len(it.held) == 2
            await it.later(2)
            assert it.held == []


async def test_places_stay_when_the_operator_stops():
    it = Fragmented()
    async with deciding(it.rig):
        await it.later()
        assert it.held == ["n0"]
        assert it.evictor.wanted["c"]()
        await it.engine.rebalancing.stop()
        assert it.held == ["n0"]
        assert not it.evictor.wanted["c"](), "another process may lead"
        assert not it.results


async def test_while_moves_are_under_way_a_step_that_is_refused_is_proved_again_only_after_a_while(monkeypatch):
    """As a PodDisruptionBudget does until the new pod is ready."""
    proofs = []
    prove, evict = RebalancePlanner.prove, FakeEvictor.evict

    def counted(planner, step, *, only=None, **options):
        proofs.append(only is not None)
        return prove(planner, step, only=only, **options)

    def evicts(evictor, *eviction, **options):
        it.engine.objects("PodDisruptionBudget").put(budget(allowed.pop()))
        evict(evictor, *eviction, **options)

    monkeypatch.setattr(RebalancePlanner, "prove", counted)
    monkeypatch.setattr(FakeEvictor, "evict", evicts)
    it, allowed = two_to_move(maxMovesAtOnce=2, maxMovesAtOncePerOwner=2), [0, 0]
    async with deciding(it.rig):
        await it.later()
        assert it.asked == ["c"]
        assert proofs == [False, True, False]
        await it.later(2)
        assert proofs == [False, True, False, False]
        it.engine.objects("PodDisruptionBudget").put(budget(1))
        await it.later(2)
        assert it.asked == ["c", "d"]
