"""Definitions: what slices say about the devices and the counters of a pool, by name.

As of the last refresh of the index, and of the newest generation of the pool. Parts of pools that were asked for are
kept until a slice changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.slices import Device, PoolId, ResourceSlice
from podwright.core.state.devices.index import DeviceIndex
from podwright.core.state.devices.pools import Amounts


@dataclass(frozen=True, slots=True)
class _PoolParts:
    """`slices`: those that the other fields were made from."""

    slices: tuple[ResourceSlice, ...]
    devices: Mapping[str, Device]
    counters: Amounts


class Definitions:
    """See the module."""

    def __init__(self, index: DeviceIndex) -> None:
        self._index = index
        self._known: dict[PoolId, _PoolParts] = {}
        compact_regularly(self)

    def compact(self) -> None:
        self._known = {pool_id: parts for pool_id, parts in self._known.items() if self._index.slices_of(pool_id)}

    def devices(self, pool_id: PoolId) -> Mapping[str, Device]:
        """The devices of the pool, by name."""
        return self._parts(pool_id).devices

    def counters(self, pool_id: PoolId) -> Amounts:
        """Returns the amounts of the pool's counter sets, in nano-units."""
        return self._parts(pool_id).counters

    @property
    def any_counters(self) -> bool:
        """True if a slice has counter sets."""
        return self._index.any_counters

    def _parts(self, pool_id: PoolId) -> _PoolParts:
        slices = tuple(self._index.slices_of(pool_id))
        known = self._known.get(pool_id)
        if known is not None and known.slices == slices:
            return known
        if not slices:
            self._known.pop(pool_id, None)
            return _NOTHING
        newest = max(source.generation for source in slices)
        current = [source for source in slices if source.generation == newest]
        parts = self._known[pool_id] = _PoolParts(
            slices,
            {device.name: device for source in current for device in source.devices},
            {name: amounts for source in current for name, amounts in source.counter_sets},
        )
        return parts


_NOTHING: Final = _PoolParts((), {}, {})
