"""The pods without nodes about which the policies in shadow mode are to decide, now or again later."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from podwright.core.objects.compaction import compact_regularly

AGAIN_SECONDS: Final = 60.0
"""How often the policies decide again about a pod that the other scheduler cannot place."""


class DueChecks:
    """See the module. Pods are named by their uids. `clock` never steps back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._now: OrderedDict[str, None] = OrderedDict()
        self._later: OrderedDict[str, float] = OrderedDict()
        """The uids with their times, the earliest first."""
        compact_regularly(self)

    def __len__(self) -> int:
        """How many pods are due, as of the last `collect`."""
        return len(self._now)

    def clear(self) -> None:
        """Forgets all pods."""
        self._now.clear()
        self._later.clear()

    def add(self, uids: Iterable[str]) -> None:
        """Makes these pods due now."""
        for uid in uids:
            self._later.pop(uid, None)
            self._now[uid] = None

    def add_again(self, uid: str) -> None:
        """Makes the pod due AGAIN_SECONDS from now."""
        self._later[uid] = self._clock() + AGAIN_SECONDS
        self._later.move_to_end(uid)

    def pop(self) -> str:
        """Returns the next pod that is due, as of the last `collect`. Raises KeyError if no pod is due."""
        return self._now.popitem(last=False)[0]

    def due(self, now: float) -> float | None:
        """Returns the time at which the next pod is due, or None."""
        return now if self._now else next(iter(self._later.values()), None)

    def collect(self) -> None:
        """Makes the pods due whose time has come."""
        now = self._clock()
        while self._later and next(iter(self._later.values())) <= now:
            uid, _ = self._later.popitem(last=False)
            self._now[uid] = None
