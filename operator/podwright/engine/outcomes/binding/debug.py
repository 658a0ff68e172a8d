"""Debug mode of the binding cycle, switched on by PODWRIGHT_DEBUG=1: asserts what `states` says while cycles run.

It asserts that each transition is legal, that each outcome comes in a state where it may, and that afterwards the
cache, the queue and the registry of cycles agree with the outcome's row of the table. A violation is logged and raises
BindingCycleError, which nothing in this package catches. The tests switch debug mode on and fail if anything was logged
here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Final, NoReturn

from podwright.core.queue import QueuedPod, SchedulingQueue
from podwright.core.queue.queued_pod import Place
from podwright.core.state.cache import Cache
from podwright.engine.outcomes.binding.states import EFFECTS, TRANSITIONS, BindingOutcome, BindingState, Queueing

log = logging.getLogger(__name__)

VARIABLE: Final = "PODWRIGHT_DEBUG"
PREFIX: Final = "binding cycle of pod"
"""The beginning of each log line about a violation."""
_MAY_STAY_ASSUMED: Final = frozenset(
    {BindingOutcome.BOUND, BindingOutcome.UNKNOWN, BindingOutcome.INTERRUPTED, BindingOutcome.ENDED}
)


class BindingCycleError(AssertionError):
    """A binding cycle did what its state machine does not allow."""


def enabled(environ: Mapping[str, str] = os.environ) -> bool:
    """True if debug mode is on."""
    return environ.get(VARIABLE, "") not in ("", "0")


def check_transition(pod: str, state: BindingState, to: BindingState) -> None:
    """Raises BindingCycleError if `to` may not follow `state`."""
    if to not in TRANSITIONS.get(state, ()):
        _violated(pod, f"illegal transition from {state.name} to {to.name}")


def check_outcome(pod: str, state: BindingState, outcome: BindingOutcome) -> None:
    """Raises BindingCycleError if the outcome cannot come in this state."""
    if state not in EFFECTS[outcome].after:
        _violated(pod, f"outcome {outcome.name} in state {state.name}")


def check_effects(
    queued: QueuedPod, outcome: BindingOutcome, cache: Cache, queue: SchedulingQueue, unconfirmed: str
) -> None:
    """Right after the effects: the pod is in one place, the one that the outcome's row says. Raises BindingCycleError.

    `unconfirmed`: the uid of the pod that was bound last, and whose Binding the watch has yet to confirm.
    """
    uid, pod, effects = queued.uid, queued.pod.key, EFFECTS[outcome]
    known, assumed = queue.get(uid), cache.is_assumed(uid)
    in_flight = known is queued and queued.place is Place.IN_FLIGHT
    if assumed and outcome not in _MAY_STAY_ASSUMED:
        _violated(pod, f"still assumed after {outcome.name}")
    if assumed and outcome is BindingOutcome.BOUND and unconfirmed != uid:
        _violated(pod, "assumed and bound, but not among the unconfirmed Bindings")
    if assumed and known is not None and known.place is not Place.IN_FLIGHT:
        _violated(pod, f"assumed and in the queue after {outcome.name}")
    if effects.queue is Queueing.DONE and known is queued:
        _violated(pod, f"still in the queue after {outcome.name}")
    if effects.queue in (Queueing.REJECT, Queueing.FAIL, Queueing.RETRY) and in_flight:
        _violated(pod, f"still in flight after {outcome.name}")


def check_closed(pod: str, *, registered: bool, holds_capacity: bool) -> None:
    """At the very end: the registry and the BindLimiter no longer know the cycle. Raises BindingCycleError."""
    if registered:
        _violated(pod, "still registered at its end")
    if holds_capacity:
        _violated(pod, "still holds capacity of the limiter at its end")


def _violated(pod: str, text: str) -> NoReturn:
    message = f"{PREFIX} {pod}: {text}"
    log.critical("%s", message)
    raise BindingCycleError(message)
