"""Clusters for simulations, and copies of everything that can be read from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.core.objects.watched_kinds import STORED_KINDS
from podwright.simulator.loaded import LoadedCluster, LoadOptions, load
from podwright.simulator.snapshot import Snapshot
from support.objects.builders import make_node, make_pod

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def item(kind: str, raw: Mapping[str, Any], version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, **raw}


def node(name: str, zone: str = "a", cpu: str = "4", **more: Any) -> dict[str, Any]:
    labels = {HOSTNAME: name, ZONE: zone}
    return item("Node", make_node(name, labels=labels, allocatable={"cpu": cpu, "memory": "16Gi"}, **more))


def owned(name: str, kind: str = "ReplicaSet") -> dict[str, Any]:
    """The metadata of a pod with a controller."""
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}]}


def pod(
    name: str,
    on: str = "",
    cpu: str = "1",
    *,
    owner: str = "web-1",
    kind: str = "ReplicaSet",
    spec: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A pod of a ReplicaSet, or of nothing if `owner` is empty."""
    metadata = {**(owned(owner, kind) if owner else {}), **more.pop("metadata", {})}
    labels = more.pop("labels", {"app": "web"})
    spec = {"schedulerName": "podwright", **(spec or {})}
    return item(
        "Pod", make_pod(name, node=on, requests={"cpu": cpu}, labels=labels, metadata=metadata, spec=spec, **more)
    )


def loaded(*objects: Mapping[str, Any], **options: Any) -> LoadedCluster:
    return load(Snapshot(objects=objects, taken_at=1_700_000_000.0), LoadOptions(**options))


def copy_of(cluster: LoadedCluster) -> dict[str, Any]:
    """Everything that a trial may change, in order."""
    cache, table = cluster.cache, cluster.cache.table
    rows = {}
    for name, info in cache.nodes.items():
        columns = (
            ()
            if info.slot < 0
            else tuple(
                int(column[info.slot])
                for column in (
                    table.pods,
                    table.scoring_cpu,
                    table.scoring_memory,
                    table.requested("cpu"),
                    table.allocatable("cpu"),
                    table.unschedulable,
                )
            )
        )
        rows[name] = (info.node, [*info.pods], {key: value for key, value in info.requested.items() if value}, columns)
    return {
        "rows": list(rows.items()),
        "nodes": table.count,
        "pods": cache.pod_count,
        "objects": {kind.kind: [*cache.store.list(kind.kind)] for kind in STORED_KINDS},
        "groups": [
            (group.key, [*cache.groups.members(group.key).placed], [*cache.groups.members(group.key).waiting])
            for group in cache.groups.all()
        ],
        "partially placed": [group.key for group in cache.groups.partially_placed],
        "nominations": [(name, [p.uid for p in cache.nominator.on(name)]) for name in cache.nominator.nodes()],
        "pending": [*cluster.pending],
        "policies": [(each.name, each.generation, each.spec) for each in cluster.policies.policy_set.active],
        "policy objects": dict(cluster.policy_objects),
        "queues": [
            (name, cluster.queues.get(name), dict(cluster.queues.usage(name)), [*cluster.queues.waiting_pods(name)])
            for name in sorted(cluster.queues.names())
        ],
        "queue objects": {kind: dict(raws) for kind, raws in cluster.queue_objects.items()},
        "clock": cluster.clock.now,
    }
