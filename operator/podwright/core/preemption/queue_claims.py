"""QueueClaim: which placed units a pod or a gang of a queue may have evicted. ADR 0019 has the rule.

    claim_of ─► candidates: units that may be victims alone
        ─► take, one by one, as long as all queues keep what is theirs ─►
    give_back, as long as what is still taken remains lawful

The claim is a ledger beside the cache: it reads what queues hold when it is made, and from then on counts what is taken
itself. So a dry run on copies of nodes and a plan in a transaction use it in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from heapq import merge
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Any

import numpy as np

from podwright.core.framework.program import Positions, Rows
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.preemption.budgets import BudgetRules, Budgets
from podwright.core.preemption.refusals import BUDGET, FIRM, GUARANTEE, PREEMPT, RECLAIM, SHARE, Refusals
from podwright.core.preemption.units import ABOVE_ALL, Unit, complete, importance, priority_of, units_below
from podwright.core.queues.bound import Bound, at_share
from podwright.core.queues.flavors import NOWHERE, Place, judged
from podwright.core.queues.least_first import Importance
from podwright.core.queues.queues import queues_of
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import NO_QUOTA, Queue, add_amounts
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.nominator import SYSTEM_CRITICAL


@dataclass(slots=True, eq=False)
class _Level:
    """A queue as the claim sees it. `left`: by resource, what its pods hold that neither terminate nor are taken."""

    queue: Queue
    left: dict[str, int]
    surplus: int
    """How much more of the claim's main resource it had at first than it keeps."""
    min_runtimes: tuple[float, float]
    """The seconds that its pods run before pods of their own queue, or of another one, may have them evicted."""

    def keeps_guarantee(self, amounts: Mapping[str, int], assumed: Mapping[str, int]) -> bool:
        """True if the queue has at least its guarantee without these amounts, and without what is `assumed` to have a
        node: a Binding may fail. A guarantee without a bound protects only what is scarce itself: otherwise a pod with
        a CPU would keep its GPUs for good.
        """
        return all(
            self.left.get(resource, 0) - amount - (assumed.get(resource, 0) if guarantee else 0) >= guarantee
            for resource, amount in amounts.items()
            if (guarantee := self.queue.guarantee(resource)) != MAX_INT64
        )

    def keeps_share(self, resource: str, amount: int, *, rounded: bool, split: bool) -> bool:
        """True if the queue has at least its share without this amount, or if it has more with it, and may `split` it.
        `rounded`: the share counts as rounded up.
        """
        left = self.left.get(resource, 0)
        return left - amount >= self.queue.entitled(resource, rounded) or (
            split and left > self.queue.entitled(resource)
        )


@dataclass(slots=True)
class _Reach:
    """How the claim reaches the pods of one queue. `above`: the levels of that queue and of all above it.

    `below`: those of them below the nearest common parent; none in the claim's own queue. `parent`: how many levels of
    the claim are below that parent.
    """

    above: Sequence[_Level]
    below: Sequence[_Level]
    parent: int
    min_runtime: float
    max_runtime: float

    @property
    def own(self) -> bool:
        return not self.below


@dataclass(slots=True)
class _Part:
    """The amounts that a unit holds in one queue. `overdue`: all of it has run for longer than its queues allow."""

    reach: _Reach
    overdue: bool
    amounts: dict[str, int] = field(default_factory=dict)


