"""Long attempts are cut into slices. They decide on one state of the cluster, and leave nothing behind while they are paused."""

from __future__ import annotations

import asyncio
import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from greenlet import GreenletExit

from podwright.core.framework.contract import call
from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.framework.profile import Point
from podwright.core.objects.pod_group import KIND
from podwright.core.queue.queued_pod import Place, QueuedPod
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.pauses import quiet
from podwright.engine.pauses.quiet import LONGEST_SECONDS, SHORTEST_SECONDS, Quiet
from podwright.engine.pauses.slices import HOLD_SECONDS, RESTARTS, SLICE_SECONDS, STILL_CHANGING, Slices, Undecided
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.engine.sliced import MEMBERS, Clock, Others, a_preemptor, decided, evicted, full_nodes
from support.objects.builders import in_group, make_pod_group


class Filtering(Plugin, FilterPlugin):
    name = "Filtering"

    def filter(self, _state, _pod, _node):
        pass


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.clock = Clock()
    return made


@pytest.fixture
def slices(rig: Rig) -> Slices:
    return Slices(
        rig.engine.cache,
        Quiet(rig.intake, clock=rig.clock),
        clock=rig.clock,
        cpu=lambda: 0.0,
        guard=rig.engine.plugin_guard,
    )


def busy(rig: Rig, count: int = 20) -> None:
    for _ in range(count):
        rig.engine.cache.pauses.point()


def deciding_in(slices: Slices, decide: Any) -> Any:
    """An attempt that makes this decision."""
    return lambda: slices.decide(decide, wanted=lambda: True, in_lane=True)


def waiting(rig: Rig) -> QueuedPod:
    return rig.engine.queue.get(rig.pod("p")["metadata"]["uid"])


def undecided(rig: Rig, slices: Slices, queued: QueuedPod, change: Callable[[int], None]) -> object:
    """The result of a long attempt in the lane. `change` is called at each pause, with its number."""
    results: list[object] = []

    def attempt() -> None:
        results.append(slices.decide(lambda: busy(rig, 10_000), wanted=lambda: True, in_lane=True, about=(queued,)))

    ended, turn = slices.start(attempt), 0
    while not ended:
        turn += 1
        change(turn)
        ended = slices.resume()
    return results[0]


