"""Rebalancing in a replay: the plans that RebalancePolicies make at their times, and their moves.

Moves take no time, as decisions do: a pod that is moved runs on its new node at once, and then for its whole time. Each
step is proved again before its moves, as in the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.core.rebalance.rules import Move, RebalanceRules, Step
from podwright.engine.rebalance.recent import RecentMoves
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.rebalance import view_of


@dataclass(slots=True)
class RebalanceFigures:
    """The work of a RebalancePolicy: plans with moves, moves, gain, and moves to other nodes than planned."""

    policy: str
    plans: int = 0
    moves: int = 0
    gain: int = 0
    astray: int = 0


@dataclass(slots=True)
class ReplayedRebalancing:
    """One policy. `waiting`: the pods that wait; `move` moves a pod, and returns whether it came to its place;
    `settled` lets others use the room that moves have left.
    """

    cluster: LoadedCluster
    rules: RebalanceRules
    move: Callable[[Move], bool]
    waiting: Callable[[], Sequence[PodInfo]]
    settled: Callable[[], None]
    recent: RecentMoves = field(default_factory=RecentMoves)
    figures: RebalanceFigures = field(init=False)

    def __post_init__(self) -> None:
        self.figures = RebalanceFigures(self.rules.name)

    def plan(self) -> None:
        """Makes a plan now, and carries it out."""
        now = self.cluster.clock.now
        if not self.rules.is_open(now):
            return
        rules = replace(self.rules, max_moves=self.rules.max_moves - self.recent.count(now))
        plan = self._planner(rules).plan()
        if rules.is_in_vain(plan):
            return
        self.figures.plans += bool(plan.steps)
        for step in plan.steps:
            if self._planner(self.rules).prove(step) or not self._carry_out(step):
                break
            self.figures.gain += step.gain

    def _planner(self, rules: RebalanceRules) -> RebalancePlanner:
        return RebalancePlanner(self.cluster.cache, rules, replace(view_of(self.cluster), waiting=self.waiting()))

    def _carry_out(self, step: Step) -> bool:
        """Returns whether all pods came to their places."""
        astray = self.figures.astray
        for move in step.moves:
            if self.figures.astray == astray:
                self.recent.add(self.cluster.clock.now)
                self.figures.moves += 1
                self.figures.astray += not self.move(move)
        self.settled()
        return self.figures.astray == astray
