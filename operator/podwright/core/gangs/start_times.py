"""When and where a pod group that finds no room could start first: after as few of the running pods as possible end.

Pods end in the order of their declared times; those without one after all others, the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import Planner
from podwright.core.objects.pod import PodInfo
from podwright.core.state.transaction import CacheTransaction


@dataclass(frozen=True, slots=True)
class EarliestStart:
    """`at`: seconds since the epoch; infinite if it depends on a pod whose end is not known. `nodes`: by uid of member.

    `ended`: the uids of the pods that have ended then.
    """

    at: float
    nodes: Mapping[str, str]
    ended: frozenset[str]


def end_of(pod: PodInfo, now: float) -> float:
    """When a running pod ends at the latest, in seconds since the epoch; infinite if it does not say."""
    if not pod.run_limit:
        return inf
    return max(now, (now if pod.start_time is None else pod.start_time) + pod.run_limit)


def earliest_start(
    planner: Planner, members: Sequence[PodInfo], running: Iterable[PodInfo], now: float
) -> EarliestStart | None:
    """None if the members would not fit even without all of the `running` pods, which may end. Leaves the cache as it
    was. Makes a plan for each halving of their number.
    """
    ending = sorted(running, key=lambda pod: (end_of(pod, now), now if pod.start_time is None else pod.start_time))
    plans: dict[int, GangPlacement] = {}

    def fits(count: int) -> bool:
        with CacheTransaction(planner.cache) as transaction:
            transaction.remove(ending[:count])
            found = planner.plan(members)
        if isinstance(found, GangPlacement):
            plans[count] = found
        return count in plans

    if not fits(len(ending)):
        return None
    count = _first(len(ending), fits)
    nodes = {placement.pod.uid: placement.node_name for placement in plans[count].placements}
    at = end_of(ending[count - 1], now) if count else now
    return EarliestStart(at, nodes, frozenset(pod.uid for pod in ending[:count]))


def _first(high: int, fits: Callable[[int], bool]) -> int:
    """The least number from 0 on that fits, if `high` does and each number after one that fits does."""
    low = 0
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low
