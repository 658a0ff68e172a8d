"""The exact search of rebalancing: better than the local one where that is possible, and never worse."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from random import Random

import numpy as np
import pytest

from podwright.core.framework.program import Answer
from podwright.core.rebalance import exact, moves_program, planner
from podwright.core.rebalance.exact import (
    BETTER,
    NO_TIME,
    NOT_IN_TIME,
    NOT_SEARCHED,
    NOTHING_BETTER,
    TOO_LARGE,
    TOO_LATE,
)
from podwright.core.rebalance.planner import LATE_SECONDS, RebalancePlanner
from podwright.engine.process.solving import MISSING, solve
from podwright.simulator.rebalance import view_of
from support.gangs.highs import by_highs
from support.rebalance.kit import ZONE, budget, carry_out, gang, loaded, node, old, plan_of, rules
from support.simulator.kit import copy_of

EMPTY = [{"type": "EmptyNodes"}]
GANGS = [{"type": "MakeRoom", "gangs": ["*"]}]


def room(cpu, count):
    return [{"type": "MakeRoom", "requests": {"cpu": cpu}, "count": count}]


def filled(*sizes, cpu="8"):
    """A node for each list of sizes, with pods that request as many CPUs."""
    nodes = [node(f"n{number}", cpu=cpu) for number in range(len(sizes))]
    return [*nodes, *(old(f"p{n}-{i}", f"n{n}", str(each)) for n, on in enumerate(sizes) for i, each in enumerate(on))]


def three_to_empty(*more):
    """Room for 4 and for 5 CPUs beside what stays. Of nodes with pods of 2, 3 and 4 CPUs, the first fills the wrong
    room, one by one.
    """
    return loaded(
        node("t4", cpu="8"), old("stays4", "t4", "4", owner=""),
        node("t5", cpu="8"), old("stays5", "t5", "3", owner=""),
        *(each for n, cpu in enumerate("243") for each in (node(f"n{n}", cpu=cpu), old(f"p{n}", f"n{n}", cpu))), *more,
    )  # fmt: skip


def worth(plan):
    return plan.gain, -len(plan.moves)


def both(cluster, **spec):
    """The plan without and with the solver, which changes nothing."""
    before = copy_of(cluster)
    found = plan_of(cluster, rules(**spec)), plan_of(cluster, rules(**spec), solve=by_highs)
    assert copy_of(cluster) == before
    return found


def test_more_nodes_become_empty_than_one_by_one():
    cluster = three_to_empty()
    local, best = both(cluster)
    assert (local.gain, best.gain, best.exact) == (2, 3, BETTER)
    assert {move.pod: move.target for move in best.moves} == {
        "default/p0": "t5",
        "default/p1": "t4",
        "default/p2": "t5",
    }
    assert [step.empties for step in best.steps] == [["n0"], ["n1"], ["n2"]], "each can be carried out alone"
    carry_out(cluster, best, rules())
    assert not plan_of(cluster, rules(cooldown="0s"), solve=by_highs).steps


def test_as_many_nodes_become_empty_by_fewer_moves():
    cluster = loaded(*filled([3], [1, 1], [3]))
    assert [worth(each) for each in both(cluster)] == [(2, -3), (2, -2)]


def test_empty_nodes_are_filled_together_if_more_become_empty():
    """Small nodes are full, and one large node is empty."""
    small = [each for i in range(4) for each in (node(f"n{i}"), old(f"p{i}", f"n{i}", "3"))]
    local, best = both(loaded(*small, node("large", cpu="9"), node("middle", cpu="6")))
    assert worth(best) == worth(local) == (2, -3)
    assert best.exact == NOTHING_BETTER


def test_a_gang_gets_room_that_is_not_found_member_by_member():
    cluster = loaded(*filled([2, 1], [1], [3, 2, 3]), *gang("train", 2, "6"))
    local, best = both(cluster, goals=GANGS)
    assert (len(local.steps), worth(best), best.exact) == (0, (2, -1), BETTER)
    carry_out(cluster, best, rules(goals=GANGS))


def test_room_is_made_for_more_pods():
    cluster = loaded(*filled([5, 3], [4, 4], [4], [5, 4], cpu="12"))
    local, best = both(cluster, goals=room("6", 3))
    assert [worth(local), worth(best)] == [(1, -1), (2, -2)]
    carry_out(cluster, best, rules(goals=room("6", 3)))


@pytest.mark.parametrize(
    ("more", "spec", "gain"),
    [
        pytest.param([budget(2)], {}, 2, id="a budget"),
        pytest.param([budget(0)], {}, 0, id="a budget of 0"),
        pytest.param([], {"maxMoves": 2}, 2, id="maxMoves"),
        pytest.param([], {"goals": [{"type": "EmptyNodes", "count": 1}]}, 1, id="count"),
        pytest.param([old("bare", "n2", "0", owner="")], {}, 2, id="a pod that stays"),
        pytest.param(
            [old("other", "n2", "0", spec={"schedulerName": "other"})], {}, 2, id="a pod of another scheduler"
        ),
    ],
)
def test_what_bounds_plans_bounds_the_exact_search(more, spec, gain):
    local, best = both(three_to_empty(*more), **spec)
    assert (local.gain, best.gain) == (gain, gain)


ZONES = [{**room("6", 1)[0], "topologyKey": ZONE, "domains": 2}]


@pytest.mark.parametrize(
    "goals", [EMPTY, GANGS, room("6", 3), ZONES], ids=["EmptyNodes", "gangs", "MakeRoom", "MakeRoom in domains"]
)
def test_a_plan_is_never_worse_and_holds(goals):
    found = []
    for seed in range(25):
        random = Random(seed)
        sizes = [
            [random.choice((1, 2, 3, 4)) for _ in range(random.randint(1, 3))] for _ in range(random.randint(3, 5))
        ]
        objects = filled(*sizes, cpu="10")
        for number, each in enumerate(objects[: len(sizes)] if goals is ZONES else ()):
            each["metadata"]["labels"][ZONE] = "abc"[number % 3]
        cluster = loaded(*objects, *(gang("train", 2, "6") if goals is GANGS else ()))
        local, best = both(cluster, goals=goals)
        assert worth(best) >= worth(local)
        assert (best.exact == BETTER) == (worth(best) > worth(local))
        found.append(best.exact)
        carry_out(cluster, best, rules(goals=goals))
    assert {*found} >= {BETTER, NOTHING_BETTER}, "or this shows nothing"


def lies(program, _seconds):
    """Claims that all variables have their greatest values, so pods are everywhere."""
    return Answer(program.most.astype(np.int64), proved=True)


@pytest.mark.parametrize(
    ("solver", "told"),
    [
        pytest.param(None, "", id="no solver"),
        pytest.param(lambda *_: Answer(problem=MISSING), NOT_SEARCHED + MISSING, id="not installed"),
        pytest.param(lambda *_: Answer(problem="the solver hung for 6 s and was ended"), f"{NOT_SEARCHED}the solver hung for 6 s and was ended", id="it hangs"),
        pytest.param(partial(solve, command=(sys.executable, "-c", "import os; os.abort()")), f"{NOT_SEARCHED}the solver ended with -6", id="it dies"),
        pytest.param(lambda *_: Answer(), NOT_IN_TIME, id="it finds nothing in its time"),
        pytest.param(lambda *_: Answer(proved=True), NOTHING_BETTER, id="there is no solution"),
        pytest.param(lies, NOTHING_BETTER, id="filters refuse what it found"),
    ],
)  # fmt: skip
def test_otherwise_the_plan_is_that_of_the_local_search(solver, told):
    cluster = three_to_empty()
    local, found = plan_of(cluster, rules()), plan_of(cluster, rules(), solve=solver)
    assert (found.steps, found.held_back) == (local.steps, local.held_back)
    assert found.exact == told


@pytest.mark.parametrize(("where", "name"), [(exact, "MOST_PODS"), (moves_program, "MOST_CELLS")])
def test_of_large_clusters_nothing_is_searched_exactly(where, name, monkeypatch):
    monkeypatch.setattr(where, name, 4)
    assert plan_of(three_to_empty(), rules(), solve=partial(pytest.fail, "asked")).exact == TOO_LARGE


def test_a_program_that_is_too_large_is_made_once_for_a_plan(monkeypatch):
    made, program = [], moves_program.RoomForGang
    monkeypatch.setattr(moves_program, "MOST_CELLS", 4)
    monkeypatch.setattr(planner, "RoomForGang", lambda *args: made.append(1) or program(*args))
    gangs = [each for name in ("one", "two") for each in gang(name, 2, "6")]
    plan = plan_of(loaded(*filled([7], *[[1, 1, 1]] * 10), *gangs), rules(goals=GANGS), solve=by_highs)
    assert (len(plan.moves), plan.exact, made) == (4, TOO_LARGE, [1])


def test_a_solver_is_not_asked_if_nothing_can_be_better():
    never = partial(pytest.fail, "asked")
    cluster = loaded(*filled([1], []), old("bare", "n1", owner=""))
    assert plan_of(cluster, rules(), solve=never).gain == 1
    cluster = loaded(*filled([3], [3], [1, 1], cpu="8"), *gang("train", 1, "7"))
    assert len(plan_of(cluster, rules(goals=GANGS), solve=never).moves) == 1


def test_a_solver_is_not_asked_once_the_plan_has_taken_long():
    cluster = three_to_empty()
    view = replace(view_of(cluster), elapsed=lambda: LATE_SECONDS, solve=partial(pytest.fail, "asked"))
    plan = RebalancePlanner(cluster.cache, rules(), view).plan()
    assert (plan.steps, plan.exact) == (plan_of(cluster, rules()).steps, TOO_LATE)


def test_the_time_of_a_solver_is_that_of_a_plan():
    asked = []

    def slow(_program, seconds):
        asked.append(seconds)
        return Answer(seconds=3.0)

    gangs = [each for name in ("one", "two", "three") for each in gang(name, 2, "6")]
    # One of 7 CPUs, so that a move might make room for two members.
    plan = plan_of(loaded(*filled([7], *[[1, 1, 1]] * 10), *gangs), rules(goals=GANGS), solve=slow)
    assert (len(plan.moves), plan.exact) == (6, f"{NOT_IN_TIME}; {NO_TIME}")
    assert asked == [5.0, 2.0]
