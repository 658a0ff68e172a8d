import asyncio

import pytest

from podwright.engine.outcomes.follow_ups import FollowUps
from support.plugins.kit import pending

POD = pending(name="p")


async def test_what_follows_one_attempt_is_over_before_that_of_the_next_begins():
    follow_ups, go, done = FollowUps(), asyncio.Event(), []

    async def first():
        await go.wait()
        done.append("first")

    async def second():
        done.append("second")

    follow_ups.run([first], POD)
    follow_ups.run([second], POD)
    over = asyncio.create_task(follow_ups.finished(POD.uid))
    await asyncio.sleep(0)
    assert not over.done()
    assert done == []
    go.set()
    await over
    assert done == ["first", "second"]
    assert len(follow_ups) == 0


@pytest.mark.parametrize("error", [RuntimeError, GeneratorExit, asyncio.CancelledError])
async def test_a_failure_stops_nothing_else(error):
    follow_ups, done = FollowUps(), []

    async def fails():
        raise error("no")

    async def works():
        done.append("works")

    follow_ups.run([fails, works], POD)
    await follow_ups.finished(POD.uid)
    assert done == ["works"]


async def test_a_cancelled_wait_leaves_them_running():
    follow_ups, go, done = FollowUps(), asyncio.Event(), []

    async def waits():
        await go.wait()
        done.append("waits")

    follow_ups.run([waits], POD)
    over = asyncio.create_task(follow_ups.finished(POD.uid))
    await asyncio.sleep(0)
    over.cancel()
    await asyncio.gather(over, return_exceptions=True)
    go.set()
    await follow_ups.finished(POD.uid)
    assert done == ["waits"]
