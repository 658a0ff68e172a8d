"""Choice: which devices a policy takes among those that a claim may get, and which nodes it prefers for them."""

from __future__ import annotations

from typing import Final, Literal

from podwright.core.objects.dataclass import dataclass

AllocationOrder = Literal["FirstFit", "BestFit", "Spread"]
"""Which devices of a node are tried first. FirstFit: kube-scheduler's order."""
Scoring = Literal["Default", "BestFit", "MostAllocated", "LeastAllocated"]
"""Which nodes score best. Default: those with more preferred alternatives, as in kube-scheduler."""

Preempting = Literal["Default", "FreeDevices"]
"""True if pods preempt for devices. Default: no, as in kube-scheduler. FreeDevices: in a dry run, devices that only
victims use count as free.
"""


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """See the module."""

    allocation: AllocationOrder = "FirstFit"
    scoring: Scoring = "Default"


AS_KUBE_SCHEDULER: Final = DeviceChoice()
