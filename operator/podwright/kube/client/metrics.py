"""Metrics of the requests to one API server. `http` reports them. Kopf's own requests are not among them."""

from __future__ import annotations

from array import array
from typing import Final

from podwright.engine.records.families import HistogramSeries
from podwright.engine.records.metrics import CLIENT_REQUEST_SECONDS, CLIENT_REQUESTS, Metrics

NO_ANSWER: Final = 0
"""In place of a status: the connection failed, or the request timed out or was cancelled."""


class HostMetrics:
    """Requests to one host, `name:port` as in its URL. Keeps its series, because every Binding is counted here."""

    __slots__ = ("_host", "_known", "_requests", "_seconds")

    def __init__(self, metrics: Metrics, host: str) -> None:
        self._requests = metrics.counter(CLIENT_REQUESTS)
        self._seconds = metrics.histogram(CLIENT_REQUEST_SECONDS)
        self._host = host
        self._known: dict[tuple[str, int], tuple[array[int], HistogramSeries]] = {}

    def answered(self, method: str, status: int, seconds: float) -> None:
        """A request ended. `status`: HTTP's, or NO_ANSWER."""
        known = self._known.get((method, status))
        if known is None:
            known = self._known[method, status] = (self._count(method, status), self._seconds.of(method, self._host))
        count, series = known
        count[0] += 1
        series.observe(seconds)

    def opened(self, status: int) -> None:
        """A stream was opened, or was refused. It is counted, but not timed: it lasts as long as its reader wants."""
        self._count("GET", status)[0] += 1

    def _count(self, method: str, status: int) -> array[int]:
        return self._requests.of(str(status) if status else "<error>", method, self._host)
