"""DeviceUsage: which devices are allocated, to whole claims or in shares, and how much of their capacity is consumed.

Invariant: the sums are those of all counted allocations. A device that two claims hold stays in use until both have given it back. Devices with
admin access are not counted. Source: `allocatedDevices` of kube-scheduler's plugin DynamicResources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from podwright.core.objects.compaction import compact_regularly, shrink
from podwright.core.objects.devices.claims import AllocatedDevice
from podwright.core.objects.devices.slices import DeviceId

_NOTHING: Final[Mapping[str, int]] = {}


class _Use:
    """How one device is used: by so many whole claims and shares, and the consumed nano-units by capacity."""

    __slots__ = ("consumed", "shares", "whole")

    def __init__(self) -> None:
        self.whole = 0
        self.shares = 0
        self.consumed: dict[str, int] = {}


class DeviceUsage:
    """See the module."""

    def __init__(self) -> None:
        self._uses: dict[DeviceId, _Use] = {}
        self.changes = 0
        """Rises with each change."""
        self.changed: set[DeviceId] = set()
        """The devices whose use has changed since the index took them from here."""
        compact_regularly(self)

    def compact(self) -> None:
        shrink(self._uses)

    def __len__(self) -> int:
        """How many devices are used."""
        return len(self._uses)

    def in_use(self, device: DeviceId) -> bool:
        """Whether a claim has the whole device."""
        use = self._uses.get(device)
        return use is not None and use.whole > 0

    def shared(self, device: DeviceId) -> bool:
        """Whether a claim has a share of the device."""
        use = self._uses.get(device)
        return use is not None and use.shares > 0

    def used(self, device: DeviceId) -> bool:
        """Whether a claim has the device or a share of it."""
        return device in self._uses

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
