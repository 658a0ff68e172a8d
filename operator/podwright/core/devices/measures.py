"""Measures: how large the devices of an offer are, and how full the units are to which they belong.

A unit is what can be filled up: the counter sets of a pool from which partitions take, or else a device, whole or in shares. The order in which devices
are tried follows from this (`order`), and so does what a solution is worth (`fit`). Nothing here decides whether a device can be allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podwright.core.devices.capacity import CapacityError
from podwright.core.devices.choice import AllocationOrder
from podwright.core.devices.counters import AvailableCounters, Counter
from podwright.core.devices.offer import Offer
from podwright.core.devices.problem import PreparedAsk
from podwright.core.devices.search import Pick
from podwright.core.objects.devices.slices import DeviceShape
from podwright.core.state.devices.pools import Pool, PoolDevice

Dimension = tuple[str, str]
"""(driver, name of a capacity without the driver's domain)"""
Amounts = Mapping[Dimension, int]
"""Nano-units."""
Unit = tuple[Pool, str]
"""A pool with the name of a counter set, or of a device that takes from none."""

_NO_SIZE: Final = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Fit:
    """What the devices of a solution are worth.

    `amounts`: their capacities, as far as the claims get them; `opens`: whether a partition or a share is the first one of its unit; `left`: what stays
    free in the units of partitions and shares, from 0 to 1; `utilization`: the share of all units of the drivers that is then in use.
    """

    amounts: tuple[tuple[Dimension, int], ...]
    opens: bool
    left: float
    utilization: float


class Measures:
    """See the module. Valid as long as the node's devices and their use stay the same."""

    def __init__(self, offer: Offer, counters: AvailableCounters) -> None:
        self._offer = offer
        self._counters = counters
        self._pools = {pool.pool_id: pool for pool in offer.all_pools}
        self._greatest: dict[Dimension, int] | None = None

    def order(self, ask: PreparedAsk, allocation: AllocationOrder) -> Sequence[int]:
        """The positions of all devices, in the order in which the ask tries them."""
        devices = self._offer.devices
        if allocation == "FirstFit":
            return range(len(devices))
        sign = 1 if allocation == "BestFit" else -1

        def key(position: int) -> tuple[bool, tuple[float, float], float, int]:
            left = sign * self._left(ask, devices[position], self._offer.pools[position])
            return self._offer.pools[position].binding_conditions, self._size(ask, devices[position]), left, position

        return sorted(range(len(devices)), key=key)

    def fit(self, solution: Sequence[Sequence[Pick]]) -> Fit:
        """What the picks of a solved search are worth."""
        picks = [pick for of_claim in solution for pick in of_claim if not pick.ask.ask.admin]
        total: dict[Dimension, int] = {}
        for pick in picks:
            for dimension, amount in self._amounts(pick.ask, pick.item.device.shape).items():
                total[dimension] = total.get(dimension, 0) + amount
        used = self._used(picks, {})
        after = self._used(picks, _taken(picks))
        parts = [unit for pick in picks for unit in self._units_of_part(pick.item)]
        return Fit(
            amounts=tuple(sorted(total.items())),
            opens=any(not used[unit] for unit in parts),
            left=sum(1 - after[unit] for unit in parts) / len(parts) if parts else 0.0,
            utilization=sum(after.values()) / len(after) if after else 0.0,
        )

    # Sizes

    def _size(self, ask: PreparedAsk, item: PoolDevice) -> tuple[float, float]:
        """How large the device is among all of its driver on the node: by its largest capacity, then by all."""
        greatest = self._greatest_amounts()
        shares = [amount / greatest[d] for d, amount in self._amounts(ask, item.device.shape).items() if amount > 0]
        return (max(shares), sum(shares)) if shares else _NO_SIZE

    def _greatest_amounts(self) -> Amounts:
        if self._greatest is None:
            found: dict[Dimension, int] = {}
            for item in self._offer.devices:
                for dimension, amount in _capacities(item.device.shape).items():
                    found[dimension] = max(found.get(dimension, 0), amount)
            self._greatest = found
        return self._greatest

    def _amounts(self, ask: PreparedAsk, shape: DeviceShape) -> Amounts:
        """What the ask takes of the device: all of it, or a share."""
        if not shape.allow_multiple:
            return _capacities(shape)
        try:
            consumption = ask.consumption(shape)
        except CapacityError:
            consumption = None
        if consumption is None:
            return _capacities(shape)
        return {_dimension(shape.driver, name): amount for name, amount, _ in consumption.amounts}

    # Units

    def _left(self, ask: PreparedAsk, item: PoolDevice, pool: Pool) -> float:
        """What stays free in the unit of a partition or a share, from 0 to 1. A whole device leaves nothing."""
        if item.device.counter_sets:
            taken = _consumed((item,))
            return _mean(self._free_share(pool, name, taken) for name in item.device.counter_sets)
        if not item.device.shape.allow_multiple:
            return 0.0
        return 1 - self._share_in_use(item, self._amounts(ask, item.device.shape))

    def _units_of_part(self, item: PoolDevice) -> Iterable[Unit]:
        """The units of a partition or a share; none for a whole device."""
        pool = self._pools[item.device_id[:2]]
        if item.device.counter_sets:
            return [(pool, name) for name in item.device.counter_sets]
        return [(pool, f"/{item.device.name}")] if item.device.shape.allow_multiple else ()

    def _used(self, picks: Sequence[Pick], taken: Mapping[PoolDevice, Sequence[Pick]]) -> dict[Unit, float]:
        """How much of each unit is in use, from 0 to 1, for the drivers of the picks. `taken`: what counts in addition."""
        drivers = {pick.item.slice.driver for pick in picks}
        found: dict[Unit, float] = {}
        for pool in self._offer.all_pools:
            if not pool.usable or pool.pool_id[0] not in drivers:
                continue
            consumed = _consumed(item for item in taken if item.device_id[:2] == pool.pool_id)
            for name in pool.counters:
                found[pool, name] = 1 - self._free_share(pool, name, consumed)
            for item in pool.devices:
                if not item.device.counter_sets:
                    found[pool, f"/{item.device.name}"] = self._device_in_use(item, taken.get(item, ()))
        return found

    def _device_in_use(self, item: PoolDevice, picks: Sequence[Pick]) -> float:
        if not item.device.shape.allow_multiple:
            return float(bool(picks) or self._offer.usage.used(item.device_id))
        amounts: dict[Dimension, int] = {}
        for pick in picks:
            for dimension, amount in self._amounts(pick.ask, item.device.shape).items():
                amounts[dimension] = amounts.get(dimension, 0) + amount
        return self._share_in_use(item, amounts, used=bool(picks))

    def _share_in_use(self, item: PoolDevice, amounts: Amounts, *, used: bool = False) -> float:
        """The part of a shared device's capacities that is in use, with these amounts in addition."""
        shape, usage = item.device.shape, self._offer.usage
        if usage.in_use(item.device_id):
            return 1.0
        consumed = usage.consumed(item.device_id)
        shares = [
            (consumed.get(name, 0) + amounts.get(_dimension(shape.driver, name), 0)) / capacity.value.nanos
            for name, capacity in shape.capacity.items()
            if capacity.value.nanos > 0
        ]
        return _mean(shares) if shares else float(used or usage.used(item.device_id))

    def _free_share(self, pool: Pool, name: str, taken: Mapping[Counter, int]) -> float:
        """What is free in a counter set, from 0 to 1, after these amounts are taken from its counters, too."""
        free, totals = self._counters.of(pool).amounts, pool.counters[name]
        return _mean(
            max(free[name, counter] - taken.get((name, counter), 0), 0) / total
            for counter, total in totals.items()
            if total > 0
        )


def _taken(picks: Sequence[Pick]) -> Mapping[PoolDevice, Sequence[Pick]]:
    found: dict[PoolDevice, list[Pick]] = {}
    for pick in picks:
        found.setdefault(pick.item, []).append(pick)
    return found


def _consumed(items: Iterable[PoolDevice]) -> Mapping[Counter, int]:
    """What devices consume of counters."""
    found: dict[Counter, int] = {}
    for item in items:
        for name, counter, amount in item.device.consumes:
            found[name, counter] = found.get((name, counter), 0) + amount
    return found


def _capacities(shape: DeviceShape) -> Amounts:
    return {_dimension(shape.driver, name): max(c.value.nanos, 0) for name, c in shape.capacity.items()}


def _dimension(driver: str, name: str) -> Dimension:
    domain, slash, short = name.partition("/")
    return driver, short if slash and domain == driver else name


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
