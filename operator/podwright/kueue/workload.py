"""Workloads and AdmissionChecks of Kueue, as far as the check reads them.

Source: apis/kueue/v1beta2 of Kueue v0.19.2, and its controllers for ProvisioningRequests.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import Raw
from podwright.kube.kinds import KUEUE, KUEUE_FLAVOR, KUEUE_WORKLOAD, Resource

GROUP: Final = KUEUE
CONTROLLER: Final = "podwright.dev/fits-now"
"""The `spec.controllerName` of the AdmissionChecks that are ours."""
WORKLOAD: Final = KUEUE_WORKLOAD
VERSION: Final = WORKLOAD.version
ADMISSION_CHECK: Final = Resource("AdmissionCheck", GROUP, VERSION, "admissionchecks", namespaced=False)
FLAVOR: Final = KUEUE_FLAVOR

PENDING: Final = "Pending"
READY: Final = "Ready"
RETRY: Final = "Retry"
REJECTED: Final = "Rejected"
FITS: Final = "FitsNow"
LACKS: Final = "DoesNotFitNow"
"""The reasons of events."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A Workload as the API server sent it. The API server has validated its shape."""

    raw: Raw

    @property
    def namespace(self) -> str:
        return str(self.raw["metadata"]["namespace"])

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.raw["metadata"]["uid"])

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        return str(self.raw["metadata"]["resourceVersion"])

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"

    @property
    def spec(self) -> Raw:
        found: Raw = self.raw.get("spec") or {}
        return found

    @property
    def status(self) -> Raw:
        found: Raw = self.raw.get("status") or {}
        return found

    @property
    def admission(self) -> Raw:
        """The assigned queue and flavors; {} without quota."""
        found: Raw = self.status.get("admission") or {}
        return found

    @property
    def checks(self) -> Sequence[Raw]:
        """The states of its admission checks, in the object's order."""
        return self.status.get("admissionChecks") or ()

    def is_true(self, condition: str) -> bool:
        return any(
            each.get("type") == condition and each.get("status") == "True"
            for each in self.status.get("conditions") or ()
        )

    @property
    def has_quota(self) -> bool:
        """True if it has quota that it keeps. An evicted Workload loses it once its job has stopped."""
        return (
            self.status.get("admission") is not None
            and self.is_true("QuotaReserved")
            and not self.is_true("Evicted")
            and not self.is_true("Finished")
            and self.spec.get("active") is not False
        )

    def named(self, ours: Collection[str]) -> Sequence[int]:
        """The positions of our checks among its checks."""
        return [place for place, each in enumerate(self.checks) if each["name"] in ours]

    def retries(self, places: Sequence[int]) -> int:
        """How often these checks have asked for a retry already, as Kueue has counted."""
        return max((int(self.checks[place].get("retryCount") or 0) for place in places), default=0)


def gone(raw: Raw) -> Raw:
    """The Workload after its deletion: without quota."""
    return {**raw, "status": {}}
