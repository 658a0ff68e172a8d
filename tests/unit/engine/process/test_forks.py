"""Child processes: they send what they compute, and end with their parent, after their time, or when memory runs
short.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import aclosing
from textwrap import dedent

import pytest

from podwright.engine.process.forks import RESERVE_BYTES, ChildError, Forks, NoChildError, available_memory
from support.waiting import until

PLENTY = 1 << 40


async def messages(work, seconds=20.0, **options):
    async with aclosing(Forks(**options).start(work, seconds)) as received:
        return [message async for message in received]


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_messages_come_as_they_are_computed_and_nothing_changes_here():
    changed = []

    def work():
        changed.append(1)
        yield str(os.getpid()).encode()
        yield b"x" * 3_000_000

    pid, large = await messages(work)
    assert int(pid) != os.getpid()
    assert large == b"x" * 3_000_000
    assert not changed
    await until(lambda: is_gone(int(pid)))


async def test_no_other_file_of_the_parent_is_open_in_a_child():
    def work():
        yield " ".join(sorted(os.listdir("/proc/self/fd"))).encode()  # noqa: PTH208 -- names

    opened = socket.socket()
    (found,) = await messages(work)
    opened.close()
    assert len(found.split()) == 5, "three standard files, the pipe, and the folder"


async def test_a_connection_that_the_parent_closes_is_closed_though_a_child_runs():
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)

    def work():
        yield b"begun"
        time.sleep(60)

    async with aclosing(Forks().start(work)) as received:
        assert await anext(received) == b"begun"
        ours.close()
        assert theirs.recv(1) == b""
    theirs.close()


@pytest.mark.parametrize("busy", [True, False])
async def test_a_child_ends_after_its_time(busy):
    def work():
        yield str(os.getpid()).encode()
        while busy:
            pass
        time.sleep(60)

    async with aclosing(Forks().start(work, 2)) as received:
        pid = int(await anext(received))
        with pytest.raises(ChildError, match=r"it took more than 2 s"):
            await anext(received)
    await until(lambda: is_gone(pid))


async def test_a_child_that_crashes_is_an_error():
    def work():
        yield b"one"
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(ChildError, match="it crashed"):
        await messages(work)


async def test_a_child_that_nobody_reads_from_any_more_ends():
    def work():
        yield str(os.getpid()).encode()
        time.sleep(60)

    async with aclosing(Forks().start(work)) as received:
        pid = int(await anext(received))
    await until(lambda: is_gone(pid))


async def test_there_is_no_child_without_memory_for_it():
    with pytest.raises(NoChildError, match="too little memory"):
        Forks(lambda: RESERVE_BYTES).start(lambda: iter(()))


async def test_a_child_ends_when_memory_runs_short():
    left = iter([PLENTY])

    def work():
        yield b"begun"
        time.sleep(60)

    with pytest.raises(ChildError, match="too little memory left"):
        await messages(work, memory_left=lambda: next(left, 0.0))


async def test_a_lock_that_another_thread_holds_does_not_hold_the_parent():
    lock, held, over = threading.Lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            over.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)

    def work():
        with lock:
            yield b"never"

    with pytest.raises(ChildError, match="it took more than"):
        await messages(work, 0.2)
    over.set()
    thread.join()


def test_a_child_ends_with_its_parent():
    program = dedent("""
        import asyncio, os, signal, time
        from podwright.engine.process.forks import Forks

        def work():
            yield str(os.getpid()).encode()
            time.sleep(60)

        async def main():
            async for message in Forks().start(work):
                print(message.decode(), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main())
    """)
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=30, check=False)
    pid = int(ended.stdout)

    async def wait():
        await until(lambda: is_gone(pid))

    asyncio.run(wait())


def test_the_memory_that_is_left_is_known():
    assert 0 < available_memory() < float("inf")
