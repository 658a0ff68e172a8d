"""Rebalancing: each policy is planned in its interval, and soon after a gang begins to wait for which it makes room.

With mode Enforce, the plan is carried out, step by step (`moves`). When something comes between, the plan ends, and the
rest is thought over soon. One policy at a time plans and moves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final

from podwright.core.rebalance.gangs import waiting_gangs
from podwright.core.rebalance.movable import SYSTEM_NAMESPACES, View
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.core.rebalance.rules import RebalancePlan, RebalanceRules
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.planning.elsewhere import Elsewhere, NoChildAnswerError
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import Ports
from podwright.engine.rebalance.moves import Moves, Run
from podwright.engine.rebalance.provable import is_exempt, provable_framework
from podwright.engine.rebalance.recent import RecentMoves
from podwright.engine.records.rebalance_metrics import REBALANCE_GAIN, REBALANCE_PLANS
from podwright.engine.reservations import ReservationChanges
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 60.0
"""After a plan that ended early, the next one is made after this time, or after the interval if that is shorter."""
DEMAND_SECONDS: Final = 5.0
"""The shortest time between two plans of a policy because other gangs wait."""


@dataclass(slots=True)
class Progress:
    """What has become of the last plan of a policy. `time`: when it was made, in seconds since the epoch. `ended`: why
    it ended before all was moved.
    """

    plan: RebalancePlan
    time: float
    moved: int = 0
    gained: int = 0
    ended: str = ""


@dataclass(slots=True)
class _Known:
    rules: RebalanceRules
    recent: RecentMoves
    due: float = 0.0
    progress: Progress | None = None
    planned: float = -inf
    """When the last plan was made, by the clock."""
    waited: frozenset[str] = frozenset()
    """The keys of the gangs that waited then."""


class Rebalancing:
    """See the module. `namespace`: the operator's, whose pods never move."""

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        *,
        policies: ActivePolicies,
        elsewhere: Elsewhere,
        reservations: ReservationChanges,
        assigned: AssignedPods,
        namespace: str,
    ) -> None:
        self._state = state
        self._cache = state.cache
        self._sources = state.sources
        self._ports = ports
        self._policies = policies
        self._elsewhere = elsewhere
        self.moves = Moves(
            state,
            ports,
            planner=self._planner,
            elsewhere=elsewhere,
            reservations=reservations,
            assigned=assigned,
        )
        self._namespaces = frozenset({*SYSTEM_NAMESPACES, namespace})
        self._known: dict[str, _Known] = {}
        self._task: asyncio.Task[None] | None = None

    # Policies

    def set(self, rules: RebalanceRules, recent: RecentMoves) -> None:
        """Adds or replaces a policy. `recent`: as the status of one that was unknown says it."""
        known = self._known.get(rules.name)
        if known is None or known.rules.uid != rules.uid:
            self._known[rules.name] = _Known(rules, recent)
        elif known.rules.generation != rules.generation:  # not only its status
            known.rules, known.due = rules, 0.0

    def remove(self, name: str) -> None:
        """Removes a policy, if there is one."""
        self._known.pop(name, None)

    def get(self, name: str) -> RebalanceRules | None:
        known = self._known.get(name)
        return None if known is None else known.rules

    def progress(self, name: str) -> Progress | None:
        """What has become of the last plan."""
        known = self._known.get(name)
        return None if known is None else known.progress

    def recent(self, name: str) -> Sequence[tuple[float, int]]:
        """The moves that count for `max_moves`, by their spans."""
        known = self._known.get(name)
        return () if known is None else known.recent.spans(self._sources.wall())

    def conflict(self, name: str) -> str:
        """Why an enforcing policy moves nothing: it could undo the moves of an older one, for ever. "" if it may."""
        own = self._known.get(name)
        if own is None or own.rules.mode != "Enforce":
            return ""
        oldest = min((known.rules for known in self._known.values() if known.rules.mode == "Enforce"), key=_age)
        if _goals(oldest) == _goals(own.rules):
            return ""
        return f"the older policy {oldest.name} has other goals or weights, and each could undo the other's moves"

    # Plans

    def begin(self) -> None:
        """Looks after all policies, beside the loop, unless that is still going on. Places that another process has
        held come first.
        """
        if not self.moves.look_after() and self._known and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="podwright rebalancing")

    def cancel(self) -> None:
        """Ends the plan. Its places stay."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """The same, and waits until that is done."""
        self.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        for name in [*self._known]:
            known = self._known.get(name)
            if known is not None and known.rules.mode != "Stop" and self._is_due(known):
                try:
                    await self._plan(known)
                except Exception:
                    log.exception("rebalance policy %s cannot be planned", name)

    def _is_due(self, known: _Known) -> bool:
        is_open = known.rules.is_open(self._sources.wall())
        return is_open and (self._sources.clock() >= known.due or self._others_wait(known))

    def _others_wait(self, known: _Known) -> bool:
        """True if gangs wait for room that did not wait when the last plan was made."""
        if not known.rules.gangs or self._sources.clock() < known.planned + DEMAND_SECONDS:
            return False
        return not known.waited.issuperset(self._waiting(known.rules))

    def _waiting(self, rules: RebalanceRules) -> Iterable[str]:
        return (gang.group.key for gang in waiting_gangs(self._cache, rules))

    async def _plan(self, known: _Known) -> None:
        rules, now = known.rules, self._sources.wall()
        enforce = rules.mode == "Enforce" and not self.conflict(rules.name)
        known.planned = self._sources.clock()
        known.due, known.waited = known.planned + rules.interval, frozenset(self._waiting(rules))
        asked = replace(rules, max_moves=rules.max_moves - known.recent.count(now)) if enforce else rules
        try:
            plan = await self._elsewhere.ask(lambda: self._planner(asked).plan())
        except NoChildAnswerError as error:
            known.progress = Progress(RebalancePlan(rules.name), now, ended=str(error))
            return
        progress = known.progress = Progress(plan, now)
        outcome = "planned" if plan.steps else "empty"
        if enforce and plan.steps:
            run = self._run_of(known, progress)
            for step in plan.steps:
                others = step is not plan.steps[0] and self._others_wait(known)
                progress.ended = "other pod groups wait for room" if others else await self.moves.carry_out(step, run)
                if progress.ended:
                    known.due = min(known.due, self._sources.clock() + AGAIN_SECONDS)
                    log.info("the plan of rebalance policy %s ended: %s", rules.name, progress.ended)
                    break
                progress.gained += step.gain
                self._ports.metrics.count(REBALANCE_GAIN, by=step.gain)
            outcome = "ended" if progress.ended else "done"
        self._ports.metrics.count(REBALANCE_PLANS, outcome)

    def _run_of(self, known: _Known, progress: Progress) -> Run:
        rules = known.rules

        def moved() -> None:
            progress.moved += 1

        return Run(
            rules=rules,
            changed=lambda: self._known.get(rules.name) is not known or known.rules is not rules,
            begun=lambda: known.recent.add(self._sources.wall()),
            moved=moved,
        )

    def _planner(self, rules: RebalanceRules) -> RebalancePlanner:
        queue = self._state.queue
        view = View(
            framework_of=partial(provable_framework, self._policies),
            is_exempt=partial(is_exempt, self._policies),
            now=self._sources.wall(),
            waiting=[queued.pod for uid in queue.uids() if (queued := queue.get(uid)) is not None],
            spared=self.moves.spared(),
            namespaces=self._namespaces,
        )
        return RebalancePlanner(self._cache, rules, view)


def _goals(rules: RebalanceRules) -> object:
    return rules.weights, rules.room, rules.room_count, rules.gangs, rules.empty_count, rules.empty_offers


def _age(rules: RebalanceRules) -> tuple[float, str]:
    return rules.created, rules.name
