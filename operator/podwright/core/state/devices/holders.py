"""Holders: which claims the API server has given each device, in its order, so that of two claims with one device the later one is known.

The API server accepts allocations without looking at other claims, so two schedulers can allocate one device at the same time. The order
is that of the resourceVersions with which the watch has shown the allocations. That of allocations which a list has shown is unknown:
they count as the earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from podwright.core.objects.compaction import compact_regularly, shrink
from podwright.core.objects.devices.claims import AllocatedDevice
from podwright.core.objects.devices.slices import DeviceId

_UNKNOWN: Final = 0


@dataclass(frozen=True, slots=True)
class _Holder:
    """A claim. `version`: of its allocation; `devices`: each with its share id."""

    key: tuple[str, str]
    version: int
    devices: tuple[tuple[DeviceId, str], ...]


@dataclass(frozen=True, slots=True)
class Rival:
    """A device that two claims hold. `claim` has the other one, as (namespace, name)."""

    device: DeviceId
    claim: tuple[str, str]

    def __str__(self) -> str:
        return f"device {'/'.join(self.device)} is also allocated to claim {'/'.join(self.claim)}"


class Holders:
    """See the module. Costs: linear in the devices of the claim, and in all claims only if two hold one device."""

    def __init__(self) -> None:
        self._claims: dict[str, _Holder] = {}
        """By uid."""
        self._counts: dict[DeviceId, int] = {}
        compact_regularly(self)

    def compact(self) -> None:
        for container in (self._claims, self._counts):
            shrink(container)

    def __len__(self) -> int:
        return len(self._claims)

    def shown(self, uid: str, key: tuple[str, str], devices: Sequence[AllocatedDevice], version: str) -> bool:
        """The watch shows the claim with these devices; `version`: its resourceVersion, empty if a list has shown it.

        Returns whether the devices are new. Devices with admin access do not count.
        """
        own = tuple((device.device_id, device.share_id) for device in devices if not device.admin)
        known = self._claims.get(uid)
        if known is not None and known.devices == own:
            return False
        self.gone(uid)
        if not own:
            return False
        self._claims[uid] = _Holder(key, int(version) if version.isdigit() else _UNKNOWN, own)
        for device, _share in own:
            self._counts[device] = self._counts.get(device, 0) + 1
        return True

    def gone(self, uid: str) -> None:
        """The claim is gone, or has lost its devices."""
        known = self._claims.pop(uid, None)
        for device, _share in () if known is None else known.devices:
            left = self._counts.pop(device) - 1
            if left:
                self._counts[device] = left

    def rival(self, uid: str) -> Rival | None:
        """A device of the claim that another claim got earlier, and that is not shared."""
        own = self._claims.get(uid)
        if own is None:
            return None
        contested = {device: share for device, share in own.devices if self._counts[device] > 1}
        if not contested:
            return None
        for other_uid, other in self._claims.items():
            if other_uid == uid or other.version > own.version:
                continue
            for device, share in other.devices:
                if device in contested and not (share and contested[device]):
                    return Rival(device, other.key)
        return None
