"""Gathering: a gang at the head of its queue that has found no room for long gets a reservation, so that smaller pods
do not take the room again and again.

Only a queue that will stay within its share, or its guarantee, gathers room. The room is
where the gang could start first (`core.gangs.start_times`). Other pods are placed there only if they
declare to end before. One gang of each queue gathers room at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.start_times import EarliestStart, earliest_start
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.queues.flavors import judged
from podwright.core.queues.queues import QueueRules, queues_of
from podwright.core.queues.tree import add_amounts
from podwright.core.state.reservations import Reservation, Slot, gathered_name
from podwright.engine.planning.elsewhere import Elsewhere, NoChildAnswerError
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import Ports, Regarding
from podwright.engine.records.log_fields import fields
from podwright.engine.reservations import ReservationChanges, requests_of
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

KEPT_SECONDS: Final = 600.0
"""For how long room is kept after the time at which the gang could start. Then the place is thought over."""
UNKNOWN_SECONDS: Final = 3600.0
"""For how long it is kept if that time is not known."""
AGAIN_SECONDS: Final = 60.0
"""After this time, a gang that cannot start anywhere is planned again."""


@dataclass(frozen=True, slots=True)
class _Gang:
    """A gang that gathers room: its key, the name of its reservation, and the uids of the pods that will have ended."""

    key: str
    reservation: str
    ended: frozenset[str]


class Gathering:
    """See the module."""

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        *,
        policies: ActivePolicies,
        elsewhere: Elsewhere,
        reservations: ReservationChanges,
    ) -> None:
        self._cache = state.cache
        self._queues = queues_of(state.cache)
        self._sources = state.sources
        self._recorder = ports.recorder
        self._policies = policies
        self._elsewhere = elsewhere
        self._reservations = reservations
        self.leads = False
        """True once this instance decides which gangs gather room. Before, the objects of the API server say it."""
        self._gathering: dict[str, _Gang] = {}
        """By queue: the gang that gathers room."""
        self._vain: dict[str, float] = {}
        """By key of a gang that cannot start anywhere: when it is planned again."""
        self._task: asyncio.Task[None] | None = None

    def take_over(self) -> None:
        """Called when this process leads. What another one, or this one before a restart, has held goes on being held:
        for gangs, and for pods of queues for which others were evicted. Without its gang, room is given back.
        """
        self.leads = True
        nominator = self._cache.nominator
        nominated = [pod for name in nominator.nodes() for pod in nominator.on(name)]
        nominator.hold_room(pod.uid for pod in nominated if self._queues.names_queue(pod))
        for reservation in self._cache.reservations.gathered():
            self._adopt(reservation)

    def begin(self) -> None:
        """Looks after all queues, beside the loop, unless that is still going on."""
        if not self._queues.active and not self._gathering:
            return
        self._release()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._gather(), name="podwright gathering of room")

    def held(self) -> Mapping[str, Reservation]:
        """The reservations of gangs, by name."""
        found = (self._cache.reservations.get(gang.reservation) for gang in self._gathering.values())
        return {reservation.name: reservation for reservation in found if reservation is not None}

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _adopt(self, reservation: Reservation) -> None:
        group = self._cache.groups.get(reservation.group)
        waiting = self._cache.groups.members(reservation.group).unplaced()
        same = group is not None and group.uid == reservation.group_uid
        queue = self._queues.queue_of(waiting[0]) if same and waiting and self._queues.active else ""
        if not queue or queue in self._gathering:
            self._reservations.remove(reservation.name)
            return
        infos = [self._cache.present(name) for name in {slot.node for slot in reservation.slots}]
        ended = frozenset(
            uid
            for info in infos
            if info is not None
            for uid, pod in info.pods.items()
            if pod.group != reservation.group and self._queues.queue_of(pod)
        )
        self._gathering[queue] = _Gang(reservation.group, reservation.name, ended)

    def _release(self) -> None:
        """Gives back the room of gangs that do not wait any more, or whose queue no longer gathers room."""
        now = self._sources.wall()
        self._vain = {key: due for key, due in self._vain.items() if due > now}
        for queue, gang in [*self._gathering.items()]:
            rules = self._queues.get(queue) if self._queues.active else None
            held, group = self._cache.reservations.get(gang.reservation), self._cache.groups.get(gang.key)
            needed = () if group is None else self._needed(group)
            nodes = () if held is None else [slot.node for slot in held.slots]
            wanted = held is not None and needed and rules is not None and rules.gather_after
            if not wanted or not self._is_owed(queue, needed, nodes, gang.ended):
                self._reservations.remove(gang.reservation)
                del self._gathering[queue]

    async def _gather(self) -> None:
        for queue in self._queues.names() if self._queues.active else ():
            rules = self._queues.get(queue)
            if rules is not None and rules.gather_after and queue not in self._gathering:
                found = self._due(rules)
                if found is not None:
                    await self._plan(queue, *found)
            await asyncio.sleep(0)

    def _needed(self, group: PodGroup) -> Sequence[PodInfo]:
        """Of the waiting members, at most as many as the gang needs to start. None once it has started."""
        waiting = self._cache.groups.members(group.key).unplaced()
        return [pod for pod in waiting if not pod.gates][: self._cache.groups.lacking(group)]

    def _due(self, rules: QueueRules) -> tuple[PodGroup, Sequence[PodInfo]] | None:
        """The gang at the head of this queue, and its waiting members, if it has waited for long enough."""
        waiting = self._queues.waiting_pods(rules.name)
        head = min(waiting, key=lambda pod: (-pod.priority, pod.creation), default=None)
        group = self._cache.groups.of(head) if head is not None and head.group else None
        if group is None or group.key in self._vain:
            return None
        members, needed = self._needed(group), self._cache.groups.lacking(group)
        since = min((pod.creation for pod in members), default=inf)
        if not 0 < needed <= len(members) or self._sources.wall() < since + rules.gather_after:
            return None
        if any(self._cache.nominator.node_of(pod.uid) for pod in members):
            return None  # its victims are on their way out
        return None if self._queues.bound_together(members, needed) else (group, members)

    def _is_owed(self, name: str, members: Sequence[PodInfo], nodes: Sequence[str], ended: Collection[str]) -> bool:
        """True if the queue and those above it stay within the larger of share and guarantee with these members on
        these nodes, when these pods have ended.
        """
        tree, amounts = self._queues.shared_out(), dict[str, int]()
        for pod, node in zip(members, nodes, strict=False):
            add_amounts(amounts, judged(tree.tracked(self._queues.amounts_on(pod, node))))
        freed: dict[str, dict[str, int]] = {}
        for uid in ended:
            if (info := self._cache.placement(uid)) is not None:
                pod = info.pods[uid]
                for above in self._queues.path(self._queues.queue_of(pod)):
                    add_amounts(freed.setdefault(above, {}), tree.tracked(self._queues.placed_amounts(pod)))
        queue = tree.get(name)
        return queue is not None and all(
            above.held.get(resource, 0) - freed.get(above.spec.name, {}).get(resource, 0) + amount
            <= above.entitled(resource)
            for above in queue.path()
            for resource, amount in amounts.items()
        )

    async def _plan(self, queue: str, group: PodGroup, members: Sequence[PodInfo]) -> None:
        policy = self._policies.of(members[0])
        if policy is None or policy.refusal:
            return
        now = self._sources.wall()
        planner = GangPlanner(framework=policy.framework, cache=self._cache, group=group, below=self._sources.below)
        running = [pod for name in self._queues.names() for pod in self._queues.placed_pods(name)]
        try:
            found = await self._elsewhere.ask(lambda: earliest_start(planner, members, running, now))
        except NoChildAnswerError as error:
            log.info("cannot find where the pod group could start: %s", error, extra=fields(podGroup=group))
            found = None
        nodes = [] if found is None else [found.nodes.get(pod.uid, "") for pod in members]
        if found is None or not self._is_owed(queue, members, nodes, found.ended):
            self._vain[group.key] = now + AGAIN_SECONDS
        elif self._cache.groups.get(group.key) == group and self._cache.groups.members(group.key).unplaced():
            self._hold(queue, group, members, found)

    def _hold(self, queue: str, group: PodGroup, members: Sequence[PodInfo], start: EarliestStart) -> None:
        now = self._sources.wall()
        known = start.at < inf
        slots = [Slot(start.nodes[pod.uid], requests_of(pod)) for pod in members if pod.uid in start.nodes]
        reservation = Reservation(
            name=gathered_name(group.uid),
            namespace=group.namespace,
            until=start.at + KEPT_SECONDS if known else now + UNKNOWN_SECONDS,
            slots=slots,
            group=group.key,
            group_uid=group.uid,
            at=start.at if known else 0.0,
        )
        self._reservations.set(reservation)
        self._gathering[queue] = _Gang(group.key, reservation.name, start.ended)
        seconds = f"in {max(0, round(start.at - now))} s"
        expected = f"{seconds} at the latest" if start.sure else f"{seconds}, if pods run for as long as is expected"
        when = expected if known else "when running pods end"
        nodes = len({slot.node for slot in slots})
        note = f"room for {len(slots)} pods is held on {nodes} nodes, where the pod group can start {when}"
        regarding = Regarding.group(group, members[0].scheduler_name)
        self._recorder.record(regarding, "Normal", "RoomHeld", "Scheduling", note)
