"""VolumeZone: rejects nodes outside the zones and regions of the pod's volumes.

Nodes without zone and region labels fit all volumes. If a node lacks the old (beta) label of a volume, its new label is
compared. Source: the Kubernetes documentation, "Running in multiple zones".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.explaining import Why
from podwright.core.framework.helpers import rejected_alike
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    FilterResult,
    Plugin,
    PreFilterPlugin,
    Scope,
)
from podwright.core.framework.status import SKIP, Status, unresolvable
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.selectors import Labels, Requirement
from podwright.core.objects.volumes import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    TOPOLOGY_LABELS,
    WAIT_FOR_FIRST_CONSUMER,
    ZONE,
    PersistentVolume,
    claims_of,
    parse_volume,
)
from podwright.core.plugins.volumes.explained import why_not_here, why_nowhere
from podwright.core.plugins.volumes.hints import after_named_claim_changed
from podwright.core.state.columns.requirements import requirement_column
from podwright.core.state.columns.table import ABSENT, NodeTable
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.object_store import Object

Topology = tuple[str, frozenset[str]]
"""(label of a volume, the values that it allows)"""

_CONFLICT: Final = unresolvable("node(s) had no available volume zone")
_NEW_NAMES: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class VolumeZone(Plugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """See the module. Ephemeral volumes are left to VolumeBinding."""

    name = "VolumeZone"
    reason = "VolumeElsewhere"
    scope = Scope.NODE

    def why_not_here(self, pod: PodInfo, node: NodeInfo, message: str) -> Why:
        return why_not_here(self.handle.cache, pod, node, message)

    def why_nowhere(self, pod: PodInfo, message: str) -> Why:
        return why_nowhere(self.handle.cache, pod, message)

    def hints(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent("StorageClass", Action.ADD), _after_class_added),
            EventHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventHint(ClusterEvent("PersistentVolumeClaim", Action.ADD | Action.UPDATE), after_named_claim_changed),
            EventHint(ClusterEvent("PersistentVolume", Action.ADD | Action.UPDATE), _after_volume_changed),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        if not pod.volumes:
            return SKIP
        topologies: dict[Topology, None] = {}
        for name, ephemeral in claims_of(pod):
            if ephemeral:
                continue
            found = self._volume_of(pod.namespace, name)
            if isinstance(found, Status):
                return found
            if found is not None:
                topologies.update(dict.fromkeys(found.zones))
        if not topologies:
            return SKIP
        state.data[self.name] = tuple(topologies)
        return None

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if _allows(state.data[self.name], node.present.labels) else _CONFLICT

    def filter_all(self, state: CycleState, _pod: PodInfo, _table: NodeTable) -> FilterResult | None:
        topologies: tuple[Topology, ...] = state.data[self.name]
        ok = self.handle.cache.derived.get(
            (self.name, topologies),
            lambda node: _allows(topologies, node.labels),
            np.bool_,
            lambda table: _allows_all(topologies, table),
        )
        return rejected_alike(ok, _CONFLICT)

    def _volume_of(self, namespace: str, name: str) -> PersistentVolume | Status | None:
        """The volume of a claim, None if the claim waits for its first consumer, or a status that says why it has
        none.
        """
        index = self.handle.cache.volumes.index
        if not name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = index.stored_claim(namespace, name)
        if claim is None:
            return unresolvable(f'persistentvolumeclaim "{name}" not found')
        if claim.volume_name:
            return index.stored_volume(claim.volume_name) or unresolvable(
                f'persistentvolume "{claim.volume_name}" not found'
            )
        if not claim.storage_class:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = index.storage_class(claim.storage_class)
        if storage_class is None:
            return unresolvable(f'storageclass.storage.k8s.io "{claim.storage_class}" not found')
        if storage_class.binding_mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{claim.storage_class}"')
        if storage_class.binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return unresolvable("PersistentVolume had no name")


def _allows(topologies: Sequence[Topology], labels: Labels) -> bool:
    if not any(key in labels for key in TOPOLOGY_LABELS):
        return True
    for key, values in topologies:
        value = labels.get(key)
        if value is None:
            value = labels.get(_NEW_NAMES.get(key, key))
        if value not in values:
            return False
    return True


def _allows_all(topologies: Sequence[Topology], table: NodeTable) -> Bools:
    fits = np.ones(table.size, np.bool_)
    for key, values in topologies:
        matches = requirement_column(table, Requirement(key, "In", values))
        if key in _NEW_NAMES:
            renamed = requirement_column(table, Requirement(_NEW_NAMES[key], "In", values))
            matches = np.where(table.labels(key) == ABSENT, renamed, matches)
        fits &= matches
    unconstrained = np.ones(table.size, np.bool_)
    for key in TOPOLOGY_LABELS:
        unconstrained &= table.labels(key) == ABSENT
    return (fits | unconstrained) & table.valid


def _after_class_added(_pod: PodInfo, _before: None, after: Object) -> Hint:
    return Hint.QUEUE if after.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER else Hint.SKIP


def _after_volume_changed(_pod: PodInfo, before: Object | None, after: Object) -> Hint:
    if before is None or parse_volume(before).zones != parse_volume(after).zones:
        return Hint.QUEUE
    return Hint.SKIP
