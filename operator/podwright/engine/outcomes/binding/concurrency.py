"""ConcurrencyLimit: how many requests at once keep a server busy without queueing more than a few of them there.

By Little's law, `rate x latency` requests are on their way at any moment, where the latency is that of a request which
waits for no other one. On top of these, `base` requests wait at the server or are worked on, which is enough to keep it
busy. So

    limit = base + rate x lowest latency

Where the network takes little time, the limit stays near `base`. Where it takes long, each step allows `base` more
requests as long as that raises the rate. When it no longer does, the limit stays: requests that wait for each other
raise their latency, but not the lowest one. The limit also falls with the rate.

The lowest latency is measured while few requests are in progress. If that does not happen for a while, the limit falls
to a few for some round trips (a probe), because otherwise a higher latency of the network looks like one of the server.
A server that refuses requests (429) halves `base`, which then grows again.
"""

from __future__ import annotations

from collections import deque
from typing import Final

FEW: Final = 4
"""This many requests in progress do not wait for each other."""
SAMPLES: Final = 8
"""How many of the last latencies count."""
USUAL_SAMPLES: Final = 64
"""`usual` is the median of so many last requests."""
LONGEST_USUAL: Final = 0.3
"""A longer latency need not mean a busy server: most of the last requests may have waited for an admission webhook."""
FIRST_USUAL: Final = 0.2
"""`usual` before the first request is completed: all connections are made at once then."""
STEP_SECONDS: Final = 0.2
"""The shortest time over which the rate is measured. It is longer if a round trip is."""
IDLE_STEPS: Final = 5
"""If a step took this many times the shortest time, there was little to do."""
FIRST_PROBE_SECONDS: Final = 2.0
"""How long after the last request with few others in progress the first probe follows. Connections are made at the
start of a burst.
"""
PROBE_SECONDS: Final = 20.0
"""How long after a probe the next one follows."""
PROBE_SAMPLES: Final = 3
LONGEST_PROBE_SECONDS: Final = 1.0
THROTTLED_SECONDS: Final = 1.0
"""Refusals within this time count as one."""
LONGEST_LATENCY: Final = 1.0
"""Seconds. Longer latencies count as this one."""


class ConcurrencyLimit:
    """See the module. Times in seconds, of one clock that never steps back."""

    def __init__(self, base: int, longest: int, now: float) -> None:
        """`longest`: the limit is never above it."""
        self._base = float(base)
        self._full_base = float(base)
        self._longest = longest
        self._steady_limit = float(base)
        self._latencies: deque[float] = deque(maxlen=SAMPLES)
        self._all_latencies: deque[float] = deque(maxlen=USUAL_SAMPLES)
        self._probe_at = now + FIRST_PROBE_SECONDS
        """Deadline for the next measurement of the minimum latency."""
        self._step_began = now
        self._completed = 0
        """Requests since then."""
        self._reached = False
        """True if the limit was reached since then."""
        self._probe_began: float | None = None
        self._probed: list[float] = []
        self._throttled_at = float("-inf")
        self.limit = base
        """How many requests may be in progress."""
        self.latency = 0.0
        """The lowest latency; 0 before it is known."""
        self.usual = FIRST_USUAL
        """The median of all latencies, at most LONGEST_USUAL. A busy server raises it."""

    def completed(self, began: float, now: float, *, alone: bool) -> None:
        """Counts a request that succeeded. `alone`: at most FEW were in progress when it began."""
        latency = min(LONGEST_LATENCY, now - began)
        self._all_latencies.append(latency)
        if alone:
            self._probe_at = max(self._probe_at, now + FIRST_PROBE_SECONDS)
        if alone or not self._latencies or latency < self.latency:
            self._latencies.append(latency)
            self.latency = min(self._latencies)
        if self._probe_began is not None:
            self._probe(began, now, latency if alone else None)
        self._completed += 1
        elapsed, shortest = now - self._step_began, max(STEP_SECONDS, 2 * self.latency)
        if elapsed >= shortest:
            self._step(now, elapsed, busy=elapsed < IDLE_STEPS * shortest)

    def reached(self) -> None:
        """Notes that the limit was reached. Without that, the rate says nothing about the server."""
        self._reached = True

    def throttled(self, now: float) -> None:
        """The server refused a request, because it has too many."""
        if now >= self._throttled_at + THROTTLED_SECONDS:
            self._throttled_at = now
            self._base = max(1.0, self._base / 2)
            self._steady_limit = max(1.0, self._steady_limit / 2)
            self.limit = max(1, min(self.limit, round(self._steady_limit)))

    def _step(self, now: float, elapsed: float, *, busy: bool) -> None:
        rate = self._completed / elapsed
        self.usual = min(LONGEST_USUAL, sorted(self._all_latencies)[len(self._all_latencies) // 2])
        reached = self._reached and busy
        self._step_began, self._completed, self._reached = now, 0, False
        if self._base < self._full_base and now >= self._throttled_at + THROTTLED_SECONDS:
            self._base += 1.0
        if self._probe_began is not None or not reached:
            return
        target = min(float(self._longest), self._base + rate * self.latency)
        # Half of the way down, because the rate is also low when there was little to do for a moment.
        self._steady_limit = max(target, (target + self._steady_limit) / 2)
        self.limit = max(1, round(self._steady_limit))
        if now >= self._probe_at and self.limit > FEW:
            self._probe_began, self._probed = now, []
            self.limit = FEW

    def _probe(self, began: float, now: float, latency: float | None) -> None:
        """Ends the probe when enough requests that began in it are complete, or none will be soon."""
        assert self._probe_began is not None
        if latency is not None and began >= self._probe_began:
            self._probed.append(latency)
        if len(self._probed) >= PROBE_SAMPLES or now >= self._probe_began + LONGEST_PROBE_SECONDS:
            if self._probed:
                self._latencies.clear()
                self._latencies.extend(self._probed)
                self.latency = min(self._probed)
            self._probe_at, self._step_began = now + PROBE_SECONDS, now
            self._completed, self._reached = 0, False
            self._probe_began = None
            self.limit = max(1, round(self._steady_limit))
