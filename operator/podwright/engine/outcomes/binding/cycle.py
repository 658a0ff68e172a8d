"""BindingCycle: one placement on its way to the API server. BindingCycles: the registry of all that are in progress.

`states` has the state machine. Other parts of the engine may stop a cycle until its Binding is posted: preemption, a
gang that is not placed as a whole, the deletion of the pod, and the end of the process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Final, NamedTuple

from podwright.core.cycle import Placement
from podwright.core.framework.framework import Framework
from podwright.core.framework.status import Code, Status, unschedulable
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.queue import QueuedPod
from podwright.engine.outcomes.binding import debug
from podwright.engine.outcomes.binding.states import EFFECTS, STOPPABLE, BindingOutcome, BindingState
from podwright.engine.outcomes.binding.waiting_pods import PermitWaitingPod
from podwright.engine.policies.active_policy import ActivePolicy

ALLOWED_AT_ONCE: Final = 100
"""How many pods that wait in Permit go on in one turn of the loop: a few milliseconds."""


class Ending(NamedTuple):
    """How a cycle ended, and the failure that a condition and an event report, if any."""

    outcome: BindingOutcome
    status: Status | None = None


SHUTDOWN: Final = Ending(BindingOutcome.SHUTDOWN, Status(Code.ERROR, ("the scheduler ends",)))


@dataclass(slots=True, eq=False, kw_only=True)
class BindingCycle:
    """One placement. `started` in seconds of the engine's clock; `debug`: assert each transition."""

    queued: QueuedPod
    uid: str = field(init=False)
    placement: Placement
    policy: ActivePolicy
    framework: Framework
    """The policy's, or in a measured attempt the one that reports to its observer."""
    started: float
    debug: bool = False
    state: BindingState = BindingState.ASSUMED
    """To be changed by `enter` and `end` only."""
    outcome: BindingOutcome | None = None
    """The last outcome, by which the cycle came to its state."""
    stopped: Ending | None = None
    """Why the cycle must not post its Binding."""
    conflict: bool = False
    """The API server refused our Binding because the pod has a node already."""
    waiting: PermitWaitingPod | None = None
    """In state WAITING: the pod as the Permit plugins see it."""
    task: asyncio.Task[None] | None = None
    """In state PRE_BINDING: the cycle's task, which may be cancelled."""
    waits: int = 0
    """How many waits for an object its PreBind plugins are in. Someone else changes it: a volume is provisioned, a
    device becomes ready.
    """
    nominated: bool = False
    """The pod's status shows our node as its nominated one."""
    readmit: Callable[[], None] | None = None
    """Called at the end of the cycle. The pod was deleted from the stream of pending pods and came back before the
    cycle ended.
    """

    def __post_init__(self) -> None:
        self.uid = self.queued.uid

    @property
    def stoppable(self) -> bool:
        """True if nothing was posted yet."""
        return self.state in STOPPABLE

    def stop_reason(self) -> Status | None:
        """Why the cycle must not go on; None if it was not stopped."""
        return None if self.stopped is None else self.stopped.status

    def enter(self, state: BindingState) -> None:
        """The next state. Raises BindingCycleError in debug mode if it may not follow."""
        if self.debug:
            debug.check_transition(self.queued.pod.key, self.state, state)
        self.state = state

    def wait_on_permit(self, pod: PermitWaitingPod) -> None:
        """Permit plugins have told the pod to wait. Until `permitted` or `permit_failed`, the cycle is in state
        WAITING.
        """
        self.waiting = pod
        self.enter(BindingState.WAITING)

    def permitted(self) -> None:
        """All Permit plugins have allowed the pod."""
        self.waiting = None
        self.enter(BindingState.PERMITTED)

    def permit_failed(self) -> None:
        """A Permit plugin has rejected the waiting pod, or the cycle was stopped."""
        self.waiting = None

    def node_nominated(self) -> None:
        """The pod's status now shows our node as its nominated one."""
        self.nominated = True

    def bind_conflicted(self) -> None:
        """The API server refused our Binding because the pod has a node already."""
        self.conflict = True

    def call_at_end(self, readmit: Callable[[], None] | None) -> None:
        """Sets what is called at the end of the cycle; None: nothing."""
        self.readmit = readmit

    @contextmanager
    def cancellable(self) -> Iterator[None]:
        """While the context is open, `stop` cancels the current task."""
        self.task = asyncio.current_task()
        try:
            yield
        finally:
            self.task = None

    def end(self, outcome: BindingOutcome) -> None:
        """The state that follows the outcome, whose effects were carried out."""
        self.state, self.outcome = EFFECTS[outcome].state, outcome

    def stop(self, ending: Ending) -> bool:
        """Stops the cycle. The first call's ending counts. False if the Binding was posted already."""
        if not self.stoppable:
            return False
        if self.stopped is None:
            self.stopped = ending
            if self.waiting is not None and ending.status is not None:
                self.waiting.end(ending.status)
            elif self.task is not None:
                self.task.cancel()
        return True


