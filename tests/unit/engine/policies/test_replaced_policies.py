"""A policy's objects are freed as soon as another generation has replaced it: under constant load, no garbage
collection looks for cycles among old objects.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from podwright.core.framework.framework import Framework
from podwright.core.queue.scheduling_queue import FLUSH_INTERVAL
from support.engine.kit import Rig, deciding, settle
from support.objects.builders import make_policy

RULES = {
    "filters": [{"name": "named", "expression": "node.name != ''"}],
    "scores": [{"name": "same", "expression": "1"}],
}


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"strategy": {"type": "MostAllocated"}}, id="a strategy"),
        pytest.param({"strategy": {"type": "Random"}}, id="Random"),
        pytest.param({"rules": RULES}, id="rules"),
        pytest.param({"devices": {"scoring": "BestFit"}}, id="devices"),
        pytest.param(
            {
                "sharedDevices": [{"resource": "example.com/gpu", "unitsPerDevice": 10}],
                "strategy": {"type": "LeastFragmentation"},
            },
            id="shared devices",
        ),
    ],
)
async def test_the_framework_and_the_plugins_of_a_replaced_policy_are_freed(spec):
    rig = Rig()
    for name in ("a", "b"):
        rig.node(name, allocatable={"cpu": "2", "pods": "10"})
    async with deciding(rig):
        assert rig.engine.policies.apply(make_policy("edited", 1, **spec)).accepted
        await _use(rig, 1)
        framework = _framework(rig)
        owners = [each.function.__self__ for each in framework.hints["QueueQuota"]]
        made = [weakref.ref(each) for each in (framework, *framework.plugins.values(), *owners)]
        del framework, owners
        for generation in (2, 3):
            assert rig.engine.policies.apply(make_policy("edited", generation, precedence=generation, **spec)).accepted
            await _use(rig, generation)
        rig.now += FLUSH_INTERVAL
        rig.engine.wake()
        await settle()
        rig.engine.compact()
        assert [left for each in made if (left := each()) is not None] == []


async def _use(rig: Rig, number: int) -> None:
    """A pod is placed, and another, which preemption cannot help, waits until it is deleted."""
    rig.pod(f"small-{number}", requests={"cpu": "100m"})
    large = rig.pod(f"large-{number}", requests={"cpu": "64"}, priority=10)
    await settle()
    rig.engine.pending.drop(large["metadata"]["uid"], large)
    assert f"small-{number}" in dict(rig.cluster.bound)
    assert f"large-{number}" not in dict(rig.cluster.bound)


def _framework(rig: Rig) -> Framework:
    active = rig.engine.policies.named("edited")
    assert active is not None
    return active.framework
