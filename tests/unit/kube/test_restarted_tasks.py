"""Tasks of the runtime restart when they fail."""

from __future__ import annotations

import asyncio

from podwright.kube.runtime import run_forever
from support.engine.kit import settle


async def test_a_task_restarts_when_part_of_its_work_was_cancelled_by_others(monkeypatch):
    monkeypatch.setattr("podwright.kube.runtime.RESTART_SECONDS", 0)
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        part = asyncio.create_task(asyncio.sleep(60))
        if rounds == 1:
            part.cancel()
        await part

    task = asyncio.create_task(run_forever("work", work))
    await settle()
    assert rounds == 2
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
