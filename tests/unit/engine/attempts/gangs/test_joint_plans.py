"""Gangs that fit only together: a child process plans them jointly, and what comes of it is told."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import pytest

from podwright.core.framework.program import Answer
from podwright.core.gangs.joint import COUNTED, NO_PROCESS, NOT_PLANNED, PROVED
from podwright.core.gangs.rules import STARVED
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.engine.process.forks import Forks
from podwright.engine.process.solving import solve
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.engine.long_work import FakeChildren
from support.gangs.by_trial import by_trial
from support.gangs.highs import by_highs
from support.objects.builders import in_group, make_pod_group
from support.waiting import PATIENCE_SECONDS, until


def rig_with(solver: Any = by_trial, small: str = "3", *large: str, **options: Any) -> Rig:
    """Two nodes, and a gang of a small member, which is tried first, and of large ones: one that needs the large node,
    if none are given.
    """
    rig = Rig(solve=solver, children=options.pop("children", None) or FakeChildren(), **options)
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.node("large", allocatable={"cpu": "8"})
    rig.node("small", allocatable={"cpu": "3"})
    large = large or ("8",)
    rig.engine.objects(KIND).put(make_pod_group("gang", 1 + len(large)))
    rig.pod("s", requests={"cpu": small}, spec=in_group())
    for number, cpu in enumerate(large):
        rig.pod("l" * (1 + number), requests={"cpu": cpu}, spec=in_group())
    return rig


async def ended(rig: Rig, holds: Any) -> None:
    def has_come() -> bool:
        rig.now += 0.1
        rig.engine.wake()
        return holds()

    async with deciding(rig):
        await until(has_come)
        await settle()


async def test_members_get_the_nodes_of_a_joint_plan():
    rig = rig_with()
    await ended(rig, lambda: len(rig.cluster.bound) == 2)
    assert sorted(rig.cluster.bound) == [("l", "large"), ("s", "small")]
    assert rig.children.started == 1
    assert rig.groups.written[-1] == ("gang", "", "")


async def test_a_gang_that_waits_for_its_victims_is_not_planned_jointly():
    rig = Rig(solve=by_trial, children=FakeChildren())
    rig.evictor.waits = True
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.node("a")
    rig.engine.assigned.put(on_node(ours("low", requests={"cpu": "8"}, priority=0), "a"))
    rig.engine.objects(KIND).put(make_pod_group("gang", 2, priority=10))
    for index in range(2):
        rig.pod(f"m{index}", requests={"cpu": "4"}, priority=10, spec=in_group())
    async with deciding(rig):
        rig.evictor.answers["low"](True)
        rig.engine.cache.nominator.add(parse_pod(ours("first", requests={"cpu": "8"}, priority=100)), "b")
        attempts = rig.engine.queue.get("default/m0").attempts
        rig.now += 20
        rig.node("b")
        await settle()
        assert rig.engine.queue.get("default/m0").attempts > attempts, "there might have been room"
        assert rig.children.started == 0
        rig.now += 20
        rig.engine.assigned.drop("default/low", None)
        await settle()
        assert sorted(rig.cluster.bound) == [("m0", "a"), ("m1", "a")]


@pytest.mark.parametrize(
    ("solver", "evicted"),
    [
        pytest.param(by_highs, 1, id="the fewest"),
        pytest.param(lambda *_: Answer(problem="the solver hung"), 3, id="those found without it"),
    ],
)
async def test_a_child_looks_for_the_fewest_victims(solver, evicted):
    rig = Rig(solve=solver, children=FakeChildren())
    rig.engine.cache.groups.serve(WORKLOAD_API)
    rig.node("a", allocatable={"cpu": "4"})
    rig.node("b", allocatable={"cpu": "5"})
    rig.engine.assigned.put(on_node(ours("large", requests={"cpu": "4"}, priority=0), "a"))
    for index in range(4):
        rig.engine.assigned.put(on_node(ours(f"small{index}", requests={"cpu": "1"}, priority=0), "b"))
    rig.engine.objects(KIND).put(make_pod_group("gang", 1, priority=10))
    rig.pod("m", requests={"cpu": "4"}, priority=10, spec=in_group())
    await ended(rig, lambda: len(rig.evictor.evicted) >= evicted)
    assert (len(rig.evictor.evicted), rig.children.started) == (evicted, 1)


async def test_without_a_solver_members_are_tried_one_after_the_other_only():
    rig = rig_with(None)
    await ended(rig, lambda: rig.groups.written)
    assert rig.cluster.bound == []
    assert rig.children.started == 0
    assert "there is" not in rig.groups.written[-1][2]


@pytest.mark.parametrize(
    ("solver", "cpus", "told"),
    [
        pytest.param(by_trial, "245", PROVED, id="there is no placement, says the solver"),
        pytest.param(by_trial, "39", COUNTED, id="there is no placement, by counting"),
        pytest.param(
            lambda *_: Answer(problem="the solver hung"), "38", f"{NOT_PLANNED}the solver hung", id="it hangs"
        ),
    ],
)
async def test_events_and_status_say_why_there_is_no_placement(solver, cpus, told):
    rig = rig_with(solver, *cpus)
    rig.pod("other")
    await ended(rig, lambda: rig.groups.written and rig.cluster.bound)
    assert told in rig.groups.written[-1][2]
    assert any(told in note for note in rig.recorder.notes("FailedScheduling")), rig.recorder.notes("FailedScheduling")
    assert [name for name, _ in rig.cluster.bound] == ["other"]


async def test_a_gang_whose_solver_was_starved_is_retried_after_its_backoff():
    asked = []

    def starved_at_first(program, seconds):
        asked.append(seconds)
        return Answer(problem="the solver hung", starved=True) if len(asked) == 1 else by_trial(program, seconds)

    rig = rig_with(starved_at_first)
    began = rig.now
    await ended(rig, lambda: len(rig.cluster.bound) == 2)
    assert STARVED in rig.groups.written[0][2]
    assert rig.now < began + 60


async def test_the_loop_does_not_wait_for_a_solver():
    rig = rig_with(lambda *_: pytest.fail("not in the loop"))
    rig.children.refuse = "the system refuses a child process"
    await ended(rig, lambda: rig.groups.written)
    assert NO_PROCESS in rig.groups.written[-1][2]


async def test_a_real_child_has_a_real_process_solve_it():
    pytest.importorskip("highspy")
    rig = rig_with(lambda program, _seconds: solve(program, PATIENCE_SECONDS), children=Forks())
    await ended(rig, lambda: len(rig.cluster.bound) == 2)
    assert sorted(rig.cluster.bound) == [("l", "large"), ("s", "small")]


async def test_a_solver_that_dies_in_a_real_child_is_told_and_ends_nothing_else():
    rig = rig_with(partial(solve, command=(sys.executable, "-c", "import os; os.abort()")), children=Forks())
    rig.pod("other")
    await ended(rig, lambda: rig.groups.written and rig.cluster.bound)
    assert f"{NOT_PLANNED}the solver ended with -6" in rig.groups.written[-1][2]
    assert [name for name, _ in rig.cluster.bound] == ["other"]
