"""Rank: a sort key of a stranger's QueueSort plugin, which may be anything, as something that a heap can always compare.

A heap that is interrupted by an exception loses entries, and an entry is a pod. So a comparison that fails is settled as
PrioritySort would, and complained about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from podwright.core.objects.pod import PodInfo

Complain = Callable[[PodInfo, Exception], None]
_NONE: Final = object()


class Rank:
    """Ordered by `key` where that works, else greater priority first, then whoever has waited longer."""

    __slots__ = ("_complain", "_fallback", "_key", "_pod")

    def __init__(self, key: Any, pod: PodInfo, queued_at: float, complain: Complain) -> None:
        self._key = key
        self._pod = pod
        self._fallback = (-pod.priority, queued_at)
        self._complain = complain

    def __lt__(self, other: Rank) -> bool:
        if self._key is not _NONE and other._key is not _NONE:
            try:
                return bool(self._key < other._key)
            except (Exception, SystemExit) as error:  # noqa: BLE001 -- a stranger's key may do anything
                self._complain(
                    self._pod, TypeError(f"its sort key {self._key!r:.40} cannot be compared: {error!r:.200}")
                )
        return self._fallback < other._fallback

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Rank) and not self < other and not other < self)

    __hash__ = None  # type: ignore[assignment]


def ranked(sort_key: Callable[[PodInfo, float], Any], complain: Complain) -> Callable[[PodInfo, float], Rank]:
    """The sort key of a plugin that is not to be trusted, as a Rank; without one if it raises."""

    def rank(pod: PodInfo, queued_at: float) -> Rank:
        try:
            key = sort_key(pod, queued_at)
        except Exception as error:  # noqa: BLE001 -- the pod is queued all the same
            complain(pod, error)
            key = _NONE
        return Rank(key, pod, queued_at, complain)

    return rank
