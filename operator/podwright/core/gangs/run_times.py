"""Run times: when running pods end, as far as that is known.

A pod declares how long it runs, by its annotation or `activeDeadlineSeconds`. Otherwise it takes as long as earlier
pods of its owner did that ended by themselves. An owner is known by its name, so a Job that is created again goes on
with what its pods took.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import Final

from podwright.core.objects.durations import parse_duration
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

MAX_OWNERS: Final = 10_000
"""The most owners whose pods' runtimes are remembered: those whose pods ended last."""
_MEMORY: Final = 8
"""Over how many of its last pods the mean of an owner goes."""


class RunTimes:
    """See the module."""

    def __init__(self) -> None:
        self._took: dict[str, tuple[int, float]] = {}
        """By owner: how many of its pods have ended, and the seconds that they took on average."""

    def ended(self, pod: PodInfo, seconds: float) -> None:
        """A pod has ended by itself after so many seconds."""
        if pod.owner is None or seconds < 0:
            return
        key = _owner_of(pod)
        count, mean = self._took.pop(key, (0, 0.0))
        count = min(count + 1, _MEMORY)
        self._took[key] = count, mean + (seconds - mean) / count
        if len(self._took) > MAX_OWNERS:
            del self._took[next(iter(self._took))]

    def declared(self, pod: PodInfo) -> float:
        """For how many seconds the pod says that it runs at most; 0 if it does not say."""
        expected = _seconds(pod.run_time) if pod.run_time else 0.0
        return min((each for each in (expected, pod.run_limit) if each), default=0.0)

    def is_sure(self, pod: PodInfo) -> bool:
        """True if the pod is stopped no later than `end_of`."""
        return bool(pod.run_limit) and self.declared(pod) == pod.run_limit and not pod.terminating

    def end_of(self, pod: PodInfo, now: float) -> float:
        """When a running pod ends, in seconds since the epoch; infinite if that is not known. `now` if it
        terminates.
        """
        if pod.terminating:
            return now
        seconds = self.declared(pod)
        if not seconds and pod.owner is not None:
            _, seconds = self._took.get(_owner_of(pod), (0, 0.0))
        if not seconds:
            return inf
        return max(now, (now if pod.start_time is None else pod.start_time) + seconds)


def run_times_of(cache: Cache) -> RunTimes:
    """Returns the runtimes of the pods of this cache."""
    return cache.extension(RunTimes, RunTimes)


@lru_cache(maxsize=1024)
def _seconds(duration: str) -> float:
    """0 for what is no duration, or none that is positive: it is only a hint."""
    try:
        return max(0.0, parse_duration(duration))
    except ValueError:
        return 0.0


def _owner_of(pod: PodInfo) -> str:
    assert pod.owner is not None
    return f"{pod.namespace}/{pod.owner.kind}/{pod.owner.name}"
