"""What is to be written about objects, by key: the newest wish counts, and a few workers carry them out one by one.

One write an object at a time: two might arrive in the wrong order. What fails is tried again until it succeeds or is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, Self, TypeVar

from podwright.core.framework.interface import ClusterError
from podwright.kube.client.retry import RetryPolicy

log = logging.getLogger(__name__)

WORKERS: Final = 8
RETRY: Final = RetryPolicy(shortest=1.0, longest=30.0)
PATIENCE: Final = 5
"""Failures of one write after which it is worth a line in the log."""


async def until_idle(busy: Callable[[], bool], grace: float) -> None:
    """Waits as long as it is busy, at most `grace` seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace):
            while True:
                if not busy():
                    return
                await asyncio.sleep(0.01)


class WorkItem(Protocol):
    """What is to be written about one object. `tries`: how often that failed."""

    tries: int

    def absorb(self, older: Self) -> None:
        """Takes over what an older wish asks for beyond this one."""


W = TypeVar("W", bound=WorkItem)


@dataclass(frozen=True)
class Work(Generic[W]):
    """`what` is written in words, how to do it, and what to do when the API server would not: `again` or nothing."""

    what: str
    carry_out: Callable[[str, W], Awaitable[None]]
    failed: Callable[[str, W, ClusterError], None]


class WorkQueue(Generic[W]):
    """`run` is the work."""

    def __init__(self, work: Work[W]) -> None:
        self._work = work
        self._waiting: dict[str, W] = {}
        self._order: asyncio.Queue[str] = asyncio.Queue()
        self._under_way: set[str] = set()

    def get(self, key: str) -> W | None:
        """The wish that waits, which may be changed."""
        return self._waiting.get(key)

    def add(self, key: str, wish: W) -> None:
        """There is none of this key."""
        self._waiting[key] = wish
        self._order.put_nowait(key)

    def drop(self, key: str) -> None:
        """Nothing is wished for any more."""
        self._waiting.pop(key, None)

    def open(self, key: str) -> bool:
        """Whether something waits or is being written."""
        return key in self._waiting or key in self._under_way

    def again(self, key: str, wish: W, error: ClusterError) -> None:
        """Later once more, after a pause that grows; as part of a newer wish if there is one."""
        newer = self._waiting.get(key)
        if newer is not None:
            newer.absorb(wish)
            return
        self._waiting[key] = wish
        asyncio.get_running_loop().call_later(RETRY.pause(wish.tries, error), self._order.put_nowait, key)

    async def run(self) -> None:
        """Writes what is wished for, until it is cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._write_all(), name=f"podwright writer: {self._work.what}")

    async def flush(self, grace: float) -> None:
        """Waits until nothing waits to be written, at most `grace` seconds."""
        await until_idle(lambda: bool(self._waiting or self._under_way), grace)

    async def _write_all(self) -> None:
        while True:
            await self._write(await self._order.get())

    async def _write(self, key: str) -> None:
        # Who writes this key already looks again afterwards.
        wish = None if key in self._under_way else self._waiting.pop(key, None)
        if wish is None:
            return
        self._under_way.add(key)
        try:
            await self._work.carry_out(key, wish)
        except ClusterError as error:
            self._work.failed(key, wish, error)
        except Exception:
            log.exception("writing %s failed (%s)", self._work.what, key)
        finally:
            self._under_way.discard(key)
            if self._waiting.get(key, wish) is not wish:
                self._order.put_nowait(key)
