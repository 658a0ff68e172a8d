"""VolumeRestrictions: protects disks that a node can mount only once, and claims that only one pod in the cluster may
use.

Source: the Kubernetes documentation, "Persistent Volumes" (access modes), and the exclusive use of GCE persistent
disks, EBS volumes, iSCSI targets and RBD images.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.explaining import Why
from podwright.core.framework.interface import (
    CycleState,
    DomainPlugin,
    EnqueueExtensions,
    FilterPlugin,
    FilterResult,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    Scope,
)
from podwright.core.framework.status import SKIP, Status, unresolvable, unschedulable
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import HOSTNAME
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import READ_WRITE_ONCE_POD, claims_of, share_claim
from podwright.core.plugins.volumes.explained import IN_USE, in_use, why_nowhere
from podwright.core.plugins.volumes.hints import after_named_claim_changed
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.object_store import Object
from podwright.core.state.volumes.used import EXCLUSIVE, Disk, disks_of

_DISK: Final = unschedulable("node(s) had no available disk")
_IN_USE: Final = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_CLAIM: Final = "PersistentVolumeClaim"


@dataclass(slots=True)
class _Restrictions:
    """The pod's disks with whether they can be shared, its ReadWriteOncePod claims, and how often other pods use
    these.
    """

    disks: Mapping[Disk, bool]
    claims: frozenset[str]
    conflicts: int

    def clone(self) -> _Restrictions:
        return _Restrictions(self.disks, self.claims, self.conflicts)

    def adjust(self, pod: PodInfo, sign: int) -> None:
        """Adds or subtracts a pod. Compares claims by name alone, as kube-scheduler does."""
        self.conflicts += sign * sum(name in self.claims for name, ephemeral in claims_of(pod) if not ephemeral)


class VolumeRestrictions(Plugin, DomainPlugin, PreFilterPlugin, PreFilterExtensions, FilterPlugin, EnqueueExtensions):
    """See the module."""

    name = "VolumeRestrictions"
    reason = "ClaimInUse"
    remoteness = 1.8
    scope = Scope.DOMAIN

    def why_not_here(self, pod: PodInfo, _node: NodeInfo, message: str) -> Why:
        return Why(text=in_use(self.handle.cache, pod) if IN_USE in message else "")

    def why_nowhere(self, pod: PodInfo, message: str) -> Why:
        return why_nowhere(self.handle.cache, pod, message)

    def hints(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), _after_pod_deleted),
            EventHint(ClusterEvent(NODE, Action.ADD)),
            EventHint(ClusterEvent(_CLAIM, Action.ADD), after_named_claim_changed),
        )

    def looks_beyond_node(self, pod: PodInfo) -> bool:
        return bool(pod.volumes)

    def influence(self, pod: PodInfo, other: PodInfo) -> frozenset[str] | None:
        """A claim in use matters on every node, a disk in use only on the node that mounts it."""
        if share_claim(pod, other):
            return None
        return frozenset((HOSTNAME,)) if _conflicts(_disks_of(pod), (other,)) else frozenset()

    def influence_key(self, pod: PodInfo) -> Hashable:
        exclusive = pod.uid if any(map(_is_exclusive, pod.volumes)) else ""
        return exclusive, tuple(claims_of(pod))

    def own_keys(self, pod: PodInfo) -> frozenset[str] | None:
        if any(claims_of(pod)):
            return None
        return frozenset((HOSTNAME,)) if pod.volumes else frozenset()

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        if not pod.volumes:
            return SKIP
        index = self.handle.cache.volumes.index
        claims = set()
        for name, ephemeral in claims_of(pod):
            if ephemeral:
                continue
            claim = index.stored_claim(pod.namespace, name)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            if READ_WRITE_ONCE_POD in claim.access_modes:
                claims.add(name)
        used = self.handle.cache.volumes.used
        conflicts = sum(used.claim_in_use(pod.namespace, name) for name in claims)
        if not conflicts and not any(_is_exclusive(volume) for volume in pod.volumes):
            return SKIP
        state.data[self.name] = _Restrictions(_disks_of(pod), frozenset(claims), conflicts)
        return None

    def add_pod(self, state: CycleState, _pod: PodInfo, added: PodInfo, _node: NodeInfo) -> Status | None:
        state.data[self.name].adjust(added, 1)
        return None

    def remove_pod(self, state: CycleState, _pod: PodInfo, removed: PodInfo, _node: NodeInfo) -> Status | None:
        state.data[self.name].adjust(removed, -1)
        return None

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> Status | None:
        restrictions: _Restrictions = state.data[self.name]
        if _conflicts(restrictions.disks, node.pods.values()):
            return _DISK
        return _IN_USE if restrictions.conflicts > 0 else None

    def filter_all(self, state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult | None:
        used = self.handle.cache.volumes.used
        conflicts = state.data[self.name].conflicts > 0
        taken = [slot for volume in pod.volumes for slot in used.conflicts(volume)]
        if not taken and not conflicts:
            return None
        disk_free = np.ones(table.size, np.bool_)
        disk_free[taken] = False
        ok = np.zeros(table.size, np.bool_) if conflicts else disk_free
        return FilterResult(ok, lambda: (disk_free.astype(np.int8), (_DISK, _IN_USE)))


def _is_exclusive(volume: Object) -> bool:
    return any(volume.get(kind) is not None for kind in EXCLUSIVE)


def _disks_of(pod: PodInfo) -> Mapping[Disk, bool]:
    """The disks that the pod mounts, each with whether readers can share it."""
    found: dict[Disk, bool] = {}
    for volume in pod.volumes:
        for disk, shared in disks_of(volume):
            found[disk] = shared and found.get(disk, True)
    return found


def _conflicts(disks: Mapping[Disk, bool], others: Iterable[PodInfo]) -> bool:
    """True if these disks cannot be mounted on a node with the others."""
    if not disks:
        return False
    mounted = (found for other in others for volume in other.volumes for found in disks_of(volume))
    return any(disk in disks and not (shared and disks[disk]) for disk, shared in mounted)


def _after_pod_deleted(pod: PodInfo, before: PodInfo, _after: None) -> Hint:
    if before.namespace != pod.namespace:
        return Hint.SKIP
    if _conflicts(_disks_of(pod), (before,)):
        return Hint.QUEUE
    wanted = {name for name, ephemeral in claims_of(pod) if not ephemeral}
    mounted = {name for name, ephemeral in claims_of(before) if not ephemeral}
    return Hint.QUEUE if wanted & mounted else Hint.SKIP
