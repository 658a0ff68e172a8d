"""Reading raw objects of the API: their resourceVersion and their conditions. Never raises for a malformed status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.core.objects.raw import value_at
from podwright.core.objects.versions import version_number


def resource_version(raw: Mapping[str, Any]) -> int:
    """The resourceVersion of an object or a list; 0 if it is not a number."""
    return version_number(str((raw.get("metadata") or {}).get("resourceVersion") or ""))


def conditions_of(raw: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """An object's conditions by type."""
    listed = value_at(raw, "status", "conditions")
    return {str(c.get("type")): c for c in listed if isinstance(c, Mapping)} if isinstance(listed, list) else {}
