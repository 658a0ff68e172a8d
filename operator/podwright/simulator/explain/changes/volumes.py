"""Claims and volumes that a pod lacks: the claim that it names, or a volume of a storage class without provisioner."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from podwright.core.objects.node import HOSTNAME, Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, claims_of
from podwright.core.state.cache import Cache
from podwright.simulator.explain.causes import missing_claims, similar_claim, similar_class

CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SIZE: Final = "1Gi"

Objects = list[tuple[str, Mapping[str, Any]]]


def lacking(cache: Cache, pod: PodInfo, node: Node | None) -> tuple[str, Objects]:
    """Objects that may help, all together, with a text; empty if there are none. `node`: where a volume would have to be; None: no node is near."""
    found = [*_lacking(cache, pod, node)]
    return " and ".join(text for text, _ in found), [each for _, objects in found for each in objects]


def remounted(cache: Cache, pod: PodInfo) -> Iterator[tuple[str, dict[str, Any]]]:
    """The pod with claims that exist in place of misspelt ones."""
    renamed = {
        name: close for name in missing_claims(cache, pod) if (close := similar_claim(cache, pod.namespace, name))
    }
    if not renamed or pod.raw is None:
        return
    made = copy.deepcopy(dict(pod.raw))
    for volume in made["spec"].get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict) and claim.get("claimName") in renamed:
            claim["claimName"] = renamed[claim["claimName"]]
    yield " and ".join(f"mount the claim {close} instead of {name}" for name, close in renamed.items()), made


def _lacking(cache: Cache, pod: PodInfo, node: Node | None) -> Iterator[tuple[str, Objects]]:
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
            if storage_class is None and spec.get("storageClassName"):
                yield from _of_other_class(cache, claim)
            elif storage_class is not None and storage_class.get("provisioner") == NO_PROVISIONER:
                made = _volume(f"{name}-volume", spec, node)
                text = f"create a PersistentVolume of storage class {spec['storageClassName']} on node {node.name}"
                yield f"{text}, of {made['spec']['capacity']['storage']}", [(VOLUME, made)]


def _of_other_class(cache: Cache, claim: Mapping[str, Any]) -> Iterator[tuple[str, Objects]]:
    """The claim with the storage class of which its own is a misspelt form."""
    before, metadata = str(claim["spec"]["storageClassName"]), claim["metadata"]
    close = similar_class(cache, before)
    if close:
        text = f"create the claim {metadata.get('namespace')}/{metadata['name']} anew, of storage class {close} instead of {before}"
        yield text, [(CLAIM, {**claim, "spec": {**claim["spec"], "storageClassName": close}})]


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
