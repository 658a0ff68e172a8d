"""Pool: the devices of one pool as a node sees them, and what is wrong with the pool.

A node sees the slices that it reaches. They are enough if they are as many as the pool says; else the other slices of
the same generation count, too, for completeness and for counters, but their devices are out of reach. Source:
`GatherPools` in k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.classes import DeviceTaintRule
from podwright.core.objects.devices.slices import Device, DeviceId, PoolId, ResourceSlice
from podwright.core.objects.taints import Taint
from podwright.core.state.devices.shapes import ShapeNumbers

Amounts = Mapping[str, Mapping[str, int]]
"""Nano-units by counter set and counter."""

_NO_COUNTERS: Final[Amounts] = {}


@dataclass(frozen=True, slots=True, eq=False)
class PoolDevice:
    """A device in a pool. `taints`: those that keep it from being allocated, of the slice and of DeviceTaintRules."""

    device: Device
    device_id: DeviceId
    slice: ResourceSlice
    taints: tuple[Taint, ...]
    shape_number: int


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """See the module. `devices`: in the order in which they are tried. `elsewhere`: devices out of reach that consume
    counters.
    """

    pool_id: PoolId
    incomplete: bool = False
    invalid: str = ""
    """Why the pool is invalid; empty if it is valid."""
    devices: tuple[PoolDevice, ...] = ()
    elsewhere: tuple[PoolDevice, ...] = ()
    counters: Amounts = field(default_factory=dict)
    binding_conditions: bool = False

    @property
    def name(self) -> str:
        return "/".join(self.pool_id)

    @property
    def usable(self) -> bool:
        """True if its devices can be allocated."""
        return not self.incomplete and not self.invalid

    @property
    def order(self) -> tuple[bool, str, str]:
        """Pools are tried in this order."""
        return (self.binding_conditions, *self.pool_id)


def pool_as_seen(
    reached: Sequence[ResourceSlice],
    everything: Sequence[ResourceSlice],
    rules: Sequence[DeviceTaintRule],
    numbers: ShapeNumbers,
) -> Pool | None:
    """The pool as a node sees it that reaches these slices, of all slices of the pool. None: it must be ignored.

    `rules`: those that can match devices of the pool.
    """
    newest = max(s.generation for s in reached)
    seen = [s for s in reached if s.generation == newest]
    pool_id, count = seen[0].pool_id, seen[0].slice_count
    others: list[ResourceSlice] = []
    if len(seen) != count:
        if any(s.generation > newest for s in everything):
            return None  # the driver replaces the pool, and the new one has nothing for the node
        current = [s for s in everything if s.generation == newest and not s.uses_compatibility_groups]
        if len(current) != count:
            return Pool(pool_id, incomplete=True)
        names = {s.name for s in seen}
        others = [s for s in current if s.name not in names]
    seen.sort(key=lambda s: s.name)
    devices = tuple(_devices(seen, rules, numbers))
    problem = _duplicate_device(devices)
    counters = _NO_COUNTERS
    if not problem:
        counters, problem = _counter_sets((*seen, *others))
    elsewhere = tuple(_devices(others, (), numbers))
    problem = problem or _unknown_counter(devices, counters) or _unknown_counter(elsewhere, counters)
    if problem:
        return Pool(pool_id, invalid=problem)
    return Pool(
        pool_id,
        devices=devices,
        elsewhere=tuple(item for item in elsewhere if item.device.consumes),
        counters=counters,
        binding_conditions=any(item.device.binding_conditions for item in devices),
    )


def _devices(
    slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule], numbers: ShapeNumbers
) -> Iterable[PoolDevice]:
    for source in slices:
        driver, pool = source.pool_id
        for device in source.devices:
            taints = device.taints
            for rule in rules:
                if rule.taint is not None and rule.device in ("", device.name):
                    taints = (*taints, rule.taint)
            preventing = tuple(taint for taint in taints if taint.prevents) if taints else ()
            yield PoolDevice(device, (driver, pool, device.name), source, preventing, numbers.number(device.shape))


def _duplicate_device(devices: Iterable[PoolDevice]) -> str:
    names: set[str] = set()
    for item in devices:
        if item.device.name in names:
            return f"duplicate device name {item.device.name}"
        names.add(item.device.name)
    return ""


def _counter_sets(slices: Iterable[ResourceSlice]) -> tuple[Amounts, str]:
    found: dict[str, Mapping[str, int]] = {}
    for source in slices:
        for name, amounts in source.counter_sets:
            if name in found:
                return found, f"duplicate counter set name {name}"
            found[name] = amounts
    return found or _NO_COUNTERS, ""


def _unknown_counter(devices: Iterable[PoolDevice], counters: Amounts) -> str:
    for item in devices:
        for name in item.device.counter_sets:
            if name not in counters:
                return f"counter set {name} not found"
        for name, counter, _ in item.device.consumes:
            if counter not in counters[name]:
                return f"counter {counter} not found in counter set {name}"
    return ""
