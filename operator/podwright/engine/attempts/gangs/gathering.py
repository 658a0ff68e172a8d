"""Room that gangs gather (`core.gangs.gathering`), beside the loop: what takes longer than a slice is planned in a
child.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from math import inf

from podwright.core.gangs.gathering import DueGang, GatheringGangs
from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.start_times import EarliestStart, earliest_start
from podwright.core.plugins.gang_scheduling import args_of
from podwright.core.queues.queues import queues_of
from podwright.core.state.reservations import Reservation
from podwright.engine.planning.elsewhere import Elsewhere, NoChildAnswerError, NoChildAtAllError
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.ports import Ports, Regarding
from podwright.engine.process.interruption import cancel
from podwright.engine.process.steps import in_slices
from podwright.engine.records.log_fields import fields
from podwright.engine.reservations import ReservationChanges
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)


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
        self._sources = state.sources
        self._recorder = ports.recorder
        self._policies = policies
        self._elsewhere = elsewhere
        self._reservations = reservations
        self.leads = False
        """True once this instance decides which gangs gather room. Before, the objects of the API server say it."""
        self._gangs = GatheringGangs(state.cache)
        self._task: asyncio.Task[None] | None = None
        self._releasing: asyncio.Task[None] | None = None

    def take_over(self) -> None:
        """Called when this process leads. What another one, or this one before a restart, has held goes on being held:
        for gangs, and for pods of queues for which others were evicted. Without its gang, room is given back.
        """
        self.leads = True
        nominator, queues = self._cache.nominator, queues_of(self._cache)
        nominated = [pod for name in nominator.nodes() for pod in nominator.on(name)]
        nominator.hold_room(pod.uid for pod in nominated if queues.names_queue(pod))
        for name in self._gangs.take_over():
            self._reservations.remove(name)

    def begin(self) -> None:
        """Starts a task that gathers room for all queues, unless it still runs."""
        if not self._gangs:
            return
        if self._releasing is None or self._releasing.done():
            self._releasing = asyncio.create_task(self._release(), name="podwright release of gathered room")
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._gather(self._releasing), name="podwright gathering of room")

    def held(self) -> Mapping[str, Reservation]:
        """The reservations of gangs, by name."""
        return self._gangs.held()

    async def stop(self) -> None:
        await cancel([self._task, self._releasing])

    async def _release(self) -> None:
        for name in self._gangs.release(self._sources.wall()):
            if name:
                self._reservations.remove(name)
            await asyncio.sleep(0)

    async def _gather(self, released: asyncio.Task[None]) -> None:
        await released
        for queue in self._gangs.names():
            for due in self._gangs.due(queue, self._sources.wall()):
                await self._plan(due)
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _plan(self, due: DueGang) -> None:
        policy = self._policies.of(due.members[0])
        if policy is None or policy.refusal:
            return
        now = self._sources.wall()
        planner = GangPlanner(
            framework=policy.framework,
            cache=self._cache,
            group=due.group,
            below=self._sources.below,
            pack_by=args_of(policy.framework.profile).topology_key,
        )
        try:
            start = await self._elsewhere.ask(lambda: earliest_start(planner, due.members, self._gangs.may_end(), now))
        except NoChildAnswerError as error:
            log.info("cannot find where the pod group could start: %s", error, extra=fields(podGroup=due.group))
            if not isinstance(error, NoChildAtAllError):
                return  # another child may find it, the next time
            start = None
        reservation = await in_slices(self._gangs.gather(due, start, self._sources.wall()))
        if reservation is not None and start is not None:
            await in_slices(self._reservations.begin(reservation))
            self._tell(due, reservation, start)

    def _tell(self, due: DueGang, reservation: Reservation, start: EarliestStart) -> None:
        seconds = f"{max(0, round(start.at - self._sources.wall()))} s" if start.at < inf else ""
        expected = f"within {seconds}" if start.sure else f"in {seconds}, if pods run for as long as is expected"
        when = expected if seconds else "when running pods end"
        nodes = len({slot.node for slot in reservation.slots})
        note = f"room for {len(reservation.slots)} pods is held on {nodes} nodes, where the pod group can start {when}"
        regarding = Regarding.group(due.group, due.members[0].scheduler_name)
        self._recorder.record(regarding, "Normal", "RoomHeld", "Scheduling", note)
