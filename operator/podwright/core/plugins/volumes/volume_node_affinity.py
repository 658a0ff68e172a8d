"""The nodes that can reach a volume, by its node affinity: per node and as a column.

On nodes where a CSI driver has replaced an in-tree plugin, the affinity of its volumes is that of the equivalent CSI
volumes. An annotation of the CSINode lists the replaced plugins. Source: kube-scheduler's volume binder.
"""

from __future__ import annotations

import numpy as np

from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import Bools
from podwright.core.framework.profile import Point
from podwright.core.objects.csi_migration import InTreeKind, MigrationError, kind_of, translated_affinity
from podwright.core.objects.volumes import MIGRATED_PLUGINS, PersistentVolume, VolumeAffinity, mapping_at
from podwright.core.state.columns.requirements import RequirementMasks, all_of, any_of, as_column
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.object_store import ObjectStore, key_of


def affinity_on(volume: PersistentVolume, node_name: str, store: ObjectStore) -> VolumeAffinity | None:
    """The volume's affinity on this node. Raises PluginError."""
    kind = kind_of(mapping_at(volume.raw, "spec"))
    if kind is None or not kind.translated:
        return volume.affinity
    csi_node = store.get("CSINode", node_name)
    if csi_node is None or kind.plugin not in _migrated_plugins(csi_node):
        return volume.affinity
    return _translated(volume, kind)


def affinity_mask(volume: PersistentVolume, table: NodeTable, store: ObjectStore) -> Bools | None:
    """bool[nodes]: the nodes that can reach the volume; None: all. Raises PluginError."""
    mask = None if volume.affinity is None else _column(volume.affinity, table)
    kind = kind_of(mapping_at(volume.raw, "spec"))
    if kind is None or not kind.translated:
        return mask
    migrated = {key_of(raw)[1] for raw in store.list("CSINode") if kind.plugin in _migrated_plugins(raw)}
    on = np.fromiter((name in migrated for name in table.names), np.bool_, table.size)
    if not on.any():
        return mask
    affinity = _translated(volume, kind)
    translated = np.ones(table.size, np.bool_) if affinity is None else _column(affinity, table)
    return np.where(on, translated, np.True_ if mask is None else mask)


def _translated(volume: PersistentVolume, kind: InTreeKind) -> VolumeAffinity | None:
    try:
        return translated_affinity(volume, kind)
    except MigrationError as error:
        raise PluginError("VolumeBinding", Point.FILTER.key, f"could not translate pv: {error}") from error


def _column(affinity: VolumeAffinity, table: NodeTable) -> Bools:
    """bool[nodes]. Not cached, because many volumes have an affinity of their own."""
    masks = RequirementMasks(table, affinity.keys)
    return as_column(any_of(all_of(map(masks.of_label, term)) for term in affinity.terms), table)


def _migrated_plugins(csi_node: object) -> frozenset[str]:
    annotations = mapping_at(csi_node, "metadata", "annotations")  # type: ignore[arg-type]  # it may be anything
    return frozenset(str(annotations.get(MIGRATED_PLUGINS) or "").split(","))
