"""Reports invalid objects once.

A watch may deliver many invalid versions of an object. To report each would flood the log and the events.
"""

from __future__ import annotations

import logging
from typing import Final

from podwright.core.framework.errors import PluginError
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.engine.records.metrics import INVALID_OBJECTS, Metrics

log = logging.getLogger(__name__)

REMEMBERED: Final = 1_000


class InvalidObjects:
    """Remembers the last thousand reports, by a hash of object and problem, because texts may be long."""

    def __init__(self, metrics: Metrics, limit: int = REMEMBERED) -> None:
        """`limit`: how many reports are remembered."""
        self._metrics = metrics
        self._limit = limit
        self._reported: dict[int, None] = {}
        """Hashes of reports, the newest last. A dict takes half the memory of an OrderedDict."""

    def report(self, kind: str, name: str, error: Exception) -> str | None:
        """Logs and counts the error. Returns its text, or None if the same error was reported before."""
        text = str(error) if isinstance(error, InvalidObjectError) else f"{kind} {name}: {described(error)}"
        key = hash((kind, name, text))
        known = key in self._reported
        self._reported.pop(key, None)
        self._reported[key] = None
        if known:
            return None
        if len(self._reported) > self._limit:
            del self._reported[next(iter(self._reported))]
        self._metrics.count(INVALID_OBJECTS, kind)
        # The traceback of a PluginError is logged by PluginExceptions.
        log.error("%s", text[:1000], exc_info=None if isinstance(error, InvalidObjectError | PluginError) else error)
        return text
