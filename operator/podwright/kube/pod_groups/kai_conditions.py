"""Why a group of KAI waits, as its users read it: an entry of `status.schedulingConditions`, which is there only while
the group waits.

Entries of other node pools, and the resources that KAI's own controller counts, are left alone. Source: KAI's
`pkg/scheduler/cache/status_updater/default_status_updater.go` at v0.17.0-9-gd5bc503a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podwright.core.objects.raw import as_mapping

FIELD: Final = "schedulingConditions"
TYPE: Final = "UnschedulableOnNodePool"
POOL_LABEL: Final = "kai.scheduler/node-pool"
DEFAULT_POOL: Final = "default"


def waiting_of(status: Mapping[str, Any], pool: str) -> Mapping[str, Any] | None:
    """The entry of this node pool as a condition that is False; None if the group does not wait."""
    for entry in _entries(status):
        if _is_ours(entry, pool) and entry.get("status") == "True":
            return {**entry, "status": "False"}
    return None


def written(status: Mapping[str, Any], pool: str, condition: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The list in which the entry of this pool says what the condition does; without it, if the condition is True."""
    others = [entry for entry in _entries(status) if not _is_ours(entry, pool)]
    if condition["status"] == "True":
        return others
    numbers = [int(text) for entry in _entries(status) if (text := str(entry.get("transitionID") or "")).isdecimal()]
    entry = {
        "type": TYPE,
        "nodePool": pool,
        "status": "True",
        **{name: condition[name] for name in ("reason", "message", "lastTransitionTime")},
        "transitionID": str(max(numbers, default=0) + 1),
        "reasons": [{"reason": condition["reason"], "message": condition["message"]}],
    }
    return [*others, entry]


def pool_of(raw: Mapping[str, Any]) -> str:
    """The node pool that the group's label names."""
    labels = as_mapping(raw["metadata"].get("labels"), "metadata.labels")
    return str(labels.get(POOL_LABEL) or DEFAULT_POOL)


def _entries(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    listed = status.get(FIELD)
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def _is_ours(entry: Mapping[str, Any], pool: str) -> bool:
    return entry.get("type") == TYPE and entry.get("nodePool") == pool
