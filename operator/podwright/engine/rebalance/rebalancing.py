"""Rebalancing: each policy is planned in its interval, and soon after a gang begins to wait for which it makes room.

With mode Enforce, the plan is carried out, step by step (`moves`). When something comes between, the plan ends, and the
rest is thought over soon, at once while gangs wait and something has moved. One policy at a time plans and moves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import field, replace
from functools import partial
from math import inf
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.rebalance.gangs import waiting_gangs
from podwright.core.rebalance.movable import SYSTEM_NAMESPACES, View
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.core.rebalance.rules import RebalancePlan, RebalanceRules
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.planning.elsewhere import Elsewhere, NoChildAnswerError
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import Ports
from podwright.engine.process.interruption import cancel
from podwright.engine.rebalance.moves import Moves, Run
from podwright.engine.rebalance.provable import is_exempt, provable_framework
from podwright.engine.rebalance.recent import RecentMoves
from podwright.engine.records.rebalance_metrics import REBALANCE_GAIN, REBALANCE_PLANS
from podwright.engine.reservations import ReservationChanges
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 60.0
"""After a plan that ended early, the next one is made after this time, or after the interval if that is shorter."""
SOON_SECONDS: Final = 5.0
"""While gangs wait, the pause is shorter: zero after a step, else this time, doubled each time."""
MOST_DOUBLED: Final = 4
NOT_APPROVED: Final = "it is not the approved plan"
IN_VAIN: Final = "its goals ask for more than there can be"
DEMAND_SECONDS: Final = 5.0
"""The shortest time between two plans of a policy because other gangs wait."""


@dataclass(slots=True)
class Progress:
    """The progress of a policy's last plan. `time`: when it was made, in seconds since the epoch. `ended`: why it ended
    before all was moved.
    """

    plan: RebalancePlan
    time: float
    moved: set[str] = field(default_factory=set)
    """The uids of the pods that have moved."""
    gained: int = 0
    ended: str = ""


@dataclass(slots=True)
class KnownPolicy:
    """A policy, and the progress of its plans."""

    rules: RebalanceRules
    recent: RecentMoves
    due: float = 0.0
    progress: Progress | None = None
    planned: float = -inf
    """When the last plan was made, by the clock."""
    waited: frozenset[str] = frozenset()
    """The keys of the gangs that waited then."""
    failed: int = 0
    """How many plans in a row ended before a step was made."""


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
        self.cache = state.cache
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
        self.known: dict[str, KnownPolicy] = {}
        """The valid ones, by name. To be read only."""
        self._task: asyncio.Task[None] | None = None

    # Policies

    def set(self, rules: RebalanceRules, recent: RecentMoves) -> None:
        """Adds or replaces a policy. `recent`: as the status of one that was unknown says it."""
        known = self.known.get(rules.name)
        if known is None or known.rules.uid != rules.uid:
            self.known[rules.name] = KnownPolicy(rules, recent)
            self.moves.spare(recent.spared)
        elif known.rules.generation != rules.generation:  # not only its status
            known.rules, known.due = rules, 0.0

    def remove(self, name: str) -> None:
        """Removes a policy, if there is one."""
        self.known.pop(name, None)

    def state_of(self, rules: RebalanceRules) -> str:
        """The mode of a policy, Conflict, or Closed while no window is open though it is not stopped."""
        if self.conflict(rules.name):
            return "Conflict"
        return "Closed" if rules.mode != "Stop" and not rules.is_open(self._sources.wall()) else rules.mode

    def count_recent(self, known: KnownPolicy) -> int:
        """How many moves count for `max_moves`."""
        return known.recent.count(self._sources.wall())

    def waiting_pod(self, uid: str) -> PodInfo | None:
        """A pod that waits for a node."""
        queued = self._state.queue.get(uid)
        return None if queued is None else queued.pod

    def conflict(self, name: str) -> str:
        """Returns why an enforcing policy may not move pods: it could undo an older one's moves forever; else ""."""
        own = self.known.get(name)
        if own is None or own.rules.mode != "Enforce":
            return ""
        oldest = min((known.rules for known in self.known.values() if known.rules.mode == "Enforce"), key=_age)
        if _goals(oldest) == _goals(own.rules):
            return ""
        return f"the older policy {oldest.name} has other goals or weights, and each could undo the other's moves"

    # Plans

    def begin(self) -> None:
        """Starts a task that makes and carries out plans, unless it still runs. Places that another process has held
        come first. Call it only once the policies are listed.
        """
        stopped = all(known.rules.mode == "Stop" for known in self.known.values())
        if not self.moves.look_after(stopped=stopped) and self.known and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="podwright rebalancing")

    def cancel(self) -> None:
        """Ends the plan. Its places stay."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Ends the plan, and waits until its task has ended."""
        await cancel([self._task])

    async def _run(self) -> None:
        """Plans for each policy that is due, in its turn, and again while one is to plan at once."""
        again = True
        while again:
            again = False
            for name in [*self.known]:
                known = self.known.get(name)
                if known is not None and known.rules.mode != "Stop" and self._is_due(known):
                    try:
                        again |= await self._plan(known)
                    except Exception:
                        log.exception("rebalance policy %s cannot be planned", name)

    def _is_due(self, known: KnownPolicy) -> bool:
        is_open = known.rules.is_open(self._sources.wall())
        return is_open and (self._sources.clock() >= known.due or self._others_wait(known))

    def _others_wait(self, known: KnownPolicy) -> bool:
        """True if gangs wait for room that did not wait when the last plan was made."""
        if not known.rules.gangs or self._sources.clock() < known.planned + DEMAND_SECONDS:
            return False
        return not known.waited.issuperset(self._waiting(known.rules))

    def _waiting(self, rules: RebalanceRules) -> Iterable[str]:
        return (gang.group.key for gang in waiting_gangs(self.cache, rules))

    async def _plan(self, known: KnownPolicy) -> bool:
        """Plans, and carries the plan out. True if the policy is to plan again at once."""
        rules, now = known.rules, self._sources.wall()
        enforce = rules.mode == "Enforce" and not self.conflict(rules.name)
        known.planned = self._sources.clock()
        known.due = known.planned + rules.interval
        known.waited = frozenset(self._waiting(rules))
        asked = replace(rules, max_moves=rules.max_moves - self.count_recent(known)) if enforce else rules
        try:
            plan = await self._elsewhere.ask(lambda: self._planner(asked).plan())
        except NoChildAnswerError as error:
            known.progress = Progress(RebalancePlan(rules.name), now, ended=str(error))
            return False
        progress = known.progress = Progress(plan, now)
        outcome = "planned" if plan.steps else "empty"
        refused = IN_VAIN if rules.is_in_vain(plan) else ""
        if rules.approved_plan not in ("", plan.hash):
            refused = NOT_APPROVED
        if enforce and plan.steps and not refused:
            run = self._run_of(known, progress)
            for step in plan.steps:
                others = step is not plan.steps[0] and self._others_wait(known)
                progress.ended = "other pod groups wait for room" if others else await self.moves.carry_out(step, run)
                if progress.ended:
                    log.info("the plan of rebalance policy %s ended: %s", rules.name, progress.ended)
                    break
                progress.gained += step.gain
                self._ports.metrics.count(REBALANCE_GAIN, by=step.gain)
            outcome = "ended" if progress.ended else "done"
        known.failed = known.failed + 1 if progress.ended and not progress.gained else 0
        pause = self._pause(known) if progress.ended else rules.interval
        known.due = min(known.due, self._sources.clock() + pause)
        self._ports.metrics.count(REBALANCE_PLANS, outcome)
        if enforce and plan.steps:
            progress.ended = progress.ended or refused
        return not pause

    def _pause(self, known: KnownPolicy) -> float:
        """How long after a plan that ended early the next one is made."""
        if not any(self._waiting(known.rules)):
            return AGAIN_SECONDS
        return min(AGAIN_SECONDS, SOON_SECONDS * 2 ** min(MOST_DOUBLED, known.failed - 1)) if known.failed else 0.0

    def _run_of(self, known: KnownPolicy, progress: Progress) -> Run:
        rules = known.rules
        return Run(
            rules=rules,
            changed=lambda: self.known.get(rules.name) is not known or known.rules is not rules,
            stopped=lambda: self.known.get(rules.name) is not known or known.rules.mode == "Stop",
            begun=lambda: known.recent.add(self._sources.wall()),
            moved=progress.moved.add,
        )

    def _planner(self, rules: RebalanceRules) -> RebalancePlanner:
        began = self._sources.clock()
        view = View(
            framework_of=partial(provable_framework, self._policies),
            is_exempt=partial(is_exempt, self._policies),
            now=self._sources.wall(),
            waiting=[pod for uid in self._state.queue.uids() if (pod := self.waiting_pod(uid)) is not None],
            spared=self.moves.spared(),
            namespaces=self._namespaces,
            solve=self._ports.solve,
            elapsed=lambda: self._sources.clock() - began,
        )
        return RebalancePlanner(self.cache, rules, view)


def _goals(rules: RebalanceRules) -> object:
    room = rules.room, rules.room_count, rules.room_key, rules.room_domains
    return rules.weights, *room, rules.gangs, rules.empty_count, rules.empty_offers


def _age(rules: RebalanceRules) -> tuple[float, str]:
    return rules.created, rules.name
