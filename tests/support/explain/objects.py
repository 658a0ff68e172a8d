"""Objects of the clusters in which pods wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.explain.kit import Cluster
from support.objects.builders import in_group, make_node, make_pod, make_pod_group, make_policy

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, zone: str = "a", **options: Any) -> dict[str, Any]:
    labels = {HOSTNAME: name, ZONE: zone, **options.pop("labels", {})}
    return make_node(name, labels=labels, **options)


def waiting(name: str = "waiting", **options: Any) -> dict[str, Any]:
    spec = {"schedulerName": "podwright", **options.pop("spec", {})}
    return make_pod(name, spec=spec, **options)


def cluster(
    nodes: Sequence[Any],
    pods: Sequence[Any] = (),
    policies: Sequence[Any] = (),
    groups: Sequence[Any] = (),
    **lists: Any,
) -> Cluster:
    return Cluster({"nodes": list(nodes), "pods": list(pods), **lists}, policies, groups)


def full(name: str, on: str, cpu: str = "8", **options: Any) -> dict[str, Any]:
    return make_pod(name, node=on, requests={"cpu": cpu}, **options)


def claim(
    name: str, *, volume: str = "", storage_class: str = "local", modes: Sequence[str] = ("ReadWriteOnce",)
) -> dict[str, Any]:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}", "annotations": bound},
        "spec": {
            "accessModes": list(modes),
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "1Gi"}},
            **({"volumeName": volume} if volume else {}),
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(
    name: str,
    claimed_by: str,
    *,
    zone: str = "",
    key: str = ZONE,
    driver: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
) -> dict[str, Any]:
    """`zone`: the value of the label `key` of the nodes that reach the volume."""
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": list(modes),
        "storageClassName": "local",
        "claimRef": {"namespace": "default", "name": claimed_by, "uid": f"claim-{claimed_by}"},
    }
    if zone:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    spec |= {"csi": {"driver": driver, "volumeHandle": name}} if driver else {"hostPath": {"path": "/tmp"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"volume-{name}"},
        "spec": spec,
        "status": {"phase": "Bound"},
    }


def storage_class(name: str, provisioner: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def mounting(*claims: str, images: Sequence[str] = ()) -> dict[str, Any]:
    volumes: list[dict[str, Any]] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    volumes += [{"name": f"image-{i}", "image": {"reference": each}} for i, each in enumerate(images)]
    return {"volumes": volumes}


def spread_over(key: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"topologySpreadConstraints": [constraint]}


def affinity_to(labels: Mapping[str, str], *, anti: bool = False) -> dict[str, Any]:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": dict(labels)}}
    return {"affinity": {"podAntiAffinity" if anti else "podAffinity": {REQUIRED: [term]}}}


def node_affinity(key: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def port(number: int) -> dict[str, Any]:
    ports = [{"containerPort": number, "hostPort": number, "protocol": "TCP"}]
    return {"containers": [{"name": "main", "image": "app", "ports": ports}]}


def policy(**spec: Any) -> dict[str, Any]:
    return make_policy("team", 1, "policy-team", **spec)


def gang(minimum: int, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", **make_pod_group("gang", minimum, **spec)}


def member(name: str, **options: Any) -> dict[str, Any]:
    return waiting(name, spec=in_group("gang"), **options)
