"""Why a pod does not get its devices, in words: which request, and what keeps it from the device that comes closest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podwright.core.devices.counters import AvailableCounters
from podwright.core.devices.problem import AllocationProblem, PreparedAsk
from podwright.core.devices.selectors import YES, SelectorError
from podwright.core.framework.explaining import MOST_NAMED, Why, some
from podwright.core.objects.devices.claims import ALL, Ask, ResourceClaim
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.quantity import canonical
from podwright.core.objects.raw import shortened
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.objects.wording import counted, listed
from podwright.core.plugins.devices.pod_claims import ClaimsError, claims_of
from podwright.core.state.cache import Cache
from podwright.core.state.devices import CLASS_KIND
from podwright.core.state.devices.claims import CLAIM_KIND
from podwright.core.state.devices.pools import Pool, PoolDevice
from podwright.core.state.nodeinfo import NodeInfo

TOGETHER, SHARED, TAKEN, TAINTED, FEWER, UNMATCHED, NONE = range(7)
"""The obstacles between a request and the closest device, the smallest first. TOGETHER: only the other requests.
SHARED: too little is left of the device or its board. FEWER: the node has fewer matching devices than the request asks
for.
"""
_REMOTENESS: Final = (2.2, 1.8, 1.9, 2.4, 2.6, 2.8, 3.2)
ELSEWHERE: Final = 1.5
"""How far nodes are where the devices of an allocated claim are not available: its pods may end."""
_SHAPES_READ: Final = 64
"""How many different devices are compared with a class to say whether any is of it."""


class Shortage(NamedTuple):
    """A request that a node cannot serve. `free`: how many devices it could have. `closest`: the device that comes
    closest, with its pool.
    """

    kind: int
    claim: str
    asked: PreparedAsk
    free: int
    closest: tuple[Pool, PoolDevice] | None


class DevicesHere:
    """The obstacles between a pod's claims and the devices of nodes."""

    def __init__(self, cache: Cache, problem: AllocationProblem, names: Sequence[str]) -> None:
        """`names`: of the problem's claims."""
        cache.devices.index.refresh()
        self._cache = cache
        self._problem = problem
        self._names = names
        self._usage = cache.devices.claims.usage
        self._counters = AvailableCounters(self._usage)

    def remoteness(self) -> NDArray[np.float64]:
        """float[nodes]."""
        size = self._cache.table.size
        found = np.full(size, _REMOTENESS[NONE])
        for slot in np.flatnonzero(self._cache.table.valid).tolist():
            if self._cache.devices.index.pools_of(slot):
                found[slot] = _REMOTENESS[self.shortage(slot).kind]
        return found

    def shortage(self, slot: int) -> Shortage:
        """The request that is farthest from being served by the node in this row."""
        worst: Shortage | None = None
        for name, claim in zip(self._names, self._problem.claims, strict=True):
            for request in claim.requests:
                best = min((self._of_ask(name, ask, slot) for ask in request.asks), key=lambda each: each.kind)
                if worst is None or best.kind > worst.kind:
                    worst = best
        assert worst is not None, "a problem has a request"
        return worst

    def _of_ask(self, name: str, asked: PreparedAsk, slot: int) -> Shortage:
        node = self._cache.node_at(slot).present
        free, matching, kind, closest = 0, 0, NONE, None
        for pool in self._pools(slot):
            for item in pool.devices:
                if item.slice.per_device and not item.device.reach.covers(node.name, node.labels):
                    continue
                own = self._kind(asked, pool, item)
                free += own == TOGETHER
                matching += own != UNMATCHED
                if own != TOGETHER and own < kind:
                    kind, closest = own, (pool, item)
        if free and (kind in (NONE, UNMATCHED) if asked.all_devices else free >= asked.ask.count):
            return Shortage(TOGETHER, name, asked, free, None)
        if 0 < matching < asked.ask.count and not asked.all_devices:
            return Shortage(FEWER, name, asked, free, None)
        return Shortage(kind, name, asked, free, closest)

    def _kind(self, asked: PreparedAsk, pool: Pool, item: PoolDevice) -> int:
        matcher = asked.matcher
        if matcher is None or (matcher.results()[item.shape_number] or matcher.match(item.shape_number)) != YES:
            return UNMATCHED
        if not asked.ask.admin and not asked.tolerates(item.taints):
            return TAINTED
        if not asked.ask.admin and self._usage.in_use(item.device_id):
            return TAKEN
        return SHARED if next(self._lacks(asked, pool, item), "") else TOGETHER

    def _lacks(self, asked: PreparedAsk, pool: Pool, item: PoolDevice) -> Iterator[str]:
        """Why the request cannot have the matching device now."""
        if asked.ask.admin:
            return
        if self._usage.in_use(item.device_id):
            yield f"is in use{self._user(item)}"
            return
        consumption = asked.consumption(item.device.shape)
        if consumption is None:
            yield f"cannot give {', '.join(f'{amount.text} {name}' for name, amount in asked.ask.capacity.items())}"
            return
        consumed = self._usage.consumed(item.device_id)
        for name, amount, capacity in consumption.amounts:
            left = capacity - consumed.get(name, 0)
            if item.device.shape.allow_multiple and amount > left:
                like = item.device.shape.capacity[name].value.text
                yield (
                    f"has {canonical(left, like)} of {canonical(capacity, like)} {name} left,"
                    f" {canonical(amount, like)} are needed"
                )
        if item.device.consumes and not self._usage.used(item.device_id):
            available = self._counters.of(pool).amounts
            for board, counter, amount in item.device.consumes:
                if (left := available.get((board, counter), 0)) < amount:
                    yield (
                        f"needs {canonical(amount, '')} {counter} of {board}, which it shares with other devices,"
                        f" and {canonical(left, '')} are left"
                    )

    def _user(self, item: PoolDevice) -> str:
        """The claim that has the device, and its pods."""
        for raw in self._cache.store.list(CLAIM_KIND):
            metadata = raw["metadata"]
            claim = self._cache.devices.claims.get(str(metadata.get("namespace")), str(metadata["name"]))
            allocation = None if claim is None else claim.allocation
            devices = () if allocation is None else allocation.devices
            if claim is not None and any(each.device_id == item.device_id for each in devices):
                users = users_of(self._cache, claim)
                return f" by claim {claim.key}{f' of {users}' if users else ''}"
        return ""

    def why(self, slot: int) -> Why:
        """Which request cannot be served by the node in this row, and the device that comes closest."""
        short = self.shortage(slot)
        ask = short.asked.ask
        count = sum(len(pool.devices) for pool in self._pools(slot))
        of = f"{short.free} of the node's {counted(count, 'device')} {'is' if short.free == 1 else 'are'} free for it"
        detail = f"claim {short.claim} asks in request {ask.reference} for {_amount(ask)}"
        if short.kind == NONE:
            lacking = (
                "there is no device in the cluster" if self._cache.devices.index.empty else "the nodes have no devices"
            )
            return Why(text=lacking, detail=f"{detail}; the node has no devices")
        if short.kind == FEWER:
            return Why(text="a node has fewer devices than a claim asks for", detail=f"{detail}; {of}")
        if short.kind == TOGETHER or short.closest is None:
            return Why(text="each request of its claims could be met alone, but not all together", detail=detail)
        pool, item = short.closest
        if short.kind == UNMATCHED:
            item, text, lack = self._unmatched(short.asked, slot)
        elif short.kind == TAINTED:
            taint = next(each for each in item.taints if not short.asked.tolerates((each,)))
            text = "a device has a taint that the claim does not tolerate"
            lack = f"has the taint {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
        else:
            text, lack = "too few devices are free", "; ".join(self._lacks(short.asked, pool, item))
        return Why(text=text, detail=f"{detail}; {of}; the closest, {'/'.join(item.device_id)}, {lack}")

    def _unmatched(self, asked: PreparedAsk, slot: int) -> tuple[PoolDevice, str, str]:
        """The device that matches most of the selectors, what none matches, and what this one does not match."""
        from podwright.core.devices.compiling import compile_expression  # noqa: PLC0415 -- CEL takes long

        ask, of_class = asked.ask, asked.device_class.selectors if asked.device_class else ()
        texts = [*of_class, *ask.selectors]
        different = {each.device.shape: each for pool in self._pools(slot) for each in pool.devices}
        best, most = next(iter(different.values())), -1
        for item in islice(different.values(), _SHAPES_READ):
            matched = 0
            with suppress(SelectorError):
                while matched < len(texts) and compile_expression(texts[matched] or "")(item.device.shape, _go_on):
                    matched += 1
            if matched > most:
                best, most = item, matched
        in_class = most < len(of_class)
        index = most if in_class else most - len(of_class)
        owner = f"class {ask.device_class}" if in_class else f"request {ask.reference}"
        expression = shortened(texts[most] or "") if most < len(texts) else ""
        has = [
            f"{name} is {value}" for name, value in _attributes(best) if name.rsplit("/", maxsplit=1)[-1] in expression
        ]
        text = (
            f"no device is of class {ask.device_class}" if in_class else "no device matches the selectors of the claim"
        )
        lack = f"does not match selector #{index} of {owner}: {expression}"
        return best, text, f"{lack} ({', '.join(has[:MOST_NAMED])})" if has else lack

    def _pools(self, slot: int) -> list[Pool]:
        return [pool for pool in self._cache.devices.index.pools_of(slot) if pool.usable]


