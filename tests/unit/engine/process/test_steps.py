"""Long work in steps."""

import asyncio

import pytest

from podwright.engine.process import steps as module
from podwright.engine.process.steps import at_once, in_slices


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


async def test_other_tasks_have_as_much_time_as_a_long_step_took(monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(module.asyncio, "sleep", sleep)
    now = 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)

    def steps():
        nonlocal now
        for seconds in (0.001, 0.001, 0.001, 0.1):
            now += seconds
            yield

    await in_slices(steps())
    assert pauses == [0, pytest.approx(0.1)]


def test_steps_that_are_run_at_once_return_their_result():
    def steps():
        yield
        return "done"

    assert at_once(steps()) == "done"


async def test_steps_are_closed_before_their_cancellation_is_passed_on():
    closed, seen = [], []

    def steps():
        try:
            asyncio.current_task().cancel()
            while True:
                yield
        finally:
            closed.append(True)

    async def run():
        try:
            await in_slices(steps())
        except asyncio.CancelledError:
            seen.extend(closed)

    await asyncio.create_task(run())
    assert seen == [True]
