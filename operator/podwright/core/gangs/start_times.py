"""When and where a pod group that finds no room could start first: after as few of the running pods as possible end.

Pods end in the order in which they are expected to (`core.gangs.run_times`); those of which nothing is known after all
others, the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.run_times import run_times_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EarliestStart:
    """`at`: seconds since the epoch; infinite if it depends on a pod whose end is not known. `nodes`: by uid of member.

    `ended`: the uids of the pods that have ended then.
    """

    at: float
    nodes: Mapping[str, str]
    ended: frozenset[str]
    sure: bool = True
    """False if one of them may run for longer than is expected."""


def earliest_start(
    planner: GangPlanner, members: Sequence[PodInfo], running: Iterable[PodInfo], now: float
) -> EarliestStart | None:
    """None if the members would not fit even without all of the `running` pods, which may end. Leaves the cache as it
    was. Makes a plan for each halving of their number.
    """
    ending = by_end(planner.cache, running, now)

    def plan() -> GangPlacement | None:
        found = planner.plan(members)
        return found if isinstance(found, GangPlacement) else None

    found = fewest_ended(planner.cache, ending, plan)
    if found is None:
        return None
    ended, placed = found
    nodes = {placement.pod.uid: placement.node_name for placement in placed.placements}
    at = run_times_of(planner.cache).end_of(ended[-1], now) if ended else now
    sure = all(map(run_times_of(planner.cache).is_sure, ended))
    return EarliestStart(at, nodes, frozenset(pod.uid for pod in ended), sure)


def by_end(cache: Cache, running: Iterable[PodInfo], now: float) -> Sequence[PodInfo]:
    """Running pods in the order in which they end."""
    end_of = run_times_of(cache).end_of

    def key_of(pod: PodInfo) -> tuple[float, float]:
        cache.deadline.point()
        return end_of(pod, now), now if pod.start_time is None else pod.start_time

    return sorted(running, key=key_of)


def fewest_ended(
    cache: Cache, ending: Sequence[PodInfo], plan: Callable[[], T | None]
) -> tuple[Sequence[PodInfo], T] | None:
    """Returns the fewest of these pods, from the first on, after whose end there is a plan, and the plan; None if even
    the end of all is not enough. Leaves the cache as it was. Plans once for each step of a binary search.
    """
    plans: dict[int, T] = {}

    def fits(count: int) -> bool:
        with CacheTransaction(cache) as transaction:
            transaction.remove(ending[:count])
            found = plan()
        if found is not None:
            plans[count] = found
        return found is not None

    if not fits(len(ending)):
        return None
    count = _first(len(ending), fits)
    return ending[:count], plans[count]


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
