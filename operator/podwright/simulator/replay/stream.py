"""Stream: a cluster at the start, and the pods and nodes that then come and go. `recording` and `task_lists` read
streams, `run` replays them.

Times are seconds on the stream's own clock. Whenever a batch pod gets a node, it runs for as long as it did originally.
Any other pod leaves at its recorded time.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw

LONGEST_LINE: Final = 16 << 20
"""Bytes that a line of a stream may have."""


class StreamError(Exception):
    """A stream cannot be read. The message names the file and the line."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod comes. `runs_for`: seconds that it runs on its node; None: until `leaves_at`. Without a node it waits until
    `gives_up_at`.
    """

    time: float
    pod: PodInfo
    runs_for: float | None = None
    leaves_at: float | None = None
    gives_up_at: float | None = None


@dataclass(frozen=True, slots=True)
class PodLeaves:
    """A pod that was there from the start leaves."""

    time: float
    uid: str


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """A node comes or changes; with `raw` None it goes."""

    time: float
    name: str
    raw: Raw | None


Event = Arrival | PodLeaves | NodeUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStream:
    """See the module. `initial`: the objects at the start, also the pods that have nodes then. `events` are in the
    order of their times.
    """

    initial: Sequence[Raw]
    events: Sequence[Event]
    start: float
    end: float
    problems: Sequence[str] = field(default_factory=list)
    """The errors in objects that were left out."""

    @property
    def arrivals(self) -> int:
        return sum(isinstance(event, Arrival) for event in self.events)


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, unpacked if its name ends with `.gz`. Raises StreamError."""
    number = 0
    try:
        with gzip.open(path) if path.endswith(".gz") else Path(path).open("rb") as file:
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise StreamError(f"{path}:{number}: is longer than {LONGEST_LINE >> 20} MiB")
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StreamError(f"{path}:{number + 1}: cannot be unpacked: {error}") from error
    except OSError as error:
        raise StreamError(f"{path}: {error.strerror or error}") from error


def sorted_events(events: Sequence[Event]) -> list[Event]:
    """The events by time. Among events of the same time, departures come first."""
    return sorted(events, key=lambda event: (event.time, isinstance(event, Arrival)))
