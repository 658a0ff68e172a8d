"""Moves: a step of a plan is carried out.

    prove again ─► hold the place, and write it ─► evict within budgets ─► the controller creates a pod
        ─► it takes the place, and is ready ─► next

A place is a Reservation for what the controller of the moved pod creates. It is given back when that does not come,
when the eviction is refused, when others have taken it, and when the policy is stopped. With other rules, nothing
begins any more, and what has begun ends. A gang's room is held from the first move until the gang starts. When this
process ends, places stay, and the next one looks after them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from podwright.api.scheduler_policy import PODWRIGHT_SCHEDULER_NAME
from podwright.core.gangs.gathering import slot_for
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import Owner, PodInfo
from podwright.core.rebalance.gangs import room_of, waiting_gang
from podwright.core.rebalance.movable import may_take
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
GRACE_SECONDS: Final = 3600.0
"""The most of a pod's grace period for which its place is held longer, so that no pod holds all moves up for days."""
SURE_SECONDS: Final = 10.0
"""After this time, a pod that another process wanted to move, and that is not terminating, was not evicted."""

Result = Literal["moved", "refused", "lost", "timeout", "notReady", "stopped"]
STOPPED: Final = "the policy was changed"
_WHY: Final[Mapping[Result, str]] = {
    "refused": "the eviction of pod {pod} was refused",
    "lost": "others took the place of pod {pod}, or its node takes no pods any more",
    "timeout": "what {owner} created in place of pod {pod} did not come to its place in time",
    "notReady": "what {owner} created in place of pod {pod} was not ready in time",
    "stopped": STOPPED,
}


class _NotProved(str):
    """Why a step cannot be made as planned. While moves are under way, these may be why."""

    __slots__ = ()


