"""Offer: the devices of one node for one problem, and the checks of single devices that do not change during a search.

Making an offer can fail, as kube-scheduler's validation of requests on a node does. Order matters: the first error
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podwright.core.devices.capacity import CapacityError, Consumption
from podwright.core.devices.errors import AllocationError
from podwright.core.devices.problem import AllocationProblem, PreparedAsk, PreparedClaim
from podwright.core.devices.selectors import FAILS, YES
from podwright.core.objects.devices.claims import ALL, EXACT
from podwright.core.objects.devices.slices import DeviceShape
from podwright.core.objects.node import Node
from podwright.core.state.devices.index import Pools
from podwright.core.state.devices.pools import Pool, PoolDevice
from podwright.core.state.devices.usage import DeviceUsage

MAX_RESULTS: Final = 32
"""How many devices one claim can have. Source: `AllocationResultsMaxSize` in k8s.io/api/resource/v1."""


class Offer:
    """See the module. `devices`: those of all usable pools, in the order in which they are tried; `pools`: the pool of
    each.
    """

    def __init__(self, problem: AllocationProblem, node: Node, pools: Pools, usage: DeviceUsage) -> None:
        self.problem = problem
        self.node = node
        self.usage = usage
        self.all_pools = pools
        self.devices: list[PoolDevice] = []
        self.pools: list[Pool] = []
        for pool in pools:
            if pool.usable:
                self.devices += pool.devices
                self.pools += [pool] * len(pool.devices)
        self._wanted: dict[PreparedAsk, list[int]] = {}

    def validate(self) -> None:
        """Computes how many devices the requests for all devices get. Raises AllocationError."""
        for position, claim in enumerate(self.problem.claims):
            if claim.spec.problem:
                raise AllocationError(f": {claim.spec.problem}", position)
            least = 0
            for request, prepared in zip(claim.spec.requests, claim.requests, strict=True):
                added = min((self._validate(ask, position) for ask in prepared.asks), default=0)
                if added > MAX_RESULTS - least:
                    raise AllocationError(
                        f", request {request.name}: adding {added} devices exceeds the claim limit of {MAX_RESULTS}, "
                        f"with {least} already accounted for",
                        position,
                    )
                least += added
            _check_constraints(claim, position)

    def needed(self, ask: PreparedAsk) -> int:
        """How many devices the ask needs on this node."""
        return len(self._wanted[ask]) if ask.all_devices else ask.ask.count

    def wanted(self, ask: PreparedAsk) -> Sequence[int]:
        """The positions in `devices` that an ask for all devices must get."""
        return self._wanted[ask]

    def matches(self, ask: PreparedAsk, position: int, claim: int) -> bool:
        """True if the ask selects the device, and the node reaches it. Raises AllocationError."""
        item = self.devices[position]
        result = self.outcome(ask, position)
        if result == FAILS:
            raise self._selector_error(ask, item, claim)
        return result == YES and (
            not item.slice.per_device or item.device.reach.covers(self.node.name, self.node.labels)
        )

    def outcome(self, ask: PreparedAsk, position: int) -> int:
        """The result of the ask's selectors for the device: YES, NO or FAILS."""
        assert ask.matcher is not None, "the ask was not validated"
        number = self.devices[position].shape_number
        known = ask.matcher.results()[number]
        return known or ask.matcher.match(number)

    def consumption(self, ask: PreparedAsk, position: int, claim: int) -> Consumption | None:
        """Returns the ask's consumption of the device; None if it can never have it. Raises AllocationError."""
        item = self.devices[position]
        try:
            return ask.consumption(item.device.shape)
        except CapacityError as error:
            name = item.device.name if ask.all_devices else "/".join(item.device_id)
            raise AllocationError(
                f", request {ask.ask.name}: checking capacity for device {name}: {error}", claim
            ) from None

    # Internals

    def _validate(self, prepared: PreparedAsk, claim: int) -> int:
        ask = prepared.ask
        where = f", request {ask.name}"
        if ask.derived_attributes:
            raise AllocationError(
                f"{where}: cannot handle request with derived attributes, the feature is disabled", claim
            )
        for i, selector in enumerate(ask.selectors):
            if selector is None:
                raise AllocationError(
                    f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)", claim
                )
        if not ask.device_class:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)", claim)
        if prepared.device_class is None or prepared.matcher is None:
            raise AllocationError(
                f"{where}: could not retrieve device class {ask.device_class}: "
                f'deviceclass.resource.k8s.io "{ask.device_class}" not found',
                claim,
            )
        if ask.mode == ALL:
            self._wanted[prepared] = self._everything(prepared, claim)
        elif ask.mode != EXACT:
            raise AllocationError(f"{where}: unsupported count mode {ask.mode}", claim)
        return self.needed(prepared)

    def _everything(self, ask: PreparedAsk, claim: int) -> list[int]:
        wanted = []
        position = 0
        for pool in self.all_pools:
            if not pool.usable:
                problem = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f", request {ask.ask.name}: asks for all devices, but resource pool {pool.name} is currently "
                    f"{problem}",
                    claim,
                )
            for _ in pool.devices:
                if self.matches(ask, position, claim) and (
                    needs_no_check(ask, self.devices[position].device.shape)
                    or self.consumption(ask, position, claim) is not None
                ):
                    wanted.append(position)
                position += 1
        return wanted

    def _selector_error(self, ask: PreparedAsk, item: PoolDevice, claim: int) -> AllocationError:
        assert ask.matcher is not None
        failure = ask.matcher.failure(item.shape_number)
        at = f"selector #{failure.index}"
        if failure.compiling:
            text = f": {at}: CEL compile error: {failure.text}"
        else:
            text = f": {at} on device {'/'.join(item.device_id)}: CEL runtime error: {failure.text}"
        if failure.of_class:
            return AllocationError(f"class {ask.ask.device_class}{text}")
        return AllocationError(text, claim)


def needs_no_check(ask: PreparedAsk, shape: DeviceShape) -> bool:
    """True if the ask can have the device whatever its capacities are, unless it is shared."""
    return ask.plain and shape.plain_capacity and not shape.allow_multiple


def _check_constraints(claim: PreparedClaim, position: int) -> None:
    for i, constraint in enumerate(claim.spec.constraints):
        if not constraint.attribute:
            raise AllocationError(f", constraint #{i}: empty constraint (unsupported constraint type?)", position)
