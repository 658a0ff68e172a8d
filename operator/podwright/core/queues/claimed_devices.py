"""ClaimedDevices: what pods take of device classes of which any queue has a quota, by the names that ResourceQuotas
use.

Counted are the devices that the claims of a pod request, and once a claim is allocated, those that it has got. Until
then, a request for all devices of a node counts with the most that any node has free, so that no limit is exceeded. Of
alternatives, each class counts with the most that one of them requests. A claim counts once in a queue, with the first
of its pods that has a node. An extended resource counts for the class that stands for it. Devices for administrators
count for nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSet
from typing import Final

from podwright.core.devices.offer import MAX_RESULTS
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.devices.claims import EXACT, Ask, ResourceClaim
from podwright.core.objects.items_by_key import drop
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.device_supply import DeviceSupply
from podwright.core.queues.flavors import parts_of
from podwright.core.state.cache import Cache
from podwright.core.state.devices import CLASS_KIND
from podwright.core.state.devices.claims import CLAIM_KIND, Key
from podwright.core.state.object_store import Object, key_of

DEVICES_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
"""Ends the resource that stands for the devices of a class, after its name."""
_NOTHING: Final[Mapping[str, int]] = {}


def is_of_class(resource: str) -> bool:
    return resource.endswith(DEVICES_OF_CLASS)


def class_of(resource: str) -> str:
    """The class for whose devices the resource stands."""
    return resource.removesuffix(DEVICES_OF_CLASS)


class ClaimedDevices:
    """See the module. `changed` is called with the uids of pods that take something else now."""

    def __init__(self, cache: Cache, changed: Callable[[Iterable[str]], None]) -> None:
        self.classes: frozenset[str] = frozenset()
        """The device classes of which any queue has a quota. Without any, nothing is counted."""
        self.supply = DeviceSupply(cache)
        self._devices = cache.devices
        self._store = cache.store
        self._changed = changed
        self._version = -1
        self._pods: dict[Key, dict[str, None]] = {}
        """By claim: the uids of the pods that name it."""
        self._users: dict[tuple[str, Key], dict[str, None]] = {}
        """By queue and claim: the uids of its pods with a node. The first pays for it."""
        self._counted: dict[str, tuple[PodInfo, Mapping[str, int]]] = {}
        """By uid: the pods that are counted, and what they take."""
        cache.store.listen(CLAIM_KIND, self._claim_changed)
        compact_regularly(self)

    def define(self, resources: Iterable[str]) -> bool:
        """Queues have quotas of these resources from now on. Returns whether pods may take something else then."""
        plain = {parts_of(name)[0] for name in resources}
        classes = frozenset(class_of(name) for name in plain if is_of_class(name))
        version = self._store.version(CLASS_KIND) if classes else -1
        if (classes, version) == (self.classes, self._version):
            return False
        self.classes, self._version = classes, version
        for known in (self._pods, self._users, self._counted):
            known.clear()
        self.supply.define(classes)
        return True

    @property
    def stale(self) -> bool:
        """True if other classes may stand for extended resources now."""
        return bool(self.classes) and self._version != self._store.version(CLASS_KIND)

    # What pods take

    def takes(self, queue: str, pod: PodInfo, seen: MutableSet[Key] | None = None) -> Mapping[str, int]:
        """Returns the devices that a pod would take if it got a node in this queue now. `seen`: claims that count
        already; the pod's are added.
        """
        found: Counter[str] = Counter()
        for claim in self._claims_of(pod):
            key = claim.namespace, claim.name
            if seen is not None:
                if key in seen:
                    continue
                seen.add(key)
            if next(iter(self._users.get((queue, key), ())), pod.uid) == pod.uid:
                found.update(self._devices_of(claim))
        found.update(self._of_extended_resources(pod))
        return found

    def own(self, pod: PodInfo) -> Mapping[str, int]:
        """Returns the devices that a pod takes and shares with no other pod."""
        found = Counter(self._of_extended_resources(pod))
        for claim in self._claims_of(pod):
            if claim.owner is not None and claim.owner.uid == pod.uid:
                found.update(self._devices_of(claim))
        return found

    def counted(self, uid: str) -> Mapping[str, int]:
        """Returns the devices that count for a pod."""
        known = self._counted.get(uid)
        return _NOTHING if known is None else known[1]

    # Counting

    def count(self, queue: str, pod: PodInfo, *, placed: bool) -> Mapping[str, int]:
        """Counts the pod with what it takes now, until `leave` or the next call. `placed`: it has a node, and pays for
        the claims that no other pod of the queue pays for.
        """
        amounts = self.takes(queue, pod)
        self._counted[pod.uid] = pod, amounts
        for key in self._keys_of(pod):
            self._pods.setdefault(key, {})[pod.uid] = None
            if placed:
                self._users.setdefault((queue, key), {})[pod.uid] = None
        return amounts

    def relieved(self, queue: str, pod: PodInfo) -> list[str]:
        """The uids of pods that share a claim for which this one alone pays in the queue."""
        alone = [key for key in self._keys_of(pod) if [*self._users.get((queue, key), ())] == [pod.uid]]
        return [uid for key in alone for uid in self._pods[key] if uid != pod.uid]

    def leave(self, queue: str, uid: str) -> list[str]:
        """The pod is no longer counted. Returns the uids of pods that may take now what it has paid for."""
        if uid not in self._counted:
            return []
        pod, _ = self._counted.pop(uid)
        heirs: list[str] = []
        for key in self._keys_of(pod):
            pods, users = self._pods.get(key, {}), self._users.get((queue, key), {})
            drop(self._pods, key, pod.uid)
            if pod.uid in users:
                paid = next(iter(users)) == pod.uid
                drop(self._users, (queue, key), pod.uid)
                if not users:
                    heirs += pods
                elif paid:
                    heirs.append(next(iter(users)))
        return heirs

    # Internals

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        raw = after if after is not None else before
        if self.classes and raw is not None and (pods := self._pods.get(key_of(raw))):
            self._changed([*pods])

    @staticmethod
    def _keys_of(pod: PodInfo) -> Iterator[Key]:
        for entry in pod.resource_claims:
            if name := entry.claim or pod.generated_claims.get(entry.name, ""):
                yield pod.namespace, name

    def _claims_of(self, pod: PodInfo) -> Iterator[ResourceClaim]:
        for namespace, name in dict.fromkeys(self._keys_of(pod)):
            if (claim := self._devices.claims.get(namespace, name)) is not None:
                yield claim

    def _devices_of(self, claim: ResourceClaim) -> Mapping[str, int]:
        asks = [ask for request in claim.spec.requests for ask in request.asks if not ask.admin]
        found: Counter[str] = Counter()
        if claim.allocation is not None:
            classes = {ask.reference: ask.device_class for ask in asks}
            found.update(
                classes[device.request]
                for device in claim.allocation.devices
                if device.request in classes and not device.admin
            )
        else:
            for request in claim.spec.requests:
                found.update(self._most(ask for ask in request.asks if not ask.admin))
        return self._named(found)

    def _most(self, asks: Iterable[Ask]) -> Mapping[str, int]:
        """By class: the most devices that one of these alternatives requests."""
        found: dict[str, int] = {}
        for ask in asks:
            if ask.device_class in self.classes:
                found[ask.device_class] = max(found.get(ask.device_class, 0), self._count_of(ask))
        return found

    def _count_of(self, ask: Ask) -> int:
        if ask.mode == EXACT:
            return ask.count
        # It may tolerate the taints of devices that do not count as free.
        return MAX_RESULTS if ask.tolerations else min(MAX_RESULTS, self.supply.most_on_a_node(ask.device_class))

    def _of_extended_resources(self, pod: PodInfo) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for resource, amount in pod.requests.amounts.items() if self._devices.any_class else ():
            if amount and (device_class := self._devices.class_of_resource(resource)) is not None:
                found[device_class.name] += amount
        return self._named(found)

    def _named(self, devices: Mapping[str, int]) -> Mapping[str, int]:
        return {name + DEVICES_OF_CLASS: count for name, count in devices.items() if name in self.classes and count}
