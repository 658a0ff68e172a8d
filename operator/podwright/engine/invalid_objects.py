"""Objects that cannot be understood: said once, and then no more.

An object may be broken in every version of it that the watch brings; the log and the events would drown in it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from prometheus_client import Counter

from podwright.core.objects.errors import InvalidObjectError

log = logging.getLogger(__name__)

REMEMBERED: Final = 10_000


class InvalidObjects:
    """Remembers the last few thousand invalid_objects, by object and problem."""

    def __init__(self, counter: Counter, limit: int = REMEMBERED) -> None:
        """`counter` has the label `kind`."""
        self._counter = counter
        self._limit = limit
        self._made: OrderedDict[tuple[str, str], None] = OrderedDict()

    def about(self, kind: str, name: str, error: Exception) -> str | None:
        """The complaint in words, logged; None if it was made before."""
        text = (
            str(error) if isinstance(error, InvalidObjectError) else f"{kind} {name}: {type(error).__name__}: {error}"
        )
        key = (f"{kind} {name}", text)
        if key in self._made:
            self._made.move_to_end(key)
            return None
        self._made[key] = None
        if len(self._made) > self._limit:
            self._made.popitem(last=False)
        self._counter.labels(kind).inc()
        log.error("%s", text[:1000], exc_info=None if isinstance(error, InvalidObjectError) else error)
        return text
