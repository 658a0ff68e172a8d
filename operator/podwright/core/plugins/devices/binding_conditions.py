"""Binding conditions: what must be true of allocated devices before a pod that uses them is bound.

Source: `isClaimReadyForBinding` and `isClaimTimeout` in kube-scheduler's plugin DynamicResources (KEP-5007).
"""

from __future__ import annotations

from podwright.core.objects.devices.claims import ResourceClaim


class BindingFailedError(Exception):
    """A binding failure condition of a device is true."""


def ready(claim: ResourceClaim) -> bool:
    """True if all binding conditions of the claim's devices are true. Raises BindingFailedError.

    The devices are checked in their order, up to the first that is not ready.
    """
    if claim.allocation is None:
        return False
    for device in claim.allocation.devices:
        if not device.binding_conditions:
            continue
        status = next((s for s in claim.statuses if s.device_id == device.device_id), None)
        if status is None:
            return False
        for failure in device.binding_failure_conditions:
            state, reason, message = status.conditions.get(failure, ("", "", ""))
            if state == "True":
                raise BindingFailedError(
                    f'device binding failed: claim={claim.name}, reason={reason}, message="{message}"'
                )
        if any(status.conditions.get(wanted, ("",))[0] != "True" for wanted in device.binding_conditions):
            return False
    return True


def timed_out(claim: ResourceClaim, timeout: float, now: float) -> bool:
    """True if a device of the claim has waited longer than `timeout` seconds for its conditions. `now`: seconds since
    the epoch.
    """
    allocation = claim.allocation
    if allocation is None or allocation.timestamp is None or allocation.timestamp + timeout >= now:
        return False
    return any(device.binding_conditions for device in allocation.devices)


def usable(claim: ResourceClaim, timeout: float, now: float) -> bool:
    """True if a pod may be placed for the claim's devices: they are ready, or may become ready."""
    try:
        return ready(claim) or not timed_out(claim, timeout, now)
    except BindingFailedError:
        return False


def waits(claim: ResourceClaim) -> bool:
    """True if a device of the claim has binding conditions."""
    return claim.allocation is not None and any(device.binding_conditions for device in claim.allocation.devices)
