"""Carries out a plan: assumes its volumes and claims, writes them to the API server, and waits until all claims are
bound.

Invariant: after a failure no assumed version remains, unless the API server has accepted the write; then the watch
replaces it. Writes are not rolled back. Source: kube-scheduler's volume binder (AssumePodVolumes, BindPodVolumes).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import ClusterError, ClusterTimeoutError, Handle
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, mapping_at
from podwright.core.plugins.volumes.matching import Binding, VolumePlan
from podwright.core.plugins.volumes.volume_node_affinity import affinity_on
from podwright.core.state.object_store import Object, key_of
from podwright.core.state.volumes.assumed import AssumedObjects, version_of

RECHECK_SECONDS: Final = 1.0
"""The longest single wait. After it, all volumes and claims are checked again."""

_VOLUME: Final = "PersistentVolume"
_CLAIM: Final = "PersistentVolumeClaim"


class BindingError(Exception):
    """The volumes could not be bound. The pod must be scheduled again."""


class AssumedPlan:
    """A plan whose changes are assumed, but not yet written."""

    def __init__(self, plan: VolumePlan, node_name: str, handle: Handle) -> None:
        """Assumes the whole plan, or nothing. Raises BindingError."""
        self._handle = handle
        self._node_name = node_name
        index = handle.cache.volumes.index
        self._volumes: list[tuple[Object, Object]] = []
        self._claims: list[Object] = []
        try:
            for binding in plan.bindings:
                bound = bound_volume(binding)
                if bound is not binding.volume.raw:
                    index.assumed_volumes.assume(bound)
                self._volumes.append((bound, binding.claim.raw))
            for provision in plan.provisions:
                claim = with_annotation(provision.claim.raw, SELECTED_NODE, node_name)
                index.assumed_claims.assume(claim)
                self._claims.append(claim)
        except ValueError as error:
            self.revert()
            raise BindingError(str(error)) from error

    def revert(self) -> None:
        """Drops the assumed versions that are not written yet. May be called repeatedly."""
        self._revert_from(0, 0)

    async def write(self, pod: PodInfo, timeout: float) -> None:
        """Writes everything and waits until all claims are bound. `timeout` in seconds. Raises BindingError."""
        await self._write_all()
        left = timeout
        while (pending := self._pending(pod)) is not None:
            if left <= 0:
                raise BindingError("binding volumes: context deadline exceeded")
            # Counts the time waited instead of reading the clock, which may step.
            step = min(left, RECHECK_SECONDS)
            await self._wait(pod, pending, step)
            left -= step

    async def _write_all(self) -> None:
        volumes = claims = 0
        try:
            for volume, claim in tuple(self._volumes):
                self._volumes[volumes] = (await self._handle.cluster.update(_VOLUME, volume), claim)
                volumes += 1
            for claim in tuple(self._claims):
                self._claims[claims] = await self._handle.cluster.update(_CLAIM, claim)
                claims += 1
        except ClusterError as error:
            raise BindingError(str(error)) from error
        finally:
            self._revert_from(volumes, claims)

    def _revert_from(self, volumes: int, claims: int) -> None:
        index = self._handle.cache.volumes.index
        _restore(index.assumed_volumes, [volume for volume, _ in self._volumes[volumes:]])
        _restore(index.assumed_claims, self._claims[claims:])

    async def _wait(self, pod: PodInfo, pending: tuple[str, Object], timeout: float) -> None:
        kind, raw = pending
        namespace, name = key_of(raw)

        def done(_object: Mapping[str, Any] | None) -> bool:
            return self._pending(pod) is None

        try:
            await self._handle.cluster.wait_for(kind, name, namespace, done, timeout)
        except ClusterTimeoutError:
            return
        except ClusterError as error:
            raise BindingError(f"binding volumes: {error}") from error

    def _pending(self, pod: PodInfo) -> tuple[str, Object] | None:
        """(kind, object) of an object that must still change; None if all claims are bound. Raises BindingError.

        Reads the versions that the watch has delivered, not the assumed ones.
        """
        cache = self._handle.cache
        there = cache.present(self._node_name)
        if there is None:
            raise BindingError(f'binding volumes: failed to get node "{self._node_name}"')
        if cache.placement(pod.uid) is None:
            raise BindingError("binding volumes: pod does not exist any more")
        node = there.present
        for volume, claim in self._volumes:
            pending = self._pending_volume(volume, claim, node)
            if pending is not None:
                return pending
        for claim in self._claims:
            pending = self._pending_claim(claim, node)
            if pending is not None:
                return pending
        return None

    def _pending_volume(self, written: Object, claim: Object, node: Node) -> tuple[str, Object] | None:
        index = self._handle.cache.volumes.index
        volume = index.stored_volume(key_of(written)[1])
        current = index.stored_claim(*key_of(claim))
        if volume is None:
            raise BindingError(f'binding volumes: failed to check binding: PV "{key_of(written)[1]}" not found')
        if current is None:
            raise BindingError(f'binding volumes: failed to check binding: PVC "{"/".join(key_of(claim))}" not found')
        if _older(volume.raw, written):
            return _VOLUME, written
        self._must_reach(volume, node)
        if volume.claim is None or not volume.claim.uid:
            raise BindingError(f'binding volumes: ClaimRef got reset for pv "{volume.name}"')
        return None if current.bound else (_CLAIM, claim)

    def _pending_claim(self, written: Object, node: Node) -> tuple[str, Object] | None:
        index = self._handle.cache.volumes.index
        namespace, name = key_of(written)
        claim = index.stored_claim(namespace, name)
        if claim is None:
            raise BindingError(f'binding volumes: failed to check provisioning pvc: "{namespace}/{name}" not found')
        if _older(claim.raw, written):
            return _CLAIM, written
        if not mapping_at(claim.raw, "metadata", "annotations"):
            raise BindingError(f'binding volumes: selectedNode annotation reset for PVC "{name}"')
        if claim.selected_node != node.name:
            raise BindingError(f'binding volumes: provisioning failed for PVC "{name}"')
        if claim.volume_name:
            volume = index.stored_volume(claim.volume_name)
            if volume is None:
                return _VOLUME, {"metadata": {"name": claim.volume_name}}
            self._must_reach(volume, node)
        return None if claim.bound else (_CLAIM, written)

    def _must_reach(self, volume: PersistentVolume, node: Node) -> None:
        try:
            affinity = affinity_on(volume, node.name, self._handle.cache.store)
        except PluginError as error:
            raise BindingError(f"binding volumes: failed to translate pv to csi: {error.problem}") from error
        if affinity is not None and not affinity.matches(node.labels):
            raise BindingError(
                f'binding volumes: pv "{volume.name}" node affinity doesn\'t match node "{node.name}":'
                " no matching NodeSelectorTerms"
            )


def bound_volume(binding: Binding) -> Object:
    """The volume, bound to the claim: a changed copy, or the volume itself if it is bound to the claim already."""
    volume, claim = binding.volume, binding.claim
    raw = volume.raw
    if volume.claim is None or (volume.claim.namespace, volume.claim.name, volume.claim.uid) != (
        claim.namespace,
        claim.name,
        claim.uid,
    ):
        raw = copy.deepcopy(dict(raw))
        raw["spec"]["claimRef"] = {
            "apiVersion": "v1",
            "kind": _CLAIM,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
    if not claim.reserved_by(volume) and BOUND_BY_CONTROLLER not in mapping_at(raw, "metadata", "annotations"):
        raw = with_annotation(raw, BOUND_BY_CONTROLLER, "yes")
    return raw


def with_annotation(raw: Object, name: str, value: str) -> Object:
    """A copy with the annotation set."""
    changed = copy.deepcopy(dict(raw))
    changed["metadata"]["annotations"] = {**mapping_at(raw, "metadata", "annotations"), name: value}
    return changed


def _older(seen: Object, written: Object) -> bool:
    """True if the watch has not yet delivered the written version."""
    ours, theirs = version_of(written), version_of(seen)
    return ours.isdigit() and theirs.isdigit() and int(theirs) < int(ours)


def _restore(assumed: AssumedObjects, objects: list[Object]) -> None:
    for raw in objects:
        assumed.restore(raw)