class QueueClaim:
    """See the module. `pods`: of one queue, to be placed; `now`: seconds since the epoch; `place`: the flavors of the
    nodes where they are to be placed.
    """

    def __init__(
        self,
        cache: Cache,
        leaf: Queue,
        pods: Sequence[PodInfo],
        priority: int,
        budgets: BudgetRules,
        now: float,
        place: Place = NOWHERE,
    ) -> None:
        self.place = place
        self._first = pods[0]
        self._who = "pod group" if len(pods) > 1 else "pod"
        self._cache = cache
        self._queues = queues_of(cache)
        self._tree = self._queues.tree()  # `claim_of` has shared out
        self._priority = priority
        self._now = now
        self.rules = budgets
        self._budgets = Budgets(budgets, by_eviction=True)
        self._levels: dict[str, _Level] = {}
        self._reaches: dict[str, _Reach | None] = {}
        self._parts: dict[Unit, Sequence[_Part]] = {}
        self._off_nodes = self._held_off_nodes()
        self._main = ""
        """The resource of which the claim needs the largest part."""
        self._path = [self._level(queue) for queue in leaf.path]
        self._request = self._tree.tracked(self._queues.amounts_together(pods, place))
        behind = self._queues.bounds.promised_behind(pods)
        self._promised = {
            (queue.spec.name, resource): queue.promised.get(resource, 0) - behind.get(resource, 0)
            for queue in leaf.up
            for resource in self._request
        }
        self.splits_units = False
        self.taken: dict[Unit, None] = {}
        self._refusals = Refusals()
        self._gone: Counter[str] = Counter()
        """By uid: of how many taken units a pod is that may be of several: a spare of a gang is, and of the gang."""
        self._reclaimed = [0] * (len(self._path) + 1)
        """By number of the claim's levels below the common parent: how many parts of other queues are taken."""
        over = [frozenset(self._over_limit(index)) for index in range(len(self._path))]
        limited = frozenset[str]().union(*over)
        self._judged = {**judged(self._request), **{name: self._request[name] for name in limited}}
        """The part of the request by which it is judged what queues are entitled to."""
        self._lacks = lacking = self._lacking()
        self._scarce = [lacking.union(*over[parent:]) for parent in range(len(self._path) + 1)]
        """By number of the claim's levels below a common parent: the resources of which the claim needs more than is
        free there. Empty if enough is free in sum, but not together.
        """
        self._short = self._scarce[0] or frozenset(self._judged)
        self._exact = next((i for i, level in enumerate(self._path) if self._is_rounded_up(level)), len(self._path))
        """How many levels of the claim do not need the unit by which their share was rounded up."""
        self.full = next((i for i, level in enumerate(self._path) if self._is_full(level)), None)
        """How many levels of the claim are below the lowest one that has its share without the claim; None if each has
        less. All that is taken outside of that level, it must give up itself.
        """
        self._limits = [level for index, level in enumerate(self._path) if self._over_limit(index, going=True)]
        """The claim's queues whose limits forbid it now. The highest is the last."""
        capacity = self._tree.top.share
        self._main = max(
            sorted(self._short), key=lambda r: Fraction(self._request[r], capacity.get(r) or 1), default=""
        )

    @property
    def may_split_units(self) -> bool:
        """True if the claim might take units of which only a part is above the share of their queue."""
        return any(self._is_guaranteed(levels) for levels in range(1, len(self._path) + 1))

    @property
    def is_vain(self) -> bool:
        """True if nobody may be evicted: the queue has its share, and no pods of lower priority. Not for a pod to which
        room is promised that others give back: it may still be there once these are gone.
        """
        leaf = self._path[0]
        if self._is_lawful_at(leaf) or (not self._lacks and self._cache.nominator.node_of(self._first.uid)):
            return False
        groups, name = self._cache.groups, leaf.queue.spec.name
        return not any(
            priority_of(pod, groups) < self._priority or self._is_overdue((pod,))
            for _, pod in chain(self._lower_pods(name), self._lower_pods(name, ending=True))
        )

    # Which units

    def nodes(self) -> Iterator[tuple[tuple[float, ...], NodeInfo]]:
        """The nodes where evictions might help, with what these cost at least there (see `cost`). The least comes
        first. A node may come again.
        """
        if not self._lacks:  # else what terminates is promised already, or is not enough on any node
            yield from (((-inf,), info) for info in self._queues.nodes_of_ending_pods())
        for key, pod in self._holders(self._tree.top.children):
            if (info := self._cache.placement(pod.uid)) is not None:
                yield (*key[:2], self._runtime(pod), 1), info

    def candidates(self, pods: Iterable[PodInfo]) -> list[Unit]:
        """The units to which these placed pods belong that may be victims, each by itself. The least important last."""
        importance = self.importance

        def key(unit: Unit) -> tuple[Any, ...]:
            self._cache.deadline.point()
            return importance(unit)

        return sorted(filter(self._is_candidate, units_below(ABOVE_ALL, pods, self._cache)), key=key)

    @cached_property
    def importance(self) -> Callable[[Unit], tuple[Any, ...]]:
        """A sort key that puts the most important unit first, and what terminates anyway last: by how little its queue
        is above its share, then as in `units.importance`.
        """
        among_equals = importance(self._now)
        return lambda unit: (not self._parts_of(unit), self._surplus(unit), *among_equals(unit))

    def cost(self, victims: Sequence[PodInfo]) -> tuple[float, ...]:
        """Compares sets of victims: the least is best. How far their queues are above their shares, the highest
        priority, the time lost, how many. Pods that terminate anyway cost nothing.
        """
        staying = [pod for pod in victims if not pod.terminating]
        if not staying:
            return (-inf,)
        surplus = min(self._surplus_of(pod) for pod in staying)
        lost = sum(self._runtime(pod) for pod in staying)
        return (-surplus, max(pod.priority for pod in staying), lost, len(staying))

    def _is_candidate(self, unit: Unit) -> bool:
        self._cache.deadline.point()
        pods = unit.pods + unit.spares
        if not all(map(self._stays_away, pods)):
            return False
        staying = [pod for pod in pods if not pod.terminating]
        overdue = self._is_overdue(staying)
        for pod in staying:
            reach = self._reach(self._queues.queue_of(pod))
            if reach is None or (reach.own and unit.priority >= self._priority and not overdue):
                return False
            if (left := reach.min_runtime - self._runtime(pod)) > 0:
                self._refuse(unit, PREEMPT if reach.own else RECLAIM, pod, until=self._now + left)
                return False
            if self._queues.is_firm(pod):
                self._refuse(unit, FIRM, pod)
                return False
        for part in self._parts_of(unit):
            if not part.reach.own and not self._spares(part):
                self._refuse_part(part)
                return False
        return True

    def _refuse(self, unit: Unit, why: str, pod: PodInfo, until: float = inf) -> None:
        name = self._queues.queue_of(pod)
        reach = self._reach(name)
        if reach is not None:
            self._refusals.add(unit.pods[0].uid, (why, name, ""), reach.parent, len(unit.pods), until)

    def _refuse_part(self, part: _Part) -> None:
        """Some queue keeps this part: the one that has the least to spare. It is found once for each queue of pods."""
        parent, own = part.reach.parent, part.reach.below[0].queue.spec.name
        if own in self._refusals:
            return
        scarce, rounded = self._scarce[parent] or self._judged, parent > self._exact
        keepers = [
            (level.left.get(resource, 0) - amount - kept, level.queue.spec.name, resource, kept)
            for level in part.reach.below
            for resource, amount in part.amounts.items()
            for queue in [level.queue]
            for kept in [queue.entitled(resource, rounded) if resource in scarce else queue.guarantee(resource)]
        ]
        spared, name, resource, kept = min(keepers, default=(0, "", "", 0))
        if spared < 0:
            self._refuse_kept(own, self._levels[name], resource, parent, kept)

    def _refuse_kept(self, key: str, level: _Level, resource: str, parent: int, kept: int) -> None:
        why = GUARANTEE if kept == level.queue.guarantee(resource) else SHARE
        self._refusals.add(key, (why, level.queue.spec.name, resource), parent, kept)

    @property
    def why_nothing(self) -> str:
        """Why nobody, or not enough, could be evicted, as far as it has been tried: which of the claim's queues is at
        its share, and what keeps the units that it has looked at. Empty if it is neither.
        """
        index, at = next(self.above_share(), (len(self._path), None))
        told = self._refusals.texts(index)
        if at is not None and not self._limits:
            told.insert(0, at.message)
        if not told and self._main in self._lacks and not self._limits:
            others = [
                (left, level.queue.spec.name, kept)
                for level in self._levels.values()
                if level not in self._path
                and 0 < (left := level.left.get(self._main, 0)) <= (kept := level.queue.entitled(self._main))
            ]
            for _, name, kept in sorted(others)[-1:]:
                self._refuse_kept(name, self._levels[name], self._main, 0, kept)
            told = self._refusals.texts(index)
        return "; ".join(told)

    def above_share(self) -> Iterator[tuple[int, Bound]]:
        """Where the claim would be above the larger of guarantee and share: how many of its levels are below that
        queue, and the bound. The lowest queue first.
        """
        for index, level in enumerate(self._path):
            for resource, amount in self._judged.items():
                if self._above(level, resource) > 0:
                    yield index, at_share(level.queue, resource, self._held(level, resource), amount, self._who)

    def _stays_away(self, pod: PodInfo) -> bool:
        """True if the pod terminates, or would leave its room to the claim. System-critical pods leave room to
        nobody.
        """
        return pod.terminating or (pod.priority < SYSTEM_CRITICAL and self._queues.is_ours(pod))

    def _is_overdue(self, pods: Iterable[PodInfo]) -> bool:
        """True if all these pods have run for longer than their queues let them."""
        reaches = ((pod, self._reach(self._queues.queue_of(pod))) for pod in pods)
        return all(reach is not None and self._runtime(pod) > reach.max_runtime for pod, reach in reaches)

    # Taking

    def take(self, unit: Unit) -> bool:
        """Counts the unit as evicted, if all queues then keep what is theirs. Returns whether they do."""
        parts = self._change(unit)
        for index, part in enumerate(parts):
            if not part.reach.own and not self._spares(part):
                self._refuse_part(part)
                self._move(parts[:index], 1)
                return False
            self._move((part,), -1)
        lawful = self._is_lawful()
        if not lawful or not self._within_budgets(self._further(unit)):
            if lawful:
                self._refuse(unit, BUDGET, unit.pods[0])
            self._move(parts, 1)
            return False
        self._refusals.forget(unit.pods[0].uid)
        self._mark(unit, taken=True)
        return True

    def spares(self, unit: Unit) -> bool:
        """True if all others may still be taken without this taken unit."""
        parts, fits = self._change(unit), self.within_limits
        self._move(parts, 1)
        spares = self._is_lawful() and (self.within_limits or not fits)
        self._move(parts, -1)
        return spares

    def give_back(self, unit: Unit) -> bool:
        """Counts a taken unit as not evicted, if all others may still be taken without it. Returns whether they may."""
        if not self.spares(unit):
            return False
        self._move(self._change(unit), 1)
        self._mark(unit, taken=False)
        return True

    def take_all(self, units: Iterable[Unit]) -> None:
        """Counts as evicted what was taken before together."""
        for unit in units:
            if unit not in self.taken:
                self._move(self._change(unit), -1)
                self._mark(unit, taken=True)

    def release(self, units: Iterable[Unit]) -> None:
        """Counts these taken units as not evicted."""
        for unit in units:
            self._move(self._change(unit), 1)
            self._mark(unit, taken=False)
        self._budgets = Budgets(self.rules, by_eviction=True)
        if self.taken:
            self._within_budgets(complete(self.taken))

    def kind_of(self, unit: Unit) -> Any:
        """Units of one pod each with an equal kind and equal requests, on one node, can be taken in the same cases."""
        return self._queues.queue_of(unit.pods[0]), self.is_overdue(unit)

    def is_overdue(self, unit: Unit) -> bool:
        """True if some queue keeps nothing of it."""
        return any(part.overdue for part in self._parts_of(unit))

    def ranks(self, unit: Unit) -> tuple[int, int]:
        """The lower the rather the unit is taken: how little its queue is above its share, then its priority."""
        return -self._surplus(unit), unit.priority

    def limit(self, rows: Rows, units: Sequence[Unit], columns: Positions) -> None:
        """Rows that hold if so many of the units like these are taken together as the variables say. What only an
        order of taking shows is left out.
        """
        alone = {unit.pods[0].uid for unit in units if unit.whole is None}
        given: dict[tuple[str, str], Counter[int]] = {}
        most: dict[tuple[str, str], int] = {}
        own: dict[tuple[str, str], Counter[int]] = {}
        reclaimed: dict[int, list[int]] = {}
        for unit, column in zip(units, columns.tolist(), strict=True):
            besides = tuple(pod for pod in unit.spares if pod.uid not in alone)
            for part in self._parts_of(unit) if besides == unit.spares else self._parts_from(unit.pods + besides):
                self._cache.deadline.point()
                if not part.reach.own:
                    reclaimed.setdefault(part.reach.parent, []).append(column)
                for resource, amount in part.amounts.items():
                    for level in () if part.overdue else part.reach.below:
                        if (kept := self._kept(level, resource, part.reach.parent)) is not None:
                            key = level.queue.spec.name, resource
                            most[key] = level.left.get(resource, 0) - kept
                            given.setdefault(key, Counter())[column] += amount
                    for level in part.reach.above:
                        own.setdefault((level.queue.spec.name, resource), Counter())[column] += amount
        for key, amounts in given.items():
            rows.holds(np.array([*amounts]), most[key], [*amounts.values()])
        for parent, takers in reclaimed.items():
            needs = [(level, r, self._above(level, r)) for level in self._path[:parent] for r in self._judged]
            if not any(amount > 0 for _, _, amount in needs):
                continue
            taking = rows.variables([1])
            total = int(rows.most(np.array(takers)).sum())
            rows.at_most(np.append(takers, taking), 0, np.append(np.ones(len(takers)), -total))
            for level, resource, amount in needs:
                if amount > 0:
                    amounts = own.get((level.queue.spec.name, resource), Counter())
                    changes = [*(-each for each in amounts.values()), amount]
                    rows.holds(np.append([*amounts], taking).astype(np.int64), 0, changes)
        for index, level in enumerate(self._path):
            for resource in self._over_limit(index):
                amounts = own.get((level.queue.spec.name, resource), Counter())
                over = self._held(level, resource) + self._request[resource]
                spare = level.queue.spec.quotas[resource].limit - over
                rows.holds(np.array([*amounts], np.int64), spare, [-each for each in amounts.values()])

    def _kept(self, level: _Level, resource: str, parent: int) -> int | None:
        """How much of it a queue below the parent keeps in any order of taking; None if it may lose all."""
        kept = [each for each in (level.queue.guarantee(resource),) if each != MAX_INT64]
        if resource in self._scarce[parent] and not (self.splits_units and self._is_guaranteed(parent)):
            kept.append(level.queue.entitled(resource, parent > self._exact))
        return max(kept, default=None)

    @property
    def bound(self) -> Bound | None:
        """The bound that forbids the first pod to start in the place, besides bounds that hold on all nodes."""
        return self._queues.bounds.at(self._first, self.place)

    @property
    def within_limits(self) -> bool:
        """True if no limit forbids the claim, once what is taken and what terminates is gone."""
        return not any(self._over_limit(index) for index in range(len(self._path)))

    @property
    def bound_by_limit(self) -> bool:
        """True if a limit forbids the claim now."""
        return bool(self._limits)

    def free_limits(self) -> bool:
        """Takes units until no limit forbids the claim; none if the limits forbid it even so."""
        seen: set[str] = set()
        for _, pod in self._holders(self._at_limit):
            if self.within_limits:
                break
            for unit in () if pod.uid in seen else units_below(ABOVE_ALL, (pod,), self._cache):
                if unit.whole is not None:
                    seen.update(each.uid for each in unit.pods)
                if self._is_candidate(unit) and self._frees_limit(unit):
                    self.take(unit)
        if not self.within_limits:
            self.release([*self.taken])
            return False
        for unit in sorted(self.taken, key=self.importance):
            self.give_back(unit)
        return True

    def going(self) -> list[PodInfo]:
        """The terminating pods that hold what a limit forbids the claim."""
        names = self._below(self._at_limit, lambda queue: bool(queue.going))
        return [pod for name in names for _, pod in self._queues.least_important(name, ending=True)]

    def _holders(self, within: Iterable[Queue]) -> Iterator[tuple[tuple[float, ...], PodInfo]]:
        """The placed pods of these queues and of those below that stay, the least important first, as far as their
        queues have more than they keep. With each, how little its queue is above its share, then as in `LeastFirst`.
        """
        each = []
        for name in self._below(within, self._may_give):
            reach = self._reach(name)
            if reach is not None:
                pods = self._lower_pods(name) if reach.own else self._queues.least_important(name)
                each.append(self._with_surplus(reach, pods))
        return merge(*each, key=itemgetter(0))

    @staticmethod
    def _with_surplus(reach: _Reach, pods: Iterable[tuple[Importance, PodInfo]]) -> Iterator[tuple[Any, PodInfo]]:
        surplus = 0 if reach.own else reach.below[-1].surplus
        if reach.max_runtime < inf:
            surplus = MAX_INT64  # some may be overdue
        return (((-surplus, *key), pod) for key, pod in pods)

    @property
    def _at_limit(self) -> Sequence[Queue]:
        """The highest queue whose limit forbids the claim."""
        return [self._limits[-1].queue] if self._limits else []

    @staticmethod
    def _below(within: Iterable[Queue], relevant: Callable[[Queue], bool]) -> Iterator[str]:
        """The names of these queues and of those below. Of relevant queues alone."""
        below = [*within]
        while below:
            queue = below.pop()
            if relevant(queue):
                below += queue.children
                yield queue.spec.name

    def _may_give(self, queue: Queue) -> bool:
        """True if the claim might take a pod of the queue or of one below it."""
        level = self._level(queue)
        return (
            level in self._path
            or self._queues.may_be_overdue(queue.spec.name)
            or any(level.left.get(resource, 0) > queue.entitled(resource) for resource in self._judged)
        )

    def _lower_pods(self, name: str, *, ending: bool = False) -> Iterator[tuple[Importance, PodInfo]]:
        """The pods of the claim's own queue that may be of lower priority. A group may have another than its pods."""
        for key, pod in self._queues.least_important(name, ending=ending):
            if pod.priority >= self._priority and not self._groups_have_priorities and not self._own_may_be_overdue:
                return
            yield key, pod

    @cached_property
    def _own_may_be_overdue(self) -> bool:
        return self._queues.max_runtime(self._path[0].queue.spec.name) < inf

    @cached_property
    def _groups_have_priorities(self) -> bool:
        return bool(self._cache.groups.priorities)

    def _frees_limit(self, unit: Unit) -> bool:
        over = [(level, resource) for index, level in enumerate(self._path) for resource in self._over_limit(index)]
        return any(
            level in part.reach.above and resource in part.amounts
            for part in self._parts_of(unit)
            for level, resource in over
        )

    # The rule

    def _spares(self, part: _Part) -> bool:
        """True if every queue below the common parent keeps its guarantee of everything, and its share of what is
        scarce. If nothing is scarce in sum, it must keep its share of one resource that the claim requests.

        Of an overdue unit, queues keep nothing. A unit that rounding gave to the claim's queue, and not to the other
        one, is not taken. With `splits_units`, a claim within its queue's guarantee may take a unit of which only a
        part is above the other queue's share.
        """
        reach = part.reach
        if part.overdue:
            return True
        if not all(
            level.keeps_guarantee(part.amounts, self._assumed.get(level.queue.spec.name, {})) for level in reach.below
        ):
            return False
        split = self.splits_units and self._is_guaranteed(reach.parent)
        rounded = reach.parent > self._exact
        scarce = self._scarce[reach.parent]
        kept = [
            all(level.keeps_share(resource, amount, rounded=rounded, split=split) for level in reach.below)
            for resource, amount in part.amounts.items()
            if resource in (scarce or self._judged)
        ]
        return bool(kept) and (all(kept) if scarce else any(kept))

    def _is_guaranteed(self, levels: int) -> bool:
        """True if the highest of so many levels of the claim stays within its guarantee."""
        level = self._path[levels - 1]
        return all(
            self._held(level, resource) + self._request[resource] <= level.queue.guarantee(resource)
            for resource in self._short
        )

    def _is_lawful(self) -> bool:
        """True if, below each common parent, the claim's queues hold at most the larger of guarantee and share."""
        highest = max((parent for parent, count in enumerate(self._reclaimed) if count), default=0)
        return all(map(self._is_lawful_at, self._path[:highest]))

    def _is_lawful_at(self, level: _Level) -> bool:
        return not any(self._above(level, resource) > 0 for resource in self._judged)

    def _above(self, level: _Level, resource: str) -> int:
        """How much more than the larger of guarantee and share the queue would hold with the claim."""
        return self._held(level, resource) + self._judged[resource] - level.queue.entitled(resource)

    def _is_full(self, level: _Level) -> bool:
        return any(0 < amount <= self._above(level, resource) for resource, amount in self._judged.items())

    def is_inside(self, unit: Unit) -> bool:
        """True if all that the unit holds is inside of the level that is `full`."""
        return self.full is not None and all(part.reach.parent <= self.full for part in self._parts_of(unit))

    def _is_rounded_up(self, level: _Level) -> bool:
        """True if the claim needs the unit by which the share of this queue was rounded up."""
        return any(
            self._held(level, resource) + amount > level.queue.entitled(resource, -1)
            for resource, amount in self._judged.items()
        )

    def _within_budgets(self, pods: Iterable[PodInfo]) -> bool:
        return not self.rules or self._budgets.spend([pod for pod in pods if not pod.terminating])

    def _over_limit(self, index: int, *, going: bool = False) -> list[str]:
        """The resources of which this queue of the claim has a limit that forbids it. `going`: what terminates
        counts.
        """
        level = self._path[index]
        name, quotas = level.queue.spec.name, level.queue.spec.quotas
        held = level.queue.held if going else level.left
        return [
            resource
            for resource, amount in self._request.items()
            if (limit := quotas.get(resource, NO_QUOTA).limit) != UNBOUNDED
            and held.get(resource, 0) + self._promised[name, resource] + amount > limit
        ]

    def _lacking(self) -> frozenset[str]:
        """The resources of which the claim requests more than is free in the cluster."""
        top, lost = self._tree.top, self._queues.lost_with_ending_pods()
        return frozenset(
            resource
            for resource, amount in self._judged.items()
            if amount + self._promised["", resource]
            > top.share.get(resource, 0)
            - top.held.get(resource, 0)
            + top.going.get(resource, 0)
            - lost.get(resource, 0)
        )

    # Internals

    def _amounts(self, pod: PodInfo) -> Mapping[str, int]:
        return self._tree.tracked(self._queues.placed_amounts(pod))

    def _held(self, level: _Level, resource: str) -> int:
        """What stays in the queue, and what is promised to its pods."""
        return level.left.get(resource, 0) + self._promised[level.queue.spec.name, resource]

    def _surplus(self, unit: Unit) -> int:
        return min((self._surplus_of(pod) for pod in unit.pods), default=0)

    def _surplus_of(self, pod: PodInfo) -> int:
        """How far the pod's queue, right below the common parent, was above what it keeps. Never above in the claim's
        own queue, so that others give first. Far above for an overdue pod.
        """
        reach = self._reach(self._queues.queue_of(pod))
        if reach is not None and self._runtime(pod) > reach.max_runtime:
            return MAX_INT64
        if reach is None or reach.own:
            return 0
        return reach.below[-1].surplus

    def _runtime(self, pod: PodInfo) -> float:
        return 0.0 if pod.start_time is None else max(0.0, self._now - pod.start_time)

    @cached_property
    def _assumed(self) -> Mapping[str, Mapping[str, int]]:
        """By queue: what pods hold whose Bindings are not confirmed yet."""
        return self._sums_of(self._cache.assumed_pods())

    def _held_off_nodes(self) -> Mapping[str, Mapping[str, int]]:
        """By queue: what pods hold whose node was deleted. They end soon, and cannot be evicted for anybody."""
        infos = (info for info in self._cache.nodes.values() if info.node is None)
        return self._sums_of(pod for info in infos for pod in info.pods.values() if not pod.terminating)

    def _sums_of(self, pods: Iterable[PodInfo]) -> Mapping[str, Mapping[str, int]]:
        """By queue: what these pods of it, and of those below, hold."""
        found: dict[str, dict[str, int]] = {}
        for pod in pods:
            for name in self._queues.path(self._queues.queue_of(pod)):
                add_amounts(found.setdefault(name, {}), self._amounts(pod))
        return found

    def _level(self, queue: Queue) -> _Level:
        known = self._levels.get(queue.spec.name)
        if known is None:
            gone = self._off_nodes.get(queue.spec.name, {})
            left = {
                resource: amount - queue.going.get(resource, 0) - gone.get(resource, 0)
                for resource, amount in queue.held.items()
            }
            surplus = left.get(self._main, 0) - queue.entitled(self._main)
            rules = self._queues.get(queue.spec.name)
            runtimes = (0.0, 0.0) if rules is None else (rules.preempt_min_runtime, rules.reclaim_min_runtime)
            known = self._levels[queue.spec.name] = _Level(queue, left, surplus, runtimes)
        return known

    def _reach(self, name: str) -> _Reach | None:
        """None for pods without a queue, or of a queue that is not in the tree."""
        if name not in self._reaches:
            queue = self._tree.get(name) if name else None
            self._reaches[name] = None if queue is None else self._found_reach(queue)
        return self._reaches[name]

    def _found_reach(self, queue: Queue) -> _Reach:
        above = [self._level(each) for each in queue.path]
        common = next((i for i, level in enumerate(above) if level in self._path), len(above))
        below = above[:common]
        parent = self._path.index(above[common]) if common < len(above) else len(self._path)
        runtimes = [level.min_runtimes[1] for level in below] or [level.min_runtimes[0] for level in above]
        return _Reach(above, below, parent, max(runtimes), self._queues.max_runtime(queue.spec.name))

    def _parts_of(self, unit: Unit) -> Sequence[_Part]:
        parts = self._parts.get(unit)
        if parts is None:
            parts = self._parts[unit] = self._parts_from(unit.pods + unit.spares)
        return parts

    def _parts_from(self, pods: Sequence[PodInfo]) -> Sequence[_Part]:
        by_queue: dict[str, _Part] = {}
        overdue = self._is_overdue(pod for pod in pods if not pod.terminating)
        for pod in pods:
            name = self._queues.queue_of(pod)
            reach = None if pod.terminating else self._reach(name)
            if reach is not None:
                add_amounts(by_queue.setdefault(name, _Part(reach, overdue)).amounts, self._amounts(pod))
        return tuple(by_queue.values())

    def _further(self, unit: Unit) -> Sequence[PodInfo]:
        """The pods of the unit, and its spares, that go with no other taken unit."""
        pods, own = unit.pods + unit.spares, unit in self.taken
        return [pod for pod in pods if self._gone[pod.uid] <= own] if self._gone else pods

    def _change(self, unit: Unit) -> Sequence[_Part]:
        """Returns what evicting the unit frees beyond the other taken units."""
        pods = self._further(unit)
        return self._parts_of(unit) if len(pods) == len(unit.pods + unit.spares) else self._parts_from(pods)

    def _mark(self, unit: Unit, *, taken: bool) -> None:
        if taken:
            self.taken[unit] = None
        else:
            del self.taken[unit]
        if unit.spares or (unit.whole is None and unit.pods[0].group):
            for pod in unit.pods + unit.spares:
                self._gone[pod.uid] += 1 if taken else -1

    def _move(self, parts: Iterable[_Part], sign: int) -> None:
        """Counts what these parts hold as taken (-1), or as not taken (1)."""
        for part in parts:
            for level in part.reach.above:
                for resource, amount in part.amounts.items():
                    level.left[resource] = level.left.get(resource, 0) + sign * amount
            if not part.reach.own:
                self._reclaimed[part.reach.parent] -= sign


