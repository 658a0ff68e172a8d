"""Builders of nodes, pods and groups in the form of the API server. Tests name only the fields that they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def make_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, Any]] = (),
    unschedulable: bool = False,
    allocatable: Mapping[str, str] | None = None,
    images: Sequence[Mapping[str, Any]] = (),
    declared_features: Sequence[str] = (),
) -> dict[str, Any]:
    """A v1.Node. `allocatable` is merged over cpu 8, memory 32Gi and pods 110."""
    return {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", **(allocatable or {})},
            "images": list(images),
            "declaredFeatures": list(declared_features),
        },
    }


def make_taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    node: str = "",
    requests: Mapping[str, str] | None = None,
    priority: int | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A v1.Pod with one container. `spec`, `status` and `metadata` are merged over the fields from the other
    arguments.
    """
    container: dict[str, Any] = {"name": "main", "image": "app", "resources": {"requests": dict(requests or {})}}
    made: dict[str, Any] = {"containers": [container]}
    if node:
        made["nodeName"] = node
    if priority is not None:
        made["priority"] = priority
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"{namespace}/{name}",
            "labels": labels or {},
            **(metadata or {}),
        },
        "spec": {**made, **(spec or {})},
        "status": dict(status or {}),
    }


def make_namespace(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}


def make_pod_group(
    name: str = "gang", min_count: int | None = 2, *, namespace: str = "default", **spec: Any
) -> dict[str, Any]:
    """A PodGroup of the Workload API. `min_count` None gives the basic policy. `spec` is merged over it."""
    policy: dict[str, Any] = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"group-{name}", "generation": 1},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def in_group(name: str = "gang") -> dict[str, Any]:
    """The part of a pod's spec that names its group."""
    return {"schedulingGroup": {"podGroupName": name}}


def make_policy(name: str = "p", generation: int | None = None, uid: str | None = None, **spec: Any) -> dict[str, Any]:
    """A SchedulerPolicy. Without `generation` and `uid`, which the API server sets, as a user writes it."""
    given = {"generation": generation, "uid": uid}
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "SchedulerPolicy",
        "metadata": {"name": name, **{key: value for key, value in given.items() if value is not None}},
        "spec": spec,
    }


def make_hyper_node(name: str, tier: int, *members: dict[str, Any] | str, **spec: Any) -> dict[str, Any]:
    """A HyperNode of Volcano. A member is another HyperNode, by its name, or the selector of nodes."""
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {
            "tier": tier,
            "members": [
                {"type": "HyperNode", "selector": {"exactMatch": {"name": each}}}
                if isinstance(each, str)
                else {"type": "Node", "selector": each}
                for each in members
            ],
            **spec,
        },
    }


def make_topology(*labels: str, name: str = "default", api: str = "podwright.dev/v1alpha1") -> dict[str, Any]:
    """A Topology of any API with these levels, the coarsest first."""
    return {
        "apiVersion": api,
        "kind": "Topology",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {"levels": [{"nodeLabel": label} for label in labels]},
    }
