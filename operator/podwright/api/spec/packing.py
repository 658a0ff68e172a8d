"""`spec.packing` and `spec.packingTimes` of a SchedulerPolicy: pods that are placed together, as many as possible."""

from __future__ import annotations

from typing import Any, Final, Literal

from podwright.core.framework.validation import Rule, declared
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import parse_duration

Packing = Literal["None", "Optimal"]
_DURATION: Final = r"^([1-9][0-9]{0,2}ms|[1-9]s|10s)$"


def _time(description: str) -> Any:
    return declared(description, default="1s", pattern=_DURATION, maxLength=5)


@dataclass(frozen=True, slots=True)
class PackingTimes:
    batch: str = _time("How long pods are gathered, from 1ms to 10s.")
    budget: str = _time("How long a better placement of them is searched for, from 1ms to 10s.")

    @property
    def batch_seconds(self) -> float:
        return parse_duration(self.batch)

    @property
    def budget_seconds(self) -> float:
        return parse_duration(self.budget)


PACKING_RULES: Final = (
    Rule(
        cel="self.packing == 'Optimal' || !self.packingMayPreempt",
        holds=lambda self: self.packing == "Optimal" or not self.packing_may_preempt,
        message="needs packing Optimal",
        path=".packingMayPreempt",
        reason="FieldValueForbidden",
    ),
    Rule(
        cel="self.packing != 'Optimal' || self.mode != 'Shadow'",
        holds=lambda self: self.packing != "Optimal" or self.mode != "Shadow",
        message="is not for mode Shadow: such a policy decides about no pods",
        path=".packing",
        reason="FieldValueForbidden",
    ),
    Rule(
        cel="self.packing != 'Optimal' || !has(self.extenders) || size(self.extenders) == 0",
        holds=lambda self: self.packing != "Optimal" or not self.extenders,
        message="is not for a policy with extenders, which are asked about one pod at a time",
        path=".packing",
        reason="FieldValueForbidden",
    ),
)
