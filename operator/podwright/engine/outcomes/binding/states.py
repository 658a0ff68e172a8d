"""The binding cycle as a state machine: its states, its outcomes, and what each outcome does. Pure data, without I/O.

    ASSUMED ─► RESERVED ─┬────────────► PERMITTED ─┬────────────────────────────► BINDING ─► POST_BINDING
                         └─► WAITING ──────┘       └─► PRE_BINDING ─► PRE_BOUND ─────┘

A cycle leaves this graph by an outcome. The outcome's row in `EFFECTS` says everything that happens to the pod, and
names the final state: BOUND, REQUEUED, DROPPED or STOPPED. UNKNOWN leads to READING_BACK, where the pod in the API
server gives the outcome. In RECOVERING, an exception has interrupted the effects of an outcome, and the pod is brought
to a safe place.

    outcome           unreserve  forget  queue   report  room  confirm  then
    BOUND             -          -       done    bound   -     yes      BOUND
    REJECTED          yes        yes     reject  -       yes   -        REQUEUED
    FAILED            yes        yes     fail    -       yes   -        REQUEUED
    CANCELLED         yes        yes     reject  -       yes   -        REQUEUED
    PREEMPTED         yes        yes     fail    -       yes   -        REQUEUED
    DELETED           yes        yes     reject  -       yes   -        REQUEUED
    UNKNOWN           -          -       keep    -       -     -        READING_BACK
    BOUND_BY_ANOTHER  yes        -       done    -       -     yes      DROPPED
    BOUND_ELSEWHERE   yes        -       done    -       yes   yes      DROPPED
    GONE              yes        yes     done    gone    yes   -        DROPPED
    SHUTDOWN          yes        yes     keep    reset   -     -        STOPPED
    INTERRUPTED       -          -       keep    -       -     -        STOPPED
    LOST              -          -       retry   -       -     -        REQUEUED
    ENDED             -          -       keep    -       -     -        STOPPED

The columns are the fields of `Effects` (`room` is `free_room`). `executor` runs the cycle, `effects` carries the rows
out, and `debug` asserts both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from podwright.core.framework.status import Status
from podwright.core.objects.dataclass import dataclass


class BindingState(Enum):
    """Where a binding cycle is."""

    ASSUMED = auto()
    """The cache counts the pod on its node; the Reserve plugins run."""
    RESERVED = auto()
    """The Permit plugins run."""
    WAITING = auto()
    """At least one Permit plugin makes the pod wait. This is where the cycle's task begins, or at PERMITTED."""
    PERMITTED = auto()
    """All Permit plugins allow the pod. It may wait for capacity in the BindLimiter."""
    PRE_BINDING = auto()
    """The PreBind plugins run. The queue records no more events for the pod."""
    PRE_BOUND = auto()
    """PreBind has succeeded. The pod may wait for capacity in the BindLimiter."""
    BINDING = auto()
    """The Binding may have reached the API server, so the cycle can no longer be stopped."""
    POST_BINDING = auto()
    """Bind has succeeded; the PostBind plugins run."""
    READING_BACK = auto()
    """Bind failed, but the Binding may have gone through. The pod stays assumed until the API server answers."""
    RECOVERING = auto()
    """An exception interrupted the effects of an outcome. A pod that is still assumed is read back."""
    BOUND = auto()
    """Final: we have bound the pod."""
    REQUEUED = auto()
    """Final: the pod is back in the queue, unless it was deleted."""
    DROPPED = auto()
    """Final: the pod is gone, or another scheduler has bound it."""
    STOPPED = auto()
    """Final: the pod is left as it is."""


NOT_STARTED: Final = frozenset({BindingState.ASSUMED, BindingState.RESERVED})
"""The cycle is not registered and has no task, so no other decision has counted the pod on its node."""
STOPPABLE: Final = frozenset(
    {
        BindingState.ASSUMED,
        BindingState.RESERVED,
        BindingState.WAITING,
        BindingState.PERMITTED,
        BindingState.PRE_BINDING,
        BindingState.PRE_BOUND,
    }
)
"""Nothing was posted for the pod yet."""
PERMIT_OVER: Final = frozenset(
    {
        BindingState.PRE_BINDING,
        BindingState.PRE_BOUND,
        BindingState.BINDING,
        BindingState.POST_BINDING,
        BindingState.READING_BACK,
        BindingState.RECOVERING,
    }
)
"""A rejection from here on does not make the pod unschedulable."""

