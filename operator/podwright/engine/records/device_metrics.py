"""The metrics of devices. The names but for `podwright_*`, labels and buckets are kube-scheduler's."""

from __future__ import annotations

from typing import Final

from podwright.engine.records.families import Counter, Histogram, exponential

DEVICE_RIVALS: Final = Counter(
    "podwright_devices_allocated_twice",
    "Claims that got what another claim had got earlier, by another scheduler: a device, or too much of a capacity or "
    "a counter.",
    ("kind",),
)
CLAIM_CREATIONS: Final = Counter(
    "dynamic_resource_allocation_resourceclaim_creates",
    "Creations of ResourceClaims for extended resources.",
    ("status", "admin_access", "source", "owner_kind"),
)
BINDING_CONDITIONS: Final = Counter(
    "scheduler_dra_bindingconditions_allocations",
    "Devices with binding conditions that pods have waited for, by how the wait ended.",
    ("profile", "driver", "status"),
)
BINDING_CONDITION_SECONDS: Final = Histogram(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "Duration of the wait for binding conditions of devices.",
    ("profile", "driver", "status"),
    exponential(0.1, 2, 14),
)
