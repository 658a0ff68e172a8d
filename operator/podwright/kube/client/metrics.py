"""Requests to the API server, counted and measured by client-go's metric names. `http` tells them; Kopf's own are not among them.

Source of names, labels and buckets: k8s.io/component-base, metrics/prometheus/restclient.
"""

from __future__ import annotations

from array import array
from typing import Final

from prometheus_client import CollectorRegistry

from podwright.engine.metrics.collectors import Counts, Tallies, Tally

NO_ANSWER: Final = 0
"""In place of a status: the connection failed, the time ran out, or the request was given up."""
_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class ClientMetrics:
    """The metrics of all requests, to whatever host."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counts(
            "rest_client_requests",
            "HTTP requests by status code, method and host.",
            ["code", "method", "host"],
            registry,
        )
        self._seconds = Tallies(
            "rest_client_request_duration_seconds",
            "From a request until its answer was read, by method and host. Watches are left out.",
            ["verb", "host"],
            _SECONDS,
            registry,
        )

    def of(self, host: str) -> HostMetrics:
        """Those of requests to one host, `name:port` as its URL has it."""
        return HostMetrics(self._requests, self._seconds, host)


class HostMetrics:
    """See ClientMetrics. What was seen before is found by one look-up: each Binding comes through here."""

    __slots__ = ("_host", "_known", "_requests", "_seconds")

    def __init__(self, requests: Counts, seconds: Tallies, host: str) -> None:
        self._requests = requests
        self._seconds = seconds
        self._host = host
        self._known: dict[tuple[str, int], tuple[array[int], Tally]] = {}

    def answered(self, method: str, status: int, seconds: float) -> None:
        """A request came to its end. `status`: HTTP's, or NO_ANSWER."""
        known = self._known.get((method, status))
        if known is None:
            known = self._known[method, status] = (self._count(method, status), self._seconds.of(method, self._host))
        count, tally = known
        count[0] += 1
        tally.observe(seconds)

    def opened(self, status: int) -> None:
        """A stream was opened, or was not: it is counted, and how long it lasts says nothing."""
        self._count("GET", status)[0] += 1

    def _count(self, method: str, status: int) -> array[int]:
        return self._requests.of(str(status) if status else "<error>", method, self._host)
