"""Background tasks: they go on whatever happens to their work."""

from __future__ import annotations

import asyncio

import pytest

from podwright.kube import background
from podwright.kube.background import BackgroundTasks
from support.engine.kit import settle


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(background, "RESTART_SECONDS", 0)


class Work:
    """`ends` says how each round ends; the last one goes on until it is cancelled."""

    def __init__(self, *ends):
        self.ends = list(ends)
        self.rounds = 0

    async def __call__(self):
        self.rounds += 1
        if not self.ends:
            await asyncio.Event().wait()
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        if end == "a part is cancelled":
            part = asyncio.create_task(asyncio.sleep(60))
            part.cancel()
            await part


@pytest.mark.parametrize(
    "end, message",
    [
        pytest.param("a part is cancelled", "work was interrupted; restarting it", id="something else cancels a part of it"),
        pytest.param(ValueError("broken"), "work failed; restarting it", id="it raises an error"),
        pytest.param(GeneratorExit(), "work failed; restarting it", id="it raises what is no Exception"),
        pytest.param(asyncio.CancelledError(), "work was interrupted; restarting it", id="it raises a cancellation of its own"),
        pytest.param("returned", "", id="it returns"),
    ],
)  # fmt: skip
async def test_work_that_ends_is_restarted(end, message, caplog):
    tasks, work = BackgroundTasks(), Work(end)
    task = tasks.start("work", work)
    await settle()
    assert work.rounds == 2
    assert message in caplog.text
    assert task.get_name() == "podwright work"
    await tasks.stop()
    assert task.cancelled()


async def test_restarts_are_reported_by_name(monkeypatch):
    restarts = []
    tasks = BackgroundTasks(restarts.append)

    async def ends():
        await asyncio.sleep(0)

    async def goes_on():
        await asyncio.Event().wait()

    tasks.start("ends", ends)
    tasks.start("goes on", goes_on)
    await settle()
    await tasks.stop()
    assert set(restarts) == {"ends"}
    assert len(restarts) > 1