class TestOneAttempt:
    def test_it_runs_to_its_end_with_pauses(self, rig, slices):
        done = []
        ended = slices.start(deciding_in(slices, lambda: (busy(rig), done.append(True))))
        assert not ended
        turns = 0
        while not slices.resume():
            turns += 1
        assert turns > 2
        assert done == [True]

    def test_it_pauses_rarely_where_much_would_have_to_be_done_again(self, rig, slices):
        def pauses_at(point: Callable[[], None]) -> int:
            def attempt() -> None:
                for _ in range(60):
                    point()

            pauses, ended = 0, slices.start(deciding_in(slices, attempt))
            while not ended:
                ended = slices.resume()
                pauses += 1
            return pauses

        points = rig.engine.cache.pauses
        assert pauses_at(points.point_in_plugin) > 3 * pauses_at(points.rare_point_in_plugin) > 0
        assert not points.rarely

    def test_a_short_one_ends_at_once(self, rig, slices):
        assert slices.start(deciding_in(slices, lambda: busy(rig, 1)))

    def test_only_decisions_are_cut(self, rig, slices):
        assert slices.start(lambda: busy(rig))

    def test_others_run_whole_while_it_is_paused(self, rig, slices):
        assert not slices.start(deciding_in(slices, lambda: busy(rig)))
        busy(rig)
        assert slices.decide(lambda: (busy(rig), "decided")[-1], wanted=lambda: True, in_lane=False) == "decided"

    def test_while_it_is_paused_its_transaction_is_rolled_back(self, rig, slices):
        cache = rig.engine.cache
        rig.node("n")
        pod = rig.engine.queue.get(rig.pod("p")["metadata"]["uid"]).pod
        seen = []

        def attempt() -> None:
            with CacheTransaction(cache) as transaction:
                transaction.assume(pod, "n")
                busy(rig)
                seen.append(cache.placement(pod.uid) is not None)

        ended = slices.start(deciding_in(slices, attempt))
        while not ended:
            assert cache.placement(pod.uid) is None
            ended = slices.resume()
        assert seen == [True]
        assert cache.placement(pod.uid) is None

    def test_it_goes_on_however_long_it_takes_to_suspend_it(self, rig, slices):
        """Each slice is at least as long as that."""

        def attempt() -> None:
            with CacheTransaction(rig.engine.cache) as transaction:
                transaction.on_rollback(lambda: rig.clock.take(1.0), lambda: rig.clock.take(1.0))
                busy(rig, 100)

        ended, pauses = slices.start(deciding_in(slices, attempt)), 0
        while not ended:
            ended = slices.resume()
            pauses += 1
        assert pauses == 1

    @pytest.mark.parametrize("seconds", [0.02, 0.03, 0.04], ids="{} s each way".format)
    def test_a_slice_holds_the_loop_for_a_tenth_of_a_second_with_its_transactions(self, rig, slices, seconds):
        readings = 6 * SLICE_SECONDS / 3

        def attempt() -> None:
            with CacheTransaction(rig.engine.cache) as transaction:
                transaction.on_rollback(lambda: rig.clock.take(seconds), lambda: rig.clock.take(seconds))
                busy(rig, 200)

        ended, held = slices.start(deciding_in(slices, attempt)), []
        while not ended:
            before = rig.clock.now
            ended = slices.resume()
            held.append(rig.clock.now - before)
        assert len(held) > 5
        assert max(held) <= max(HOLD_SECONDS, 3 * seconds) + readings

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda rig: rig.node("new"), id="a node"),
            pytest.param(lambda rig: rig.engine.assigned.put(on_node(ours("other"), "n")), id="a placed pod"),
            pytest.param(
                lambda rig: rig.engine.objects("Service").put({"metadata": {"name": "s"}}), id="another object"
            ),
            pytest.param(lambda rig: rig.pod("x", status={"nominatedNodeName": "n"}), id="a nomination"),
            pytest.param(lambda rig: rig.pod("x", spec=in_group()), id="a member of a group"),
            pytest.param(lambda rig: rig.engine.compact(), id="a compaction"),
        ],
    )
    def test_it_starts_anew_after_a_change_of(self, rig, slices, change):
        rig.node("n")
        starts = []

        def attempt() -> None:
            slices.decide(lambda: (starts.append(1), busy(rig)), wanted=lambda: True, in_lane=False)

        assert not slices.start(attempt)
        change(rig)
        slices.resume()
        assert len(starts) == 2

    def test_in_the_lane_it_gets_a_quiet_time_after_three_restarts(self, rig, slices):
        starts, results = [], []

        def attempt() -> None:
            results.append(
                slices.decide(lambda: (starts.append(1), busy(rig), "decided")[-1], wanted=lambda: True, in_lane=True)
            )

        ended = slices.start(attempt)
        pauses = 0
        while not ended:
            pauses += 1
            if not rig.intake.held:
                rig.node(f"n{pauses}")
            ended = slices.resume()
        assert len(starts) == RESTARTS + 1
        assert pauses > RESTARTS + 1
        assert results == ["decided"]
        assert rig.intake.times == 1
        assert not rig.intake.held

    def test_it_fails_if_something_changes_even_then(self, rig, slices):
        queued = waiting(rig)
        assert undecided(rig, slices, queued, lambda turn: rig.node(f"n{turn}")) is Undecided.STILL_CHANGING
        assert queued.undecided == 1
        assert rig.intake.times == 1
        assert not rig.intake.held

    def test_the_quiet_time_is_bounded_and_doubles_with_each_attempt_that_failed(self, rig, slices):
        """A cluster that changes whenever nothing is held back."""
        queued, seconds = waiting(rig), []

        def change(_turn: int) -> None:
            if not rig.intake.held:
                seconds.append(rig.clock.now)
                rig.node("n", labels={"turn": str(len(seconds))})

        for _ in range(5):
            undecided(rig, slices, queued, change)
        lasted = [later - sooner for sooner, later in itertools.pairwise(seconds) if later - sooner > 0.5]
        assert lasted == [pytest.approx(expected, abs=0.3) for expected in (1, 2, 4, 8, 8)]
        assert (SHORTEST_SECONDS, LONGEST_SECONDS) == (1.0, 8.0)

    def test_after_a_decision_the_quiet_time_is_short_again(self, rig, slices):
        queued = waiting(rig)
        queued.undecided = 3
        slices.start(lambda: slices.decide(lambda: None, wanted=lambda: True, in_lane=True, about=(queued,)))
        assert queued.undecided == 0

    def test_a_quiet_attempt_that_is_abandoned_ends_the_quiet_time(self, rig, slices):
        ended, turns = slices.start(deciding_in(slices, lambda: busy(rig, 1000))), 0
        while not ended and not rig.intake.held:
            turns += 1
            rig.node(f"n{turns}")
            ended = slices.resume()
        assert rig.intake.held
        slices.abandon()
        assert not rig.intake.held

    @pytest.mark.parametrize("again", [True, False], ids=["too many restarts", "no longer needed"])
    def test_outside_the_lane_there_is_no_decision_after(self, rig, slices, again):
        results = []
        ended = slices.start(
            lambda: results.append(slices.decide(lambda: busy(rig), wanted=lambda: again, in_lane=not again))
        )
        number = 0
        while not ended:
            number += 1
            rig.node(f"n{number}")
            ended = slices.resume()
        assert results == [Undecided.NOT_NOW]

    def test_an_abandoned_one_leaves_nothing_behind(self, rig, slices):
        rig.node("n")
        cache = rig.engine.cache
        pod = rig.engine.queue.get(rig.pod("p")["metadata"]["uid"]).pod

        def attempt() -> None:
            with CacheTransaction(cache) as transaction:
                transaction.assume(pod, "n")
                busy(rig)

        assert not slices.start(deciding_in(slices, attempt))
        slices.abandon()
        assert cache.placement(pod.uid) is None
        assert slices.start(lambda: None)

    def test_a_worker_keeps_no_cache_in_memory(self, rig):
        cache = Cache()
        slices = Slices(
            cache, Quiet(rig.intake, clock=rig.clock), clock=rig.clock, cpu=lambda: 0.0, guard=rig.engine.plugin_guard
        )
        assert slices.start(lambda: None)
        known = weakref.ref(cache)
        del slices, cache
        gc.collect()
        assert known() is None

    @pytest.mark.parametrize("ends", ["it starts anew", "it is abandoned"])
    def test_no_guard_around_plugins_catches_the_end_of_an_attempt(self, rig, slices, ends):
        caught = []

        def attempt() -> None:
            try:
                call(Filtering(None, None), Point.FILTER, busy, rig)
            except PluginError as error:
                caught.append(error)

        ended = slices.start(deciding_in(slices, attempt))
        assert not ended
        number = 0
        while not ended and ends == "it starts anew":
            number += 1
            rig.node(f"n{number}")
            ended = slices.resume()
        slices.abandon()
        assert caught == []

    def test_a_plugin_that_ends_its_greenlet_ends_its_call_only(self, rig, slices):
        caught = []

        def quits() -> None:
            raise GreenletExit

        def attempt() -> None:
            try:
                call(Filtering(None, None), Point.FILTER, quits)
            except PluginError as error:
                caught.append(error.problem)

        assert slices.start(deciding_in(slices, attempt))
        assert caught == ["GreenletExit: "]


