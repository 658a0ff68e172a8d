"""Reservation: the allocation of a pod's claims on the node that was chosen, until it is written.

Invariant: between Reserve and the last write each allocation is in flight, so that it counts for other decisions.
Unreserve gives back everything that is in flight for this pod, and nothing else.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import field
from typing import Final

from podwright.core.devices.allocation import allocations_of
from podwright.core.devices.search import DeviceSearch
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import Allocation, ResourceClaim, parse_allocation
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Problems
from podwright.core.state.devices.claims import ClaimState

_NAMESPACE: Final = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


@dataclass(slots=True)
class DeviceReservation:
    """The allocations that the pod's claims get, by the position of the claim. `node_name`: the node that was
    chosen.
    """

    node_name: str
    allocations: dict[int, Allocation] = field(default_factory=dict)
    in_flight: list[str] = field(default_factory=list)
    """The uids of the claims whose allocation counts since this pod's Reserve."""


def allocate(search: DeviceSearch, claims: Sequence[ResourceClaim]) -> Sequence[Allocation]:
    """The allocations of the claims that the search was for. Raises AllocationError."""
    # Share ids are made from the claims' uids, so that a decision can be repeated.
    seed, numbers = "/".join(claim.uid for claim in claims), itertools.count(1)
    results = allocations_of(
        search, [claim.key for claim in claims], lambda: str(uuid.uuid5(_NAMESPACE, f"{seed}#{next(numbers)}"))
    )
    return [
        parse_allocation(raw, Problems("ResourceClaim", claim.key)) for raw, claim in zip(results, claims, strict=True)
    ]


def release(reservation: DeviceReservation, claims: ClaimState, pod_uid: str) -> None:
    """Gives back what is in flight. May be called repeatedly."""
    for uid in reservation.in_flight:
        claims.end(uid, pod_uid)
    reservation.in_flight.clear()


def hold(
    reservation: DeviceReservation,
    position: int,
    claim: ResourceClaim,
    allocation: Allocation,
    claims: ClaimState,
    pod: PodInfo,
) -> None:
    """Counts an allocation as in flight for the pod."""
    reservation.allocations[position] = allocation
    claims.begin(claim, allocation, pod.uid, pod.group)
    reservation.in_flight.append(claim.uid)
