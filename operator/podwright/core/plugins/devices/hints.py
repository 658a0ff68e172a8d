"""Queueing hints of DynamicResources: which changes of claims, classes, slices and nodes may help a pod.

Source: `EventsToRegister` and `isSchedulableAfterClaimChange` in kube-scheduler's plugin DynamicResources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from podwright.core.framework.cluster_events import NODE, POD, Action, ClusterEvent, EventHint, Hint, HintKeys
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw
from podwright.core.plugins.devices.pod_claims import ClaimsError, claims_of
from podwright.core.state.devices import CLASS_KIND
from podwright.core.state.devices.claims import CLAIM_KIND, ClaimState, uid_of
from podwright.core.state.devices.index import RULE_KIND, SLICE_KIND


def device_hints(claims: ClaimState) -> Sequence[EventHint]:
    """The hints, with the claims as they are when an event happens."""
    node_actions = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
    return (
        EventHint(ClusterEvent(NODE, node_actions), opens_gate=False),
        EventHint(ClusterEvent(CLAIM_KIND, Action.ALL), partial(_after_claim, claims), keys=CLAIM_NAMES),
        EventHint(ClusterEvent(POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), partial(_after_pod, claims)),
        EventHint(ClusterEvent(CLASS_KIND, Action.ADD | Action.UPDATE), opens_gate=False),
        EventHint(ClusterEvent(SLICE_KIND, Action.ADD | Action.UPDATE), opens_gate=False),
        # kube-scheduler sees a rule as a change of the slices to which it applies.
        EventHint(ClusterEvent(RULE_KIND, Action.ALL), opens_gate=False),
    )


def _name_of_claim(before: Raw | None, after: Raw | None) -> tuple[str, str] | None:
    """None: devices are free now, which may help any pod."""
    if _allocated(before) and not _allocated(after):
        return None
    metadata = (after or before or {}).get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _names_of_claims(pod: PodInfo) -> Iterable[tuple[str, str]]:
    for entry in pod.resource_claims:
        yield pod.namespace, entry.claim or pod.generated_claims.get(entry.name) or ""


CLAIM_NAMES: Final = HintKeys(_name_of_claim, _names_of_claims)


def _after_claim(claims: ClaimState, pod: PodInfo, before: Raw | None, after: Raw | None) -> Hint:
    had = _allocated(before)
    if after is None:
        return Hint.QUEUE if had else Hint.SKIP
    try:
        used = any(claim.uid == uid_of(after) for claim in claims_of(pod, claims))
    except ClaimsError:
        return Hint.SKIP
    if had and not _allocated(after):
        return Hint.QUEUE
    if not used or (before is not None and before.get("status") == after.get("status")):
        return Hint.SKIP
    return Hint.QUEUE


def _after_pod(claims: ClaimState, _pod: PodInfo, _before: Any, after: Any) -> Hint:
    try:
        claims_of(after, claims)
    except ClaimsError:
        return Hint.SKIP
    return Hint.QUEUE


def _allocated(raw: Raw | None) -> bool:
    return raw is not None and bool((raw.get("status") or {}).get("allocation"))
