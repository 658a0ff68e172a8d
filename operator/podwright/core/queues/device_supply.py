"""DeviceSupply: how many devices of each class are free, which is a part of what queues share.

A device is free if neither it nor a share of it is allocated, and no taint keeps it from that. Of devices that consume
the same counters, such as a GPU and its parts, as many are free as fit beside each other, the smallest first. The free
devices of a pool are summed up by the nodes that reach them, and again only when a slice, a rule or the use of a device
of the pool has changed. A call counts AT_ONCE devices, the next ones go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.devices.allocator import allocator_of
from podwright.core.devices.counters import AvailableCounters
from podwright.core.devices.selectors import YES, Matcher
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.devices.slices import PoolId, Reach
from podwright.core.state.cache import Cache
from podwright.core.state.devices.pools import Pool, PoolDevice
from podwright.core.state.devices.reach import reached_by_any

AT_ONCE: Final = 1024
MOST_IN_POOL: Final = 16_384
"""The devices of a larger pool are not counted, because all are counted again when one is used."""


class DeviceSupply:
    """See the module."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._index = cache.devices.index
        self._usage = cache.devices.claims.usage
        self._sums: dict[str, Counter[Reach]] = {}
        """By class: the free devices, by the nodes that reach them."""
        self._most: dict[str, int] = {}
        """By class: the answers of `most_on_a_node`. One pod may ask thousands of times."""
        self._pools: dict[PoolId, Counter[tuple[str, Reach]]] = {}
        """The part of each pool in the sums."""
        self._large: set[PoolId] = set()
        self._due: dict[PoolId, None] = {}
        """The pools that must be counted."""
        self._index.listen(self._changed)
        compact_regularly(self)

    def define(self, classes: Iterable[str]) -> None:
        """Counts the devices of these classes, as they are defined now."""
        self._sums = {name: Counter() for name in classes}
        self._most.clear()
        self._pools.clear()
        self._large.clear()
        self._due = dict.fromkeys(self._index.pools() if self._sums else ())

    def free(self, device_class: str, rows: NDArray[np.bool_]) -> int:
        """How many devices are free that any of these nodes reaches. `rows`: bool[nodes]."""
        self._update()
        table, derived = self._cache.table, self._cache.derived
        sums = self._sums[device_class].items()
        return sum(count for reach, count in sums if reached_by_any(table, derived, reach, rows))

    def most_on_a_node(self, device_class: str) -> int:
        """At least as many devices as are free for any one node."""
        self._update()
        if device_class not in self._most:
            sums = self._sums[device_class].items()
            shared = sum(count for reach, count in sums if not reach.node_name)
            on_a_node = max((count for reach, count in sums if reach.node_name), default=0)
            self._most[device_class] = shared + on_a_node
        return self._most[device_class]

    def uncounted(self, device_class: str) -> str:
        """Why not all free devices of a class are counted. Empty if they are."""
        matcher = self._matcher(device_class)
        if matcher is not None and matcher.costly:
            return f"the selectors of DeviceClass {device_class} may take too long"
        if self._large:
            return f"pool {'/'.join(min(self._large))} has more than {MOST_IN_POOL:,} devices"
        return ""

    # Internals

    def _changed(self, pools: Collection[PoolId]) -> None:
        if self._sums:
            self._due.update(dict.fromkeys(pools))

    def _update(self) -> None:
        if not self._index.read(AT_ONCE):
            return
        self._index.refresh()
        left = AT_ONCE
        while self._due and left > 0:
            pool_id = next(iter(self._due))
            left -= 1 + self._count(pool_id)
            del self._due[pool_id]

    def _count(self, pool_id: PoolId) -> int:
        """Counts a pool again. Returns how many devices it has."""
        self._most.clear()
        size = sum(len(source.devices) for source in self._index.slices_of(pool_id))
        pool = self._index.whole_pool(pool_id) if size <= MOST_IN_POOL else None
        found = Counter[tuple[str, Reach]]()
        if pool is not None and pool.usable:
            found.update(self._free_in(pool))
        (self._large.add if size > MOST_IN_POOL else self._large.discard)(pool_id)
        for (name, reach), count in self._pools.pop(pool_id, Counter()).items():
            self._sums[name][reach] -= count
            if not self._sums[name][reach]:
                del self._sums[name][reach]
        for (name, reach), count in found.items():
            self._sums[name][reach] += count
        if found:
            self._pools[pool_id] = found
        return min(size, MOST_IN_POOL)

    def _free_in(self, pool: Pool) -> Iterator[tuple[str, Reach]]:
        """The class of each free device, and what reaches it. A device may be of several classes."""
        unused = [item for item in pool.devices if not item.taints and not self._usage.used(item.device_id)]
        for name in self._sums:
            matcher = self._matcher(name)
            if matcher is None or matcher.costly:
                continue
            results = matcher.results()
            numbers = ((item, item.shape_number) for item in unused)
            matching = [item for item, number in numbers if (results[number] or matcher.match(number)) == YES]
            for item in self._side_by_side(pool, matching):
                yield name, item.device.reach if item.slice.per_device else item.slice.reach

    def _side_by_side(self, pool: Pool, items: Iterable[PoolDevice]) -> Iterator[PoolDevice]:
        """Yields those of the devices that can be allocated together."""
        counters = AvailableCounters(self._usage).of(pool) if pool.counters else None
        left = {} if counters is None else dict(counters.amounts)
        for item in sorted(items, key=lambda item: sum(amount for _, _, amount in item.device.consumes)):
            consumes = item.device.consumes
            if consumes and counters is not None and counters.overdrawn:
                continue
            if all(left[name, counter] >= amount for name, counter, amount in consumes):
                for name, counter, amount in consumes:
                    left[name, counter] -= amount
                yield item

    def _matcher(self, device_class: str) -> Matcher | None:
        known = self._cache.devices.device_class(device_class)
        return None if known is None else allocator_of(self._cache).matcher(known)
