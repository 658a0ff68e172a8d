"""The work queue: one item of a key at a time, newer items absorb failed ones, and failures pause."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.kube.write import work_queue
from podwright.kube.write.work_queue import WorkQueue


@dataclass
class Item:
    text: str
    failures: int = 0

    def absorb(self, older: Item) -> None:
        self.text = f"{older.text}+{self.text}"


@asynccontextmanager
async def running(process):
    """A running queue that adds failed items again."""

    def failed(key, item, error):
        item.failures += 1
        queue.add_rate_limited(key, item, error)

    queue = WorkQueue("tests", process, failed)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001, longest=0.001))


async def test_items_of_one_key_are_processed_one_after_the_other():
    journal = []

    async def process(key, item):
        journal.append(f"start {item.text}")
        if item.text == "first":
            queue.add(key, Item("second"))
            assert key in queue
        await asyncio.sleep(0.01)
        journal.append(f"end {item.text}")

    async with running(process) as queue:
        queue.add("a", Item("first"))
        await queue.flush(5)
        assert "a" not in queue
    assert journal == ["start first", "end first", "start second", "end second"]


async def test_items_of_different_keys_are_processed_at_the_same_time():
    started = []

    async def process(key, _item):
        started.append(key)
        while len(started) < 2:
            await asyncio.sleep(0.001)

    async with running(process) as queue:
        queue.add("a", Item("one"))
        queue.add("b", Item("two"))
        await queue.flush(5)
    assert sorted(started) == ["a", "b"]


async def test_a_failed_item_is_processed_again():
    attempts = []

    async def process(_key, item):
        attempts.append(item.failures)
        if item.failures < 3:
            raise ClusterError("not now")

    async with running(process) as queue:
        queue.add("a", Item("one"))
        await queue.flush(5)
    assert attempts == [0, 1, 2, 3]


async def test_a_newer_item_absorbs_a_failed_one():
    processed = []

    async def process(key, item):
        processed.append(item.text)
        if item.text == "old":
            queue.add(key, Item("new"))
            raise ClusterError("not now")

    async with running(process) as queue:
        queue.add("a", Item("old"))
        await queue.flush(5)
    assert processed == ["old", "old+new"]


async def test_a_forgotten_item_is_not_processed():
    processed = []

    async def process(key, _item):
        processed.append(key)

    async with running(process) as queue:
        queue.add("a", Item("one"))
        queue.forget("a")
        queue.add("b", Item("two"))
        await queue.flush(5)
    assert processed == ["b"]


async def test_an_unexpected_error_does_not_stop_the_workers(caplog):
    processed = []

    async def process(key, _item):
        processed.append(key)
        raise ZeroDivisionError

    async with running(process) as queue:
        for number in range(2 * work_queue.WORKERS):
            queue.add(str(number), Item("one"))
        await queue.flush(5)
    assert len(processed) == 2 * work_queue.WORKERS
    assert "writing tests failed" in caplog.text


async def test_flush_ends_after_its_grace():
    async def process(_key, _item):
        await asyncio.Event().wait()

    async with running(process) as queue:
        queue.add("a", Item("one"))
        await queue.flush(0.02)
        assert "a" in queue
