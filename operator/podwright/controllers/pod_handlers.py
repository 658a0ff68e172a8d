"""Pending pods, as Kopf sees them: created, changed, or no longer pending (bound or gone) for DELETED."""

from __future__ import annotations

from typing import Any

import kopf

from podwright.controllers.process import process


@kopf.on.event("pods", when=lambda body, **_: process.serves(body))
async def pod_event(event: kopf.RawEvent, **_: Any) -> None:
    process.runtime.pending.take_event(event)
