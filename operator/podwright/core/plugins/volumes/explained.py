"""Why a pod's claims and volumes keep it off nodes, with their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from podwright.core.framework.explaining import MOST_NAMED, Why, some
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.similar_names import similar_name
from podwright.core.objects.volumes import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, claims_of
from podwright.core.objects.wording import listed
from podwright.core.state.cache import Cache

_CLAIM: Final = "PersistentVolumeClaim"
IN_USE: Final = "ReadWriteOncePod"


def why_not_here(cache: Cache, pod: PodInfo, message: str) -> Why:
    detail = some(
        f"volume {volume['metadata']['name']} of claim {claim} is only in {where}"
        for claim, volume in volumes_of(cache, pod)
        if (where := reach_of(volume))
    )
    if "node affinity" in message:
        return Why("VolumeElsewhere", "a volume of the pod is elsewhere", detail)
    if "find available" in message:
        return Why("NoVolume", "; ".join(unbound(cache, pod)), detail)
    if "non-existent" in message:
        return Why("VolumeMissing", "a claim of the pod is bound to a volume that does not exist", detail)
    return Why(detail=detail)


def why_nowhere(cache: Cache, pod: PodInfo, message: str) -> Why:
    missing = missing_claims(cache, pod)
    if "persistentvolumeclaim" in message and missing:
        return Why("ClaimMissing", _missing(cache, pod, missing))
    if ("persistentvolume " in message and "not found" in message) or "non-existent persistentvolume" in message:
        return Why("VolumeMissing", "; ".join(_without_volume(cache, pod)))
    if "is being deleted" in message:
        return Why("ClaimTerminating", f"a claim of the pod is going away: {message}")
    if "unbound immediate" in message:
        return Why("ClaimUnbound", "; ".join(unbound(cache, pod)) or message)
    if IN_USE in message:
        return Why("ClaimInUse", in_use(cache, pod))
    return Why()


def missing_claims(cache: Cache, pod: PodInfo) -> list[str]:
    """The names of missing PersistentVolumeClaims of the pod."""
    return [name for name, _ in claims_of(pod) if cache.store.get(_CLAIM, name, pod.namespace) is None]


def similar_claim(cache: Cache, namespace: str, name: str) -> str:
    """The name of an existing claim of which this one is a misspelt form; empty if there is none."""
    return similar_name(name, (str(raw["metadata"]["name"]) for raw in cache.store.list(_CLAIM, namespace)))


def _missing(cache: Cache, pod: PodInfo, missing: list[str]) -> str:
    if len(missing) > 1:
        return f"its PersistentVolumeClaims {listed([f'{pod.namespace}/{name}' for name in missing])} do not exist"
    close = similar_claim(cache, pod.namespace, missing[0])
    return f"its PersistentVolumeClaim {pod.namespace}/{missing[0]} does not exist{f'; did you mean {close!r}?' if close else ''}"


def _without_volume(cache: Cache, pod: PodInfo) -> Iterator[str]:
    for name, _ in claims_of(pod):
        claim = cache.store.get(_CLAIM, name, pod.namespace)
        volume = ((claim or {}).get("spec") or {}).get("volumeName")
        if volume and cache.store.get("PersistentVolume", str(volume)) is None:
            yield f"claim {pod.namespace}/{name} is bound to the volume {volume}, which does not exist"


def unbound(cache: Cache, pod: PodInfo) -> Iterator[str]:
    """The causes for claims of the pod that are not bound to a volume."""
    for name, _ in claims_of(pod):
        claim = cache.store.get(_CLAIM, name, pod.namespace)
        spec: Mapping[str, Any] = (claim or {}).get("spec") or {}
        if claim is None or spec.get("volumeName"):
            continue
        class_name = str(spec.get("storageClassName") or "")
        storage_class = cache.store.get("StorageClass", class_name) if class_name else None
        claimed = f"claim {pod.namespace}/{name}"
        if not class_name:
            yield f"{claimed} names no storage class and is bound to no volume"
        elif storage_class is None:
            close = similar_class(cache, class_name)
            hint = f"; did you mean {close!r}?" if close else ""
            yield f"{claimed} names the storage class {class_name}, which does not exist{hint}"
        elif storage_class.get("provisioner") == NO_PROVISIONER:
            yield f"{claimed} is of storage class {class_name}, which has no provisioner, and no PersistentVolume of it is free"
        elif storage_class.get("volumeBindingMode") != WAIT_FOR_FIRST_CONSUMER:
            yield f"{claimed} waits for its provisioner {storage_class.get('provisioner')}"


def similar_class(cache: Cache, name: str) -> str:
    """The storage class of which this is a misspelt form; empty if there is none."""
    return similar_name(name, (str(raw["metadata"]["name"]) for raw in cache.store.list("StorageClass")))


def claim_users(cache: Cache, pod: PodInfo) -> list[PodInfo]:
    """The placed pods that use a claim of the pod."""
    names = {name for name, _ in claims_of(pod)}
    return [
        other
        for info in cache.nodes.values()
        for other in info.pods.values()
        if other.volumes and other.namespace == pod.namespace and any(name in names for name, _ in claims_of(other))
    ]


def in_use(cache: Cache, pod: PodInfo) -> str:
    users = claim_users(cache, pod)
    claims = [name for name, _ in claims_of(pod)]
    by = f"{users[0].key} on {users[0].node_name}" if users else "another pod"
    return f"its claim {listed(claims)} may be used by one pod (ReadWriteOncePod), and {by} uses it"


def volumes_of(cache: Cache, pod: PodInfo) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pod's claims that are bound, each with its volume's object."""
    for name, _ in claims_of(pod):
        claim = cache.store.get("PersistentVolumeClaim", name, pod.namespace)
        volume = None if claim is None else (claim.get("spec") or {}).get("volumeName")
        found = cache.store.get("PersistentVolume", volume) if volume else None
        if found is not None:
            yield name, found


def reach_of(volume: Mapping[str, Any]) -> str:
    """From where a PersistentVolume can be reached, in words; "" if from everywhere. Never raises, whatever the object contains."""
    try:
        terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        parts = [
            f"{each['key']} {each['operator']} ({', '.join((each.get('values') or [])[:MOST_NAMED])})"
            for each in terms[0]["matchExpressions"]
        ]
        return " and ".join(parts)
    except (KeyError, TypeError, IndexError, AttributeError):
        pass
    try:
        labels = volume["metadata"]["labels"]
        return ", ".join(f"{key}={labels[key]}" for key in labels if key.endswith(("/zone", "/region")))
    except (KeyError, TypeError):
        return ""
