"""Measures each queue of teams in a replay: how long its pods wait, its amounts, and its fair share. Times are exact;
amounts and shares are sampled.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import Queues
from podwright.core.queues.shown import is_owed
from podwright.simulator.replay.waiting import WaitingTimes, waiting_times

MOST_QUEUES: Final = 256
"""How many queues are in a scorecard: those with most pods."""
MOST_PLOTTED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """One queue that pods named. `allocated` and `share`: of the resource, in its unit, on average."""

    queue: str
    resource: str
    arrived: int
    placed: int
    preempted: int
    """How many of its pods were evicted for others."""
    waiting: WaitingTimes
    allocated: float
    share: float
    below_share: float
    """The part of the time in which a pod of it waited with which it would have had no more than its share."""


@dataclass(frozen=True, slots=True)
class QueueSample:
    """The amounts of the queues with most pods at one time, and their shares. `fairness`: the part of the fair shares
    that all queues with pods have of them.
    """

    time: float
    allocated: Mapping[str, int]
    share: Mapping[str, int]
    fairness: float = 1.0


class QueueMeter:
    """See the module. `arriving`: the pods of the stream, `resource`: the one to measure if queues name it."""

    def __init__(self, queues: Queues, arriving: Sequence[PodInfo], resource: str) -> None:
        self.samples: list[QueueSample] = []
        self._queues = queues
        pods = Counter(queues.queue_of(pod) for pod in arriving) if queues.active else Counter[str]()
        self._followed = [name for name, _ in pods.most_common(MOST_QUEUES) if queues.get(name) is not None]
        self._arrived = pods
        self._resource = self._measured(resource)
        self._placed: Counter[str] = Counter()
        self._preempted: Counter[str] = Counter()
        self._waits: defaultdict[str, list[float]] = defaultdict(list)
        self._allocated: Counter[str] = Counter()
        self._shares: Counter[str] = Counter()
        self._below: Counter[str] = Counter()
        self._sampled = 0

    def _measured(self, resource: str) -> str:
        rules = (self._queues.get(name) for name in self._queues.names()) if self._queues.active else ()
        named = Counter(each for queue in rules if queue is not None for each in queue.quotas)
        return resource if resource in named or not named else named.most_common(1)[0][0]

    def waited(self, pod: PodInfo, seconds: float, *, placed: bool) -> None:
        """A pod has got a node after this time, or has left without one, or waits when the replay ends."""
        if self._followed:
            name = self._queues.queue_of(pod)
            self._waits[name].append(seconds)
            self._placed[name] += placed

    def preempted(self, pod: PodInfo) -> None:
        """A pod was evicted for another one."""
        if self._followed:
            self._preempted[self._queues.queue_of(pod)] += 1

    def sample(self, time: float) -> None:
        """Notes what queues have at this time."""
        if not self._followed:
            return
        self._queues.shared_out()
        self._sampled += 1
        allocated, shares = dict[str, int](), dict[str, int]()
        fair = kept = 0
        for name in self._followed:
            has = self._queues.usage(name).get(self._resource, 0)
            share = self._queues.last_share(name).get(self._resource, 0)
            fair, kept = fair + share, kept + min(has, share)
            self._allocated[name] += has
            self._shares[name] += share
            self._below[name] += is_owed(self._queues, name)
            if len(allocated) < MOST_PLOTTED:
                allocated[name], shares[name] = has, share
        self.samples.append(QueueSample(time, allocated, shares, kept / fair if fair else 1.0))

    def figures(self) -> Sequence[QueueFigures]:
        """By the name of the queue."""
        times = self._sampled or 1
        return [
            QueueFigures(
                queue=name,
                resource=self._resource,
                arrived=self._arrived[name],
                placed=self._placed[name],
                preempted=self._preempted[name],
                waiting=waiting_times(self._waits[name]),
                allocated=self._allocated[name] / times,
                share=self._shares[name] / times,
                below_share=self._below[name] / times,
            )
            for name in sorted(self._followed)
        ]
