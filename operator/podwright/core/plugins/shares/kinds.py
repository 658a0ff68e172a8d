"""Kinds of devices that pods share: what is free of each device of a node, and what a pod asks for.

A kind is an extended resource whose units lie on devices, or the capacity of devices that claims share. Of a resource,
the device plugin chooses the devices. As good ones do, it is taken to choose the fullest that have room, in the order
in which pods came to the node. Of claims, it is known which devices they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from podwright.core.framework.validation import Rule, declared
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import is_extended_resource
from podwright.core.plugins.devices.pod_claims import ClaimsError, claims_of
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

MAX_KINDS: Final = 8
MAX_DEVICES: Final = 64
"""On a node with more devices, only the sum counts."""
WHOLE: Final = inf


class ShareAsk(NamedTuple):
    """A pod's request for one kind: how many devices, and how much of each; WHOLE: all of it. 0 devices: nothing."""

    devices: int
    share: float


NOTHING: Final = ShareAsk(0, 0)


class DeviceRoom(NamedTuple):
    """One device of a node, in units of its kind."""

    free: float
    size: float


@dataclass(frozen=True, slots=True)
class SharedDevices:
    """See the module. Either a resource or a device class is given."""

    resource: str = declared("An extended resource, each unit of which lies on one device.", default="", maxLength=253)
    units_per_device: int = declared(
        "How many units of the resource one device has. A pod that requests more gets whole devices.",
        default=1,
        format="int64",
        minimum=1,
    )
    device_class: str = declared(
        "The DeviceClass by which claims ask for the devices, in place of a resource.", default="", maxLength=253
    )
    driver: str = declared("The driver of the devices of that class.", default="", maxLength=253)
    capacity: str = declared(
        "The capacity of these devices that claims consume, for example memory.", default="", maxLength=253
    )

    RULES = (
        Rule(
            cel="(self.resource != '') != (self.deviceClass != '')",
            holds=lambda self: bool(self.resource) != bool(self.device_class),
            message="either a resource or a device class is required",
        ),
        Rule(
            cel="self.resource != '' || (self.driver != '' && self.capacity != '')",
            holds=lambda self: bool(self.resource or (self.driver and self.capacity)),
            message="driver and capacity are required with a device class",
        ),
        Rule(
            cel="self.resource == '' || (self.resource.contains('/') && !self.resource.contains('kubernetes.io/') && "
            "!self.resource.startsWith('requests.'))",
            holds=lambda self: not self.resource or is_extended_resource(self.resource),
            message="must be an extended resource, such as example.com/gpu-share",
            path=".resource",
        ),
    )

    def ask(self, pod: PodInfo, cache: Cache) -> ShareAsk:
        """Returns the pod's ask; of claims, that of the first request that names the class."""
        if self.resource:
            return self.ask_of(pod.requests.amounts)
        if not pod.resource_claims:
            return NOTHING
        try:
            claims = claims_of(pod, cache.devices.claims)
        except ClaimsError:
            return NOTHING
        asks = (ask for claim in claims for request in claim.spec.requests for ask in request.asks)
        found = next((ask for ask in asks if ask.device_class == self.device_class), None)
        if found is None:
            return NOTHING
        share = found.capacity.get(self.capacity)
        return ShareAsk(found.count, WHOLE if share is None else float(share.nanos))

    def ask_of(self, amounts: Mapping[str, int]) -> ShareAsk:
        """Returns the ask of requests with these amounts."""
        amount = amounts.get(self.resource, 0)
        return ShareAsk(-(-amount // self.units_per_device), min(amount, self.units_per_device)) if amount else NOTHING

    def devices(self, node: NodeInfo, cache: Cache) -> list[DeviceRoom]:
        """The devices of the node; none if it has more than MAX_DEVICES."""
        if not self.resource:
            return self._claimed(node, cache)
        size = self.units_per_device
        count = node.allocatable(self.resource) // size
        if not 0 < count <= MAX_DEVICES:
            return []
        free: list[float] = [size] * count
        for pod in node.pods.values():
            take(free, self.ask(pod, cache))
        return [DeviceRoom(each, size) for each in free]

    def _claimed(self, node: NodeInfo, cache: Cache) -> list[DeviceRoom]:
        usage, found = cache.devices.claims.usage, []
        for pool in cache.devices.index.pools_of(node.slot):
            for item in pool.devices if pool.usable and pool.pool_id[0] == self.driver else ():
                given = item.device.shape.capacity.get(self.capacity)
                if given is None or given.value.nanos <= 0 or item.device.counter_sets:
                    continue
                size = given.value.nanos
                left = size - usage.consumed(item.device_id).get(self.capacity, 0)
                whole = usage.in_use(item.device_id)
                found.append(DeviceRoom(0 if whole else max(left, 0), size))
        return found if len(found) <= MAX_DEVICES else []


def take(free: list[float], ask: ShareAsk) -> None:
    """Takes it from the fullest devices that have room. If they are too few, because another scheduler put the pod
    there, from those with most room.
    """
    fitting = sorted((each for each in range(len(free)) if free[each] >= ask.share), key=free.__getitem__)
    if len(fitting) >= ask.devices:
        for device in fitting[: ask.devices]:
            free[device] -= ask.share
        return
    left = ask.devices * ask.share
    for device in sorted(range(len(free)), key=free.__getitem__, reverse=True):
        part = min(free[device], left)
        free[device] -= part
        left -= part
