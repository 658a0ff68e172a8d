"""ResourceClaims in simulations: makes and frees them, as the controllers of a cluster do.

    a pod comes ─► claims of its templates ─► it gets a node: allocated, reserved for it
        ─► it leaves: its own claims go, shared ones are free of it

Source: the claim controller and the garbage collector of kube-controller-manager, and PreBind of kube-scheduler's
plugin DynamicResources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from podwright.core.cycle import Placement
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import FollowUp
from podwright.core.objects.devices.claims import Allocation, ResourceClaim
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import KIND as POD_GROUP
from podwright.core.objects.pod_group import WORKLOAD_API, PodGroup
from podwright.core.objects.raw import Raw, mapping_at, value_at
from podwright.core.plugins.devices.claim_writes import Deallocation, Deletion, Release
from podwright.core.plugins.devices.dynamic_resources import DynamicResources
from podwright.core.plugins.devices.pod_claims import consumer_of, holds
from podwright.core.state.devices.claims import CLAIM_KIND
from podwright.simulator.loaded import LoadedCluster

Change = tuple[Raw, Raw | None]
"""A claim before a change, and after it; None: it was deleted."""


class Objects(Protocol):
    """Changes objects, until a trial ends or permanently."""

    def set_object(self, kind: str, raw: Raw) -> None: ...

    def remove_objects(self, kind: str, keys: Sequence[tuple[str, str]]) -> None: ...


def with_claims(cluster: LoadedCluster, objects: Objects, pod: PodInfo) -> PodInfo:
    """Creates and stores the claims of the pod's templates. Returns the pod with these claims, in the group that
    groupings make of it. If a template is not known, the pod's status names the claim.
    """
    pod = cluster.joined(pod, objects.set_object)
    if not pod.resource_claims:
        return pod
    generated = dict(pod.generated_claims)
    for entry in pod.resource_claims:
        if entry.claim or not entry.template or _is_made(cluster, pod, entry.name):
            continue
        group = cluster.cache.groups.get(pod.group) if pod.group else None
        owner = group if group is not None and holds(group, entry) else pod
        spec = cluster.claim_templates.get((pod.namespace, entry.template))
        if owner is group and (name := _claim_of_group(cluster, group, entry.name)):
            generated[entry.name] = name
        elif spec is not None:
            generated[entry.name] = name = _free_name(cluster, pod.namespace, f"{owner.name}-{entry.name}")
            objects.set_object(CLAIM_KIND, _claim(owner, name, f"{owner.uid}/{entry.name}", spec))
    if generated == pod.generated_claims:
        return pod
    raw = pod.raw
    if raw is not None:
        names = [{"name": entry, "resourceClaimName": name} for entry, name in generated.items()]
        raw = {**raw, "status": {**(raw.get("status") or {}), "resourceClaimStatuses": names}}
    return replace(pod, generated_claims=generated, raw=raw)


def _is_made(cluster: LoadedCluster, pod: PodInfo, entry: str) -> bool:
    """True if the pod has the claim of this entry already, or needs none."""
    name = pod.generated_claims.get(entry)
    if not name:
        return name is not None
    claim = cluster.cache.devices.claims.get(pod.namespace, name)
    return claim is not None and claim.owner is not None and claim.owner.uid == pod.uid


def _free_name(cluster: LoadedCluster, namespace: str, wanted: str) -> str:
    name, number = wanted, 1
    while cluster.cache.store.get(CLAIM_KIND, name, namespace) is not None:
        number += 1
        name = f"{wanted}-{number}"
    return name


def _claim_of_group(cluster: LoadedCluster, group: PodGroup, entry: str) -> str:
    """The claim that was made for this entry of the group: as its status says, or as `with_claims` has named it."""
    entries = value_at(group.raw, "status", "resourceClaimStatuses")
    listed = entries if isinstance(entries, list) else []
    named = [
        each.get("resourceClaimName") for each in listed if isinstance(each, Mapping) and each.get("name") == entry
    ]
    for name in (*named, f"{group.name}-{entry}"):
        claim = cluster.cache.devices.claims.get(group.namespace, str(name))
        if claim is not None and claim.owner is not None and claim.owner.uid == group.uid:
            return claim.name
    return ""


def _claim(maker: PodInfo | PodGroup, name: str, uid: str, spec: Raw) -> Raw:
    kind = {"apiVersion": "v1", "kind": "Pod"}
    if isinstance(maker, PodGroup):
        kind = {"apiVersion": f"{WORKLOAD_API}/v1beta1", "kind": POD_GROUP}
    owner = {**kind, "name": maker.name, "uid": maker.uid, "controller": True}
    metadata = {"namespace": maker.namespace, "name": name, "uid": uid, "ownerReferences": [owner]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": CLAIM_KIND, "metadata": metadata, "spec": spec}


def write_reserved(cluster: LoadedCluster, objects: Objects, framework: Framework, placement: Placement) -> None:
    """Stores the claims of a pod for which Reserve has run, as PreBind writes them. Afterwards nothing is in flight."""
    plugin = framework.plugins.get(DynamicResources.name)
    if not isinstance(plugin, DynamicResources):
        return
    pod, claims = placement.pod, cluster.cache.devices.claims
    for claim, allocation in plugin.reserved(placement.state, placement.node_name):
        raw = _reserved(cluster, claim, allocation, pod)
        claims.end(claim.uid, pod.uid)
        objects.set_object(CLAIM_KIND, raw)


def _reserved(cluster: LoadedCluster, claim: ResourceClaim, allocation: Allocation | None, pod: PodInfo) -> Raw:
    newest = cluster.cache.devices.claims.get(claim.namespace, claim.name)
    raw = claim.raw if newest is None or newest.uid != claim.uid else newest.raw
    if newest is None and claim.for_extended_resources:
        name = _free_name(cluster, claim.namespace, f"{pod.name}-extended-resources")
        raw = {**raw, "metadata": {**raw["metadata"], "name": name}}
    consumer = consumer_of(claim, pod, cluster.cache.groups)
    status = _status_without(raw, {consumer.uid})
    if allocation is not None:
        status["allocation"] = allocation.raw
    status["reservedFor"] = [*status["reservedFor"], consumer.reference]
    return {**raw, "status": status}


def free_claims(cluster: LoadedCluster, objects: Objects, pods: Iterable[PodInfo]) -> Sequence[Change]:
    """Deletes the claims that these removed pods own, and deallocates each other claim that no pod uses any more."""
    owned: dict[tuple[str, str], Raw] = {}
    shared: dict[tuple[str, str], tuple[ResourceClaim, set[str]]] = {}
    for pod in pods:
        for claim in _claims_of(cluster, pod):
            key = claim.namespace, claim.name
            if claim.owner is not None and claim.owner.uid == pod.uid:
                owned[key] = claim.raw
            elif pod.uid in claim.reserved_for:
                shared.setdefault(key, (claim, set()))[1].add(pod.uid)
    changes: list[Change] = [(raw, None) for raw in owned.values()]
    for key, (claim, gone) in shared.items():
        if key not in owned:
            after = _without(claim, gone)
            objects.set_object(CLAIM_KIND, after)
            changes.append((claim.raw, after))
    objects.remove_objects(CLAIM_KIND, [*owned])
    return changes


def take_back(cluster: LoadedCluster, objects: Objects, follow_ups: Iterable[FollowUp]) -> Sequence[Change]:
    """Deallocates claims that are of no use to a rejected pod, or deletes them if they are for extended resources.
    Other follow-ups only write events.
    """
    changes: list[Change] = []
    for wanted in follow_ups:
        if not isinstance(wanted, Deallocation | Deletion | Release):
            continue
        claim = cluster.cache.devices.claims.get(wanted.claim.namespace, wanted.claim.name)
        if claim is None or claim.uid != wanted.claim.uid:
            continue
        if isinstance(wanted, Deletion):
            objects.remove_objects(CLAIM_KIND, [(claim.namespace, claim.name)])
            changes.append((claim.raw, None))
        else:
            after = _without(claim, {wanted.consumer}) if isinstance(wanted, Release) else _deallocated(claim.raw)
            objects.set_object(CLAIM_KIND, after)
            changes.append((claim.raw, after))
    return changes


def _claims_of(cluster: LoadedCluster, pod: PodInfo) -> Iterable[ResourceClaim]:
    """Yields the pod's claims that exist."""
    known = cluster.cache.devices.claims
    for entry in pod.resource_claims:
        claim = known.get(pod.namespace, entry.claim or pod.generated_claims.get(entry.name, ""))
        if claim is not None:
            yield claim
    special = known.created_for(pod.uid)
    if special is not None:
        yield special


def _without(claim: ResourceClaim, gone: set[str]) -> Raw:
    status = _status_without(claim.raw, gone)
    return {**claim.raw, "status": status} if status["reservedFor"] else _deallocated(claim.raw)


def _deallocated(raw: Raw) -> Raw:
    """The claim without devices and users."""
    left = {
        name: value for name, value in raw["status"].items() if name not in ("allocation", "devices", "reservedFor")
    }
    return {**raw, "status": left}


def _status_without(raw: Raw, consumers: set[str]) -> dict[str, Any]:
    """The status of a claim that is not reserved for these. Entries that cannot be understood count for nothing."""
    known = dict(mapping_at(raw, "status"))
    entries = known.get("reservedFor")
    entries = entries if isinstance(entries, list) else []
    known["reservedFor"] = [each for each in entries if isinstance(each, Mapping) and each.get("uid") not in consumers]
    return known
