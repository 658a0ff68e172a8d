"""How many of our own functions a plain pod calls on its way through the engine, from intake to confirmation."""

import asyncio

from benchmarks.core.decisions import node, plain

from support.costs.operation_counts import own_calls
from support.engine.kit import Rig, deciding, settle

PODS = 100
MOST_CALLS = 450
"""Python functions for each pod. A plain pod made 550 while each call of a plugin was wrapped in another, and makes 430
on Python 3.13.
"""


def pods(name: str) -> list[dict]:
    """Of one template."""
    return [plain(0, f"{name}-{number}") for number in range(PODS)]


async def pass_through(rig: Rig, raws: list[dict]) -> None:
    for raw in raws:
        rig.engine.pending.put(raw)
    while rig.engine.queue.counts()["active"]:
        await asyncio.sleep(0)
    await settle()
    nodes = dict(rig.cluster.bound)
    for raw in raws:
        rig.confirm(raw, nodes[raw["metadata"]["name"]])
    await settle()


async def test_a_plain_pod_makes_few_calls_from_intake_to_confirmation():
    rig = Rig()
    for index in range(500):
        rig.engine.nodes.put(node(index))
    async with deciding(rig):
        await pass_through(rig, pods("first"))
        with own_calls() as calls:
            await pass_through(rig, pods("counted"))
    assert len(rig.cluster.bound) == 2 * PODS
    assert rig.engine.binding_executor.assumed == 0
    assert calls.total() / PODS <= MOST_CALLS, calls.most_common(20)
