"""SchedulerPolicies, as Kopf sees them. Taking one in is idempotent, and its status is patched by us, not by Kopf."""

from __future__ import annotations

from typing import Any

import kopf

from podwright.controllers.process import process


@kopf.on.event("podwright.dev", "v1alpha1", "schedulerpolicies")
async def policy_event(event: kopf.RawEvent, **_: Any) -> None:
    process.runtime.policies.take_event(event)
