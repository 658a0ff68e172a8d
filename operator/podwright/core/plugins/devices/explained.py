"""The devices that a pod waits for, in words: what its claims ask for, and what a node has."""

from __future__ import annotations

from collections.abc import Iterator

from podwright.core.framework.explaining import MOST_NAMED, Why
from podwright.core.objects.devices.claims import ALL, ResourceClaim
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.objects.wording import counted, listed
from podwright.core.plugins.devices.pod_claims import ClaimsError, claims_of
from podwright.core.state.cache import Cache
from podwright.core.state.devices import CLASS_KIND
from podwright.core.state.nodeinfo import NodeInfo


def why_not_here(cache: Cache, pod: PodInfo, node: NodeInfo) -> Why:
    asked = [*wanted(cache, pod)]
    return Why(detail="; ".join((*asked[:MOST_NAMED], offered(cache, node))) if asked else "")


def why_nowhere(cache: Cache, pod: PodInfo, message: str) -> Why:
    if "is being deleted" in message:
        return Why("ClaimTerminating", f"a claim of the pod is going away: {message}")
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


def wanted(cache: Cache, pod: PodInfo) -> Iterator[str]:
    """What each open claim asks for. Of alternatives, only the first one is named."""
    for claim in open_claims(cache, pod):
        asks = [request.asks[0] for request in claim.spec.requests if request.asks]
        amounts = ["all devices" if ask.mode == ALL else counted(ask.count, "device") for ask in asks]
        parts = [f"{amount} of class {ask.device_class}" for amount, ask in zip(amounts, asks, strict=True)]
        yield f"claim {claim.key} asks for {listed(parts)}"


def offered(cache: Cache, node: NodeInfo) -> str:
    """How many devices the node can use, and how many of them are allocated or tainted."""
    cache.devices.index.refresh()
    devices = [each for pool in cache.devices.index.pools_of(node.slot) for each in pool.devices]
    if not devices:
        return "the node has no devices"
    used = sum(cache.devices.claims.usage.in_use(each.device_id) for each in devices)
    tainted = sum(bool(each.taints) for each in devices)
    parts = [f"{used:,} in use"] if used else []
    parts += [f"{tainted:,} with taints"] if tainted else []
    return f"the node has {counted(len(devices), 'device')}{f', {listed(parts)}' if parts else ''}"
