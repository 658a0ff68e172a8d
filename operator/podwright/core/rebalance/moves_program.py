"""MovesProgram: where the pods that may move are in the end, as an integer program: `gangs.joint_program` with another
aim. See `exact`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools, Int64s
from podwright.core.framework.program import TooLargeError
from podwright.core.gangs.branches import Branch, branch_of
from podwright.core.gangs.joint_program import JointProgram, Kind
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.preemption.budgets import Budgets
from podwright.core.rebalance.dependants import again_uid, created_again
from podwright.core.rebalance.gangs import WaitingGang
from podwright.core.rebalance.room import Room
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction

MOST_CELLS: Final = 10_000
"""The most pairs in a program of a kind of pods and a node that has room for it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`pods`: those that may move, all of this framework. `takes`: bool[nodes], those that may take them. `most`: how
    many may move; `weight`, `min_gain`: see RebalanceRules.
    """

    pods: Sequence[PodInfo]
    framework: Framework
    takes: Bools
    budgets: Budgets
    most: int
    weight: int
    min_gain: float


class MovesProgram(JointProgram):
    """See the module. Leaves the cache as it was. Raises as JointProgram does."""

    def __init__(self, cache: Cache, asked: Asked, waiting: Branch | None = None) -> None:
        self._asked = asked
        self._homes = {
            again_uid(pod.uid): (pod.uid, info.slot)
            for pod in asked.pods
            if (info := cache.placement(pod.uid)) is not None
        }
        children = [] if waiting is None else [waiting]
        self._branch = Branch(
            0, groups=len(children), untried=[created_again(pod) for pod in asked.pods], children=children
        )
        with CacheTransaction(cache) as transaction:
            transaction.remove(asked.pods)
            super().__init__(asked.framework, cache, self._branch, 0)
            self.build()

    def targets(self, found: Int64s) -> Mapping[str, str]:
        """The nodes that pods get instead of theirs, by uid."""
        targets = {}
        for kind in self._moving:
            here, there = self._here(kind), np.zeros_like(kind.most)
            there[kind.columns >= 0] = found[kind.columns[kind.columns >= 0]]
            arriving = iter(np.repeat(np.arange(len(there)), np.maximum(there - here, 0)).tolist())
            leaving = here - there
            for uid, slot in (self._homes[pod.uid] for pod in kind.pods):
                if leaving[slot] > 0:
                    leaving[slot] -= 1
                    targets[uid] = self._cache.table.names[next(arriving)]
        return targets

    def seats(self, found: Int64s) -> Mapping[str, str]:
        """The nodes of the pods that wait, by uid."""
        names = self._cache.table.names
        return {pod.uid: names[slot] for pod, slot in self.placed(found) if pod.uid not in self._homes}

    @property
    def _moving(self) -> Sequence[Kind]:
        return self._kinds_of[id(self._branch)]

    def _here(self, kind: Kind) -> Int64s:
        """int64[nodes]: how many pods of the kind each has."""
        slots = [self._homes[pod.uid][1] for pod in kind.pods]
        return np.bincount(slots, minlength=len(kind.most)).astype(np.int64)

    def _told_apart(self, pod: PodInfo) -> Hashable:
        budget = self._asked.budgets.left(pod) if pod.uid in self._homes else None
        return budget and budget[0]

    def _bound(self) -> None:
        for kind in self._moving:
            takes = np.where(self._asked.takes, np.minimum(kind.most, len(kind.pods)), 0)
            kind.most = np.maximum(takes, self._here(kind))
        if sum(np.count_nonzero(kind.most) for kind in self.kinds) > MOST_CELLS:
            raise TooLargeError

    def _aim(self, least: int) -> None:
        rows, slots = self._rows, sorted({slot for _, slot in self._homes.values()})
        gives = dict(zip(slots, rows.variables([1] * len(slots)).tolist(), strict=True))
        leaving, by_budget = Counter[int](), dict[Hashable, tuple[Counter[int], int]]()
        for kind in self._moving:
            rows.at_least(kind.columns[kind.columns >= 0], len(kind.pods))
            budget = self._asked.budgets.left(kind.pods[0])
            here = self._here(kind)
            for slot in np.flatnonzero(kind.most).tolist():
                self._cache.deadline.point()
                if slot not in gives:
                    continue
                variable, count = self._leaving(
                    int(kind.columns[slot]), gives[slot], int(kind.most[slot]), int(here[slot])
                )
                leaving[variable] += count
                if budget is not None:
                    by_budget.setdefault(budget[0], (Counter(), budget[1]))[0][variable] += count
        self._at_most(leaving, self._asked.most)
        for counts, allowed in by_budget.values():
            self._at_most(counts, allowed)
        gain, before = self._gain(gives)
        if gain:
            weighed = Counter({variable: -self._asked.weight * each for variable, each in gain.items()})
            costs = {variable: self._asked.min_gain * count for variable, count in leaving.items()}
            costs = {each: costs.get(each, 0.0) + weighed.get(each, 0) for each in {*costs, *weighed}}
            self._at_most(costs, -self._asked.weight * before)
            rows.prefer(*_row(gain))
        columns, counts_of = _row(leaving)
        rows.prefer(columns, -counts_of)

    def _leaving(self, column: int, gives: int, most: int, here: int) -> tuple[int, int]:
        """Adds the variable of the pods of a kind that leave a node with `here` of them; returns it, and its weight.
        They leave only if the node gives pods away, and others come only if it does not.
        """
        left = int(self._rows.variables([here])[0])
        self._rows.at_least(np.array([column, left]), here)
        self._rows.at_most(np.array([left, gives]), 0, np.array([1, -here]))
        self._rows.at_most(np.array([column, gives]), most, np.array([1, most - here]))
        return left, 1

    @abstractmethod
    def _gain(self, gives: Mapping[int, int]) -> tuple[Mapping[int, int], int]:
        """Returns the gain to maximize, by variable, and its value without any move. `gives`: by the slot of a node,
        the variable that is 1 if it gives pods away.
        """

    def _at_most(self, counts: Mapping[int, float], high: float) -> None:
        columns, values = _row(counts)
        self._rows.at_most(columns, high, values)


def _row(counts: Mapping[int, float]) -> tuple[Int64s, NDArray[np.float64]]:
    return np.array([*counts], np.int64), np.array([*counts.values()], np.float64)


class RoomForGang(MovesProgram):
    """The fewest moves after which the gang has room."""

    def __init__(self, cache: Cache, asked: Asked, gang: WaitingGang) -> None:
        super().__init__(cache, asked, branch_of(cache, gang.group, gang.members, gang.group.near))

    def _gain(self, gives: Mapping[int, int]) -> tuple[Mapping[int, int], int]:
        return {}, 0


class RoomForPods(MovesProgram):
    """Room for the most pods of a size, as far as they are wanted, by the fewest moves."""

    def __init__(self, cache: Cache, asked: Asked, room: Room) -> None:
        self._size = room
        self._before = room.total()
        super().__init__(cache, asked)

    def _bound(self) -> None:
        room = self._size
        most = np.minimum(room.per_node(), room.count)
        pods = [self._asked.pods[0]] * min(room.wanted, int(most.sum()))  # whose they are says nothing
        self._wanted = Kind(pods, most, dict(room.requests))
        self.kinds.append(self._wanted)
        super()._bound()

    def _gain(self, gives: Mapping[int, int]) -> tuple[Mapping[int, int], int]:
        columns, level = self._wanted.columns, self._size.level
        if level is None:
            return dict.fromkeys(columns[columns >= 0].tolist(), 1), self._before
        gain, count = dict[int, int](), self._size.count
        for domain in np.unique(level.codes[(columns >= 0) & (level.codes >= 0)]).tolist():
            there = columns[(columns >= 0) & (level.codes == domain)]
            gain[has := int(self._rows.variables([1])[0])] = count
            self._rows.at_least(np.array([*there, has]), 0, np.array([1] * len(there) + [-count]))
        self._at_most(dict.fromkeys(gain, 1), self._size.wanted // count)
        return gain, self._before


class EmptiedNodes(MovesProgram):
    """The most of these nodes have no pods, less those that get their first one, by the fewest moves. `most`: how many;
    `opened`: bool[nodes], the empty ones that may get some.
    """

    def __init__(self, cache: Cache, asked: Asked, most: int, opened: Bools) -> None:
        self._most = most
        self._opened = opened
        super().__init__(cache, asked)

    def _leaving(self, column: int, gives: int, most: int, here: int) -> tuple[int, int]:
        self._rows.at_most(np.array([column, gives]), most, np.array([1, most]))
        self._rows.at_least(np.array([column, gives]), here, np.array([1, here]))
        return gives, here

    def _gain(self, gives: Mapping[int, int]) -> tuple[Mapping[int, int], int]:
        self._at_most(dict.fromkeys(gives.values(), 1), self._most)
        gain = dict.fromkeys(gives.values(), 1)
        for slot in np.flatnonzero(self._opened).tolist():
            kinds = [kind for kind in self._moving if kind.columns[slot] >= 0]
            opened = int(self._rows.variables([1])[0])
            gain[opened] = -1
            for kind in kinds:
                self._rows.at_most(np.array([kind.columns[slot], opened]), 0, np.array([1, -kind.most[slot]]))
        return gain, 0
