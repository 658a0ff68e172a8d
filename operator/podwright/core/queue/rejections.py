"""Counts the waiting pods of each plugin, in short steps: a queue may have hundreds of thousands of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from typing import Final

from podwright.core.queue.queued_pod import QueuedPod

PODS_A_STEP: Final = 1000
"""Pods that are counted at once, which takes about a millisecond."""


def counts_of_rejections(pods: Mapping[str, QueuedPod]) -> Generator[None, None, Counter[tuple[str, str]]]:
    """Returns how many of the pods each plugin rejected or gates, by (plugin, scheduler name). Looks at `PODS_A_STEP`
    pods in each step.

    `pods` may change between two steps: pods that are added are not counted, and those that are gone are left out.
    """
    uids, total = [*pods], Counter[tuple[str, str]]()
    for start in range(0, len(uids), PODS_A_STEP):
        part = map(pods.get, uids[start : start + PODS_A_STEP])
        total.update(key for queued in part if queued is not None for key in queued.held_back_by())
        yield
    return total
