"""When and where a pod group that finds no room could start first: after as few of the running pods as possible end.

Pods end in the order in which they are expected to (`core.gangs.run_times`); those of which nothing is known after all
others, the oldest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from podwright.core.gangs.capacity_bounds import CapacityBounds, why_infeasible
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
    was. Makes one plan where they fit as soon as counting says that they may, and else one for each halving of the
    number of running pods.
    """
    ending = by_end(planner.cache, running, now)

    @lru_cache(maxsize=1)
    def bounds_after(_changes: int) -> CapacityBounds:
        """Pods that end give their slots of reservations back, which are nominations."""
        return CapacityBounds(planner.framework, planner.cache, members, crowded=True)

    def may_fit() -> bool:
        return why_infeasible(planner.group, planner.cache, bounds_after(planner.cache.nominator.changes)) is None

    def plan() -> GangPlacement | None:
        found = planner.plan(members)
        return found if isinstance(found, GangPlacement) else None

    found = fewest_ended(planner.cache, ending, plan, may_fit)
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
    cache: Cache, ending: Sequence[PodInfo], plan: Callable[[], T | None], may_fit: Callable[[], bool] | None = None
) -> tuple[Sequence[PodInfo], T] | None:
    """Returns the fewest of these pods, from the first on, after whose end there is a plan, and the plan; None if even
    the end of all is not enough. Leaves the cache as it was. `may_fit`: false where no plan can be found; costs less.
    """
    plans: list[T] = []

    def fits() -> bool:
        found = plan()
        plans.extend(() if found is None else (found,))
        return found is not None

    count = 0 if may_fit is None else _fewest(cache, ending, may_fit, 0)
    if count is None:
        return None
    with CacheTransaction(cache) as transaction:
        transaction.remove(ending[:count])
        fitted = fits()
    if not fitted and (count := _fewest(cache, ending, fits, count + 1)) is None:
        return None
    return ending[:count], plans[-1]


def _fewest(cache: Cache, ending: Sequence[PodInfo], fits: Callable[[], bool], low: int) -> int | None:
    """The least number of these pods, from `low` on, without which it fits. None if it does not even without all. The
    last call that returned true was that of the number.

    Halves the number, as if each larger one fitted, too. It need not: a pod that ends may give back a larger slot of a
    reservation, and a plan places members one after the other. Then the answer may be more than the least, or None.
    """
    high = len(ending)
    with CacheTransaction(cache) as transaction:
        transaction.remove(ending[:low])
        before = transaction.checkpoint()
        transaction.remove(ending[low:])
        if low > high or not fits():
            return None
        transaction.rollback(before)
        while low < high:
            middle = (low + high) // 2
            before = transaction.checkpoint()
            transaction.remove(ending[low:middle])
            if fits():
                transaction.rollback(before)
                high = middle
            else:
                transaction.remove(ending[middle : middle + 1])
                low = middle + 1
    return low
