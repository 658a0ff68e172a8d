"""Long work in steps."""

import asyncio

from podwright.engine.process import steps as module
from podwright.engine.process.steps import in_slices


async def test_other_tasks_run_between_slices(monkeypatch):
    monkeypatch.setattr(module, "SLICE_SECONDS", 0.0)
    order = []

    def steps():
        for number in range(3):
            order.append(number)
            yield
        return "done"

    async def other():
        order.append("other")

    task = asyncio.create_task(other())
    assert await in_slices(steps()) == "done"
    await task
    assert order == [0, "other", 1, 2]