def _go_on() -> None:
    """A short evaluation does not pause."""


def _attributes(item: PoolDevice) -> Iterator[tuple[str, object]]:
    """The attributes and capacities of a device, with their values as in its slice."""
    for name, (_, value) in item.device.shape.attributes.items():
        yield name, value
    for name, capacity in item.device.shape.capacity.items():
        yield name, capacity.value.text


def _amount(ask: Ask) -> str:
    amount = "all devices" if ask.mode == ALL else counted(ask.count, "device")
    parts = [f"{each.text} {name}" for name, each in ask.capacity.items()]
    return f"{amount} of class {ask.device_class}{f' with {listed(parts)}' if parts else ''}"


def users_of(cache: Cache, claim: ResourceClaim) -> str:
    """Returns the placed pods that use the claim, such as `pod default/a`, or its pod group; "" if no pod does."""
    if claim.for_groups:
        return f"pod group {listed([key.partition(':')[2] for key in claim.for_groups[:MOST_NAMED]])}"
    pods = (info.pods[uid].key for uid in claim.reserved_for if (info := cache.placement(uid)) is not None)
    names = [*islice(pods, MOST_NAMED)]
    return f"pod{'' if len(names) == 1 else 's'} {listed(names)}" if names else ""


def why_elsewhere(cache: Cache, claims: Sequence[ResourceClaim], node: NodeInfo) -> Why:
    """Which allocated claim is not available on the node, where it is, and who uses it."""
    found = []
    for claim in claims:
        allocation = claim.allocation
        affinity = None if allocation is None else allocation.node_affinity
        if affinity is None or affinity.matches(node.present.labels, node.name):
            continue
        there = [each.name for each in cache.table.nodes if each and affinity.matches(each.labels, each.name)]
        where = f"on {listed(there)}" if there else "on a node that does not exist"
        users = users_of(cache, claim)
        found.append(f"claim {claim.key} has its devices {where}{f', for {users}' if users else ''}")
    return Why("ClaimElsewhere", "a claim of the pod has its devices on another node", some(found)) if found else Why()


