"""Rebalancing: each policy is planned in its interval, and with mode Enforce the plan is carried out, step by step.

    prove again ─► hold the place ─► evict within budgets ─► the controller creates a pod ─► it takes the place ─► next

A place is a Reservation for what the controller of the moved pod creates. It is given back when that does not come,
when the eviction is refused, when others have taken it, and when the policy is changed. Then the plan ends, and the
rest is thought over soon. One policy at a time plans and moves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

from podwright.core.objects.pod import PodInfo
from podwright.core.rebalance.movable import SYSTEM_NAMESPACES, View
from podwright.core.rebalance.planner import Planner
from podwright.core.rebalance.rules import Move, Plan, RebalanceRules, Step
from podwright.core.state.reservations import Reservation, Slot
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.metrics.rebalance import REBALANCE_GAIN, REBALANCE_MOVES, REBALANCE_PLANS
from podwright.engine.planning.elsewhere import Elsewhere, NoAnswerError
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import EvictionEvent, Ports, Regarding
from podwright.engine.rebalance.provable import provable_framework
from podwright.engine.reservations import ReservationChanges, requests_of
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 60.0
"""After a plan that ended early, the next one is made after this time, or after the interval if that is shorter."""
POLL_SECONDS: Final = 0.2
"""How often is looked whether a move has ended."""
SPARED_SECONDS: Final = 86_400.0
"""For how long the pods of a controller stay that did not create a moved pod again in time."""
HOUR: Final = 3600.0
_PREFIX: Final = "rebalance:"
"""No object of the API server has such a name."""

Result = Literal["moved", "refused", "lost", "timeout", "stopped"]
_WHY: Final[Mapping[Result, str]] = {
    "refused": "the eviction of pod {pod} was refused",
    "lost": "others took the place of pod {pod}",
    "timeout": "what {owner} created in place of pod {pod} did not come to its place in time",
    "stopped": "the policy was changed",
}


@dataclass(slots=True)
class Progress:
    """What has become of the last plan of a policy. `time`: when it was made, in seconds since the epoch. `ended`: why
    it ended before all was moved.
    """

    plan: Plan
    time: float
    moved: int = 0
    gained: int = 0
    ended: str = ""


@dataclass(slots=True)
class Hour:
    """How many moves began since a time, in seconds since the epoch."""

    since: float = 0.0
    moves: int = 0


@dataclass(slots=True)
class _Known:
    rules: RebalanceRules
    hour: Hour
    due: float = 0.0
    progress: Progress | None = None


@dataclass(slots=True)
class _Flight:
    """A move that has begun. `refused`: the pod was not evicted."""

    move: Move
    pod: PodInfo
    reservation: str
    until: float
    refused: bool = field(default=False)


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
        self._reservations = reservations
        self._assigned = assigned
        self._namespaces = frozenset({*SYSTEM_NAMESPACES, namespace})
        self._known: dict[str, _Known] = {}
        self._spared: dict[str, float] = {}
        """By the uid of a controller that did not create a moved pod again in time: until when its pods stay."""
        self._task: asyncio.Task[None] | None = None

    # Policies

    def set(self, rules: RebalanceRules, hour: Hour) -> None:
        """Adds or replaces a policy. `hour`: as the status of one that was unknown says it."""
        known = self._known.get(rules.name)
        if known is None or known.rules.uid != rules.uid:
            self._known[rules.name] = _Known(rules, hour)
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

    def hour(self, name: str) -> Hour:
        """The moves that count for `max_moves`."""
        known = self._known.get(name)
        return Hour() if known is None else known.hour

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
        """Looks after all policies, beside the loop, unless that is still going on."""
        if self._known and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="podwright rebalancing")

    def cancel(self) -> None:
        """Ends the plan, and gives back its places."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """The same, and waits until that is done."""
        self.cancel()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        now = self._sources.wall()
        self._spared = {uid: until for uid, until in self._spared.items() if until > now}
        for name in [*self._known]:
            known = self._known.get(name)
            if known is not None and known.rules.mode != "Stop" and self._sources.clock() >= known.due:
                try:
                    await self._plan(known)
                except Exception:
                    log.exception("rebalance policy %s cannot be planned", name)

    async def _plan(self, known: _Known) -> None:
        rules, now = known.rules, self._sources.wall()
        enforce = rules.mode == "Enforce" and not self.conflict(rules.name)
        known.due = self._sources.clock() + rules.interval
        if not 0 <= now - known.hour.since < HOUR:
            known.hour = Hour(now)
        asked = replace(rules, max_moves=rules.max_moves - known.hour.moves) if enforce else rules
        try:
            plan = await self._elsewhere.ask(lambda: self._planner(asked).plan())
        except NoAnswerError as error:
            known.progress = Progress(Plan(rules.name), now, ended=str(error))
            return
        progress = known.progress = Progress(plan, now)
        outcome = "planned" if plan.steps else "empty"
        if enforce and plan.steps:
            for step in plan.steps:
                progress.ended = await self._carry_out(known, rules, step, progress)
                if progress.ended:
                    known.due = min(known.due, self._sources.clock() + AGAIN_SECONDS)
                    log.info("the plan of rebalance policy %s ended: %s", rules.name, progress.ended)
                    break
                progress.gained += step.gain
                self._ports.metrics.count(REBALANCE_GAIN, by=step.gain)
            outcome = "ended" if progress.ended else "done"
        self._ports.metrics.count(REBALANCE_PLANS, outcome)

    def _planner(self, rules: RebalanceRules) -> Planner:
        queue = self._state.queue
        view = View(
            framework_of=partial(provable_framework, self._policies),
            now=self._sources.wall(),
            waiting=[queued.pod for uid in queue.uids() if (queued := queue.get(uid)) is not None],
            spared=self._spared,
            namespaces=self._namespaces,
        )
        return Planner(self._cache, rules, view)

    # Moves

    async def _carry_out(self, known: _Known, rules: RebalanceRules, step: Step, progress: Progress) -> str:
        """Makes the moves of a step. Returns why it ended early; "" if all were made."""
        left, flights, problem = [*step.moves], list[_Flight](), ""
        try:
            while flights or (left and not problem):
                if self._is_changed(known, rules):
                    return _WHY["stopped"]
                if left and not problem and len(flights) < rules.at_once:
                    refused = await self._prove(known, rules, replace(step, moves=left))
                    if refused and not flights:
                        problem = refused
                    elif not refused:
                        flights.append(self._begin(known, step, left.pop(0)))
                        continue
                for flight in [*flights]:
                    if result := self._result(flight):
                        flights.remove(flight)
                        self._end(flight, step, result)
                        progress.moved += result == "moved"
                        problem = problem or _problem(flight.move, result)
                await asyncio.sleep(POLL_SECONDS if flights else 0)
            return problem
        finally:
            for flight in flights:
                self._end(flight, step, "stopped")

    def _is_changed(self, known: _Known, rules: RebalanceRules) -> bool:
        """True if the policy was changed or removed since it had these rules."""
        return self._known.get(rules.name) is not known or known.rules is not rules

    async def _prove(self, known: _Known, rules: RebalanceRules, step: Step) -> str:
        """Why these moves cannot be made as planned; "" if they can. The second time without a pause, because the
        cluster and the policy change while a child process answers.
        """
        try:
            problem = await self._elsewhere.ask(lambda: self._planner(rules).prove(step))
        except NoAnswerError as error:
            return str(error)
        if self._is_changed(known, rules):
            return _WHY["stopped"]
        return problem or self._planner(rules).prove(step, quick=True)

    def _begin(self, known: _Known, step: Step, move: Move) -> _Flight:
        info, target = self._cache.present(move.source), self._cache.present(move.target)
        assert info is not None, "proved"
        assert target is not None, "proved"
        pod, rules = info.pods[move.uid], known.rules
        until = self._sources.wall() + rules.hold_for
        flight = _Flight(move, pod, reservation=f"{_PREFIX}{move.uid}", until=until)
        self._reservations.set(
            Reservation(
                name=flight.reservation,
                namespace=pod.namespace,
                until=flight.until,
                slots=[Slot(move.target, requests_of(pod))],
                priority=pod.priority,
                like=pod,
                others=frozenset(target.pods),
            )
        )
        known.hour.moves += 1
        note = f"moved from node {move.source} to {move.target} by rebalance policy {rules.name}: {_worth(step)}"

        def done(deleted: bool) -> None:
            flight.refused = not deleted
            self._assigned.eviction_ended(move.uid, deleted=deleted)

        self._assigned.eviction_started(move.uid)
        self._ports.evictor.evict(
            pod,
            Regarding("", rules.name, rules.uid, "", pod.scheduler_name, "RebalancePolicy", "podwright.dev/v1alpha1"),
            move.target,
            done,
            within_budgets=True,
            event=EvictionEvent("Rebalanced", "Rebalancing", note),
        )
        return flight

    def _result(self, flight: _Flight) -> Result | None:
        """How the move has ended; None if it has not."""
        reservations, name = self._cache.reservations, flight.reservation
        if flight.refused:
            return "refused"
        taken = reservations.taken_by(name)
        if any(not self._cache.is_assumed(uid) for uid in taken):
            return "moved"
        if reservations.get(name) is None or self._sources.wall() >= flight.until:
            return "timeout"
        return None if taken or self._has_room(flight) else "lost"

    def _has_room(self, flight: _Flight) -> bool:
        """False once other pods have the room, those of other schedulers, too."""
        info = self._cache.present(flight.move.target)
        return info is not None and all(
            amount <= info.allocatable(resource) - info.requested.get(resource, 0)
            for resource, amount in flight.pod.requests.amounts.items()
            if amount
        )

    def _end(self, flight: _Flight, step: Step, result: Result) -> None:
        """Gives the place back, which a pod has if it was moved."""
        move, owner = flight.move, flight.pod.owner
        self._reservations.remove(flight.reservation)
        self._ports.metrics.count(REBALANCE_MOVES, result)
        assert owner is not None, "only pods with controllers move"
        if result == "timeout":
            self._spared[owner.uid] = self._sources.wall() + SPARED_SECONDS
        note = f"pod {move.pod} moved from node {move.source} to {move.target}: {_worth(step)}"
        if result != "moved":
            note = f"pod {move.pod} was to move from node {move.source} to {move.target}, but {_problem(move, result)}"
        namespace, name, scheduler = flight.pod.namespace, owner.name, flight.pod.scheduler_name
        regarding = Regarding(namespace, name, owner.uid, "", scheduler, owner.kind, owner.api_version)
        kind: Literal["Normal", "Warning"] = "Normal" if result in ("moved", "stopped") else "Warning"
        reason = "PodRebalanced" if result == "moved" else "PodNotRebalanced"
        self._ports.recorder.record(regarding, kind, reason, "Rebalancing", note)


def _worth(step: Step) -> str:
    return f"{step.why}, gain {step.gain} for {len(step.moves)} move{'' if len(step.moves) == 1 else 's'}"


def _problem(move: Move, result: Result) -> str:
    return "" if result == "moved" else _WHY[result].format(pod=move.pod, owner=move.owner)


def _goals(rules: RebalanceRules) -> object:
    return rules.weights, rules.room, rules.room_count


def _age(rules: RebalanceRules) -> tuple[float, str]:
    return rules.created, rules.name