TRANSITIONS: Final[Mapping[BindingState, frozenset[BindingState]]] = {
    BindingState.ASSUMED: frozenset({BindingState.RESERVED}),
    BindingState.RESERVED: frozenset({BindingState.WAITING, BindingState.PERMITTED}),
    BindingState.WAITING: frozenset({BindingState.PERMITTED, BindingState.RECOVERING}),
    BindingState.PERMITTED: frozenset({BindingState.PRE_BINDING, BindingState.BINDING, BindingState.RECOVERING}),
    BindingState.PRE_BINDING: frozenset({BindingState.PRE_BOUND, BindingState.RECOVERING}),
    BindingState.PRE_BOUND: frozenset({BindingState.BINDING, BindingState.RECOVERING}),
    BindingState.BINDING: frozenset({BindingState.POST_BINDING, BindingState.RECOVERING}),
    BindingState.POST_BINDING: frozenset({BindingState.RECOVERING}),
    BindingState.READING_BACK: frozenset({BindingState.RECOVERING}),
    BindingState.RECOVERING: frozenset(),
}
"""The states that may follow without an outcome."""


class BindingOutcome(Enum):
    """How a binding cycle ended."""

    BOUND = auto()
    """Bind succeeded, or the pod was read back on our node."""
    REJECTED = auto()
    """A plugin rejected the pod in Reserve, Permit, PreBind or Bind, and the pod is not bound."""
    FAILED = auto()
    """A plugin or the API server failed, or the node is gone or full, and the pod is not bound."""
    CANCELLED = auto()
    """The rest of the pod's group could not be placed."""
    PREEMPTED = auto()
    """A more important pod takes the room."""
    DELETED = auto()
    """The pod was deleted, or is being deleted, before its Binding was posted."""
    UNKNOWN = auto()
    """Bind failed, but the Binding may have gone through."""
    BOUND_BY_ANOTHER = auto()
    """The API server refused our Binding, and the pod is on the node that we chose: another scheduler chose the same.
    """
    BOUND_ELSEWHERE = auto()
    """Another scheduler has bound the pod to another node."""
    GONE = auto()
    """The pod no longer exists."""
    SHUTDOWN = auto()
    """The process ends and the Binding was not posted."""
    INTERRUPTED = auto()
    """The task was cancelled while the Binding was with the API server. The pod stays assumed; the next process reads
    it.
    """
    LOST = auto()
    """An exception interrupted the effects, and the pod is neither in the queue nor on a node."""
    ENDED = auto()
    """An exception interrupted the effects, but the pod is in the queue or on a node."""


class Queueing(Enum):
    """The effect on the pod in the queue."""

    KEEP = auto()
    """Nothing."""
    DONE = auto()
    """It leaves the queue."""
    REJECT = auto()
    """A failed attempt with reason Unschedulable: status and event say so. See Failures.reject_node for the queue it
    enters.
    """
    FAIL = auto()
    """A failed attempt with reason SchedulerError: backoff, status and event."""
    RETRY = auto()
    """Backoff, without status or event."""


class BindingReport(Enum):
    """The report to other parts about the pod, besides a failed attempt."""

    NOTHING = auto()
    BOUND = auto()
    """The event Scheduled and the metrics of a scheduled pod; BoundNodeChecks and UnconfirmedBindings take it over."""
    GONE = auto()
    """The pod leaves its group, and its status is not written any more."""
    RESET = auto()
    """The status drops the nominated node that this cycle has written, if it has."""


@dataclass(frozen=True, slots=True)
class Effects:
    """One row of the table: what an outcome does, in the order of the fields."""

    after: frozenset[BindingState]
    """The states in which the outcome can come."""
    state: BindingState
    """The state that follows."""
    unreserve: bool = False
    """The Reserve plugins undo what they did."""
    forget: bool = False
    """The cache forgets the pod, if it is still assumed."""
    queue: Queueing = Queueing.KEEP
    report: BindingReport = BindingReport.NOTHING
    free_room: bool = False
    """Pods that wait for room on the node may be tried, unless the cycle had not started."""
    confirm: bool = False
    """The cache takes over the pod as it was read back, if it was."""


