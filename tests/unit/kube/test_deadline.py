"""A deadline that is put off needs no new timer."""

from __future__ import annotations

import asyncio

import pytest

from podwright.kube.deadline import LoopDeadline


@pytest.fixture
async def timers(monkeypatch):
    """The timers that were made."""
    loop = asyncio.get_running_loop()
    made, call_at = [], loop.call_at
    monkeypatch.setattr(loop, "call_at", lambda when, *work, **more: made.append(when) or call_at(when, *work, **more))
    return made


async def reached(seconds_of_each):
    """Sets a deadline again and again. The last time decides when this returns."""
    found = asyncio.Event()
    deadline = LoopDeadline(found.set)
    for seconds in seconds_of_each:
        deadline.set(seconds)
    await asyncio.wait_for(found.wait(), 30)
    deadline.cancel()


async def test_putting_off_makes_no_timer(timers):
    found = []
    deadline = LoopDeadline(lambda: found.append("reached"))
    for seconds in range(60, 160):
        deadline.set(seconds)
    assert len(timers) == 1
    deadline.cancel()


async def test_it_is_reached_at_the_last_time_that_was_set(timers):
    found = asyncio.Event()
    deadline = LoopDeadline(found.set)
    deadline.set(0.01)
    deadline.set(0.05)
    await asyncio.wait_for(found.wait(), 30)
    assert (
        len(timers) == 3
    )  # the deadline's, that of wait_for, and the deadline's again, because the first came too early


async def test_it_can_be_set_to_an_earlier_time():
    await reached([3600, 0.01])


async def test_one_that_is_suspended_or_cancelled_is_not_reached():
    found = []
    suspended, cancelled = (
        LoopDeadline(lambda: found.append("suspended")),
        LoopDeadline(lambda: found.append("cancelled")),
    )
    suspended.set(0.01)
    cancelled.set(0.01)
    suspended.suspend()
    cancelled.cancel()
    await reached([0.02])
    await reached([0.02])
    assert found == []


async def test_one_that_was_suspended_can_be_set_again():
    found = asyncio.Event()
    deadline = LoopDeadline(found.set)
    deadline.set(0.01)
    deadline.suspend()
    deadline.set(0.02)
    await asyncio.wait_for(found.wait(), 30)
