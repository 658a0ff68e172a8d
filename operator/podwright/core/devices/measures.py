"""Measures: how large the devices of an offer are, and how full the units are to which they belong.

A unit is what can be filled up: the counter sets of a pool from which partitions take, or else a device, whole or in
shares. The order in which devices are tried follows from this (`order`), and so does what a solution is worth (`fit`).
Nothing here decides whether a device can be allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from podwright.core.devices.capacity import CapacityError
from podwright.core.devices.choice import AllocationOrder
from podwright.core.devices.counters import AvailableCounters, Counter
from podwright.core.devices.offer import Offer
from podwright.core.devices.problem import PreparedAsk
from podwright.core.devices.search import Pick
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.slices import DeviceShape
from podwright.core.state.devices.pools import Pool, PoolDevice
from podwright.core.state.devices.usage import DeviceUsage

K = TypeVar("K")
V = TypeVar("V")
Dimension = tuple[str, str]
"""(driver, name of a capacity without the driver's domain)"""
Amounts = Mapping[Dimension, int]
"""Nano-units."""
Unit = tuple[Pool, str]
"""A pool with the name of a counter set, or of a device that takes from none."""

_NO_SIZE: Final = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Fit:
    """The value of a solution's devices for a policy.

    `amounts`: their capacities, as far as the claims get them; `opens`: whether a partition or a share is the first one
    of its unit; `left`: what stays free in the units of partitions and shares, from 0 to 1; `utilization`: the share of
    all units of the drivers that is then in use.
    """

    amounts: tuple[tuple[Dimension, int], ...]
    opens: bool
    left: float
    utilization: float


MAX_ORDERED: Final = 512
"""On a node with more devices, they are tried in kube-scheduler's order."""
_MAX_KEPT: Final = 256


class KnownMeasures:
    """The measures that nodes share if they reach the same pools. Kept until the use of a device changes."""

    def __init__(self, usage: DeviceUsage) -> None:
        self._usage = usage
        self._changes = usage.changes
        self._orders: dict[tuple[tuple[Pool, ...], PreparedAsk], Sequence[int]] = {}
        self._used: dict[Pool, tuple[Mapping[str, float], float]] = {}

    def order(self, pools: tuple[Pool, ...], ask: PreparedAsk, compute: Callable[[], Sequence[int]]) -> Sequence[int]:
        return self._get(self._orders, (pools, ask), compute)

    def used(self, pool: Pool, compute: Callable[[], Mapping[str, float]]) -> tuple[Mapping[str, float], float]:
        """How much of each unit of the pool is in use, and the sum."""
        return self._get(self._used, pool, lambda: ((found := compute()), sum(found.values())))

    def _get(self, kept: dict[K, V], key: K, compute: Callable[[], V]) -> V:
        if self._usage.changes != self._changes:
            self._changes = self._usage.changes
            self._orders.clear()
            self._used.clear()
        found = kept.get(key)
        if found is None:
            if len(kept) >= _MAX_KEPT:
                kept.clear()
            found = kept[key] = compute()
        return found


class Measures:
    """See the module. Valid as long as the node's devices and their use stay the same."""

    def __init__(self, offer: Offer, counters: AvailableCounters, known: KnownMeasures) -> None:
        self._offer = offer
        self._counters = counters
        self._known = known
        self._pools = {pool.pool_id: pool for pool in offer.all_pools}
        self._greatest: dict[Dimension, int] | None = None

    def order(self, ask: PreparedAsk, allocation: AllocationOrder) -> Sequence[int]:
        """The positions of all devices, in the order in which the ask tries them."""
        devices = self._offer.devices
        if allocation == "FirstFit" or len(devices) > MAX_ORDERED:
            return range(len(devices))
        return self._known.order(self._offer.all_pools, ask, lambda: self._sorted(ask, allocation))

    def _sorted(self, ask: PreparedAsk, allocation: AllocationOrder) -> Sequence[int]:
        devices = self._offer.devices
        sign = 1 if allocation == "BestFit" else -1

        def key(position: int) -> tuple[bool, tuple[float, float], float, int]:
            left = sign * self._left(ask, devices[position], self._offer.pools[position])
            return self._offer.pools[position].binding_conditions, self._size(ask, devices[position]), left, position

        return sorted(range(len(devices)), key=key)

    def fit(self, solution: Sequence[Sequence[Pick]]) -> Fit:
        """The value of the picks of a solved search."""
        picks = [pick for of_claim in solution for pick in of_claim if not pick.ask.ask.admin]
        total: dict[Dimension, int] = {}
        for pick in picks:
            for dimension, amount in self._amounts(pick.ask, pick.item.device.shape).items():
                total[dimension] = total.get(dimension, 0) + amount
        drivers = {pick.item.slice.driver for pick in picks}
        pools = [pool for pool in self._offer.all_pools if pool.usable and pool.pool_id[0] in drivers]
        used = {pool: self._known.used(pool, partial(self._used, pool)) for pool in pools}
        after = self._after(picks)
        parts = [unit for pick in picks for unit in self._units_of_part(pick.item)]
        in_use = sum(each for _, each in used.values())
        in_use += sum(share - used[pool][0][name] for (pool, name), share in after.items())
        units = sum(len(each) for each, _ in used.values())
        return Fit(
            amounts=tuple(sorted(total.items())),
            opens=any(not used[pool][0][name] for pool, name in parts),
            left=sum(1 - after[unit] for unit in parts) / len(parts) if parts else 0.0,
            utilization=in_use / units if units else 0.0,
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
        """Returns the amounts that the ask takes of the device: all of it, or a share."""
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
        """The free part of the unit of a partition or a share, from 0 to 1; 0 for a whole device."""
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
        return [(pool, _unit_name(item))] if item.device.shape.allow_multiple else ()

    def _used(self, pool: Pool) -> Mapping[str, float]:
        """How much of each unit of a pool is in use, from 0 to 1."""
        found = {name: 1 - self._free_share(pool, name, {}) for name in pool.counters}
        for item in pool.devices:
            if not item.device.counter_sets:
                found[_unit_name(item)] = self._device_in_use(item, ())
        return found

    def _after(self, picks: Sequence[Pick]) -> Mapping[Unit, float]:
        """How much is in use of the units from which the picks take."""
        found: dict[Unit, float] = {}
        by_device: dict[PoolDevice, list[Pick]] = {}
        by_pool: dict[Pool, list[PoolDevice]] = {}
        for pick in picks:
            by_device.setdefault(pick.item, []).append(pick)
        for item in by_device:
            by_pool.setdefault(self._pools[item.device_id[:2]], []).append(item)
        for pool, items in by_pool.items():
            consumed = _consumed(items)
            for item in items:
                for name in item.device.counter_sets:
                    found[pool, name] = 1 - self._free_share(pool, name, consumed)
                if not item.device.counter_sets:
                    found[pool, _unit_name(item)] = self._device_in_use(item, by_device[item])
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
        """Returns the free part of a counter set, from 0 to 1, if `taken` is also subtracted."""
        free, totals = self._counters.of(pool).amounts, pool.counters[name]
        return _mean(
            max(free[name, counter] - taken.get((name, counter), 0), 0) / total
            for counter, total in totals.items()
            if total > 0
        )


def _unit_name(item: PoolDevice) -> str:
    """The name of the unit of a device that takes from no counters. No counter set has such a name."""
    return f"/{item.device.name}"


def _consumed(items: Iterable[PoolDevice]) -> Mapping[Counter, int]:
    """Returns the amounts that devices consume of counters."""
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
