"""Rank: wraps the sort key of a third-party QueueSort plugin, so that a heap can always compare it.

A heap operation that an exception interrupts loses entries, and an entry is a pod. So if a comparison fails, Rank
reports the error and compares as PrioritySort does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.pod import PodInfo

ReportError = Callable[[PodInfo, Exception], None]
_NONE: Final = object()


class Rank:
    """Compares by `key` if that works; otherwise by priority, highest first, then by waiting time, longest first."""

    __slots__ = ("_fallback", "_key", "_pod", "_report")

    def __init__(self, key: Any, pod: PodInfo, queued_at: float, report: ReportError) -> None:
        self._key = key
        self._pod = pod
        self._fallback = (-pod.priority, queued_at)
        self._report = report

    def __lt__(self, other: Rank) -> bool:
        if self._key is not _NONE and other._key is not _NONE:
            try:
                return bool(self._key < other._key)
            except BaseException as error:
                if passes_through(error):
                    raise
                self._report(self._pod, TypeError(f"its sort key {self._key!r:.40} cannot be compared: {error!r:.200}"))
        return self._fallback < other._fallback

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Rank) and not self < other and not other < self)

    __hash__ = None  # type: ignore[assignment]  # how Python marks what has no hash


def ranked(sort_key: Callable[[PodInfo, float], Any], report: ReportError) -> Callable[[PodInfo, float], Rank]:
    """Wraps a third-party `sort_key` to return a Rank. If `sort_key` raises, the Rank compares as PrioritySort does."""

    def rank(pod: PodInfo, queued_at: float) -> Rank:
        try:
            key = sort_key(pod, queued_at)
        except Exception as error:  # noqa: BLE001 -- the pod is queued anyway
            report(pod, error)
            key = _NONE
        return Rank(key, pod, queued_at=queued_at, report=report)

    return rank
