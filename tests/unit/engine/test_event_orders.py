"""The result does not depend on the order of the two watches and the Binding's response, nor on repeated watch
events.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest

from podwright.core.framework.interface import ClusterError
from support.engine.kit import Rig, deciding, on_node, settle

STEPS = ("response", "pending pod removed", "assigned pod added")


async def play(rig, raw, order, answer, outcome):
    """Makes the steps happen in this order."""
    for step in order:
        if step == "response":
            if isinstance(outcome, Exception):
                answer.set_exception(outcome)
            else:
                answer.set_result(None)
        elif step == "pending pod removed":
            rig.engine.pending.drop(raw["metadata"]["uid"], raw)
        elif step == "assigned pod added":
            rig.engine.assigned.put(on_node(raw, "a"))
        else:
            rig.engine.pending.put(raw)
        await settle()


@pytest.mark.parametrize("lost", [pytest.param(False, id="response received"), pytest.param(True, id="response lost")])
@pytest.mark.parametrize(
    "twice", [pytest.param(False, id="each event once"), pytest.param(True, id="each event twice")]
)
@pytest.mark.parametrize("order", [pytest.param(order, id=", ".join(order)) for order in itertools.permutations(STEPS)])
async def test_a_bound_pod_is_placed_once_in_any_order_of_events(order, twice, lost):
    rig = Rig()
    rig.node("a")
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    raw = rig.pod("web")
    rig.cluster.objects["Pod", "web"] = on_node(raw, "a")
    steps = [step for step in order for _ in range(2 if twice and step != "response" else 1)]
    async with deciding(rig):
        await play(rig, raw, steps, answer, ClusterError("no answer") if lost else None)
    assert rig.cluster.bound == [("web", "a")]
    assert rig.placed_on("web") == "a"
    assert not rig.engine.cache.is_assumed("default/web")
    assert len(rig.engine.queue) == 0
    assert len(rig.engine.binding_cycles) == 0
    assert rig.recorder.notes("Scheduled") == ["Successfully assigned default/web to a"]


@pytest.mark.parametrize(
    "order", list(itertools.permutations(["response", "pending pod removed", "pending pod added"]))
)
async def test_a_pod_deleted_during_its_binding_leaves_nothing_behind(order):
    """`pending pod added` is a late event of the watch of pending pods."""
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
