"""The lock: held by readers together, or by a writer alone, in the order of asking."""

from __future__ import annotations

import asyncio

import pytest

from podwright.extender.server.readers_writer_lock import ReadersWriterLock


class Table:
    """Starts tasks that hold the lock, and ends them."""

    def __init__(self):
        self.lock = ReadersWriterLock()
        self.at = []
        self._ends = {}

    def come(self, name):
        """Small letters read, capitals write."""
        self._ends[name] = asyncio.Event()
        return asyncio.create_task(self._stay(name))

    async def _stay(self, name):
        async with self.lock.writing() if name.isupper() else self.lock.reading():
            self.at.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.at.remove(name)

    async def leave(self, name):
        self._ends[name].set()
        await self.now()

    async def now(self):
        for _ in range(10):
            await asyncio.sleep(0)
        return "".join(self.at)


@pytest.fixture
async def table():
    return Table()


async def test_many_read_together(table):
    tasks = [table.come(name) for name in "abc"]
    assert await table.now() == "abc"
    for name in "abc":
        await table.leave(name)
    await asyncio.gather(*tasks)


async def test_a_writer_is_alone(table):
    tasks = [table.come(name) for name in "abXcYZd"]
    assert await table.now() == "ab"
    for name, rest in (("a", "b"), ("b", "X"), ("X", "c"), ("c", "Y"), ("Y", "Z"), ("Z", "d"), ("d", "")):
        await table.leave(name)
        assert await table.now() == rest
    await asyncio.gather(*tasks)


async def test_a_waiter_that_gives_up_leaves_the_lock_to_the_others(table):
    tasks = {name: table.come(name) for name in "aXb"}
    assert await table.now() == "a"
    tasks["X"].cancel()
    assert await table.now() == "ab"


@pytest.mark.parametrize("name", ["X", "b"])
async def test_a_waiter_that_gives_up_while_it_gets_the_lock_does_not_keep_it(table, name):
    tasks = {each: table.come(each) for each in ("A", name)}
    assert await table.now() == "A"
    tasks["A"].cancel()
    await asyncio.sleep(0)
    tasks[name].cancel()
    await table.now()
    table.come("Y")
    assert await table.now() == "Y"
