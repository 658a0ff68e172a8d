"""The server's view of the scheduler's loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from podwright.kube.serve.event_loops import BEAT_SECONDS, STUCK_BEATS, LoopThread, SchedulerLoop


class Loop:
    """A loop that runs callbacks only when asked to."""

    def __init__(self):
        self.waiting = []
        self.closed = False

    def call_soon_threadsafe(self, function):
        if self.closed:
            raise RuntimeError("Event loop is closed")
        self.waiting.append(function)

    def turn(self):
        while self.waiting:
            self.waiting.pop(0)()


def test_a_loop_that_turns_has_no_problem():
    loop = Loop()
    seen = SchedulerLoop(loop)
    for _ in range(3 * STUCK_BEATS):
        seen.beat()
        loop.turn()
    assert (seen.unanswered, seen.problem) == (0, "")


def test_a_loop_is_stuck_after_a_minute_without_an_answer_and_no_sooner():
    loop = Loop()
    seen = SchedulerLoop(loop)
    for _ in range(STUCK_BEATS):
        seen.beat()
        assert seen.problem == ""
    seen.beat()
    assert seen.problem == "the scheduling loop has not run for 60 s"
    assert len(loop.waiting) == 1
    assert STUCK_BEATS * BEAT_SECONDS == 60


def test_a_loop_that_turns_again_is_no_longer_stuck():
    loop = Loop()
    seen = SchedulerLoop(loop)
    for _ in range(2 * STUCK_BEATS):
        seen.beat()
    assert seen.problem
    loop.turn()
    seen.beat()
    assert seen.problem == ""


def test_a_loop_that_was_closed_is_stuck():
    loop = Loop()
    loop.closed = True
    seen = SchedulerLoop(loop)
    for _ in range(STUCK_BEATS + 1):
        seen.beat()
    assert seen.problem


@pytest.fixture
async def thread():
    started = LoopThread("tested")
    started.start()
    yield started
    await started.stop()


async def test_functions_and_coroutines_run_in_the_schedulers_thread(thread):
    seen = SchedulerLoop(asyncio.get_running_loop())

    async def name():
        await asyncio.sleep(0)
        return threading.current_thread().name, asyncio.current_task().get_name()

    async def ask():
        return threading.current_thread().name, await seen.call(threading.current_thread, 20), await seen.run(name, 20)

    asked_in, called_in, (run_in, task) = await thread.run(ask())
    assert asked_in == "tested"
    assert called_in is threading.current_thread()
    assert run_in == threading.current_thread().name
    assert task.startswith("podwright ")


async def test_errors_are_raised_to_the_caller(thread):
    seen = SchedulerLoop(asyncio.get_running_loop())

    def fails():
        raise KeyError("k")

    async def fails_later():
        await asyncio.sleep(0)
        fails()

    async def is_cancelled():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    for work, error in (
        (lambda: seen.call(fails, 20), KeyError),
        (lambda: seen.run(fails_later, 20), KeyError),
        (lambda: seen.run(is_cancelled, 20), TimeoutError),
    ):
        with pytest.raises(error):
            await thread.run(work())


async def test_a_loop_without_time_gives_a_timeout(thread):
    loop = Loop()
    seen = SchedulerLoop(loop)
    done = []
    with pytest.raises(TimeoutError):
        await thread.run(seen.call(lambda: done.append(1), 0))
    loop.turn()
    assert done == []
    loop.closed = True
    with pytest.raises(TimeoutError, match="has ended"):
        await thread.run(seen.call(lambda: None, 20))
