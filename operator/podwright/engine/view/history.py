"""The last hour in numbers, for the page: a sample every ten seconds. Bounded, whatever the cluster has."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.queue import SchedulingQueue
from podwright.core.state.cache import Cache

SAMPLE_SECONDS: Final = 10.0
SAMPLES: Final = 360


class UsageSample(NamedTuple):
    """`at`: seconds since the epoch. `cpu` and `memory`: the share of what all nodes have that pods request, 0 without
    nodes.
    """

    at: float
    nodes: int
    placed: int
    waiting: int
    cpu: float
    memory: float


class History:
    """See the module. `wall` gives seconds since the epoch."""

    def __init__(self, cache: Cache, queue: SchedulingQueue, wall: Callable[[], float]) -> None:
        self._cache = cache
        self._queue = queue
        self._wall = wall
        self._samples: deque[UsageSample] = deque(maxlen=SAMPLES)
        self.count = 0
        """The number of samples so far."""

    def sample(self) -> None:
        """Takes a sample if the last one is old enough, also by a clock that was set back."""
        now = self._wall()
        if self._samples and 0 <= now - self._samples[-1].at < SAMPLE_SECONDS:
            return
        cache = self._cache
        self.count += 1
        self._samples.append(
            UsageSample(
                now, cache.table.count, cache.pod_count, len(self._queue), self._share(CPU), self._share(MEMORY)
            )
        )

    def since(self, count: int) -> Sequence[UsageSample]:
        """The samples after the first `count`, or those of the last hour, the oldest first."""
        new = min(self.count - count, len(self._samples))
        return [*islice(self._samples, len(self._samples) - new, None)]

    def _share(self, resource: str) -> float:
        table = self._cache.table
        offered = float(table.allocatable(resource).sum(dtype=float))
        return round(float(table.requested(resource).sum(dtype=float)) / offered, 4) if offered else 0.0
