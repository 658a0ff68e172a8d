"""Files that are loaded again when they change.

read the files ─► two readings agree ─► take them ─► either all of the change takes effect, or none
anything fails ─► what was loaded before goes on, and the same files are tried again only when that may help

Two readings, because a file may be read while it is written.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 10.0
"""The pause before files are tried again that could be read, but not be used with the policies as they are."""


class FileReload(ABC):
    """See the module. `running`: what is loaded, as the files have it."""

    poll_seconds: ClassVar[float]
    """How often the files are read."""
    what: ClassVar[str]
    """For the log line: "the plugin files are"."""
    running: Any

    def __init__(self) -> None:
        self._seen: Any = None
        """The last reading, if it differs from what is running."""
        self._failed: Any = None
        """The last reading that could not be used."""
        self._retry_at: float | None = None
        """When `_failed` is tried again, by the clock of the event loop. None: only after a change."""

    @abstractmethod
    async def read(self) -> Any:
        """A reading of the files, to compare with others; None if they cannot be read, which is reported then."""

    @abstractmethod
    async def take(self, found: Any) -> None:
        """Loads what two readings had, and calls `succeed` or `fail`."""

    async def run(self) -> None:
        """Loads changes, until the task is cancelled."""
        while True:
            await asyncio.sleep(self.poll_seconds)
            await self.poll()

    async def poll(self) -> None:
        """Reads the files once, and loads them if two readings in a row agree. Never raises for what they contain."""
        found = await self.read()
        if found is None:
            return
        if found == self.running:
            if self._failed is not None:
                log.info("%s those that run again", self.what)
                self.succeed()
            self._seen = None
        elif found != self._seen:
            self._seen = found
        elif found != self._failed or self.is_due():
            await self.take(found)

    def is_due(self) -> bool:
        """True if the time has come to try files again that could not be used."""
        return self._retry_at is not None and asyncio.get_running_loop().time() >= self._retry_at

    def succeed(self) -> None:
        """Notes that the content of the files is in use."""
        self._seen = self._failed = self._retry_at = None

    def fail(self, failed: Any, *, retry: bool = False) -> bool:
        """Notes that the files cannot be used. True if that is news. `retry`: later, as policies may change."""
        news, self._failed = bool(failed != self._failed), failed
        self._retry_at = asyncio.get_running_loop().time() + RETRY_SECONDS if retry else None
        return news
