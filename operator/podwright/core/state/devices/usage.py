"""DeviceUsage: which devices are allocated, to whole claims or in shares, and how much of their capacity is consumed.

Invariant: the sums are those of all counted allocations. A device that two claims hold stays in use until both have
given it back. Devices with admin access are not counted. Source: `allocatedDevices` of kube-scheduler's plugin
DynamicResources.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Final

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.devices.claims import AllocatedDevice
from podwright.core.objects.devices.slices import DeviceId

_NOTHING: Final[Mapping[str, int]] = {}


class _Use:
    """How one device is used: the number of claims that hold it as a whole and of shares, and the consumed nano-units
    by capacity.
    """

    __slots__ = ("consumed", "shares", "whole")

    def __init__(self) -> None:
        self.whole = 0
        self.shares = 0
        self.consumed: dict[str, int] = {}

    def copy(self) -> _Use:
        found = _Use()
        found.whole, found.shares, found.consumed = self.whole, self.shares, dict(self.consumed)
        return found


class DeviceUsage:
    """See the module."""

    def __init__(self) -> None:
        self._uses: MutableMapping[DeviceId, _Use] = {}
        self.changes = 0
        """Rises with each change."""
        self.changed: set[DeviceId] = set()
        """The devices whose use has changed since the index took them from here."""
        compact_regularly(self)

    def without(self, devices: Iterable[AllocatedDevice]) -> DeviceUsage:
        """The use as it would be without these devices, which claims have. Valid until this one changes."""
        found = DeviceUsage()
        given_back = list(devices)
        own = {d.device_id: use.copy() for d in given_back if (use := self._uses.get(d.device_id)) is not None}
        found._uses = own
        found.remove(given_back)
        hidden = {d.device_id: own.get(d.device_id, _Use()) for d in given_back}
        found._uses = ChainMap(hidden, self._uses)
        return found

    def __len__(self) -> int:
        """How many devices are used."""
        return len(self._uses)

    def in_use(self, device: DeviceId) -> bool:
        """True if a claim has the whole device."""
        use = self._uses.get(device)
        return use is not None and use.whole > 0

    def shared(self, device: DeviceId) -> bool:
        """True if a claim has a share of the device."""
        use = self._uses.get(device)
        return use is not None and use.shares > 0

    def used(self, device: DeviceId) -> bool:
        """True if a claim has the device or a share of it."""
        use = self._uses.get(device)
        return use is not None and (use.whole > 0 or use.shares > 0)

    def consumed(self, device: DeviceId) -> Mapping[str, int]:
        """The nano-units that shares consume, by capacity."""
        use = self._uses.get(device)
        return _NOTHING if use is None else use.consumed

    def state_of(self, device: DeviceId) -> object:
        """Equal for devices that are used alike. Hashable."""
        use = self._uses.get(device)
        return None if use is None else (use.whole > 0, use.shares > 0, tuple(sorted(use.consumed.items())))

    def add(self, devices: Iterable[AllocatedDevice]) -> None:
        self._count(devices, 1)

    def remove(self, devices: Iterable[AllocatedDevice]) -> None:
        self._count(devices, -1)

    def _count(self, devices: Iterable[AllocatedDevice], sign: int) -> None:
        for device in devices:
            if device.admin:
                continue
            key = device.device_id
            self.changed.add(key)
            self.changes += 1
            use = self._uses.get(key)
            if use is None:
                use = self._uses[key] = _Use()
            if not device.share_id:
                use.whole += sign
            else:
                use.shares += sign
                for name, amount in (device.consumed or _NOTHING).items():
                    use.consumed[name] = use.consumed.get(name, 0) + sign * amount
            if not use.whole and not use.shares:
                del self._uses[key]
