"""Builds LocalSchedulerPolicies and the SchedulerPolicies that bound them."""

from __future__ import annotations

from typing import Any


def local_policy(
    name="ours", namespace="team-a", generation=1, *, uid="", status=None, created="", **spec
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "generation": generation, "uid": uid or f"{namespace}-{name}"}
    if created:
        metadata["creationTimestamp"] = created
    raw = {"metadata": metadata, "spec": spec}
    return {**raw, "status": status} if status is not None else raw


def delegating(name="gold", generation=1, *, delegation=None, **spec) -> dict[str, Any]:
    """A SchedulerPolicy that delegates something."""
    bounds = {"strategies": ["MostAllocated", "Random", "BalancedAllocation"]} if delegation is None else delegation
    return {
        "metadata": {"name": name, "generation": generation, "uid": f"u-{name}"},
        "spec": {"delegation": bounds, **spec},
    }
