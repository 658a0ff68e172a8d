"""Counts the waiting pods of each plugin, in short parts: a queue may have hundreds of thousands of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from podwright.core.queue.queued_pod import QueuedPod

PODS_PER_PART: Final = 1000
"""Pods that are counted at once, which takes about a millisecond."""


def counts_of_rejections(pods: Mapping[str, QueuedPod]) -> Iterator[Counter[tuple[str, str]]]:
    """How many of the pods each plugin rejected or gates, by (plugin, scheduler name), for at most `PODS_PER_PART` pods
    at a time.

    `pods` may change between two parts: pods that are added are not counted, and those that are gone are left out.
    """
    uids = [*pods]
    for start in range(0, len(uids), PODS_PER_PART):
        part = map(pods.get, uids[start : start + PODS_PER_PART])
        yield Counter(key for queued in part if queued is not None for key in queued.held_back_by())
