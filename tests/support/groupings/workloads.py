"""Owners of pods, pods that have them, and groupings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.api.workload_grouping import parse_grouping
from podwright.core.groupings import Kind
from support.engine.kit import Rig, ours


def grouping(name: str = "jobs", *, api_version: str = "batch/v1", kind: str = "Job", **spec: Any) -> dict[str, Any]:
    """A WorkloadGrouping."""
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "WorkloadGrouping",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {"owner": {"apiVersion": api_version, "kind": kind, **spec.pop("owner", {})}, **spec},
    }


def reference(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The reference of an object to its controller."""
    metadata = raw["metadata"]
    return {
        "apiVersion": raw["apiVersion"],
        "kind": raw["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def owner(
    name: str = "train",
    *,
    api_version: str = "batch/v1",
    kind: str = "Job",
    controller: Mapping[str, Any] | None = None,
    uid: str = "",
    **fields: Any,
) -> dict[str, Any]:
    """An object that owns pods. `fields`: those besides metadata, or `labels`."""
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid or f"{kind}-{name}"}
    metadata["labels"] = fields.pop("labels", {})
    if controller is not None:
        metadata["ownerReferences"] = [reference(controller)]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def kind_of(raw: Mapping[str, Any]) -> Kind:
    return raw["apiVersion"].rpartition("/")[0], raw["kind"]


def pod_of(raw: Mapping[str, Any], name: str, **options: Any) -> dict[str, Any]:
    """A pending pod of ours with this controller."""
    metadata = {"ownerReferences": [reference(raw)], "resourceVersion": "1", **options.pop("metadata", {})}
    return ours(name, metadata=metadata, **options)


class GroupedRig(Rig):
    """An engine with groupings, which reads the kinds that they name."""

    def group(self, *raws: dict[str, Any]) -> None:
        for raw in raws:
            self.engine.workloads.set(parse_grouping(raw))
        for kind in self.engine.workloads.read:
            self.engine.workloads.kind_read(kind, "")

    def own(self, *raws: Mapping[str, Any]) -> None:
        for raw in raws:
            self.engine.workloads.owner_seen(kind_of(raw), raw["apiVersion"].rpartition("/")[2], raw)

    def put(self, *pods: Mapping[str, Any]) -> None:
        for pod in pods:
            self.engine.pending.put(pod)

    @property
    def bound(self) -> set[str]:
        return {name for name, _ in self.cluster.bound}

    @property
    def minimums(self) -> dict[str, int]:
        """The groups by the labels of their workloads."""
        return {group.label: group.min_count for group in self.engine.cache.groups.all()}