@dataclass(slots=True)
class _Flight:
    """A move that has begun. `refused`: the pod was not evicted. `successor`: the uid of the new pod, once it is
    bound.
    """

    move: Move
    pod: PodInfo
    reservation: str
    until: float
    refused: bool = False
    successor: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """The rules and callbacks of one plan. `changed`: True if the policy has other rules now, or is stopped; `stopped`:
    True if its mode is Stop, or it is gone; `begun`: called for each move that begins; `moved`: called with the uid of
    each pod that has moved.
    """

    rules: RebalanceRules
    changed: Callable[[], bool]
    stopped: Callable[[], bool]
    begun: Callable[[], None]
    moved: Callable[[str], None]


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
        self._queue = state.queue
        self._wake = state.wake
        self._wall = state.sources.wall
        self._ports = ports
        self._planner = planner
        self._elsewhere = elsewhere
        self._reservations = reservations
        self._assigned = assigned
        self.keep: Callable[[Reservation], Awaitable[str]] = _kept
        """Writes a place, so that it survives this process. Returns why it cannot be written; "" if it is."""
        self._spared: dict[str, float] = {}
        """By the uid of a controller that did not create a moved pod again in time: until when its pods stay. By the
        uid of a pod that was refused: until when it stays.
        """
        self._adopted: dict[str, tuple[Reservation, float]] = {}
        """By name: a Reservation that another process has made, and when this one took over."""

    def held(self) -> Mapping[str, Reservation]:
        """All places, and the room of gangs, by name."""
        return {each.name: each for each in self._cache.reservations.all() if each.is_rebalancing}

    def spared(self) -> Mapping[str, float]:
        """The uids of controllers whose pods stay, and of pods that stay."""
        now = self._wall()
        self._spared = {uid: until for uid, until in self._spared.items() if until > now}
        return self._spared

    def spare(self, uids: Mapping[str, float]) -> None:
        """Spares what another process has spared: uids, with the times until when."""
        latest = self._wall() + SPARED_SECONDS
        for uid, until in uids.items():
            self._spared[uid] = min(latest, max(until, self._spared.get(uid, 0.0)))

    # What another process has held

    def take_over(self) -> None:
        """Goes on holding what another process, or this one before a restart, has held."""
        self._adopted = {name: (each, self._wall()) for name, each in self.held().items()}

    def look_after(self, *, stopped: bool) -> bool:
        """Gives back what nobody needs any more of that. Returns whether pods are still to come to their places.
        `stopped`: every policy is stopped or gone, so no place is held.
        """
        for name, (reservation, since) in [*self._adopted.items()]:
            if stopped or self._has_ended(reservation, since):
                del self._adopted[name]
                self._reservations.remove(name)
        return any(each.replaced is not None for each, _ in self._adopted.values())

    def _has_ended(self, reservation: Reservation, since: float) -> bool:
        replaced, now = reservation.replaced, self._wall()
        is_held = self._cache.reservations.get(reservation.name) is not None
        if replaced is None:
            return not is_held or now - since >= ADOPTED_SECONDS or self._starts(reservation.group)
        if came := self._came(reservation, is_held=is_held):
            if all(map(self._cache.is_assumed, came)):
                return False
            self._ports.metrics.count(REBALANCE_MOVES, "moved")
            return True
        source = self._cache.placement(replaced.uid)
        if source is not None and not source.pods[replaced.uid].terminating:
            return not is_held or now - since >= SURE_SECONDS
        result: Result | None = "timeout" if now >= reservation.until else None
        if is_held:
            result = None if self._has_room(reservation) else "lost"
        if result is not None:
            pod, node = f"{reservation.namespace}/{replaced.name}", reservation.slots[0].node
            why = _WHY[result].format(pod=pod, owner=f"{replaced.owner.kind}/{replaced.owner.name}")
            note = f"pod {pod} was to move to node {node}, but {why}"
            self._conclude(replaced.owner, reservation.namespace, PODWRIGHT_SCHEDULER_NAME, result, note)
        return not is_held or result is not None

    def _came(self, reservation: Reservation, *, is_held: bool) -> Collection[str]:
        """The uids of the pods that have the place, or would have it if its time were not over."""
        if is_held:
            return self._cache.reservations.taken_by(reservation.name)
        target = self._cache.present(reservation.slots[0].node)
        return () if target is None else [pod.uid for pod in target.pods.values() if reservation.is_for(pod)]

    def _starts(self, key: str) -> bool:
        """True if the gang to which this group belongs does not wait for its room any more."""
        return waiting_gang(self._cache, self._cache.groups.root_of(key)) is None

    # Steps

    async def carry_out(self, step: Step, run: Run) -> str:
        """Makes the moves of a step. Returns why it ended early; "" if all were made."""
        left, flights, rooms, again = [*step.moves], list[_Flight](), list[str](), 0.0
        try:
            problem = await self._hold_for_gang(step, run, rooms) if step.gang else ""
            while flights or (left and not problem):
                if run.stopped():
                    problem = STOPPED
                    break
                if left and run.changed():
                    problem = problem or STOPPED
                move = None if problem or self._wall() < again else _next(left, flights, run.rules)
                if move is not None:
                    refused = await self._prove(replace(step, moves=left), run, begun=len(left) < len(step.moves))
                    flight = refused or await self._begin(step, left, move, run)
                    if isinstance(flight, _Flight):
                        left.remove(move)
                        flights.append(flight)
                        continue
                    if not (flights and isinstance(flight, _NotProved)):
                        problem = flight
                    again = self._wall() + PROVE_SECONDS
                for flight in [*flights]:
                    if result := self._result(flight, run):
                        flights.remove(flight)
                        again = 0.0
                        self._end(flight, step, result)
                        if result == "moved":
                            run.moved(flight.move.uid)
                        problem = problem or _problem(flight.move, result)
                await asyncio.sleep(POLL_SECONDS if flights else 0)
            if step.gang and not problem:
                problem = await self._wait_for_gang(step, run)
        except asyncio.CancelledError:
            raise  # the places stay
        except BaseException:
            self._give_back(step, flights, rooms)
            raise
        self._give_back(step, flights, rooms)
        return problem

    def _give_back(self, step: Step, flights: Sequence[_Flight], rooms: Sequence[str]) -> None:
        for flight in flights:
            self._end(flight, step, "stopped")
        for name in rooms:
            self._reservations.remove(name)

    async def _prove(self, step: Step, run: Run, *, begun: bool) -> _NotProved:
        """Why these moves cannot be made as planned; "" if they can."""
        try:
            return _NotProved(await self._elsewhere.ask(lambda: self._planner(run.rules).prove(step, begun=begun)))
        except NoChildAnswerError as error:
            return _NotProved(error)

    async def _begin(self, step: Step, left: Sequence[Move], move: Move, run: Run) -> _Flight | str:
        """The move, or why it cannot begin. The place is written first. Then, without a pause, the move is proved
        again, because the cluster and the policy change meanwhile. The loop waits for that, so the other moves that are
        left are not.
        """
        info, target = self._cache.present(move.source), self._cache.present(move.target)
        pod = None if info is None else info.pods.get(move.uid)
        if run.changed() or pod is None or target is None:
            return STOPPED
        rules = run.rules
        reservation = Reservation(
            name=rebalancing_name(move.uid),
            namespace=pod.namespace,
            until=self._wall() + rules.hold_for + _grace(pod),
            slots=[slot_for(pod, move.target)],
            priority=pod.priority,
            replaced=Replaced.of(pod, target.pods.values()),
        )
        self._reservations.set(reservation)
        self._adopted.pop(reservation.name, None)
        try:
            problem = await self.keep(reservation)
            if problem:
                self._spared[move.uid] = self._wall() + REFUSED_SECONDS
                problem = f"the place of pod {move.pod} cannot be written: {problem}"
            elif run.changed():
                problem = STOPPED
            else:
                problem = _NotProved(self._planner(rules).prove(replace(step, moves=left), only=move))
        except BaseException:
            self._reservations.remove(reservation.name)
            raise
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
            """False when the policy has changed, and when this process stops or has lost its Lease."""
            running = task is not None and not task.done() and not run.changed()
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

    def _result(self, flight: _Flight, run: Run) -> Result | None:
        """How the move has ended; None if it has not."""
        reservations, name, now = self._cache.reservations, flight.reservation, self._wall()
        if flight.refused:
            return "stopped" if run.changed() else "refused"
        taken = reservations.taken_by(name)
        if not flight.successor and (bound := [uid for uid in taken if not self._cache.is_assumed(uid)]):
            flight.successor, flight.until = bound[0], now + run.rules.hold_for
        if flight.successor:
            where = self._cache.placement(flight.successor)
            if where is not None and (where.pods[flight.successor].ready or not flight.pod.ready):
                return "moved"
            return "notReady" if where is None or now >= flight.until else None
        if now >= flight.until:
            return "timeout"
        place = reservations.get(name)
        return None if taken or (place is not None and self._has_room(place)) else "lost"

    def _has_room(self, place: Reservation) -> bool:
        """False once other pods, of any scheduler, have the room, or the node takes no more pods."""
        info, replaced = self._cache.present(place.slots[0].node), place.replaced
        assert replaced is not None, "not the room of a gang"
        return (
            info is not None
            and may_take(info.present)
            and all(
                amount <= info.allocatable(resource) - info.requested.get(resource, 0)
                for resource, amount in replaced.requests.items()
            )
        )

    def _end(self, flight: _Flight, step: Step, result: Result) -> None:
        """Gives the place back, which a pod has if it was moved."""
        move, owner = flight.move, flight.pod.owner
        self._reservations.remove(flight.reservation)
        assert owner is not None, "only pods with controllers move"
        if result == "refused":
            self._spared[move.uid] = self._wall() + REFUSED_SECONDS
        note = f"pod {move.pod} moved from node {move.source} to {move.target}: {_worth(step)}"
        if result != "moved":
            note = f"pod {move.pod} was to move from node {move.source} to {move.target}, but {_problem(move, result)}"
        self._conclude(owner, flight.pod.namespace, flight.pod.scheduler_name, result, note)

    def _conclude(self, owner: Owner, namespace: str, scheduler: str, result: Result, note: str) -> None:
        """Counts and records how a move has ended."""
        self._ports.metrics.count(REBALANCE_MOVES, result)
        if result in ("timeout", "notReady"):
            self._spared[owner.uid] = self._wall() + SPARED_SECONDS
        regarding = Regarding(namespace, owner.name, owner.uid, "", scheduler, owner.kind, owner.api_version)
        kind: Literal["Normal", "Warning"] = "Normal" if result in ("moved", "stopped") else "Warning"
        reason = "PodRebalanced" if result == "moved" else "PodNotRebalanced"
        self._ports.recorder.record(regarding, kind, reason, "Rebalancing", note)

    # Gangs

    async def _hold_for_gang(self, step: Step, run: Run, rooms: list[str]) -> str:
        """Holds the room of a gang, which only becomes free while pods move. Returns why it is not held. Adds the names
        of what it holds to `rooms`: its parts may be gone when that is given back.
        """
        gang = waiting_gang(self._cache, step.gang)
        if gang is None:
            return f"{step.for_gang} does not wait any more"
        members = [pod for pod in gang.members if pod.uid in step.places]
        until = self._wall() + run.rules.hold_for * (2 * len(step.moves) + 1)  # each to come, and to be ready
        sources = [(move.uid, self._cache.placement(move.uid)) for move in step.moves]
        until += sum(_grace(source.pods[uid]) for uid, source in sources if source is not None)
        held = room_of(gang, self._cache, step.places, until)
        for reservation in held:
            rooms.append(reservation.name)
            self._reservations.set(reservation)
            self._adopted.pop(reservation.name, None)
        nodes = len({step.places[pod.uid] for pod in members})
        note = f"room for {len(members)} pods is held on {nodes} nodes, from which rebalance policy {run.rules.name} "
        note += f"moves {len(step.moves)} pod{'' if len(step.moves) == 1 else 's'}"
        regarding = Regarding.group(gang.group, gang.members[0].scheduler_name)
        self._ports.recorder.record(regarding, "Normal", "RoomHeld", "Rebalancing", note)
        problem = ""
        for reservation in held:
            problem = problem or await self.keep(reservation)
        return problem and f"the room of {step.for_gang} cannot be written: {problem}"

    async def _wait_for_gang(self, step: Step, run: Run) -> str:
        """Returns why the gang did not start; "" if it did. It is tried as soon as the pods are gone, without
        backoff.
        """
        until, tried = self._wall() + run.rules.hold_for, False
        while (gang := waiting_gang(self._cache, step.gang)) is not None:
            if not tried and not any(self._cache.placement(move.uid) for move in step.moves):
                tried = True
                for member in gang.members:
                    self._queue.activate(member.uid)
                self._wake()
            if run.stopped():
                return STOPPED
            if self._wall() >= until:
                return f"{step.for_gang} did not take its room in time"
            await asyncio.sleep(POLL_SECONDS)
        group = self._cache.groups.get(step.gang)
        started = group is not None and self._cache.groups.minimum_placed(group)
        return "" if started else f"{step.for_gang} does not wait any more"


