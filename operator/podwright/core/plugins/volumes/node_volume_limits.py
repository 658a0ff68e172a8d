"""NodeVolumeLimits: a node takes at most as many volumes of a CSI driver as its CSINode allows.

The distinct volumes of the node's pods and of its VolumeAttachments count. In-tree volumes count as the CSI volumes
that replace them, unbound claims for the driver that will provision them. With VolumeLimitScaling, a driver with
spec.preventPodSchedulingIfMissing must be installed on the node. Unlike kube-scheduler, which fails the attempt, this
plugin does not count invalid volumes of placed pods. Source: "Node-specific Volume Limits".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from podwright.core.framework.cluster_events import ASSIGNED_POD, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.errors import PluginError
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
from podwright.core.framework.profile import Point
from podwright.core.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from podwright.core.objects.csi_migration import MigrationError, inline_handle, kind_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import claims_of, mapping_at
from podwright.core.plugins.volumes.hints import after_claim_changed
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.object_store import Object
from podwright.core.state.volumes.attached import drivers_of
from podwright.core.state.volumes.volume_index import CsiVolume

_EXCEEDED: Final = unschedulable("node(s) exceed max volume count")


@dataclass(frozen=True, slots=True)
class _NewVolume:
    """A CSI volume of the pending pod. `migrated`: it is an in-tree volume, which counts only on nodes that have a
    CSINode.
    """

    volume: CsiVolume
    migrated: bool


class _UnfitVolumeError(Exception):
    """The pod's volumes cannot be determined. `status` says why. `only_with_csi_node`: other nodes do not reject the
    pod.
    """

    def __init__(self, status: Status, *, only_with_csi_node: bool = False) -> None:
        super().__init__(status.message)
        self.status = status
        self.only_with_csi_node = only_with_csi_node


@dataclass(slots=True)
class _Brought:
    """The CSI volumes of the pending pod, or why they cannot be determined; neither before they were looked up."""

    volumes: Sequence[_NewVolume] | None = None
    unfit: _UnfitVolumeError | None = None


class NodeVolumeLimits(Plugin, PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """See the module."""

    name = "NodeVolumeLimits"
    reason = "VolumeLimit"
    remoteness = 1.8
    scope = Scope.NODE_PODS

    def hints(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent("CSINode", Action.ADD)),
            EventHint(ClusterEvent("CSINode", Action.UPDATE), _after_csi_node_updated),
            EventHint(ClusterEvent(ASSIGNED_POD, Action.DELETE), _after_pod_deleted),
            EventHint(ClusterEvent("PersistentVolumeClaim", Action.ADD), after_claim_changed),
            EventHint(ClusterEvent("VolumeAttachment", Action.DELETE), _after_attachment_deleted),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        if not pod.volumes or not _counts(pod):
            return SKIP
        state.data[self.name] = _Brought()
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        csi_node = self.handle.cache.store.get("CSINode", node.name)
        try:
            brought = self._brought(state, pod)
            new = {v.volume: None for v in brought if csi_node is not None or not v.migrated}
        except _UnfitVolumeError as unfit:
            return None if unfit.only_with_csi_node and csi_node is None else unfit.status
        drivers = {} if csi_node is None else dict(drivers_of(csi_node))
        for driver in dict.fromkeys(volume[0] for volume in new):
            if driver not in drivers and self._must_be_installed(driver):
                return _not_installed(driver)
        mounted = {volume for other in node.pods.values() for volume in self._mounted_by(other)}
        here = mounted.union(self.handle.cache.volumes.attached.attached_to(node.name))
        attached = Counter(driver for driver, *_ in here)
        for driver, count in Counter(driver for driver, *_ in new.keys() - mounted).items():
            limit = drivers.get(driver)
            if limit is not None and attached[driver] + count > limit:
                return _EXCEEDED
        return None

    def filter_all(self, state: CycleState, pod: PodInfo, table: NodeTable) -> FilterResult | None:
        attached = self.handle.cache.volumes.attached
        try:
            new = list(dict.fromkeys(self._brought(state, pod)))
        except _UnfitVolumeError as unfit:
            return self._all_unfit(unfit, table)
        by_driver: dict[str, list[_NewVolume]] = {}
        for volume in new:
            by_driver.setdefault(volume.volume[0], []).append(volume)
        missing: list[tuple[str, Bools]] = []
        full: Bools | None = None
        for driver, volumes in by_driver.items():
            if self._must_be_installed(driver):
                absent = ~attached.installed(driver, table.size)
                if all(volume.migrated for volume in volumes):
                    absent &= attached.known(table.size)
                missing.append((driver, absent))
            over = self._over_limit(driver, volumes, table)
            if over is not None:
                full = over if full is None else full | over
        return _verdict(missing, full, table)

    def _over_limit(self, driver: str, volumes: Sequence[_NewVolume], table: NodeTable) -> Bools | None:
        """bool[nodes]: whether the pod would exceed the node's limit. Nodes with a limit have a CSINode, so all volumes
        count.
        """
        attached = self.handle.cache.volumes.attached
        limits = attached.limits(driver, table.size)
        if limits is None:
            return None
        wanted = attached.counts(driver, table.size) + len(volumes)
        need = np.full(table.size, len(volumes))
        for volume in volumes:
            slots = attached.mounted_on(volume.volume)
            wanted[slots] -= 1
            need[slots] -= 1
        over: Bools = (wanted > limits) & (need > 0)
        return over

    def _all_unfit(self, unfit: _UnfitVolumeError, table: NodeTable) -> FilterResult:
        known = self.handle.cache.volumes.attached.known(table.size)
        concerned = known if unfit.only_with_csi_node else np.ones(table.size, np.bool_)
        if unfit.status.code is Code.ERROR and (concerned & table.valid).any():
            raise PluginError(self.name, Point.FILTER.key, unfit.status.message)
        return FilterResult(~concerned, lambda: (np.zeros(table.size, np.int8), (unfit.status,)))

    def _brought(self, state: CycleState, pod: PodInfo) -> Sequence[_NewVolume]:
        """The CSI volumes of a pending pod, found once in a scheduling cycle. Raises _UnfitVolumeError."""
        known: _Brought = state.data.get(self.name) or _Brought()
        if known.unfit is None and known.volumes is None:
            try:
                known.volumes = tuple(self._volumes_of(pod))
            except _UnfitVolumeError as unfit:
                known.unfit = unfit
        if known.unfit is not None:
            raise known.unfit.with_traceback(None)
        return known.volumes or ()

    def _volumes_of(self, pod: PodInfo) -> Iterator[_NewVolume]:
        """The CSI volumes of a pending pod. Raises _UnfitVolumeError."""
        index = self.handle.cache.volumes.index
        for name, ephemeral in claims_of(pod):
            if not name:
                raise _UnfitVolumeError(Status(Code.ERROR, ("PersistentVolumeClaim had no name",)))
            claim = index.stored_claim(pod.namespace, name)
            if claim is None:
                raise _UnfitVolumeError(
                    unresolvable(f'looking up PVC {pod.namespace}/{name}: persistentvolumeclaim "{name}" not found')
                )
            if ephemeral and claim.owner_uid != pod.uid:
                message = f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
                raise _UnfitVolumeError(Status(Code.ERROR, (message,)))
            volume = index.csi_volume(claim)
            if volume is not None:
                yield _NewVolume(volume, migrated=index.csi_volume(claim, migrated=False) is None)
        for mounted in pod.volumes:
            kind = kind_of(mounted)
            if kind is None or not kind.translated:
                continue
            try:
                yield _NewVolume((kind.driver, inline_handle(mounted, kind), ""), migrated=True)
            except MigrationError as error:
                message = f"converting volume({mounted.get('name')}) from inline to csi: {error}"
                raise _UnfitVolumeError(Status(Code.ERROR, (message,)), only_with_csi_node=True) from error

    def _mounted_by(self, pod: PodInfo) -> Iterator[CsiVolume]:
        """The CSI volumes of a placed pod."""
        index = self.handle.cache.volumes.index
        for name, _ in claims_of(pod):
            try:
                claim = index.stored_claim(pod.namespace, name)
                volume = None if claim is None else index.csi_volume(claim)
            except InvalidObjectError:
                continue
            if volume is not None:
                yield volume
        for mounted in pod.volumes:
            kind = kind_of(mounted)
            if kind is not None and kind.translated:
                try:
                    yield kind.driver, inline_handle(mounted, kind), ""
                except MigrationError:
                    continue

    def _must_be_installed(self, driver: str) -> bool:
        if not self.handle.features.enabled("VolumeLimitScaling"):
            return False
        found = self.handle.cache.store.get("CSIDriver", driver)
        return found is not None and bool(mapping_at(found, "spec").get("preventPodSchedulingIfMissing"))


def _verdict(missing: Sequence[tuple[str, Bools]], full: Bools | None, table: NodeTable) -> FilterResult | None:
    if not missing and full is None:
        return None
    ok = np.ones(table.size, np.bool_) if full is None else ~full
    for _, absent in missing:
        ok &= ~absent

    def explain() -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], Sequence[Status]]:
        codes = np.full(table.size, len(missing))
        for code, (_, absent) in reversed(list(enumerate(missing))):
            codes[absent] = code
        return codes, (*(_not_installed(driver) for driver, _ in missing), _EXCEEDED)

    return FilterResult(ok, explain)


def _not_installed(driver: str) -> Status:
    return unschedulable(f"{driver} CSI driver is not installed on the node")


def _counts(pod: PodInfo) -> bool:
    """True if any volume of the pod may be a CSI volume."""
    return any(True for _ in claims_of(pod)) or any(kind_of(volume) is not None for volume in pod.volumes)


def _after_pod_deleted(_pod: PodInfo, before: PodInfo, _after: None) -> Hint:
    if not before.node_name and not before.nominated_node_name:
        return Hint.SKIP
    return Hint.QUEUE if _counts(before) else Hint.SKIP


def _after_attachment_deleted(pod: PodInfo, before: Object, _after: None) -> Hint:
    """Helps pods with claims, except those of ephemeral volumes, and pods with in-tree volumes of the same driver."""
    if any(not ephemeral for _, ephemeral in claims_of(pod)):
        return Hint.QUEUE
    kinds = [kind for volume in pod.volumes if (kind := kind_of(volume)) is not None]
    attacher = mapping_at(before, "spec").get("attacher")
    return Hint.QUEUE if any(kind.driver == attacher for kind in kinds) else Hint.SKIP


def _after_csi_node_updated(_pod: PodInfo, before: Object, after: Object) -> Hint:
    limits = {driver: limit or 0 for driver, limit in drivers_of(before)}
    raised = any((limit or 0) > limits.get(driver, 0) for driver, limit in drivers_of(after))
    return Hint.QUEUE if raised else Hint.SKIP
