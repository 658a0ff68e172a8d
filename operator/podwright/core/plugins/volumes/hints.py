"""Queueing hints of the volume plugins: which changes of storage objects may help a rejected pod."""

from __future__ import annotations

from podwright.core.framework.cluster_events import Hint
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import MIGRATED_PLUGINS, claims_of, mapping_at, parse_storage_capacity
from podwright.core.state.object_store import Object, key_of


def after_class_changed(_pod: PodInfo, before: Object | None, after: Object) -> Hint:
    if before is None or (before.get("allowedTopologies") or []) != (after.get("allowedTopologies") or []):
        return Hint.QUEUE
    return Hint.SKIP


def after_claim_changed(pod: PodInfo, _before: Object | None, after: Object) -> Hint:
    namespace, name = key_of(after)
    return Hint.QUEUE if namespace == pod.namespace and name in dict(claims_of(pod)) else Hint.SKIP


def after_named_claim_changed(pod: PodInfo, _before: Object | None, after: Object) -> Hint:
    """Claims of ephemeral volumes do not count."""
    namespace, name = key_of(after)
    return Hint.QUEUE if namespace == pod.namespace and (name, False) in claims_of(pod) else Hint.SKIP


def after_csi_node_changed(_pod: PodInfo, before: Object | None, after: Object) -> Hint:
    if before is None:
        return Hint.QUEUE
    old, new = (mapping_at(raw, "metadata", "annotations").get(MIGRATED_PLUGINS, "") for raw in (before, after))
    return Hint.QUEUE if old != new else Hint.SKIP


def after_csi_driver_changed(pod: PodInfo, before: Object, after: Object) -> Hint:
    """Helps if the driver stopped tracking capacity, and the pod uses the driver directly."""
    name = key_of(after)[1]
    if not any(mapping_at(volume, "csi").get("driver") == name for volume in pod.volumes):
        return Hint.SKIP
    tracked, tracks = (bool(mapping_at(raw, "spec").get("storageCapacity")) for raw in (before, after))
    return Hint.QUEUE if tracked and not tracks else Hint.SKIP


def after_capacity_changed(_pod: PodInfo, before: Object | None, after: Object) -> Hint:
    if before is None:
        return Hint.QUEUE
    old, new = parse_storage_capacity(before).limit, parse_storage_capacity(after).limit
    return Hint.QUEUE if new is not None and (old is None or new > old) else Hint.SKIP
