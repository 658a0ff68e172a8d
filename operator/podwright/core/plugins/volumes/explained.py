"""Why a pod's claims and volumes keep it off nodes, with their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from podwright.core.framework.explaining import MOST_NAMED, Why, some
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.quantity import NANO
from podwright.core.objects.resources import MEMORY
from podwright.core.objects.similar_names import similar_name
from podwright.core.objects.volumes import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
    claims_of,
    parse_claim,
    parse_storage_capacity,
    parse_storage_class,
    parse_volume,
)
from podwright.core.objects.wording import listed, readable
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo

T = TypeVar("T")
_CLAIM: Final = "PersistentVolumeClaim"
IN_USE: Final = "ReadWriteOncePod"


def why_not_here(cache: Cache, pod: PodInfo, node: NodeInfo, message: str) -> Why:
    detail = some(
        f"volume {volume['metadata']['name']} of claim {claim} is only in {where}"
        for claim, volume in volumes_of(cache, pod)
        if (where := reach_of(volume))
    )
    if "node affinity" in message:
        return Why("VolumeElsewhere", "a volume of the pod is elsewhere", detail)
    if "find available" in message:
        return Why("NoVolume", "; ".join(unbound(cache, pod, node)), detail)
    if "enough free storage" in message:
        return Why(text="; ".join(_without_room(cache, pod, node)), detail=detail)
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
    """The name of an existing claim of which this one is a misspelt form, or ""."""
    return similar_name(name, (str(raw["metadata"]["name"]) for raw in cache.store.list(_CLAIM, namespace)))


def _missing(cache: Cache, pod: PodInfo, missing: list[str]) -> str:
    if len(missing) > 1:
        return f"its PersistentVolumeClaims {listed([f'{pod.namespace}/{name}' for name in missing])} do not exist"
    close = similar_claim(cache, pod.namespace, missing[0])
    return (
        f"its PersistentVolumeClaim {pod.namespace}/{missing[0]} does not "
        f"exist{f'; did you mean {close!r}?' if close else ''}"
    )


def _without_volume(cache: Cache, pod: PodInfo) -> Iterator[str]:
    for name, _ in claims_of(pod):
        claim = cache.store.get(_CLAIM, name, pod.namespace)
        volume = ((claim or {}).get("spec") or {}).get("volumeName")
        if volume and cache.store.get("PersistentVolume", str(volume)) is None:
            yield f"claim {pod.namespace}/{name} is bound to the volume {volume}, which does not exist"


def unbound(cache: Cache, pod: PodInfo, node: NodeInfo | None = None) -> Iterator[str]:
    """The causes for claims of the pod that are not bound to a volume. `node`: one that rejects the pod for them."""
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
            own = f"{claimed} is of storage class {class_name}, which has no provisioner"
            yield f"{own}, and {_free_volumes(cache, parse_claim(claim), node)}"
        elif storage_class.get("volumeBindingMode") != WAIT_FOR_FIRST_CONSUMER:
            yield f"{claimed} waits for its provisioner {storage_class.get('provisioner')}"
        elif node is not None and not parse_storage_class(storage_class).allows(node.present.labels):
            where = f"the class allows no volume on the node (its allowedTopologies{_allowed(storage_class)})"
            yield f"{claimed} is of storage class {class_name}, and {where}"


def _free_volumes(cache: Cache, claim: PersistentVolumeClaim, node: NodeInfo | None) -> str:
    """Why no free volume of the claim's class serves it on the node."""
    volumes = _valid(parse_volume, cache.store.list("PersistentVolume"))
    free = [each for each in volumes if each.storage_class == claim.storage_class and each.available and not each.claim]
    if not free:
        return "no PersistentVolume of it is free"
    wanted, most = claim.request or 0, max(each.capacity for each in free)
    if most < wanted:
        return f"of the free ones the largest has {_size(most)}; the claim asks for {_size(wanted)}"
    there = [each for each in free if node and (not each.affinity or each.affinity.matches(node.present.labels))]
    return (
        "no free one suits the claim"
        if there
        else f"the free ones are elsewhere ({listed([each.name for each in free])})"
    )


def _valid(parse: Callable[[Mapping[str, Any]], T], raws: Iterable[Mapping[str, Any]]) -> Iterator[T]:
    """The objects that can be parsed."""
    for raw in raws:
        with suppress(InvalidObjectError):
            yield parse(raw)


def _size(nanos: int) -> str:
    return readable(MEMORY, nanos // NANO)


def _allowed(storage_class: Mapping[str, Any]) -> str:
    """The first of the topologies in which the class provisions. Never raises, whatever the object contains."""
    try:
        each = storage_class["allowedTopologies"][0]["matchLabelExpressions"][0]
        return f": {each['key']} in {', '.join(each['values'][:MOST_NAMED])}"
    except (KeyError, TypeError, IndexError, AttributeError):
        return ""


def _without_room(cache: Cache, pod: PodInfo, node: NodeInfo) -> Iterator[str]:
    """The claims for which the storage that the node reaches has too little room, with the amounts."""
    capacities = [*_valid(parse_storage_capacity, cache.store.list("CSIStorageCapacity"))]
    for name, _ in claims_of(pod):
        raw = cache.store.get(_CLAIM, name, pod.namespace)
        claim = None if raw is None else parse_claim(raw)
        if claim is None or claim.volume_name:
            continue
        near = [
            each.capacity if each.limit is None else each.limit
            for each in capacities
            if each.storage_class == claim.storage_class and each.nodes.matches(node.present.labels)
        ]
        if max(near, default=0) < (claim.request or 0):
            has = f"the most that the node reaches is {_size(max(near))}" if near else "the node reaches none"
            yield (
                f"claim {claim.key} asks for {_size(claim.request or 0)} of storage class {claim.storage_class}; {has}"
            )


def similar_class(cache: Cache, name: str) -> str:
    """The storage class of which this is a misspelt form, or ""."""
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
    """From where a PersistentVolume can be reached, in words; "" if from everywhere. Never raises, whatever the object
    contains.
    """
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
