"""A work queue like client-go's, keyed by object: a newer item replaces or absorbs an older one, and a few workers
process them.

Invariant: at most one item per key is processed at a time, since two writes of one object could arrive in the wrong
order. An item that failed is added again with a growing pause, until it succeeds or its key is forgotten.
`queued_status` is built on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, Self, TypeVar

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.compaction import compact_regularly
from podwright.kube.client.retry import RetryPolicy

log = logging.getLogger(__name__)

WORKERS: Final = 8
RETRY: Final = RetryPolicy(shortest=1.0, longest=30.0)


async def until_idle(busy: Callable[[], bool], grace: float) -> None:
    """Returns when `busy` no longer holds, after at most `grace` seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(grace):
            while True:
                if not busy():
                    return
                await asyncio.sleep(0.01)


class WorkItem(Protocol):
    """The pending work on one object. `failures`: how often it has failed in a row."""

    failures: int

    def absorb(self, older: Self) -> None:
        """Adds the requests of an older item of the same key that this one does not mention."""


I = TypeVar("I", bound=WorkItem)  # noqa: E741 -- an item


class WorkQueue(Generic[I]):
    """See the module. `process` does the work of an item; `failed` decides what follows a ClusterError. `run` is the
    work.
    """

    def __init__(
        self,
        name: str,
        process: Callable[[str, I], Awaitable[None]],
        failed: Callable[[str, I, ClusterError], None],
    ) -> None:
        self._name = name
        self._process = process
        self._failed = failed
        self._queued: dict[str, I] = {}
        self._order: asyncio.Queue[str] = asyncio.Queue()
        self._processing: set[str] = set()
        compact_regularly(self)

    def __contains__(self, key: str) -> bool:
        """True if an item of the key is queued or being processed."""
        return key in self._queued or key in self._processing

    def get(self, key: str) -> I | None:
        """The queued item of the key, which the caller may change."""
        return self._queued.get(key)

    def add(self, key: str, item: I) -> None:
        """Queues an item. The key must not have a queued item."""
        self._queued[key] = item
        self._order.put_nowait(key)

    def add_rate_limited(self, key: str, item: I, error: ClusterError) -> None:
        """Queues a failed item again after a pause that grows with its failures. A newer item of the key absorbs it."""
        newer = self._queued.get(key)
        if newer is not None:
            newer.absorb(item)
            return
        self._queued[key] = item
        pause = RETRY.pause(item.failures, error)
        asyncio.get_running_loop().call_later(pause, self._order.put_nowait, key)

    def forget(self, key: str) -> None:
        """Removes the queued item of the key, if there is one."""
        self._queued.pop(key, None)

    async def run(self) -> None:
        """Processes items until it is cancelled."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(WORKERS):
                workers.create_task(self._run_worker(), name=f"podwright writer of {self._name}")

    async def flush(self, grace: float) -> None:
        """Returns when nothing is queued or being processed, after at most `grace` seconds."""
        await until_idle(lambda: bool(self._queued or self._processing), grace)

    async def _run_worker(self) -> None:
        while True:
            await self._process_next(await self._order.get())

    async def _process_next(self, key: str) -> None:
        # The worker that is processing the key queues it again if there is a newer item by then.
        item = None if key in self._processing else self._queued.pop(key, None)
        if item is None:
            return
        self._processing.add(key)
        try:
            await self._process(key, item)
        except ClusterError as error:
            self._failed(key, item, error)
        except Exception:
            log.exception("writing %s failed (%s)", self._name, key)
        finally:
            self._processing.discard(key)
            if self._queued.get(key, item) is not item:
                self._order.put_nowait(key)
