"""Claims and volumes that a pod lacks: the claim that it names, or a volume of a storage class without provisioner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from podwright.core.objects.node import HOSTNAME, Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, claims_of
from podwright.core.state.cache import Cache

CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SIZE: Final = "1Gi"

Objects = list[tuple[str, Mapping[str, Any]]]


def lacking(cache: Cache, pod: PodInfo, node: Node | None) -> Iterator[tuple[str, Objects]]:
    """Objects that may help, each with a text. `node`: where a volume would have to be; None: no node is near."""
    for name, ephemeral in claims_of(pod):
        claim = cache.store.get(CLAIM, name, pod.namespace)
        if claim is None and not ephemeral:
            class_name = _class_with_provisioner(cache)
            if class_name:
                made = _claim(pod.namespace, name, class_name)
                yield f"create the claim {pod.namespace}/{name}, of storage class {class_name}", [(CLAIM, made)]
        elif claim is not None and node is not None and not (claim.get("spec") or {}).get("volumeName"):
            spec = claim.get("spec") or {}
            storage_class = cache.store.get("StorageClass", str(spec.get("storageClassName") or ""))
            if storage_class is not None and storage_class.get("provisioner") == NO_PROVISIONER:
                made = _volume(f"{name}-volume", spec, node)
                text = f"create a PersistentVolume of storage class {spec['storageClassName']} on node {node.name}"
                yield f"{text}, of {made['spec']['capacity']['storage']}", [(VOLUME, made)]


def _class_with_provisioner(cache: Cache) -> str:
    """The default storage class, or else the first that provisions a volume where the pod goes; empty if there is none."""
    found = ""
    for raw in cache.store.list("StorageClass"):
        if raw.get("provisioner") == NO_PROVISIONER or raw.get("volumeBindingMode") != WAIT_FOR_FIRST_CONSUMER:
            continue
        name = str(raw["metadata"]["name"])
        if (raw["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
            return name
        found = found or name
    return found


def _claim(namespace: str, name: str, class_name: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": CLAIM,
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": _SIZE}},
        },
    }


def _volume(name: str, claim: Mapping[str, Any], node: Node) -> dict[str, Any]:
    requests = (claim.get("resources") or {}).get("requests") or {}
    term = {"key": HOSTNAME, "operator": "In", "values": [node.labels.get(HOSTNAME, node.name)]}
    return {
        "apiVersion": "v1",
        "kind": VOLUME,
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": str(requests.get("storage") or _SIZE)},
            "accessModes": list(claim.get("accessModes") or ["ReadWriteOnce"]),
            "storageClassName": claim["storageClassName"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/mnt/volume"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
        },
        "status": {"phase": "Available"},
    }
