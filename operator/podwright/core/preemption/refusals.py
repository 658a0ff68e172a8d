"""Refusals: which of the units that a claim has looked at it may not take, and why. Words are made only when asked
for.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, inf
from typing import Final

from podwright.core.objects.quantity import MAX_INT64
from podwright.core.queues.amounts import amount_text

RECLAIM: Final = "are protected by reclaimMinRuntime"
PREEMPT: Final = "are protected by preemptMinRuntime"
BUDGET: Final = "are protected by PodDisruptionBudgets"
FIRM: Final = "are not preemptible"
GUARANTEE: Final = "keeps its guarantee of"
SHARE: Final = "keeps its share of"
MOST_TOLD: Final = 3
"""How many reasons are told."""
_LAST: Final = 253402300799
"""The last second of the year 9999."""

Reason = tuple[str, str, str]
"""One of the above, the name of a queue, and the resource that it keeps."""


class Refusals:
    """See the module."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Reason, int, int, float]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._found

    def add(self, key: str, reason: Reason, parent: int, count: int = 1, until: float = inf) -> None:
        """A unit may not be taken. `key`: the uid of its first pod, or the name of the queue whose pods are kept.
        `parent`: how many levels of the claim are below the common parent. `count`: of pods, or how much is kept.
        `until`: seconds since the epoch.
        """
        self._found[key] = reason, parent, count, until

    def forget(self, uid: str) -> None:
        """The unit is taken after all."""
        self._found.pop(uid, None)

    def texts(self, most: int) -> list[str]:
        """The reasons in words, in a lasting order, for units of which at most so many levels of the claim are below
        the common parent. Numbers are in brackets.
        """
        pods: dict[Reason, tuple[int, float]] = {}
        for reason, parent, count, until in self._found.values():
            if parent <= most:
                before, first = pods.get(reason, (0, inf))
                pods[reason] = count if reason[2] else before + count, min(first, until)
        return [_text(reason, *pods[reason]) for reason in sorted(pods)[:MOST_TOLD]]


def _text(reason: Reason, count: int, until: float) -> str:
    why, name, resource = reason
    if resource:
        return f"{name} {why} {resource} ({'all that it has' if count == MAX_INT64 else amount_text(resource, count)})"
    moment = ""
    if until < inf:
        first = ", the first" if count > 1 else ""
        moment = f"{first} until {datetime.fromtimestamp(min(ceil(until), _LAST), UTC):%Y-%m-%dT%H:%M:%SZ}"
    return f"pods of {name} {why} ({count}{moment})"
