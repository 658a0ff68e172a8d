"""Holders: the claims to which the API server has allocated each device, in order, so that the later one of two
conflicting claims is known.

The API server accepts allocations without looking at other claims, so two schedulers can allocate one device at the
same time, or together more of its capacity or of its pool's counters than there is. The order is that of the
resourceVersions with which the watch has shown the allocations. The order of allocations that a list has shown is
unknown: they count as the earlier ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from podwright.core.objects.compaction import compact_regularly, shrink
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import AllocatedDevice
from podwright.core.objects.devices.slices import Consumption, Device, DeviceId, PoolId
from podwright.core.state.devices.definitions import Definitions

_UNKNOWN: Final = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """A device or a share of it. `consumed`: (capacity, nano-units)."""

    device: DeviceId
    share: str
    consumed: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Holder:
    """A claim. `version`: of its allocation."""

    uid: str
    key: tuple[str, str]
    version: int
    parts: tuple[_Part, ...]

    def of(self, device: DeviceId) -> Sequence[_Part]:
        """Its parts of one device."""
        return [part for part in self.parts if part.device == device]

    @property
    def devices(self) -> Iterable[DeviceId]:
        """Each once."""
        return dict.fromkeys(part.device for part in self.parts)


class _Held:
    """The holders of a device that several claims hold or share: how many hold it as a whole, and what shares consume,
    by capacity.
    """

    __slots__ = ("consumed", "holders", "whole")

    def __init__(self) -> None:
        self.holders: dict[str, _Holder] = {}
        self.whole = 0
        self.consumed: dict[str, int] = {}

    def add(self, holder: _Holder, device: DeviceId) -> None:
        self.holders[holder.uid] = holder
        self._count(holder, device, 1)

    def remove(self, holder: _Holder, device: DeviceId) -> None:
        del self.holders[holder.uid]
        self._count(holder, device, -1)

    def _count(self, holder: _Holder, device: DeviceId, sign: int) -> None:
        for part in holder.of(device):
            self.whole += sign * (not part.share)
            for name, amount in part.consumed:
                self.consumed[name] = self.consumed.get(name, 0) + sign * amount


@dataclass(frozen=True, slots=True)
class Rival:
    """A device that two claims hold. `claim` has the other one, as (namespace, name).

    `capacity` or `counter` (as set/counter): that of which there is too little for both, if they may hold the device,
    or devices of its pool.
    """

    device: DeviceId
    claim: tuple[str, str]
    capacity: str = ""
    counter: str = ""

    @property
    def kind(self) -> str:
        """The kind of what both claims hold: `device`, `capacity` or `counter`."""
        return "capacity" if self.capacity else "counter" if self.counter else "device"

    def __str__(self) -> str:
        device, claim = "/".join(self.device), "/".join(self.claim)
        if self.capacity:
            return f"capacity {self.capacity} of device {device} is also allocated to claim {claim}"
        if self.counter:
            return f"counter {self.counter}, which device {device} consumes, is also allocated to claim {claim}"
        return f"device {device} is also allocated to claim {claim}"


class Holders:
    """See the module. Costs: linear in the devices of the claim. For a device with counters, linear in the held devices
    of its pool, too.
    """

    def __init__(self) -> None:
        self.defined: Definitions | None = None
        """The definitions of devices. Without them, shares and counters are not compared."""
        self._claims: dict[str, _Holder] = {}
        """By uid."""
        self._pools: dict[PoolId, dict[DeviceId, _Holder | _Held]] = {}
        """A device that one claim holds as a whole has the claim here."""
        compact_regularly(self)

    def compact(self) -> None:
        for pool in self._pools.values():
            shrink(pool)

    def __len__(self) -> int:
        return len(self._claims)

    def shown(self, uid: str, key: tuple[str, str], devices: Sequence[AllocatedDevice], version: str) -> bool:
        """The watch shows the claim with these devices; `version`: its resourceVersion, empty if a list has shown it.

        Returns whether the devices are new. Devices with admin access do not count.
        """
        own = tuple(_part(device) for device in devices if not device.admin)
        known = self._claims.get(uid)
        if known is not None and known.parts == own:
            return False
        self.gone(uid)
        if not own:
            return False
        holder = self._claims[uid] = _Holder(uid, key, int(version) if version.isdigit() else _UNKNOWN, own)
        for device in holder.devices:
            pool = self._pools.setdefault(device[:2], {})
            held = pool.get(device)
            if held is None and not any(part.share for part in own):
                pool[device] = holder
                continue
            if not isinstance(held, _Held):
                alone, held = held, _Held()
                pool[device] = held
                if alone is not None:
                    held.add(alone, device)
            held.add(holder, device)
        return True

    def gone(self, uid: str) -> None:
        """The claim is gone, or has lost its devices."""
        known = self._claims.pop(uid, None)
        if known is None:
            return
        for device in known.devices:
            pool = self._pools[device[:2]]
            held = pool[device]
            if isinstance(held, _Held):
                held.remove(known, device)
            if held is known or (isinstance(held, _Held) and not held.holders):
                del pool[device]
            if not pool:
                del self._pools[device[:2]]

    def rival(self, uid: str) -> Rival | None:
        """An earlier claim with which this one has too much: a device that is not shared, or more of a capacity or a
        counter than there is.
        """
        own = self._claims.get(uid)
        if own is None:
            return None
        for part in own.parts:
            held = self._pools[part.device[:2]][part.device]
            if isinstance(held, _Held) and len(held.holders) > 1 and (found := self._rival_at(own, part, held)):
                return found
        return self._rival_for_counters(own)

    # Internals

    def _rival_at(self, own: _Holder, part: _Part, held: _Held) -> Rival | None:
        if held.whole:
            for other in _earlier(own, held):
                if any(not (each.share and part.share) for each in other.of(part.device)):
                    return Rival(part.device, other.key)
        device = None if self.defined is None else self.defined.devices(part.device[:2]).get(part.device[2])
        for name, capacity in () if device is None else device.shape.capacity.items():
            if held.consumed.get(name, 0) > capacity.value.nanos:
                earlier = _earlier(own, held)
                total = sum(_consumed(each, part.device, name) for each in (own, *earlier))
                if earlier and total > capacity.value.nanos:
                    return Rival(part.device, _latest(earlier).key, capacity=name)
        return None

    def _rival_for_counters(self, own: _Holder) -> Rival | None:
        defined = self.defined
        if defined is None or not defined.any_counters:
            return None
        for pool_id in dict.fromkeys(device[:2] for device in own.devices):
            known = defined.devices(pool_id)
            mine = [device for device in own.devices if device[:2] == pool_id]
            asked = {use[:2]: device for device in mine for use in _uses(known, device)}
            if asked and (found := self._rival_in_pool(own, pool_id, asked)) is not None:
                return found
        return None

    def _rival_in_pool(self, own: _Holder, pool_id: PoolId, asked: Mapping[tuple[str, str], DeviceId]) -> Rival | None:
        """`asked`: a device of the claim for each (counter set, counter) that it consumes."""
        assert self.defined is not None
        known, values = self.defined.devices(pool_id), self.defined.counters(pool_id)
        consumed = dict.fromkeys(asked, 0)
        rivals: dict[tuple[str, str], list[_Holder]] = {each: [] for each in asked}
        for device, held in self._pools[pool_id].items():
            uses = [use for use in _uses(known, device) if use[:2] in asked]
            earlier = _earlier(own, held) if uses else []
            if not uses or not (earlier or own in _all(held)):
                continue
            for name, counter, amount in uses:
                consumed[name, counter] += amount
                rivals[name, counter] += earlier
        for (name, counter), amount in consumed.items():
            if amount > values.get(name, {}).get(counter, 0) and rivals[name, counter]:
                return Rival(asked[name, counter], _latest(rivals[name, counter]).key, counter=f"{name}/{counter}")
        return None


def _uses(known: Mapping[str, Device], device: DeviceId) -> Consumption:
    """Returns the device's consumption of counters."""
    return known[device[2]].consumes if device[2] in known else ()


def _part(device: AllocatedDevice) -> _Part:
    consumed: Mapping[str, int] = device.consumed or {}
    return _Part(device.device_id, device.share_id, tuple(consumed.items()) if device.share_id else ())


def _all(held: _Holder | _Held) -> Collection[_Holder]:
    return held.holders.values() if isinstance(held, _Held) else (held,)


def _earlier(own: _Holder, held: _Holder | _Held) -> list[_Holder]:
    """The other holders that got the device earlier, or at an unknown time."""
    return [each for each in _all(held) if each is not own and each.version <= own.version]


def _latest(holders: Iterable[_Holder]) -> _Holder:
    return max(holders, key=lambda each: each.version)


def _consumed(holder: _Holder, device: DeviceId, capacity: str) -> int:
    return sum(amount for part in holder.of(device) for name, amount in part.consumed if name == capacity)
