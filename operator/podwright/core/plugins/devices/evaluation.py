"""Evaluation: which nodes can serve a pod's claims, how well, and with which devices.

All nodes are evaluated at once: the verdicts that are kept for the claims (`core.devices.verdicts`) are combined with
the nodes on which allocated claims are available.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.devices.allocator import allocator_of
from podwright.core.devices.choice import DeviceChoice
from podwright.core.devices.errors import AllocationError, SearchTimeoutError
from podwright.core.devices.problem import AllocationProblem
from podwright.core.devices.verdicts import FAILS, MOST_PREFERRED, STEPS_PER_SECOND, DeviceVerdicts, SearchLimits
from podwright.core.framework.helpers import normalize_by_greatest
from podwright.core.framework.interface import Bools, Handle, Int64s
from podwright.core.framework.status import Code, Status, unresolvable, unschedulable
from podwright.core.objects.devices.claims import Allocation, ResourceClaim
from podwright.core.plugins.devices.binding_conditions import usable
from podwright.core.plugins.devices.cycle_claims import CycleClaims
from podwright.core.plugins.devices.explained import DevicesHere
from podwright.core.plugins.devices.freed import freed_by
from podwright.core.plugins.devices.reservation import allocate
from podwright.core.state.columns.matching import affinity_column

_AVAILABLE: Final = 0
NOT_ALLOCATABLE: Final = 1
_INVALID_POOLS: Final = 2
NOT_AVAILABLE: Final = 3
_NO_RESOURCE: Final = 4
_STALE_CLAIM: Final = 5
STATUSES: Final = (
    Status(Code.SUCCESS),
    unresolvable("cannot allocate all claims"),
    unresolvable("invalid resource pools were encountered"),
    unresolvable("resourceclaim not available on the node"),
    unresolvable("cannot fit resource"),
    unresolvable("cannot schedule extended resource claim"),
)
_CODE_OF: Final = np.array([_AVAILABLE, _AVAILABLE, NOT_ALLOCATABLE, _INVALID_POOLS, _AVAILABLE], np.int8)
"""By code of a verdict."""
DRY_RUN_STEPS: Final = 10_000
"""The most steps of a search in a dry run of a preemption: there are many of them."""
FREEABLE: Final = (STATUSES[0], unschedulable(*STATUSES[1].reasons), *STATUSES[2:])
"""The statuses where victims may free devices."""
_WHOLE_ATTEMPT_STEPS: Final = STEPS_PER_SECOND // 10
"""The most steps of a search in an attempt that cannot pause although other pods wait. The next attempt continues from
there.
"""
SCORES_OF_FITS: Final = 101
"""How many scores from 0 to 100 there are."""


class DeviceEvaluationError(Exception):
    """The attempt as a whole fails. The text is kube-scheduler's."""


class _Asked(NamedTuple):
    """The problem of the claims to allocate on nodes of one variant. `names`: of these claims."""

    problem: AllocationProblem
    verdicts: DeviceVerdicts
    names: Sequence[str]