def _next(left: Sequence[Move], flights: Sequence[_Flight], rules: RebalanceRules) -> Move | None:
    """Returns the first move that may begin beside these. Only one pod of a controller moves to a node at a time:
    otherwise the first pod to come would also be taken for the second one when its own place is given back.
    """
    if len(flights) >= rules.at_once:
        return None
    owners = Counter(flight.move.owner_uid for flight in flights)
    targets = {(flight.move.owner_uid, flight.move.target) for flight in flights}
    nodes = Counter(node for flight in flights for node in (flight.move.source, flight.move.target))
    for move in left:
        busiest = max(nodes[move.source], nodes[move.target])
        alone = (move.owner_uid, move.target) not in targets
        if alone and owners[move.owner_uid] < rules.at_once_of_owner and busiest < rules.at_once_of_node:
            return move
    return None


def _grace(pod: PodInfo) -> float:
    """For how many seconds more its place is held, since controllers such as a StatefulSet wait until it is gone."""
    return min(pod.grace, GRACE_SECONDS)


def _worth(step: Step) -> str:
    return f"{step.why}, gain {step.gain} for {len(step.moves)} move{'' if len(step.moves) == 1 else 's'}"


def _problem(move: Move, result: Result) -> str:
    return "" if result == "moved" else _WHY[result].format(pod=move.pod, owner=move.owner)
