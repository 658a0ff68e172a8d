"""The status of a SchedulingQueue: whether it is valid, what its pods have and wait for, and the bound that holds the
first one.

Accepted says whether the newest generation is valid, Active whether pods of the queue are scheduled. Amounts are
quantities, as in a pod's requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from podwright.api.policy_status import Condition
from podwright.core.framework.validation import describe, unique_by
from podwright.core.objects.resources import CPU, MEMORY

MAX_RESOURCES: Final = 64
"""How many resources a status names."""
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def _amounts(description: str) -> Any:
    return field(
        default_factory=dict,
        metadata=describe(description, maxProperties=MAX_RESOURCES, additionalProperties={"maxLength": 64}),
    )


@dataclass(frozen=True, slots=True)
class QueueCondition(Condition):
    type: str = field(
        metadata=describe(
            "Accepted (the newest generation is valid) or Active (pods of the queue are scheduled).", maxLength=316
        )
    )
    reason: str = field(
        metadata=describe(
            "Accepted: Accepted, Invalid. Active: InForce, LastGoodGeneration, NotAccepted, NotOpen.", maxLength=1024
        )
    )


@dataclass(frozen=True, slots=True)
class FirstWaiting:
    pod: str = field(metadata=describe("The pod as namespace/name.", maxLength=512))
    message: str = field(metadata=describe("The bound that it waits for, with numbers.", maxLength=1024))


@dataclass(frozen=True, slots=True)
class QueueStatus:
    observed_generation: int | None = field(
        default=None, metadata=describe("The newest generation that the operator has checked.", minimum=0)
    )
    conditions: tuple[QueueCondition, ...] = field(
        default=(), metadata=describe("Accepted and Active.", maxItems=16, **unique_by("type"))
    )
    summary: str = field(
        default="",
        metadata=describe(
            "In short what the queue has of each resource that it has a quota of: `nvidia.com/gpu 32 of 32`.",
            maxLength=1024,
        ),
    )
    allocated: Mapping[str, str] = _amounts("What the pods of the queue that have a node request, by resource.")
    share: Mapping[str, str] = _amounts(
        "The queue's fair share of the cluster now, by resource. It depends on what the queues request."
    )
    borrowed: Mapping[str, str] = _amounts("How much of what it has is above its guarantee, by resource.")
    pending: Mapping[str, str] = _amounts("What the pods of the queue that wait for a node request, by resource.")
    pending_pods: int = field(
        default=0, metadata=describe("How many pods of the queue wait for a node.", format="int32", minimum=0)
    )
    first_waiting: FirstWaiting | None = field(
        default=None, metadata=describe("The first pod that a bound of the queue, or of one above it, holds back.")
    )


def quantity(resource: str, amount: int) -> str:
    """An amount in the core's units as a quantity."""
    if resource == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    power = 0
    while resource == MEMORY and amount and amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY[power]}"
