"""Claims and volumes that a pod lacks: the claim that it names, or a volume of a storage class without provisioner."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from podwright.core.objects.node import HOSTNAME, Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.volumes import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, claims_of
from podwright.core.objects.wording import listed
from podwright.core.plugins.volumes.explained import missing_claims, similar_claim, similar_class
from podwright.core.state.cache import Cache
from podwright.simulator.explain.changes.patches import difference
from podwright.simulator.explain.changes.trials import ClusterChange, with_objects
from podwright.simulator.explain.results import Edit

CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SIZE: Final = "1Gi"
_CLASS: Final = "StorageClass"
_BOUND: Final = ("pv.kubernetes.io/", "volume.kubernetes.io/selected-node")
"""Annotations that say to which volume a claim is bound."""

Objects = list[tuple[str, Mapping[str, Any]]]


def lacking(cache: Cache, pod: PodInfo, node: Node) -> ClusterChange | None:
    """One change that creates all objects that the pod lacks; None if it lacks nothing. `node`: where its volumes must
    be.
    """
    found = [*_lacking(cache, pod, node)]
    objects = [each for _, some in found for each in some]
    return _with(cache, " and ".join(text for text, _ in found), objects) if objects else None


def _with(cache: Cache, text: str, objects: Objects) -> ClusterChange:
    return with_objects(text, [_edit(cache, kind, raw) for kind, raw in objects], objects)


def _edit(cache: Cache, kind: str, raw: Mapping[str, Any]) -> Edit:
    metadata = raw["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    before = cache.store.get(kind, name, namespace)
    if before is None:
        return Edit(verb="create", kind=kind, name=name, namespace=namespace, object=raw)
    return Edit(verb="recreate", kind=kind, name=name, namespace=namespace, object=difference(before, raw))


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


def labels_reaching(cache: Cache, pod: PodInfo) -> dict[str, str]:
    """Labels of a node that reaches the volumes of the pod, or may get them; empty if they name no place, or different
    ones.
    """
    places: dict[str, set[str]] = {}
    selected = pod.node_affinity.node_selector
    for key, values in chain.from_iterable(map(_place_of, _where(cache, pod))):
        wanted = {selected[key]} if key in selected else values
        places[key] = places.get(key, values) & values & wanted
    if HOSTNAME in places or not all(places.values()):
        return {}
    return {key: min(values) for key, values in places.items()}


def _where(cache: Cache, pod: PodInfo) -> Iterator[Mapping[str, Any]]:
    """The volumes of the pod, and the storage classes of its claims that have none."""
    for name, _ in claims_of(pod):
        spec = (cache.store.get(CLAIM, name, pod.namespace) or {}).get("spec") or {}
        kind, wanted = (VOLUME, "volumeName") if spec.get("volumeName") else (_CLASS, "storageClassName")
        found = cache.store.get(kind, str(spec.get(wanted) or ""))
        if found is not None:
            yield found


def _place_of(raw: Mapping[str, Any]) -> list[tuple[str, set[str]]]:
    """The values by label that a volume or a storage class asks of nodes, in the first of its terms. Never raises,
    whatever the object contains.
    """
    try:
        if "provisioner" in raw:
            return [(each["key"], {*each["values"]}) for each in raw["allowedTopologies"][0]["matchLabelExpressions"]]
        labels = raw["metadata"].get("labels") or {}
        places = [(key, {*labels[key].split("__")}) for key in labels if key.endswith(("/zone", "/region"))]
        affinity = raw["spec"].get("nodeAffinity")
        terms = affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"] if affinity else ()
        return [*places, *((each["key"], {*each["values"]}) for each in terms if each["operator"] == "In")]
    except (KeyError, TypeError, IndexError, AttributeError):
        return []


def emptied(cache: Cache, pod: PodInfo) -> Iterator[ClusterChange]:
    """Claims that are recreated and get new volumes where the pod goes: one of them, then all. What is on their volumes
    is lost to the pod.
    """
    again = []
    for name, ephemeral in claims_of(pod):
        claim = cache.store.get(CLAIM, name, pod.namespace)
        spec = (claim or {}).get("spec") or {}
        if claim is None or ephemeral or not spec.get("volumeName"):
            continue
        own = str(spec.get("storageClassName") or "")
        class_name = (
            own if own and _provisions_anywhere(cache.store.get(_CLASS, own)) else _class_with_provisioner(cache)
        )
        if class_name:
            made = {key: value for key, value in spec.items() if key != "volumeName"}
            annotations = (claim["metadata"].get("annotations") or {}).items()
            kept = {key: value for key, value in annotations if not key.startswith(_BOUND)}
            metadata = {**claim["metadata"], "annotations": kept}
            again.append(
                {**claim, "metadata": metadata, "spec": {**made, "storageClassName": class_name}, "status": {}}
            )
    for claims in [*([each] for each in again), *([again] if len(again) > 1 else [])]:
        names = listed([f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in claims])
        lost, volume = ("its data", "a new volume") if len(claims) == 1 else ("their data", "new volumes")
        text = f"create the claim {names} again, without {lost}, for {volume} where the pod goes"
        yield _with(cache, text, [(CLAIM, each) for each in claims])


def _lacking(cache: Cache, pod: PodInfo, node: Node) -> Iterator[tuple[str, Objects]]:
    for name, ephemeral in claims_of(pod):
        claim = cache.store.get(CLAIM, name, pod.namespace)
        if claim is None and not ephemeral:
            class_name = _class_with_provisioner(cache)
            if class_name:
                made = _claim(pod.namespace, name, class_name)
                yield f"create the claim {pod.namespace}/{name}, of storage class {class_name}", [(CLAIM, made)]
        elif claim is not None and not (claim.get("spec") or {}).get("volumeName"):
            spec = claim.get("spec") or {}
            storage_class = cache.store.get(_CLASS, str(spec.get("storageClassName") or ""))
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
        text = (
            f"create the claim {metadata.get('namespace')}/{metadata['name']} again, of storage class {close} instead "
            f"of {before}"
        )
        yield text, [(CLAIM, {**claim, "spec": {**claim["spec"], "storageClassName": close}})]


def _class_with_provisioner(cache: Cache) -> str:
    """The default storage class, or else the first that provisions a volume where the pod goes; empty without such a
    class.
    """
    found = ""
    for raw in cache.store.list(_CLASS):
        if not _provisions_anywhere(raw):
            continue
        name = str(raw["metadata"]["name"])
        if (raw["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true":
            return name
        found = found or name
    return found


def _provisions_anywhere(raw: Mapping[str, Any] | None) -> bool:
    """True if the storage class provisions a volume where the pod goes."""
    found = raw or {}
    return (
        found.get("provisioner", NO_PROVISIONER) != NO_PROVISIONER
        and found.get("volumeBindingMode") == WAIT_FOR_FIRST_CONSUMER
    )


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
