"""The devices that victims free: those of claims that only victims use. For policies under which pods preempt for
devices.

kube-scheduler does not preempt for devices. After an eviction they are free only when the claim controller has released
the claims, so until then the pod that preempted must not evict more pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podwright.core.objects.devices.claims import AllocatedDevice, ResourceClaim
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.devices.pod_claims import ClaimsError, claims_of
from podwright.core.state.cache import Cache
from podwright.core.state.devices.claims import CLAIM_KIND, ClaimState


def freed_by(victims: Mapping[str, PodInfo], claims: ClaimState) -> list[AllocatedDevice]:
    """The devices that are free without these pods, by uid."""
    found: dict[str, ResourceClaim] = {}
    for victim in victims.values():
        for claim in _claims(victim, claims):
            if claim.allocation is not None and claim.reserved_for and victims.keys() >= set(claim.reserved_for):
                found[claim.uid] = claim
    return [device for claim in found.values() if claim.allocation is not None for device in claim.allocation.devices]


def _claims(victim: PodInfo, claims: ClaimState) -> Iterable[ResourceClaim]:
    try:
        named = claims_of(victim, claims)
    except ClaimsError:
        return ()
    special = claims.created_for(victim.uid)
    return named if special is None else (*named, special)


def waits_for_release(pod: PodInfo, cache: Cache) -> bool:
    """True if the pod is nominated to a node on which devices are about to be released, because no pod uses their
    claims any more.

    Linear in all claims, for nominated pods only.
    """
    node = cache.nominator.node_of(pod.uid) or pod.nominated_node_name
    slot = cache.table.slot_of(node) if node else None
    if slot is None:
        return False
    cache.devices.index.refresh()
    pools = {pool.pool_id for pool in cache.devices.index.pools_of(slot)}
    for raw in cache.store.list(CLAIM_KIND):
        metadata = raw["metadata"]
        claim = cache.devices.claims.get(metadata.get("namespace") or "", metadata["name"])
        if (
            claim is not None
            and claim.allocation is not None
            and claim.reserved_for
            and any(device.device_id[:2] in pools for device in claim.allocation.devices)
            and all(cache.placement(uid) is None for uid in claim.reserved_for)
            # A group keeps its claims while it exists.
            and not any(cache.groups.get(key) for key in claim.for_groups)
        ):
            return True
    return False