class Evaluation:
    """See the module."""

    def __init__(self, handle: Handle, *, steps: int | None, binding_timeout: float, choice: DeviceChoice) -> None:
        """`steps`: the most steps of a search on one node, None: no limit. `binding_timeout`: in seconds. `choice`:
        among devices and nodes.
        """
        self._handle = handle
        self._cache = handle.cache
        self._steps = steps
        self._binding_timeout = binding_timeout
        self._choice = choice

    def codes(self, found: CycleClaims, rows: Bools) -> NDArray[np.int8]:
        """int8[nodes]: positions in STATUSES, for these rows."""
        table = self._cache.table
        codes = np.zeros(table.size, np.int8)
        if found.stale is not None:
            codes[:] = _STALE_CLAIM
            return codes
        by_node = found.variants(table)
        left = rows
        if found.extended is not None:
            if found.extended.others:
                fits = [node is not None and found.extended.fits(node) for node in table.nodes]
                codes[~np.array(fits, np.bool_)] = _NO_RESOURCE
                left = left & (codes == 0)
            if not found.claims:
                left = left & (by_node != 0)
        if found.any_open:
            self._allocate(found, by_node, left, codes)
            left = left & (codes == 0)
        for position in range(len(found.claims)):
            rejected = self._unavailable(found, position)
            if rejected is not None:
                rejected = rejected & left
                if rejected.any():
                    found.unavailable.add(position)
                    codes[rejected] = NOT_AVAILABLE
        return codes

    def code_without(self, found: CycleClaims, slot: int) -> int:
        """The position in STATUSES of one row, where the pods of `found.removed` are gone."""
        rows = np.zeros(self._cache.table.size, np.bool_)
        rows[slot] = True
        variant = found.variant(self._cache.table, slot)
        claims = self._cache.devices.claims
        freed = freed_by(found.removed, claims)
        code = int(self.codes(found, rows)[slot])
        if code != NOT_ALLOCATABLE or not freed:
            return code
        asked = self._asked(found, variant)
        try:
            if not asked.verdicts.would_fit(asked.problem, slot, claims.usage.without(freed), DRY_RUN_STEPS):
                return code
        except AllocationError as error:
            raise DeviceEvaluationError(error.message(asked.names)) from error
        unavailable = (self._unavailable(found, position) for position in range(len(found.claims)))
        return NOT_AVAILABLE if any(each is not None and each[slot] for each in unavailable) else _AVAILABLE

    def _allocate(self, found: CycleClaims, by_node: Int64s, rows: Bools, codes: NDArray[np.int8]) -> None:
        """Writes the codes of the rows where the claims cannot be allocated. Raises PluginError if the attempt
        fails.
        """
        table = self._cache.table
        by_node = np.broadcast_to(by_node, table.size)
        failed: list[tuple[int, str]] = []
        for variant in (0,) if found.extended is None else np.unique(by_node[rows]).tolist():
            asked, limits = self._asked(found, variant), self._limits()
            own = rows if found.extended is None else rows & (by_node == variant)
            try:
                results = asked.verdicts.codes(own, limits)
                codes[own] = _CODE_OF[results[own]]
                if len(failing := np.flatnonzero(own & (results == FAILS))):
                    slot = int(failing[0])
                    error = asked.verdicts.error(asked.problem, slot, limits)
                    failed.append((slot, error.message(asked.names)))
            except SearchTimeoutError as error:
                raise DeviceEvaluationError(_timed_out(error)) from error
        if failed:
            raise DeviceEvaluationError(min(failed)[1])

    def _unavailable(self, found: CycleClaims, position: int) -> Bools | None:
        """bool[nodes]: where an allocated claim is not available; None: nowhere."""
        allocation = found.allocation(position)
        if allocation is None:
            return None
        claim, cache = found.claims[position], self._cache
        if claim.allocation is not None and not usable(claim, self._binding_timeout, self._handle.now()):
            return cache.table.valid
        if any(device.skips_node_operations for device in allocation.devices):
            return cache.table.valid  # no node declares DRAOptionalNodeOperations, which is off by default
        if allocation.node_affinity is None:
            return None
        return ~affinity_column(cache.derived, allocation.node_affinity)

    def _asked(self, found: CycleClaims, variant: int) -> _Asked:
        claims = found.to_allocate(variant).values()
        self._cache.devices.index.refresh()
        allocator = allocator_of(self._cache)
        problem = allocator.problem([claim.spec for claim in claims])
        return _Asked(problem, allocator.verdicts(problem, self._choice), [claim.key for claim in claims])

    def devices_here(self, found: CycleClaims, slot: int) -> DevicesHere | None:
        """Returns what keeps the open claims from devices of nodes such as the one in this row; None if no claim is
        open.
        """
        variant = found.variant(self._cache.table, slot)
        if not found.to_allocate(variant):
            return None
        asked = self._asked(found, variant)
        return DevicesHere(self._cache, asked.problem, asked.names)

    def _limits(self) -> SearchLimits:
        bounded = self._cache.deadline.bounds_searches
        return SearchLimits(self._steps, _WHOLE_ATTEMPT_STEPS if bounded else None)

    def scores(self, found: CycleClaims, slots: NDArray[np.intp]) -> Int64s | int:
        """int64[slots]: how much the chosen alternatives are preferred; or one number for all.

        Unless the policy scores by default, SCORES_OF_FITS times that, and in addition how well the devices suit the
        policy, from 0 to 100.
        """
        table, default = self._cache.table, self._choice.scoring == "Default"
        if not found.any_alternatives and (default or not found.any_open):
            return 0
        if not found.any_open and not found.shared:
            return np.zeros(len(slots), np.int64)
        allocated = sum(
            _preference(found.claims[i], allocation)
            for i in range(len(found.claims))
            if (allocation := found.allocation(i)) is not None
        )
        by_node = np.broadcast_to(found.variants(table), table.size)[slots]
        scores = np.full(len(slots), allocated, np.int64)
        fits = np.zeros(len(slots), np.int64)
        for variant in np.unique(by_node).tolist():
            own = by_node == variant
            if found.claims or variant:
                verdicts = self._asked(found, variant).verdicts
                scores[own] += verdicts.scores[slots[own]]
                fits[own] = verdicts.fits(slots[own])
        return scores if default else scores * SCORES_OF_FITS + fits

    def normalized(self, scores: Int64s | int) -> Int64s | int:
        """Scores from 0 to 100. How much alternatives are preferred counts first, as in kube-scheduler."""
        if self._choice.scoring == "Default" or isinstance(scores, int):
            return normalize_by_greatest(scores)
        preferences, fits = np.divmod(scores, SCORES_OF_FITS)
        alike = len(scores) == 0 or preferences.min() == preferences.max()
        return fits if alike else normalize_by_greatest(scores)

    def solve(self, found: CycleClaims, node_name: str) -> dict[int, Allocation]:
        """The allocations on a node that can serve the claims, by position. Raises EvaluationError."""
        slot = self._cache.table.slot_of(node_name)
        if slot is None:
            raise DeviceEvaluationError(f'node "{node_name}" not found')
        variant = found.variant(self._cache.table, slot)
        claims = found.to_allocate(variant)
        if not claims:
            return {}
        try:
            asked = self._asked(found, variant)
            search = asked.verdicts.solve(asked.problem, slot, self._limits())
            return dict(zip(claims, allocate(search, list(claims.values())), strict=True))
        except AllocationError as error:
            raise DeviceEvaluationError(error.message([claim.key for claim in claims.values()])) from error
        except SearchTimeoutError as error:
            raise DeviceEvaluationError(_timed_out(error)) from error


def _timed_out(error: SearchTimeoutError) -> str:
    return f"node {error}: timed out trying to allocate devices"


def _preference(claim: ResourceClaim, allocation: Allocation) -> int:
    """How much the alternatives are preferred that an allocated claim has got."""
    chosen = {device.request for device in allocation.devices}
    return sum(
        MOST_PREFERRED - i
        for request in claim.spec.requests
        if request.has_alternatives
        for i, ask in enumerate(request.asks)
        if ask.reference in chosen
    )