class BindingCycles:
    """All binding cycles in progress, by the pod's uid."""

    def __init__(self) -> None:
        self._cycles: dict[str, BindingCycle] = {}
        self._allowed: deque[tuple[PermitWaitingPod, str]] = deque()
        """Pods that are about to be told that a Permit plugin allows them."""
        self._ending = False
        compact_regularly(self)

    def add(self, cycle: BindingCycle) -> None:
        self._cycles[cycle.uid] = cycle

    def remove(self, cycle: BindingCycle) -> None:
        if self._cycles.get(cycle.uid) is cycle:
            del self._cycles[cycle.uid]

    @contextmanager
    def wait_of(self, cycle: BindingCycle | None) -> Iterator[None]:
        """A PreBind plugin of the cycle waits for an object while the context is open."""
        if cycle is None:
            yield
            return
        cycle.waits += 1
        if self._ending:
            cycle.stop(SHUTDOWN)
        try:
            yield
        finally:
            cycle.waits -= 1

    def end_waits(self) -> None:
        """Stops the cycles that wait in Permit or for an object, and those that come to such a wait later."""
        self._ending = True
        for waiting, plugin in self._allowed:  # a gang that starts is not torn apart
            waiting.allow(plugin)
        for cycle in self:
            if cycle.waits or (cycle.waiting is not None and not cycle.waiting.allowed):
                cycle.stop(SHUTDOWN)

    def get(self, uid: str) -> BindingCycle | None:
        return self._cycles.get(uid)

    def has(self, uid: str) -> bool:
        """True if the pod's binding cycle is in progress."""
        return uid in self._cycles

    def waiting(self) -> list[PermitWaitingPod]:
        """The pods that wait in Permit."""
        return [cycle.waiting for cycle in self._cycles.values() if cycle.waiting is not None]

    def preempt(self, uid: str, plugin: str) -> bool:
        """Stops a cycle for a more important pod. False without a cycle, or if its Binding was posted already."""
        cycle = self._cycles.get(uid)
        if cycle is None:
            return False
        waits = cycle.waiting is not None
        text = "waiting on permit for pod: preempted" if waits else f"preempted by {plugin}"
        return cycle.stop(Ending(BindingOutcome.PREEMPTED, Status(Code.ERROR, (text,))))

    def cancel(self, uid: str, why: str) -> bool:
        """Stops a cycle because its gang is not placed. False without a cycle, or if its Binding was posted already."""
        cycle = self._cycles.get(uid)
        return cycle is not None and cycle.stop(Ending(BindingOutcome.CANCELLED, unschedulable(why)))

    def allow(self, uids: Iterable[str], plugin: str) -> None:
        """Lets the pods go on that wait for this Permit plugin. Each then begins a Binding, so only `ALLOWED_AT_ONCE`
        go in one turn of the loop.
        """
        busy, cycles = bool(self._allowed), (self._cycles.get(uid) for uid in uids)
        self._allowed += [(each.waiting, plugin) for each in cycles if each is not None and each.waiting is not None]
        if not busy:
            self._allow_some()

    def _allow_some(self) -> None:
        for _ in range(min(ALLOWED_AT_ONCE, len(self._allowed))):
            waiting, plugin = self._allowed.popleft()
            waiting.allow(plugin)
        if self._allowed:
            asyncio.get_running_loop().call_soon(self._allow_some)

    def pod_left(self, uid: str) -> bool:
        """The pod left the stream of pending pods. True if we cannot have bound it, because nothing was posted for it
        yet.
        """
        cycle = self._cycles.get(uid)
        if cycle is None:
            return False
        cycle.call_at_end(None)
        return cycle.stop(Ending(BindingOutcome.DELETED, unschedulable("the pod was deleted")))

    def pod_returned(self, uid: str, readmit: Callable[[], None]) -> None:
        """The pod is pending again. If its cycle was stopped, the cycle calls `readmit` when it ends."""
        cycle = self._cycles.get(uid)
        if cycle is not None and cycle.stopped is not None:
            cycle.call_at_end(readmit)

    def record_conflict(self, uid: str) -> None:
        """The API server refused the pod's Binding because the pod has a node already, or is another pod of this
        name.
        """
        cycle = self._cycles.get(uid)
        if cycle is not None:
            cycle.bind_conflicted()

    def __iter__(self) -> Iterator[BindingCycle]:
        """A copy, so that cycles may end during the iteration."""
        return iter(tuple(self._cycles.values()))

    def __len__(self) -> int:
        return len(self._cycles)
