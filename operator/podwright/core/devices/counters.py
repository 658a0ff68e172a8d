"""The amounts of shared counters that the allocated devices leave in each pool."""

from __future__ import annotations

from collections.abc import Mapping

from podwright.core.objects.dataclass import dataclass
from podwright.core.state.devices.pools import Pool
from podwright.core.state.devices.usage import DeviceUsage

Counter = tuple[str, str]
"""(counter set, counter)"""


@dataclass(frozen=True, slots=True)
class Available:
    """Nano-units by counter. `overdrawn`: some counter is below 0, which blocks all devices of the pool that consume
    counters.
    """

    amounts: Mapping[Counter, int]
    overdrawn: bool


class AvailableCounters:
    """The counters of the pools that were asked for, kept until the use of a device changes."""

    def __init__(self, usage: DeviceUsage) -> None:
        self._usage = usage
        self._changes = usage.changes
        self._known: dict[Pool, Available] = {}

    def of(self, pool: Pool) -> Available:
        """Returns the amounts that are left in the pool."""
        if self._usage.changes != self._changes:
            self._changes = self._usage.changes
            self._known = {}
        found = self._known.get(pool)
        if found is None:
            found = self._known[pool] = self._compute(pool)
        return found

    def _compute(self, pool: Pool) -> Available:
        left = {(name, counter): value for name, values in pool.counters.items() for counter, value in values.items()}
        for item in (*pool.devices, *pool.elsewhere):
            if item.device.consumes and self._usage.used(item.device_id):
                for name, counter, amount in item.device.consumes:
                    left[name, counter] -= amount
        return Available(left, any(value < 0 for value in left.values()))
