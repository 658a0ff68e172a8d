"""Pods that need devices: this version allocates none, so they are held back and never bound blindly."""

from __future__ import annotations

from typing import Final

from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache

DYNAMIC_RESOURCES: Final = "DynamicResources"
"""The plugin that says so; where a profile has it off, the runtime does."""
_DEVICE_CLASS: Final = "DeviceClass"
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""The extended resource that every DeviceClass stands for is this and its name."""


def device_hold(pod: PodInfo, cache: Cache) -> Status | None:
    """Why the pod must wait: it has resource claims, or asks for what a DeviceClass stands for and no node offers."""
    if pod.resource_claims:
        claims = ", ".join(pod.resource_claims)
        return unresolvable(f"this version of Podwright does not allocate devices, and the pod has claims ({claims})")
    if not cache.store.version(_DEVICE_CLASS):
        return None
    for resource, amount in pod.requests.amounts.items():
        if amount > 0 and "/" in resource:
            found = _class_of(resource, cache)
            if found and not cache.table.allocatable(resource).any():
                return unresolvable(
                    "this version of Podwright does not allocate devices, and no node offers "
                    f"{resource} (DeviceClass {found})"
                )
    return None


def _class_of(resource: str, cache: Cache) -> str:
    """The DeviceClass that an extended resource stands for, or an empty string."""
    for raw in cache.store.list(_DEVICE_CLASS):
        name = str(raw["metadata"]["name"])
        if resource in (_IMPLICIT + name, (raw.get("spec") or {}).get("extendedResourceName")):
            return name
    return ""
