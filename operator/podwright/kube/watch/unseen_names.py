"""The scheduler names whose pending pods cannot be listed: since when, and why. Such a name does not affect the others.

The audit of pending pods and the lists of newly served names report here; `problem` is a note of /readyz.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from podwright.core.objects.dataclass import dataclass

log = logging.getLogger(__name__)

_SHOWN: Final = 5
_REASON_LIMIT: Final = 200


@dataclass(frozen=True, slots=True)
class _Unseen:
    since: float
    reason: str


class UnseenNames:
    """See the module. `clock`: seconds that never step back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._names: dict[str, _Unseen] = {}

    def failed(self, name: str, error: Exception) -> None:
        """A list of the pods of this scheduler name has failed."""
        before = self._names.get(name)
        if before is None:
            log.warning("cannot list pods of scheduler %s; trying again: %s", name, error)
        since = self._clock() if before is None else before.since
        self._names[name] = _Unseen(since, str(error)[:_REASON_LIMIT] or type(error).__name__)

    def listed(self, name: str) -> None:
        """A list of the pods of this scheduler name has succeeded."""
        if self._names.pop(name, None) is not None:
            log.info("pods of scheduler %s can be listed now", name)

    def keep(self, served: Collection[str]) -> None:
        """Forgets the names that are no longer served."""
        for name in [name for name in self._names if name not in served]:
            del self._names[name]

    def problem(self) -> str:
        """Returns the names with reasons, as a sentence; empty without names."""
        now = self._clock()
        texts = [
            f"pods of scheduler {name} not listed for {now - unseen.since:.0f} s: {unseen.reason}"
            for name, unseen in list(self._names.items())[:_SHOWN]
        ]
        more = len(self._names) - len(texts)
        return "; ".join([*texts, *([f"and {more} more"] if more else ())])