def has_queue(cache: Cache, pod: PodInfo) -> bool:
    """True if the pod names a queue, which may not exist, or which the pod may not be able to use."""
    return queues_of(cache).names_queue(pod)


def claim_of(
    cache: Cache, pods: Sequence[PodInfo], priority: int, budgets: BudgetRules, now: float, place: Place = NOWHERE
) -> QueueClaim | None:
    """The claim of these pods to nodes of this place. None without a queue that exists, or with several. `priority`:
    theirs, or their group's.
    """
    if not has_queue(cache, pods[0]):
        return None
    queues = queues_of(cache)
    names = {queues.queue_of(pod) for pod in pods}
    queue = queues.shared_out().get(names.pop()) if len(names) == 1 else None
    return None if queue is None else QueueClaim(cache, queue, pods, priority, budgets, now, place)


def claims_nobody(cache: Cache, pod: PodInfo, priority: int) -> bool:
    """True if no pod can be a victim of this pod's queue: the queue has no pods of lower priority, no pod
    terminates, and no other queue has more than it keeps. Costs less than a claim, and may be False where a claim
    finds nobody.
    """
    queues = queues_of(cache)
    leaf = queues.shared_out().get(queues.queue_of(pod))
    if leaf is None:
        return True
    least = next(queues.least_important(leaf.spec.name), None)
    if cache.groups.priorities or queues.nodes_of_ending_pods() or (least is not None and least[1].priority < priority):
        return False

    below = [*queues.tree().top.children]
    while below:
        queue = below.pop()
        if queues.may_be_overdue(queue.spec.name):
            return False
        if queue in leaf.path:
            below += queue.children
        elif any(held - queue.going.get(name, 0) > queue.entitled(name) for name, held in queue.held.items()):
            return False
    return True
