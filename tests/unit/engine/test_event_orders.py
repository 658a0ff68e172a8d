"""The two watches and the answer to a Binding come in any order, and watch events come twice: the end is the same."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from podwright.core.framework.interface import ClusterError
from support.engine.kit import Rig, deciding, on_node, settle

STEPS = ("the answer", "leaves the pending ones", "is among the assigned ones")


async def play(rig, raw, order, answer, outcome):
    """Lets the three things happen in this order."""
    for step in order:
        if step == "the answer":
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(None)
        elif step == "leaves the pending ones":
            rig.engine.pending.drop(raw["metadata"]["uid"], raw)
        elif step == "is among the assigned ones":
            rig.engine.assigned.put(on_node(raw, "a"))
        else:
            rig.engine.pending.put(raw)
        await settle()


@pytest.mark.parametrize("lost", [pytest.param(False, id="answered"), pytest.param(True, id="the answer is lost")])
@pytest.mark.parametrize("again", [pytest.param(False, id="each once"), pytest.param(True, id="each twice")])
@pytest.mark.parametrize("order", [pytest.param(order, id=", ".join(order)) for order in itertools.permutations(STEPS)])
async def test_a_bound_pod_is_placed_once_whatever_comes_first(order, again, lost):
    rig = Rig()
    rig.node("a")
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    raw = rig.pod("web")
    rig.cluster.objects["Pod", "web"] = on_node(raw, "a")
    steps = [step for step in order for _ in range(2 if again and step != "the answer" else 1)]
    async with deciding(rig):
        await play(rig, raw, steps, answer, ClusterError("no answer") if lost else None)
    assert rig.cluster.bound == [("web", "a")]
    assert rig.placed_on("web") == "a"
    assert not rig.engine.cache.is_assumed("default/web")
    assert len(rig.engine.queue) == 0
    assert len(rig.engine.binding_cycles) == 0
    assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]


@pytest.mark.parametrize(
    "order", list(itertools.permutations(["the answer", "leaves the pending ones", "comes again"]))
)
async def test_a_pod_deleted_while_it_is_bound_leaves_nothing_behind(order):
    """Its name may be taken by another pod at once; `comes again` is a late event of the pending watch."""
    rig = Rig()
    rig.node("a")
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer, ClusterError("not found", 404)]
    raw = rig.pod("web")
    async with deciding(rig):
        await play(rig, raw, order, answer, ClusterError("not found", 404))
        rig.engine.pending.drop(raw["metadata"]["uid"], raw)
        await settle()
    assert rig.placed_on("web") == ""
    assert len(rig.engine.queue) == 0
    assert len(rig.engine.binding_cycles) == 0
    assert rig.engine.cache.nodes["a"].requested.get("cpu", 0) == 0
