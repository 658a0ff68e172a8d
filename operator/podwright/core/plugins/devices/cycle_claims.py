"""CycleClaims: the claims of a pod in one scheduling cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import Allocation, ResourceClaim
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.devices.node_requests import ExtendedResources, NodeClaim
from podwright.core.plugins.devices.reservation import DeviceReservation
from podwright.core.state.columns.table import NodeTable

_UNAFFECTED: Final[NDArray[np.int64]] = np.zeros(1, np.int64)


class Writes(Protocol):
    """See `claim_writes`."""

    @property
    def any(self) -> bool: ...

    async def undo(self, pod: PodInfo) -> None: ...


@dataclass(slots=True)
class CycleClaims:
    """The claims of a pod in its scheduling cycle."""

    claims: Sequence[ResourceClaim]
    """The claims that the pod names or that were created for it."""
    extended: ExtendedResources | None
    """The extended resources for which one more claim is made."""
    stale: ResourceClaim | None
    """The claim that an earlier attempt made for them: it must be deleted first."""
    shared: dict[int, Allocation]
    """Allocations that another pod of the group has in flight, by the position of the claim."""
    unavailable: set[int] = field(default_factory=set)
    """The positions of allocated claims that are not available on some node."""
    frees: bool = False
    """True if victims may free devices for the pod."""
    removed: dict[str, PodInfo] = field(default_factory=dict)
    """The pods that a dry run has removed, by uid."""
    reservation: DeviceReservation | None = None
    writes: Writes | None = None
    """The writes to the API server for the pod, which `undo` takes back."""

    def clone(self) -> CycleClaims:
        """For a dry run, which removes other pods than the next one."""
        return replace(self, removed=dict(self.removed))

    @property
    def any_open(self) -> bool:
        """True if a claim must be allocated."""
        return self.extended is not None or any(self._is_open(i) for i in range(len(self.claims)))

    @property
    def any_alternatives(self) -> bool:
        """True if a claim has a request with alternatives, so that nodes can differ in how good they are."""
        return any(request.has_alternatives for claim in self.claims for request in claim.spec.requests)

    def to_allocate(self, variant: int) -> dict[int, ResourceClaim]:
        """The claims that must be allocated on nodes of this variant (see ExtendedResources), by position, in order."""
        found = {i: claim for i, claim in enumerate(self.claims) if self._is_open(i)}
        special = None if self.extended is None else self.extended.claim(variant)
        if special is not None:
            found[len(self.claims)] = special.claim
        return found

    def allocation(self, position: int) -> Allocation | None:
        """Returns the claim's allocation, or the one that another pod of the group has in flight for it."""
        return self.shared.get(position) or self.claims[position].allocation

    def _is_open(self, position: int) -> bool:
        return self.claims[position].allocation is None and position not in self.shared

    def special(self, node: Node) -> NodeClaim | None:
        """The claim for the pod's extended resources on this node, if there is one."""
        return None if self.extended is None else self.extended.claim(self.extended.code(node))

    def variants(self, table: NodeTable) -> NDArray[np.int64]:
        """int64[nodes], or of one for all: the variant of each node, see ExtendedResources."""
        return _UNAFFECTED if self.extended is None else self.extended.codes(table)

    def variant(self, table: NodeTable, slot: int) -> int:
        """The variant of the node in this row."""
        return 0 if self.extended is None else int(self.extended.codes(table)[slot])

    def claim(self, position: int, node: Node) -> ResourceClaim:
        """A claim of the pod, or the one for its extended resources on this node."""
        if position < len(self.claims):
            return self.claims[position]
        special = self.special(node)
        assert special is not None, "the node provides all extended resources itself"
        return special.claim
