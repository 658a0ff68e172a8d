"""SignalDefinition: what a signal means, as the operator's configuration defines it. `api/configuration/signals` also
says where its numbers come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final, Literal

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.resources import CPU, MEMORY

Unit = Literal["Percent", "Fraction", "Amount"]
LOAD_RESOURCES: Final = (CPU, MEMORY)
"""The resources that a signal may measure the use of."""
_FULL: Final = {"Percent": 100.0, "Fraction": 1.0}
_PER_AMOUNT: Final = {CPU: 1000.0, MEMORY: 1.0}
"""How many of the scheduler's own units one unit of a sample is: cores and milli-CPU, bytes and bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalDefinition:
    """A signal. `default`: the value of nodes without a sample, or whose last one is older than `staleness`, in
    seconds.

    `mean_if_unknown`: where the use of resources is compared, such nodes count as the mean of all others instead.
    `resource`: what the signal measures the use of, "" for anything else. `unit`: in which unit; Percent and Fraction
    are of what the node has allocatable, Amount is cores or bytes. `amounts`: samples are amounts of the resource,
    whatever the unit of the signal is. `lag`: how many seconds after its placement samples begin to show a pod's use.
    `least` and `greatest`: samples outside these bounds are ignored. `annotation`, `time_annotation`: of the node, with
    the sample and its time. `fixed`: the samples of nodes by name, if they never change.
    """

    name: str
    default: float = 0.0
    mean_if_unknown: bool = False
    staleness: float = inf
    lag: float = 60.0
    resource: str = ""
    unit: Unit = "Percent"
    amounts: bool = False
    least: float = 0.0
    greatest: float = inf
    annotation: str = ""
    time_annotation: str = ""
    fixed: Mapping[str, float] | None = None

    @property
    def horizon(self) -> float:
        """For how many seconds at most a placed pod counts in addition to the samples."""
        return self.lag + (self.staleness if self.staleness < inf else 0.0)

    @property
    def full(self) -> float:
        """Which value means that all of the resource is in use; 0 for Amount, where that depends on the node."""
        return _FULL.get(self.unit, 0.0)

    @property
    def per_amount(self) -> float:
        """Milli-CPU, or bytes, for each unit of a value in Amount."""
        return _PER_AMOUNT.get(self.resource, 1.0)

    def share(self, value: Any, allocatable: Any) -> Any:
        """The part of the allocatable amount, which is not 0, that is in use: for one value or for many."""
        return value / self.full if self.full else value * self.per_amount / allocatable
