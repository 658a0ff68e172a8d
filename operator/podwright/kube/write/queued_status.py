"""The base of the writers of status: what is known of each object, and a work queue of the changes to make.

A subclass computes the patch from what the status is known to say, so that nothing is written twice. A failed write is
retried as long as that can help and the object exists; a refusal that lasts is logged and dropped. Subclasses:
`write.pod_status`, `pod_groups.group_status`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.compaction import compact_regularly
from podwright.kube.client.errors import is_not_found, is_retryable_write, uid_mismatch
from podwright.kube.client.http import Http
from podwright.kube.write.work_queue import WorkItem, WorkQueue

log = logging.getLogger(__name__)

WARN_AFTER: Final = 5
"""Failures in a row of one write before it is logged."""


class StatusChange(WorkItem, Protocol):
    """A change to make. `about` names the object in log lines."""

    @property
    def about(self) -> str: ...


K = TypeVar("K")
C = TypeVar("C", bound=StatusChange)


class QueuedStatusWriter(ABC, Generic[K, C]):
    """See the module. K: what is known of an object; C: a change to its status. `run` is the work.

    `clock` gives seconds since the epoch.
    """

    written: ClassVar[str]
    """The name of the written data, for log lines."""

    def __init__(self, http: Http, clock: Callable[[], float]) -> None:
        self._http = http
        self._clock = clock
        self._known: dict[str, K] = {}
        self._queue: WorkQueue[C] = WorkQueue(self.written, self._write, failed=self._failed)
        compact_regularly(self)

    def forget(self, key: str) -> None:
        """The object is no longer to be written about."""
        self._known.pop(key, None)
        if not self._known:
            self._known.clear()  # an emptied dict keeps the memory of a burst
        self._queue.forget(key)

    async def run(self) -> None:
        """Writes until it is cancelled."""
        await self._queue.run()

    async def flush(self, grace: float) -> None:
        """Returns when everything is written, after at most `grace` seconds."""
        await self._queue.flush(grace)

    @abstractmethod
    async def _write(self, key: str, change: C) -> None:
        """Writes the change, unless the status says so already. Raises ClusterError."""

    def _on_gone(self, key: str) -> None:
        """The object was deleted, or another one has taken its name."""

    def _first_refusal(self, key: str, error: ClusterError) -> bool:
        """True if a refusal that lasts is to be logged."""
        return True

    def _failed(self, key: str, change: C, error: ClusterError) -> None:
        if is_not_found(error) or uid_mismatch(error):
            self._on_gone(key)
            return
        if key not in self._known:
            return
        change.failures += 1
        may_succeed = is_retryable_write(error)
        if change.failures == WARN_AFTER or (not may_succeed and self._first_refusal(key, error)):
            log.warning("cannot write the status of %s: %s", change.about, error)
        if may_succeed:
            self._queue.add_rate_limited(key, change, error)
