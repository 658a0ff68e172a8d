"""Field selectors of pods."""

from __future__ import annotations

from typing import Final

ASSIGNED_PODS: Final = "spec.nodeName!="
PENDING_PODS: Final = "spec.nodeName="


def pending_pods_of(scheduler_name: str) -> str:
    """Pending pods that ask for this scheduler."""
    return f"{PENDING_PODS},spec.schedulerName={scheduler_name}"


def pending_pods_except(*scheduler_names: str) -> str:
    """Pending pods that ask for none of these schedulers."""
    return ",".join((PENDING_PODS, *(f"spec.schedulerName!={name}" for name in scheduler_names)))
