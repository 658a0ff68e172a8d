"""The status of a SchedulerPolicy: observedGeneration, the conditions Accepted and Active, and lastAccepted.

lastAccepted is the operator's memory: what it has to go back to when the newest generation is bad and it was restarted.
Accepted says whether the newest generation is good, Active whether the policy decides about pods. Times are given from
outside; a condition keeps its lastTransitionTime while its status stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from podwright.api.compile import Outcome, PolicySet
from podwright.api.scheduler_policy import LastAccepted
from podwright.core.framework.args import encode

ACCEPTED: Final = "Accepted"
ACTIVE: Final = "Active"

_MESSAGE_LIMIT: Final = 32768


@dataclass(frozen=True, slots=True)
class Condition:
    """As metav1.Condition."""

    type: str = field(
        metadata={
            "description": "Accepted (the newest generation is good) or Active (the policy decides about pods).",
            "schema": {"maxLength": 316},
        }
    )
    status: Literal["True", "False", "Unknown"] = field(metadata={"description": "Whether it is so."})
    reason: str = field(
        metadata={
            "description": "Accepted: Accepted, Invalid, UnknownPlugin, NotSupported. Active: InForce, LastGoodGeneration, Shadowed, NotAccepted.",
            "schema": {"maxLength": 1024},
        }
    )
    message: str = field(
        metadata={
            "description": "What is wrong and where, and which generation is in force.",
            "schema": {"maxLength": _MESSAGE_LIMIT},
        }
    )
    last_transition_time: str = field(
        metadata={"description": "When `status` changed last.", "schema": {"format": "date-time"}}
    )
    observed_generation: int | None = field(
        default=None, metadata={"description": "The generation that this is about.", "schema": {"minimum": 0}}
    )


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    observed_generation: int | None = field(
        default=None, metadata={"description": "The newest generation that was looked at.", "schema": {"minimum": 0}}
    )
    conditions: tuple[Condition, ...] = field(
        default=(),
        metadata={
            "description": "Accepted and Active.",
            "schema": {
                "maxItems": 16,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        },
    )
    last_accepted: LastAccepted | None = field(
        default=None,
        metadata={
            "description": "The operator's memory: the generation that was accepted last, which stays in force while a newer one is "
            "not acceptable, even if the operator is restarted."
        },
    )


def status_of(policies: PolicySet, outcome: Outcome, previous: Mapping[str, Any] | None, now: str) -> dict[str, Any]:
    """`status` for the policy of `outcome`. `previous`: what it was; equal to the result, nothing needs writing.

    `now` is an RFC 3339 time. Since one policy can shadow another, this depends on all of them: compute it anew for each
    policy when `policies.version` has changed.
    """
    before = {}
    conditions = (previous or {}).get("conditions")
    for condition in conditions if isinstance(conditions, list) else []:
        if isinstance(condition, Mapping):
            before[condition.get("type")] = condition
    accepted = (ACCEPTED, outcome.accepted, outcome.reason, outcome.message)
    status: dict[str, Any] = {
        "observedGeneration": outcome.generation,
        "conditions": [
            _condition(kind, good, reason, message, outcome.generation, before.get(kind), now)
            for kind, good, reason, message in (accepted, (ACTIVE, *_activity(policies, outcome)))
        ],
    }
    # What is not acceptable now, because a plugin is gone, may be again.
    kept = encode(policies.last_accepted(outcome.name)) or (previous or {}).get("lastAccepted")
    return {**status, "lastAccepted": kept} if isinstance(kept, Mapping) else status


def _activity(policies: PolicySet, outcome: Outcome) -> tuple[bool, str, str]:
    if outcome.active_generation is None:
        return False, "NotAccepted", "No generation of this policy was accepted."
    shadow = policies.shadowed_by(outcome.name)
    if shadow is not None:
        return False, "Shadowed", f"Policy {shadow} goes first and takes every pod that this one would take."
    in_force = f"Generation {outcome.active_generation} is in force"
    if outcome.accepted:
        return True, "InForce", f"{in_force}."
    return True, "LastGoodGeneration", f"{in_force}; generation {outcome.generation} was not accepted."


def _condition(
    kind: str,
    good: bool,
    reason: str,
    message: str,
    generation: int,
    before: Mapping[str, Any] | None,
    now: str,
) -> dict[str, Any]:
    status = "True" if good else "False"
    since = before.get("lastTransitionTime") if before is not None and before.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:_MESSAGE_LIMIT],
        "lastTransitionTime": since or now,
        "observedGeneration": generation,
    }
