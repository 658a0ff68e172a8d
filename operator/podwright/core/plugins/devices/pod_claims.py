"""The ResourceClaims of a pod, and why it cannot be scheduled with them.

The texts are kube-scheduler's (`foreachPodResourceClaim`, and `resourceclaim.Name`, `IsForPod` and `BindTo` in
k8s.io/dynamic-resource-allocation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import ResourceClaim
from podwright.core.objects.pod import PodClaim, PodInfo
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, PodGroup, group_key
from podwright.core.state.devices.claims import ClaimState
from podwright.core.state.pod_groups import PodGroups


class ClaimsError(Exception):
    """A claim of the pod is missing, is being deleted, or belongs to another pod. `soon`: its controller is about to
    create it.
    """

    def __init__(self, text: str, *, soon: bool = False) -> None:
        super().__init__(text)
        self.soon = soon


def claims_of(pod: PodInfo, claims: ClaimState) -> Sequence[ResourceClaim]:
    """The claims that the pod names or that were created for it, in the pod's order. Raises ClaimsError."""
    found = []
    for entry in pod.resource_claims:
        name, generated = entry.claim, not entry.claim
        if generated:
            if not entry.template:
                raise ClaimsError(
                    f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
                )
            if entry.name not in pod.generated_claims:
                raise ClaimsError(f'pod "{pod.key}": ResourceClaim not created yet', soon=True)
            name = pod.generated_claims[entry.name]
            if not name:
                continue  # no claim is needed for this entry
        claim = claims.get(pod.namespace, name)
        if claim is None:
            raise ClaimsError(f'could not find ResourceClaim "{pod.namespace}/{name}"', soon=generated)
        if claim.terminating:
            raise ClaimsError(f'resourceclaim "{name}" is being deleted')
        if generated and not _is_for(claim, pod):
            raise ClaimsError(f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
        found.append(claim)
    return found


def names(pod: PodInfo, claim: ResourceClaim) -> bool:
    """True if the pod names this claim."""
    named = (entry.claim or pod.generated_claims.get(entry.name) for entry in pod.resource_claims)
    return claim.name in named


def _is_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    """True if the claim was made for the pod, or for its group."""
    owner = claim.owner
    if owner is None or owner.uid == pod.uid:
        return owner is not None
    of_group = owner.kind == KIND and owner.api_version.startswith(f"{WORKLOAD_API}/")
    return of_group and pod.group == group_key(WORKLOAD_API, pod.namespace, owner.name)


@dataclass(frozen=True, slots=True)
class Consumer:
    """For whom a claim is reserved. `group`: the key of the pod group; empty for a pod."""

    name: str
    uid: str
    group: str = ""

    @property
    def reference(self) -> Mapping[str, str]:
        """The entry of `status.reservedFor`."""
        if self.group:
            return {"apiGroup": WORKLOAD_API, "resource": "podgroups", "name": self.name, "uid": self.uid}
        return {"resource": "pods", "name": self.name, "uid": self.uid}


def consumer_of(claim: ResourceClaim, pod: PodInfo, groups: PodGroups) -> Consumer:
    """The pod's group if it has the same entry for the claim as the pod, else the pod."""
    group = groups.get(pod.group) if pod.group else None
    if group is not None:
        for entry in pod.resource_claims:
            name = entry.claim or pod.generated_claims.get(entry.name)
            if name == claim.name and holds(group, entry):
                return Consumer(group.name, group.uid, group.key)
    return Consumer(pod.name, pod.uid)


def holds(group: PodGroup, entry: PodClaim) -> bool:
    """True if the group has the same entry as the pod, so that the claim is the group's."""
    return (entry.name, entry.claim, entry.template) in group.claims