class TestTheEngine:
    async def test_other_tasks_run_while_a_gang_is_planned(self, rig):
        full_nodes(rig)
        others = await decided(rig)
        assert others.turns > 5
        assert evicted(rig) == {f"low{i}" for i in range(MEMBERS)}

    async def test_a_decision_is_made_on_the_cluster_as_it_is_then(self, rig):
        full_nodes(rig)

        def empty(turn: int) -> None:
            if turn == 3:
                for i in range(MEMBERS):
                    rig.engine.assigned.drop(f"default/low{i}", None)

        await decided(rig, empty)
        assert not rig.evictor.evicted
        assert {pod for pod, _ in rig.cluster.bound} == {f"m{i}" for i in range(MEMBERS)}

    async def test_a_gang_is_decided_while_the_watches_bring_changes_all_the_time(self, rig, monkeypatch):
        monkeypatch.setattr(quiet, "SHORTEST_SECONDS", LONGEST_SECONDS)
        full_nodes(rig)

        def change(turn: int) -> None:
            if not rig.intake.held:
                rig.node("n0", labels={"turn": str(turn)})

        others = await decided(rig, change)
        assert others.turns > RESTARTS
        assert evicted(rig) == {f"low{i}" for i in range(MEMBERS)}

    async def test_other_tasks_run_and_ordinary_pods_wait_in_a_quiet_time(self, rig):
        full_nodes(rig)
        rig.node("empty", labels={"for": "others"})
        bound: list[int] = []

        def change(turn: int) -> None:
            if not rig.intake.held:
                rig.node("n0", labels={"turn": str(turn)})
                return
            if not bound:
                rig.pod("ordinary", spec={"nodeSelector": {"for": "others"}})
            bound.append(len(rig.cluster.bound))

        await decided(rig, change)
        assert len(bound) > 3
        assert not any(bound)
        assert rig.cluster.bound == [("ordinary", "empty")]

    async def test_a_gang_that_cannot_be_decided_fails_with_an_event_and_a_longer_quiet_time(self, rig):
        """Something else than the watches changes the cluster all the time."""
        full_nodes(rig)
        others = await decided(rig, lambda turn: rig.node("n0", labels={"turn": str(turn)}))
        assert others.turns > 2 * RESTARTS
        assert not rig.evictor.evicted
        assert rig.recorder.notes("FailedScheduling")[0] == STILL_CHANGING
        member = rig.engine.queue.get("default/m0")
        assert (member.undecided, member.costly, member.place) == (1, True, Place.BACKOFF)
        assert ("gang", "SchedulerError", STILL_CHANGING) in rig.groups.written

    async def test_a_pod_that_cannot_be_decided_fails_with_an_event(self, rig):
        a_preemptor(rig)
        await decided(rig, lambda turn: rig.node("n0", labels={"turn": str(turn)}))
        assert not rig.evictor.evicted
        assert rig.recorder.notes("FailedScheduling") == [STILL_CHANGING]

    async def test_a_member_that_is_deleted_meanwhile_is_not_scheduled(self, rig):
        full_nodes(rig)

        def leave(turn: int) -> None:
            if turn == 3:
                rig.engine.pending.drop("default/m0", None)

        task = asyncio.create_task(Others(rig, leave).run())
        async with deciding(rig):
            await asyncio.wait((task,), timeout=5)
            await settle()
        assert not rig.evictor.evicted
        assert rig.engine.queue.get("default/m0") is None

    async def test_the_end_of_the_loop_leaves_no_half_attempt(self, rig):
        full_nodes(rig)
        before = {name: list(info.pods) for name, info in rig.engine.cache.nodes.items()}
        task = asyncio.create_task(rig.engine.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert {name: list(info.pods) for name, info in rig.engine.cache.nodes.items()} == before
        assert not rig.evictor.evicted

    async def test_ordinary_pods_are_decided_while_one_in_the_lane_is_paused(self, rig):
        full_nodes(rig)
        rig.node("empty", labels={"for": "others"})
        gang = [rig.engine.queue.get(f"default/m{i}") for i in range(MEMBERS)]
        for queued in gang:
            queued.slow = True
            rig.engine.queue.update(queued.pod)

        def create(turn: int) -> None:
            if turn == 8:
                rig.pod("ordinary", spec={"nodeSelector": {"for": "others"}})

        others = await decided(rig, create)
        assert others.turns > 8
        assert rig.cluster.bound == [("ordinary", "empty")]
        assert not others.evicted_meanwhile

    async def test_ordinary_pods_do_not_wait_behind_another_gang_while_one_in_the_lane_is_paused(self, rig):
        full_nodes(rig)
        rig.node("empty", labels={"for": "others"})
        for i in range(MEMBERS):
            queued = rig.engine.queue.get(f"default/m{i}")
            queued.slow = True
            rig.engine.queue.update(queued.pod)
        rig.engine.objects(KIND).put(make_pod_group("small", 1))
        elsewhere = {"nodeSelector": {"for": "others"}}

        def create(turn: int) -> None:
            if turn == 8:
                rig.pod("member", priority=20, spec={**elsewhere, **in_group("small")})
                for number in range(60):
                    rig.pod(f"ordinary-{number}", spec=elsewhere)

        others = await decided(rig, create)
        assert not others.evicted_meanwhile
        async with deciding(rig):
            await settle()
        bound = [name for name, _ in rig.cluster.bound]
        assert bound[0] == "ordinary-0"
        assert bound[-1] == "ordinary-59", "once the attempt has ended, the gang goes before pods of lower priority"
        assert "member" in bound

    async def test_other_tasks_run_while_many_victims_are_evicted(self, rig):
        full_nodes(rig)
        evictions: list[int] = []
        async with deciding(rig), asyncio.timeout(20):
            while len(rig.evictor.evicted) < MEMBERS:
                await asyncio.sleep(0)
                evictions.append(len(rig.evictor.evicted))
        assert len(set(evictions)) > 3
        assert evicted(rig) == {f"low{i}" for i in range(MEMBERS)}

    async def test_the_end_of_the_loop_leaves_no_victim_behind(self, rig):
        full_nodes(rig)
        task = asyncio.create_task(rig.engine.run())
        async with asyncio.timeout(20):
            while not rig.evictor.evicted:
                await asyncio.sleep(0)
        assert len(rig.evictor.evicted) < MEMBERS
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert evicted(rig) == {f"low{i}" for i in range(MEMBERS)}