def why_nowhere(cache: Cache, pod: PodInfo, message: str) -> Why:
    if "is being deleted" in message:
        return Why("ClaimTerminating", f"a claim of the pod is going away: {message}")
    if (missing := _missing_claim(cache, pod)) is not None:
        return missing
    if not (classes := missing_classes(cache, pod)):
        return Why()
    known = [str(raw["metadata"]["name"]) for raw in cache.store.list(CLASS_KIND)]
    asking = [
        claim.key
        for claim in open_claims(cache, pod)
        if any(ask.device_class in classes for request in claim.spec.requests for ask in request.asks)
    ]
    what = (
        f"class {classes[0]}, which does not exist{did_you_mean(classes[0], known)}"
        if len(classes) == 1
        else f"classes {listed(classes)}, which do not exist"
    )
    return Why("DeviceClassMissing", f"claim {listed(asking)} asks for devices of {what}")


def _missing_claim(cache: Cache, pod: PodInfo) -> Why | None:
    """The first claim that the pod names, or that is to be made for it from a template, and that does not exist."""
    for entry in pod.resource_claims:
        if entry.claim and cache.devices.claims.get(pod.namespace, entry.claim) is None:
            known = (str(raw["metadata"]["name"]) for raw in cache.store.list(CLAIM_KIND, pod.namespace))
            text = f"its ResourceClaim {pod.namespace}/{entry.claim} does not exist{did_you_mean(entry.claim, known)}"
            return Why("DeviceClaimMissing", text)
        if entry.template and entry.name not in pod.generated_claims:
            text = (
                f"no ResourceClaim has been made for it from the template {pod.namespace}/{entry.template}: the "
                "template may be missing"
            )
            return Why("DeviceClaimMissing", text)
    return None


def open_claims(cache: Cache, pod: PodInfo) -> list[ResourceClaim]:
    """The claims of the pod that have no devices yet."""
    try:
        return [claim for claim in claims_of(pod, cache.devices.claims) if claim.allocation is None]
    except ClaimsError:
        return []


def missing_classes(cache: Cache, pod: PodInfo) -> list[str]:
    """The names of device classes that its open claims ask for and that do not exist."""
    asks = [ask for claim in open_claims(cache, pod) for request in claim.spec.requests for ask in request.asks]
    names = dict.fromkeys(ask.device_class for ask in asks if ask.device_class)
    return [name for name in names if cache.devices.device_class(name) is None]
