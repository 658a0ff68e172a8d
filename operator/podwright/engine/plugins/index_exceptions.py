"""Exceptions in the indexes that plugins register with the cache: logged once for each line of code that raises, and counted."""

from __future__ import annotations

import logging
from typing import Any, Final

from podwright.core.framework.errors import raised_at
from podwright.engine.metrics.metrics import PLUGIN_EXCEPTIONS, Metrics

log = logging.getLogger(__name__)

REMEMBERED: Final = 1_000


class IndexExceptions:
    """See the module."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged: set[tuple[str, str, str]] = set()

    def report(self, kind: type[Any], method: str, error: BaseException) -> None:
        """A ReportIndexException."""
        name = kind.__name__
        self._metrics.count(PLUGIN_EXCEPTIONS, name, "Index")
        place = raised_at(error)
        key = f"{kind.__module__}.{name}", method, place
        if key in self._logged or len(self._logged) >= REMEMBERED:
            return
        self._logged.add(key)
        log.error(
            "index %s raised %s at %s (%s), so what it says of pods may be wrong (logged once; later ones are counted)",
            name,
            type(error).__name__,
            method,
            place,
            exc_info=error,
        )
