"""The ResourceClaims of a pod, and why it cannot be scheduled with them.

The texts are kube-scheduler's (`foreachPodResourceClaim`, and `resourceclaim.Name` in
k8s.io/dynamic-resource-allocation).
"""

from __future__ import annotations

from collections.abc import Sequence

from podwright.core.objects.devices.claims import ResourceClaim
from podwright.core.objects.pod import PodInfo
from podwright.core.state.devices.claims import ClaimState


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
        if generated and (claim.owner is None or claim.owner.uid != pod.uid):
            raise ClaimsError(f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
        found.append(claim)
    return found
