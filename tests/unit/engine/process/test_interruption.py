"""Cancelled tasks."""

import asyncio

import pytest

from podwright.engine.process.interruption import cancel


async def test_a_caller_that_is_cancelled_while_it_waits_does_not_go_on():
    order, cleans_up = [], asyncio.Event()

    async def work():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cleans_up.set()
            await asyncio.sleep(60)
        finally:
            order.append("ended")

    async def stop(working):
        await asyncio.sleep(0)
        await cancel([working, None])
        order.append("went on")

    stopping = asyncio.create_task(stop(asyncio.create_task(work())))
    await cleans_up.wait()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert order == ["ended"]


async def test_a_caller_goes_on_once_the_tasks_have_ended():
    working = asyncio.create_task(asyncio.sleep(60))
    await cancel([working, None])
    assert working.cancelled()
