"""Kopf's handlers of the process: those of policies, and what Kueue changes. Each only delegates."""

from __future__ import annotations

from typing import Any

import kopf

from podwright.controllers import handlers
from podwright.kueue.runtime import CheckRuntime
from podwright.kueue.workload import ADMISSION_CHECK, WORKLOAD


def register_watches(registry: kopf.OperatorRegistry, runtime: CheckRuntime) -> None:
    """Has Kopf watch policies, Workloads and AdmissionChecks."""
    handlers.register_watches(registry, runtime)

    @kopf.on.event(WORKLOAD.group, WORKLOAD.version, WORKLOAD.plural, id="workloads", registry=registry)
    async def workload_event(event: kopf.RawEvent, **_: Any) -> None:
        runtime.checks.take_workload(event)

    @kopf.on.event(
        ADMISSION_CHECK.group, ADMISSION_CHECK.version, ADMISSION_CHECK.plural, id="admission-checks", registry=registry
    )
    async def check_event(event: kopf.RawEvent, **_: Any) -> None:
        runtime.checks.take_check(event)
