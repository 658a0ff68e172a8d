"""The pods that wait: how many by state and age, and those that have waited longest.

A viewer may not be allowed to see the pods of all namespaces, so the listed pods are chosen separately for each sight:
a namespace, or ALL of them. Counts are for everybody.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.core.queue.queued_pod import Place
from podwright.engine.process.steps import Steps

ALL: Final = ""
"""The sight of those who may see the pods of all namespaces."""
PLACES: Final = tuple(place.value for place in Place)
AGES: Final = (10.0, 60.0, 600.0, 3600.0)
"""The bounds between ages, in seconds."""
MOST_LISTED: Final = 40
"""How many pods of each state are listed, the oldest."""
PODS_A_STEP: Final = 500
LONGEST: Final = 200
"""Characters of a text."""


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that waits, in short. `since`: when it began to wait, in seconds of any clock. `why`: the plugins that
    rejected it or gate it.
    """

    namespace: str
    name: str
    place: str
    since: float
    attempts: int = 0
    policy: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """`counts`: by state, the number of pods in each age. `oldest`: by sight, the pods that have waited longest, in
    each state apart.
    """

    counts: Mapping[str, Sequence[int]]
    oldest: Mapping[str, Sequence[PendingPod]]


def waiting_pods(pods: Iterable[PendingPod | None], now: float, sights: Collection[str]) -> Steps[Waiting]:
    """Counts the waiting pods by age, and finds the oldest ones. `now`: of the same clock as the pods' times. `pods`:
    None where a pod has gone.
    """
    counts = {place: [0] * (len(AGES) + 1) for place in PLACES}
    heaps: dict[tuple[str, str], list[tuple[float, int, PendingPod]]] = {}
    everything = ALL in sights
    for number, pod in enumerate(pods, start=1):
        if pod is not None:
            counts[pod.place][bisect_right(AGES, now - pod.since)] += 1
            if everything:
                _keep_oldest(heaps.setdefault((ALL, pod.place), []), pod, number)
            if pod.namespace in sights:
                _keep_oldest(heaps.setdefault((pod.namespace, pod.place), []), pod, number)
        if number % PODS_A_STEP == 0:
            yield
    oldest: dict[str, list[PendingPod]] = {sight: [] for sight in sights}
    for place in PLACES:
        for sight in sights:
            found = sorted(heaps.get((sight, place), ()), reverse=True)
            oldest[sight] += [pod for _, _, pod in found]
    return Waiting(counts, oldest)


def _keep_oldest(heap: list[tuple[float, int, PendingPod]], pod: PendingPod, number: int) -> None:
    """The heap has the youngest first: the one that goes when an older one comes."""
    item = (-pod.since, -number, pod)
    if len(heap) < MOST_LISTED:
        heapq.heappush(heap, item)
    elif item > heap[0]:
        heapq.heapreplace(heap, item)


def queued_pods(queue: SchedulingQueue) -> Iterator[PendingPod | None]:
    """The pods of a queue, as of the time when each is asked for. The queue may change in between."""
    for uid in queue.uids():
        queued = queue.get(uid)
        yield None if queued is None else _shown(queued)


def _shown(queued: QueuedPod) -> PendingPod:
    pod = queued.pod
    why = queued.gated_by or (", ".join(sorted(queued.rejectors)) if queued.rejectors else "")
    return PendingPod(
        pod.namespace, pod.name, queued.place.value, queued.queued_at, queued.attempts, queued.policy, why[:LONGEST]
    )
