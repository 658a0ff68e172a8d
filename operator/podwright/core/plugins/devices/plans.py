"""Plan: the writes to the API server for a pod that goes to a node, as explanations and simulations show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import Allocation, ResourceClaim
from podwright.core.objects.node import Node
from podwright.core.objects.raw import Raw
from podwright.core.plugins.devices.binding_conditions import BindingFailedError, ready
from podwright.core.plugins.devices.cycle_claims import CycleClaims


@dataclass(frozen=True, slots=True)
class AllocationPlan:
    """`allocations`: v1.AllocationResult by the name of each newly allocated claim. `reserved`: the names of all claims
    that the pod uses.
    """

    allocations: Mapping[str, Raw]
    reserved: Sequence[str]
    extended: Raw | None
    """The `requests` and the `allocation` of the claim for extended resources, and the pod's `requestMappings`."""
    waits: bool
    """True if the pod is not bound before the binding conditions of its devices are true."""


def plan_of(found: CycleClaims, allocated: Mapping[int, Allocation], node: Node) -> AllocationPlan:
    """The plan with these allocations, by the position of the claim."""
    special = found.special(node)
    extended = None
    if special is not None:
        extended = {
            "requests": special.mapped.requests,
            "allocation": allocated[len(found.claims)].raw,
            "requestMappings": special.mapped.mappings,
        }
    allocations: dict[str, Raw] = {}
    for i, allocation in allocated.items():
        if i < len(found.claims) and i not in found.shared:
            allocations.setdefault(found.claims[i].name, allocation.raw)  # a pod may name a claim twice
    return AllocationPlan(
        allocations=allocations,
        reserved=sorted({claim.name for claim in found.claims}),
        extended=extended,
        waits=_waits(found, allocated),
    )


def reserved_claims(
    found: CycleClaims, allocated: Mapping[int, Allocation], node: Node
) -> Sequence[tuple[ResourceClaim, Allocation | None]]:
    """The claims of a pod that goes to this node, with the allocations by position. The one for extended resources, the
    last, does not exist yet.
    """
    claims = [(claim, allocated.get(i)) for i, claim in enumerate(found.claims)]
    special = found.special(node)
    return claims if special is None else [*claims, (special.claim, allocated[len(found.claims)])]


def _waits(found: CycleClaims, allocated: Mapping[int, Allocation]) -> bool:
    """With a condition on any device, PreBind checks all claims as the watch delivers them: new allocations are not
    there yet.
    """
    known = {i: claim.allocation for i, claim in enumerate(found.claims)} | dict(allocated)
    devices = (device for allocation in known.values() if allocation is not None for device in allocation.devices)
    if not any(device.binding_conditions for device in devices):
        return False
    try:
        return bool(allocated) or not all(ready(claim) for claim in found.claims)
    except BindingFailedError:
        return True