_TASK: Final = frozenset(TRANSITIONS) - NOT_STARTED
_READ: Final = frozenset({BindingState.READING_BACK, BindingState.RECOVERING})
_STARTED_STOPPABLE: Final = STOPPABLE - NOT_STARTED
_REQUEUED: Final = Effects(
    after=_STARTED_STOPPABLE,
    state=BindingState.REQUEUED,
    unreserve=True,
    forget=True,
    queue=Queueing.REJECT,
    free_room=True,
)
"""The effects that most outcomes without a Binding share."""

EFFECTS: Final[Mapping[BindingOutcome, Effects]] = {
    BindingOutcome.BOUND: Effects(
        after=_READ | {BindingState.BINDING, BindingState.POST_BINDING},
        state=BindingState.BOUND,
        queue=Queueing.DONE,
        report=BindingReport.BOUND,
        confirm=True,
    ),
    BindingOutcome.REJECTED: replace(
        _REQUEUED,
        after=_READ | {BindingState.ASSUMED, BindingState.RESERVED, BindingState.WAITING, BindingState.PRE_BINDING},
    ),
    BindingOutcome.FAILED: replace(_REQUEUED, after=_READ | STOPPABLE, queue=Queueing.FAIL),
    BindingOutcome.CANCELLED: _REQUEUED,
    BindingOutcome.PREEMPTED: replace(_REQUEUED, queue=Queueing.FAIL),
    BindingOutcome.DELETED: _REQUEUED,
    BindingOutcome.UNKNOWN: Effects(
        after=frozenset({BindingState.BINDING, BindingState.POST_BINDING}),
        state=BindingState.READING_BACK,
    ),
    BindingOutcome.BOUND_BY_ANOTHER: Effects(
        after=_READ,
        state=BindingState.DROPPED,
        unreserve=True,
        queue=Queueing.DONE,
        confirm=True,
    ),
    BindingOutcome.BOUND_ELSEWHERE: Effects(
        after=_READ,
        state=BindingState.DROPPED,
        unreserve=True,
        queue=Queueing.DONE,
        free_room=True,
        confirm=True,
    ),
    BindingOutcome.GONE: Effects(
        after=_READ,
        state=BindingState.DROPPED,
        unreserve=True,
        forget=True,
        queue=Queueing.DONE,
        report=BindingReport.GONE,
        free_room=True,
    ),
    BindingOutcome.SHUTDOWN: Effects(
        after=_STARTED_STOPPABLE,
        state=BindingState.STOPPED,
        unreserve=True,
        forget=True,
        report=BindingReport.RESET,
    ),
    BindingOutcome.INTERRUPTED: Effects(after=_TASK, state=BindingState.STOPPED),
    BindingOutcome.LOST: Effects(
        after=frozenset({BindingState.RECOVERING}), state=BindingState.REQUEUED, queue=Queueing.RETRY
    ),
    BindingOutcome.ENDED: Effects(after=frozenset({BindingState.RECOVERING}), state=BindingState.STOPPED),
}


def outcome_of_failure(state: BindingState, status: Status) -> BindingOutcome:
    """The outcome of a status that is not a success. A Binding that was posted may have gone through all the same."""
    if state not in STOPPABLE:
        return BindingOutcome.UNKNOWN
    return outcome_of_status(status)


def outcome_of_status(status: Status) -> BindingOutcome:
    """The outcome of an attempt that left the pod pending."""
    return BindingOutcome.REJECTED if status.rejected else BindingOutcome.FAILED


def outcome_of_read_back(node_name: str | None, chosen: str, failure: Status, *, conflict: bool) -> BindingOutcome:
    """The outcome of reading a pod back. `node_name`: its node, "" without one, None for a pod that no longer exists.

    `chosen`: the node that we chose; `failure`: what Bind said; `conflict`: the API server refused our Binding because
    the pod has a node, so it was not our Binding that went through.
    """
    if node_name is None:
        return BindingOutcome.GONE
    if not node_name:
        return outcome_of_status(failure)
    if node_name != chosen:
        return BindingOutcome.BOUND_ELSEWHERE
    return BindingOutcome.BOUND_BY_ANOTHER if conflict else BindingOutcome.BOUND
