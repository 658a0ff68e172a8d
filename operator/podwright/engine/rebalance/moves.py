"""Moves: a step of a plan is carried out.

    prove again ─► hold the place, and write it ─► evict within budgets ─► the controller creates a pod
        ─► it takes the place, and is ready ─► next

A place is a Reservation for what the controller of the moved pod creates. It is given back when that does not come,
when the eviction is refused, when others have taken it, and when the policy is changed. A gang's room is held from the
first move until the gang starts. When this process ends, places stay, and the next one looks after them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from podwright.core.gangs.gathering import slot_for
from podwright.core.objects.pod import PodInfo
from podwright.core.rebalance.gangs import waiting_gang
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.core.rebalance.rules import Move, RebalanceRules, Step
from podwright.core.state.reservations import Replaced, Reservation, rebalancing_name
from podwright.engine.intake.assigned_pods import AssignedPods
from podwright.engine.planning.elsewhere import Elsewhere, NoChildAnswerError
from podwright.engine.ports import EvictionEvent, Ports, Regarding
from podwright.engine.records.rebalance_metrics import REBALANCE_MOVES
from podwright.engine.reservations import ReservationChanges
from podwright.engine.state import EngineState

POLL_SECONDS: Final = 0.05
"""How often is looked whether a move has ended."""
PROVE_SECONDS: Final = 1.0
"""While moves are under way, a step that was refused is proved again after this time, or when one of them has ended."""
REFUSED_SECONDS: Final = 600.0
"""For how long a pod stays whose eviction was refused, or whose place could not be written: others go first."""
SPARED_SECONDS: Final = 86_400.0
"""For how long the pods of a controller stay that did not create a moved pod again in time."""
ADOPTED_SECONDS: Final = 600.0
"""For how long the room is held at most that another process has held for a gang."""
SURE_SECONDS: Final = 10.0
"""After this time, a pod that another process wanted to move, and that is not terminating, was not evicted."""

Result = Literal["moved", "refused", "lost", "timeout", "notReady", "stopped"]
STOPPED: Final = "the policy was changed"
_WHY: Final[Mapping[Result, str]] = {
    "refused": "the eviction of pod {pod} was refused",
    "lost": "others took the place of pod {pod}",
    "timeout": "what {owner} created in place of pod {pod} did not come to its place in time",
    "notReady": "what {owner} created in place of pod {pod} was not ready in time",
    "stopped": STOPPED,
}


@dataclass(slots=True)
class _Flight:
    """A move that has begun. `refused`: the pod was not evicted. `successor`: the uid of the new pod, once it is bound."""

    move: Move
    pod: PodInfo
    reservation: str
    until: float
    refused: bool = False
    successor: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What a plan is carried out for. `changed`: whether the policy has other rules now; `begun`, `moved`: called for
    each move that begins, and for each pod that has moved.
    """

    rules: RebalanceRules
    changed: Callable[[], bool]
    begun: Callable[[], None]
    moved: Callable[[], None]


async def _kept(_reservation: Reservation) -> str:
    return ""


