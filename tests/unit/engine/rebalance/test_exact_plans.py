"""Plans with a solver: a child process makes them, and the plan says what became of the exact search."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from podwright.core.rebalance.exact import NO_PROCESS, NOT_SEARCHED, NOTHING_BETTER
from podwright.engine.process.forks import Forks
from podwright.engine.process.solving import solve
from support.engine.kit import Rig, deciding
from support.engine.long_work import FakeChildren
from support.rebalance.fragmented import Fragmented
from support.waiting import PATIENCE_SECONDS, until

DYING = partial(solve, command=(sys.executable, "-c", "import os; os.abort()"))
EATING = partial(solve, command=(sys.executable, "-c", "import sys; sys.exit('MemoryError')"))


async def planned(rig: Rig) -> str:
    it = Fragmented(rig, mode="Plan")
    async with deciding(it.rig):
        await it.later()
        await until(lambda: it.progress)
        assert len(it.progress.plan.steps) == 2
        return it.progress.plan.exact


async def test_a_real_child_has_a_real_process_search():
    pytest.importorskip("highspy")
    rig = Rig(solve=lambda program, _seconds: solve(program, PATIENCE_SECONDS), children=Forks())
    assert await planned(rig) == NOTHING_BETTER


@pytest.mark.parametrize(
    ("solver", "told"),
    [(DYING, "the solver ended with -6"), (EATING, "the solver ended with 1: MemoryError")],
    ids=["it dies", "it has no memory"],
)
async def test_without_an_answer_the_plan_is_that_of_the_local_search(solver, told):
    assert await planned(Rig(solve=solver, children=Forks())) == NOT_SEARCHED + told


async def test_the_loop_does_not_wait_for_a_solver():
    rig = Rig(solve=partial(pytest.fail, "not in the loop"), children=FakeChildren())
    rig.children.refuse = "the system refuses a child process"
    assert await planned(rig) == NO_PROCESS
