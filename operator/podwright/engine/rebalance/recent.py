"""Recent moves: how many began within the last hour, for `maxMoves`, and whose pods stay because of what became of
some.

They are counted by spans of five minutes, so that a status can keep them over restarts. A span counts until an hour
after its end: in no hour are there more moves than allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

HOUR: Final = 3600.0
SPAN: Final = 300.0


class RecentMoves:
    """See the module. `spans`: when each began, in seconds since the epoch, and its moves. `spared`: the uids of
    controllers and pods, and until when they are spared.
    """

    def __init__(self, spans: Iterable[tuple[float, int]] = (), spared: Iterable[tuple[str, float]] = ()) -> None:
        self.spared = dict(spared)
        self._spans: dict[float, int] = {}
        for begin, moves in spans:
            start = begin // SPAN * SPAN
            self._spans[start] = self._spans.get(start, 0) + max(0, moves)

    def add(self, now: float) -> None:
        """A move begins."""
        start = now // SPAN * SPAN
        self._spans[start] = self._spans.get(start, 0) + 1

    def spans(self, now: float) -> list[tuple[float, int]]:
        """Returns the spans that count, the oldest first. A span in the future does not: its clock was set back."""
        self._spans = {begin: moves for begin, moves in self._spans.items() if -SPAN < now - begin < HOUR + SPAN}
        return sorted(self._spans.items())

    def count(self, now: float) -> int:
        return sum(moves for _, moves in self.spans(now))