class Moves:
    """See the module. `planner` makes one for these rules and the cluster as it is."""

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        *,
        planner: Callable[[RebalanceRules], RebalancePlanner],
        elsewhere: Elsewhere,
        reservations: ReservationChanges,
        assigned: AssignedPods,
    ) -> None:
        self._cache = state.cache
        self._wall = state.sources.wall
        self._ports = ports
        self._planner = planner
        self._elsewhere = elsewhere
        self._reservations = reservations
        self._assigned = assigned
        self.keep: Callable[[Reservation], Awaitable[str]] = _kept
        """Writes a place, so that it survives this process. Returns why it cannot be written; "" if it is."""
        self._spared: dict[str, float] = {}
        """By the uid of a controller that did not create a moved pod again in time: until when its pods stay. By the uid
        of a pod that was refused: until when it stays.
        """
        self._adopted: dict[str, float] = {}
        """By name of a Reservation that another process has made: when this one took over."""

    def held(self) -> Mapping[str, Reservation]:
        """All places, and the room of gangs, by name."""
        return {each.name: each for each in self._cache.reservations.all() if each.is_rebalancing}

    def spared(self) -> Mapping[str, float]:
        """The uids of controllers whose pods stay, and of pods that stay."""
        now = self._wall()
        self._spared = {uid: until for uid, until in self._spared.items() if until > now}
        return self._spared

    # What another process has held

    def take_over(self) -> None:
        """Goes on holding what another process, or this one before a restart, has held."""
        self._adopted = dict.fromkeys(self.held(), self._wall())

    def look_after(self) -> bool:
        """Gives back what nobody needs any more of that. Returns whether pods are still to come to their places."""
        for name, since in [*self._adopted.items()]:
            reservation = self._cache.reservations.get(name)
            if reservation is None or self._has_ended(reservation, since):
                del self._adopted[name]
                self._reservations.remove(name)
        held = map(self._cache.reservations.get, self._adopted)
        return any(each is not None and each.replaced is not None for each in held)

    def _has_ended(self, reservation: Reservation, since: float) -> bool:
        replaced, waits = reservation.replaced, self._wall() - since
        if replaced is None:
            return waits >= ADOPTED_SECONDS or waiting_gang(self._cache, reservation.group) is None
        if any(not self._cache.is_assumed(uid) for uid in self._cache.reservations.taken_by(reservation.name)):
            self._ports.metrics.count(REBALANCE_MOVES, "moved")
            return True
        source = self._cache.placement(replaced.uid)
        return source is not None and not source.pods[replaced.uid].terminating and waits >= SURE_SECONDS

    # Steps

    async def carry_out(self, step: Step, run: Run) -> str:
        """Makes the moves of a step. Returns why it ended early; "" if all were made."""
        left, flights, again = [*step.moves], list[_Flight](), 0.0
        problem = await self._hold_for_gang(step, run) if step.gang else ""
        try:
            while flights or (left and not problem):
                if run.changed():
                    problem = STOPPED
                    break
                move = None if problem or self._wall() < again else _next(left, flights, run.rules)
                if move is not None:
                    refused = await self._prove(replace(step, moves=left), run)
                    flight = refused or await self._begin(step, left, move, run)
                    if isinstance(flight, _Flight):
                        left.remove(move)
                        flights.append(flight)
                        continue
                    if not refused or not flights:
                        problem = flight
                    again = self._wall() + PROVE_SECONDS
                for flight in [*flights]:
                    if result := self._result(flight, run.rules):
                        flights.remove(flight)
                        again = 0.0
                        self._end(flight, step, result)
                        if result == "moved":
                            run.moved()
                        problem = problem or _problem(flight.move, result)
                await asyncio.sleep(POLL_SECONDS if flights else 0)
            if step.gang and not problem:
                problem = await self._wait_for_gang(step, run)
        except asyncio.CancelledError:
            raise  # the places stay
        except BaseException:
            self._give_back(step, flights)
            raise
        self._give_back(step, flights)
        return problem

    def _give_back(self, step: Step, flights: Sequence[_Flight]) -> None:
        for flight in flights:
            self._end(flight, step, "stopped")
        for each in [*self.held().values()]:
            if each.group and each.group == step.gang:
                self._reservations.remove(each.name)

    async def _prove(self, step: Step, run: Run) -> str:
        """Why these moves cannot be made as planned; "" if they can."""
        try:
            return await self._elsewhere.ask(lambda: self._planner(run.rules).prove(step))
        except NoChildAnswerError as error:
            return str(error)

    async def _begin(self, step: Step, left: Sequence[Move], move: Move, run: Run) -> _Flight | str:
        """The move, or why it cannot begin. The place is written first. Then, without a pause, the moves that are left
        are proved again, because the cluster and the policy change meanwhile.
        """
        info, target = self._cache.present(move.source), self._cache.present(move.target)
        pod = None if info is None else info.pods.get(move.uid)
        if run.changed() or pod is None or target is None:
            return STOPPED
        rules = run.rules
        reservation = Reservation(
            name=rebalancing_name(move.uid),
            namespace=pod.namespace,
            until=self._wall() + rules.hold_for,
            slots=[slot_for(pod, move.target)],
            priority=pod.priority,
            replaced=Replaced.of(pod, target.pods.values()),
        )
        self._reservations.set(reservation)
        self._adopted.pop(reservation.name, None)
        try:
            problem = await self.keep(reservation)
        except asyncio.CancelledError:
            self._reservations.remove(reservation.name)
            raise
        if problem:
            self._spared[move.uid] = self._wall() + REFUSED_SECONDS
            problem = f"the place of pod {move.pod} cannot be written: {problem}"
        problem = problem or (
            STOPPED if run.changed() else self._planner(rules).prove(replace(step, moves=left), quick=True)
        )
        if problem:
            self._reservations.remove(reservation.name)
            return problem
        flight = _Flight(move, pod, reservation=reservation.name, until=reservation.until)
        run.begun()
        note = f"moved from node {move.source} to {move.target} by rebalance policy {rules.name}: {_worth(step)}"

        def done(deleted: bool) -> None:
            flight.refused = not deleted
            self._assigned.eviction_ended(move.uid, deleted=deleted)

        def wanted() -> bool:
            """False after a Stop, and when this process stops or has lost its Lease."""
            running = task is not None and not task.done()
            return running and self._cache.reservations.get(reservation.name) is reservation

        task = asyncio.current_task()
        self._assigned.eviction_started(move.uid)
        self._ports.evictor.evict(
            pod,
            Regarding("", rules.name, rules.uid, "", pod.scheduler_name, "RebalancePolicy", "podwright.dev/v1alpha1"),
            move.target,
            done,
            within_budgets=True,
            event=EvictionEvent("Rebalanced", "Rebalancing", note),
            wanted=wanted,
        )
        return flight

    def _result(self, flight: _Flight, rules: RebalanceRules) -> Result | None:
        """How the move has ended; None if it has not."""
        reservations, name, now = self._cache.reservations, flight.reservation, self._wall()
        if flight.refused:
            return "refused"
        taken = reservations.taken_by(name)
        if not flight.successor and (bound := [uid for uid in taken if not self._cache.is_assumed(uid)]):
            flight.successor, flight.until = bound[0], now + rules.hold_for
        if flight.successor:
            where = self._cache.placement(flight.successor)
            if where is not None and (where.pods[flight.successor].ready or not flight.pod.ready):
                return "moved"
            return "notReady" if where is None or now >= flight.until else None
        if now >= flight.until:
            return "timeout"
        return None if taken or (reservations.get(name) is not None and self._has_room(flight)) else "lost"

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
        if result in ("timeout", "notReady"):
            self._spared[owner.uid] = self._wall() + SPARED_SECONDS
        if result == "refused":
            self._spared[move.uid] = self._wall() + REFUSED_SECONDS
        note = f"pod {move.pod} moved from node {move.source} to {move.target}: {_worth(step)}"
        if result != "moved":
            note = f"pod {move.pod} was to move from node {move.source} to {move.target}, but {_problem(move, result)}"
        namespace, name, scheduler = flight.pod.namespace, owner.name, flight.pod.scheduler_name
        regarding = Regarding(namespace, name, owner.uid, "", scheduler, owner.kind, owner.api_version)
        kind: Literal["Normal", "Warning"] = "Normal" if result in ("moved", "stopped") else "Warning"
        reason = "PodRebalanced" if result == "moved" else "PodNotRebalanced"
        self._ports.recorder.record(regarding, kind, reason, "Rebalancing", note)

    # Gangs

    async def _hold_for_gang(self, step: Step, run: Run) -> str:
        """Holds the room of a gang, which only becomes free while pods move. Returns why it is not held."""
        gang = waiting_gang(self._cache, step.gang)
        if gang is None:
            return f"{step.for_gang} does not wait any more"
        group, members = gang.group, [pod for pod in gang.members if pod.uid in step.places]
        reservation = Reservation(
            name=rebalancing_name(group.uid),
            namespace=group.namespace,
            until=self._wall() + run.rules.hold_for * (2 * len(step.moves) + 1),  # each to come, and to be ready
            slots=[slot_for(pod, step.places[pod.uid]) for pod in members],
            priority=max(pod.priority for pod in gang.members),
            group=group.key,
            group_uid=group.uid,
        )
        self._reservations.set(reservation)
        self._adopted.pop(reservation.name, None)
        nodes = len({slot.node for slot in reservation.slots})
        note = f"room for {len(members)} pods is held on {nodes} nodes, from which rebalance policy {run.rules.name} "
        note += f"moves {len(step.moves)} pod{'' if len(step.moves) == 1 else 's'}"
        regarding = Regarding.group(group, gang.members[0].scheduler_name)
        self._ports.recorder.record(regarding, "Normal", "RoomHeld", "Rebalancing", note)
        problem = await self.keep(reservation)
        return problem and f"the room of {step.for_gang} cannot be written: {problem}"

    async def _wait_for_gang(self, step: Step, run: Run) -> str:
        """Returns why the gang did not start; "" if it did."""
        until = self._wall() + run.rules.hold_for
        while waiting_gang(self._cache, step.gang) is not None:
            if run.changed():
                return STOPPED
            if self._wall() >= until:
                return f"{step.for_gang} did not take its room in time"
            await asyncio.sleep(POLL_SECONDS)
        group = self._cache.groups.get(step.gang)
        started = group is not None and self._cache.groups.minimum_placed(group)
        return "" if started else f"{step.for_gang} does not wait any more"


def _next(left: Sequence[Move], flights: Sequence[_Flight], rules: RebalanceRules) -> Move | None:
    """The first move that may begin beside these."""
    if len(flights) >= rules.at_once:
        return None
    owners = Counter(flight.move.owner_uid for flight in flights)
    nodes = Counter(node for flight in flights for node in (flight.move.source, flight.move.target))
    for move in left:
        busiest = max(nodes[move.source], nodes[move.target])
        if owners[move.owner_uid] < rules.at_once_of_owner and busiest < rules.at_once_of_node:
            return move
    return None


def _worth(step: Step) -> str:
    return f"{step.why}, gain {step.gain} for {len(step.moves)} move{'' if len(step.moves) == 1 else 's'}"


def _problem(move: Move, result: Result) -> str:
    return "" if result == "moved" else _WHY[result].format(pod=move.pod, owner=move.owner)
