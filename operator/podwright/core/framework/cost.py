"""Estimates from a pod's size, before any attempt at it, whether attempts at it are far more costly than ordinary ones.

Any user may create a pod with thousands of terms. Plugins need time in proportion to these, and all pods share one
thread. So such a pod waits in a lane of its own (see `core/queue/active_pods`). The lane's share of the time is
measured, so the estimate may be rough: a pod that turns out to be cheap hardly waits. Each plugin declares what it
checks in `Plugin.costs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo

ORDINARY: Final = 32
"""A pod with at most this many items of each kind is never costly. Plugins leave out so few, unless these count in a
pod group.
"""
COSTLY_SECONDS: Final = 0.01
"""An attempt is costly from here on. Ordinary ones take about a millisecond."""
COSTLY_GROUP_SECONDS: Final = 0.3
"""An attempt at a pod group is costly from here on. With 5,000 full nodes, a gang of 20 to 100 members that may preempt
takes 0.1 to 0.25 seconds, also if each member has six pod affinity terms of its own; 1,000 such members take 1.9
seconds."""
NODES: Final = 5_000
"""The number of nodes that the estimates are made for."""
_MEMBER_SECONDS: Final = 50e-6
"""For each member of a pod group that differs from the others, without its items."""
_PREEMPTING_MEMBER_SECONDS: Final = 500e-6
"""The same if the member may preempt."""


class Cost(NamedTuple):
    """`number` items of a pod, for example "tolerations", that a plugin checks in each attempt.

    `each`: the seconds for one item in an attempt on NODES nodes that does not preempt. `dry_run`: the factor for an
    attempt that may preempt. The times of Podwright's own plugins are as `make hostile` measures them with twice as
    many placed pods, rounded up.
    """

    number: int
    items: str
    each: float
    dry_run: float = 1.0


PluginCost = tuple[str, Cost]
"""A plugin's name, and one of its costs."""


@dataclass(frozen=True, slots=True)
class AttemptCost:
    """The reason why attempts at a pod are costly: `plugin` checks `count` items, for example "pod affinity terms".

    `seconds`: the estimated time of an attempt on NODES nodes. `elsewhere`: the estimated time that binding such a pod
    takes in the API server, which reads, checks, stores and sends the object, and in our own watches: about as long as
    an attempt that does not preempt.
    """

    seconds: float
    elsewhere: float
    plugin: str
    count: int
    items: str


def estimate(pod: PodInfo, costs: Iterable[PluginCost]) -> AttemptCost | None:
    """The cost of an attempt at the pod; None if it is ordinary. `costs`: of the plugins that decide about it."""
    large = [(plugin, cost) for plugin, cost in costs if cost.number > ORDINARY]
    if not large:
        return None
    preempts = _preempts(pod)
    seconds = sum(_seconds(cost, preempts=preempts) for _, cost in large)
    if seconds < COSTLY_SECONDS:
        return None
    plugin, most = max(large, key=lambda each: _seconds(each[1], preempts=preempts))
    elsewhere = sum(_seconds(cost, preempts=False) for _, cost in large)
    return AttemptCost(seconds, elsewhere, plugin, most.number, most.items)


def is_costly_group(members: Iterable[PodInfo], costs_of: Callable[[PodInfo], Iterable[PluginCost]]) -> bool:
    """True if an attempt at these members of a pod group is estimated to take COSTLY_GROUP_SECONDS. Members with equal
    specs count once.
    """
    differing = {
        tuple(map(id, (pod.requests, pod.node_affinity, pod.pod_affinity, pod.spread, pod.tolerations))): pod
        for pod in members
    }
    seconds = 0.0
    for pod in differing.values():
        preempts = _preempts(pod)
        seconds += _PREEMPTING_MEMBER_SECONDS if preempts else _MEMBER_SECONDS
        seconds += sum(_seconds(cost, preempts=preempts) for _, cost in costs_of(pod))
        if seconds >= COSTLY_GROUP_SECONDS:
            return True
    return False


def _seconds(cost: Cost, *, preempts: bool) -> float:
    return cost.number * cost.each * (cost.dry_run if preempts else 1.0)


def _preempts(pod: PodInfo) -> bool:
    return pod.priority > 0 and pod.preemption_policy != "Never"
