"""The causes in words: one for each group of rejections, the nearest nodes first, so that the true cause comes first.

Each cause has a reason for programs, which is one of the words here, and a sentence that names the objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from podwright.core.framework.framework import Framework
from podwright.core.framework.status import Status
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.similar_names import did_you_mean, similar_name
from podwright.core.objects.volumes import NO_PROVISIONER, WAIT_FOR_FIRST_CONSUMER, claims_of
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.state.cache import Cache
from podwright.core.state.devices import CLASS_KIND
from podwright.core.state.nodeinfo import NodeInfo
from podwright.simulator.explain.amounts import called, counted, listed, readable
from podwright.simulator.explain.devices import missing_classes, open_claims
from podwright.simulator.explain.results import Cause, Miss, Rejected
from podwright.simulator.explain.verdicts import FIT, Verdicts

DEVICES: Final = "DynamicResources"
_LIFECYCLE: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""The prefixes of taints that the control plane sets and removes."""
_NOT_READY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_REASONS: Final[Mapping[str, str]] = {
    "NodeUnschedulable": "Cordoned",
    "NodeAffinity": "NodeAffinity",
    "NodeName": "NodeName",
    "NodePorts": "PortTaken",
    "NodeVolumeLimits": "VolumeLimit",
    "VolumeZone": "VolumeElsewhere",
    "PodTopologySpread": "Spread",
    DEVICES: "Devices",
    "NodeDeclaredFeatures": "MissingFeatures",
    "PolicyRules": "PolicyRule",
}
_OWNERS_THAT_STAY: Final = ("DaemonSet", "Node")


def lifecycle(key: str) -> bool:
    """Whether the control plane manages taints of this key."""
    return key.startswith(_LIFECYCLE)


def stays(pod: PodInfo) -> bool:
    """Whether the pod belongs to its node, so that it cannot run elsewhere: a DaemonSet's or a static pod."""
    return pod.owner is not None and pod.owner.kind in _OWNERS_THAT_STAY


def causes_of(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    verdicts: Verdicts,
    groups: Sequence[Rejected],
    nearest: Sequence[Miss],
) -> tuple[Cause, ...]:
    """The causes of a rejection, the true one first."""
    status = verdicts.diagnosis.pre_filter
    if status is not None:
        return (_of_pre_filter(cache, pod, status),)
    found = [_of_group(framework, cache, pod, verdicts, group, nearest) for group in groups]
    return tuple(found)


# PreFilter


def _of_pre_filter(cache: Cache, pod: PodInfo, status: Status) -> Cause:
    nodes = cache.table.count
    reason = _REASONS.get(status.plugin, "Rejected")
    text = f"{status.plugin} rejects the pod on all nodes: {status.message}"
    missing = missing_claims(cache, pod)
    if "persistentvolumeclaim" in status.message and missing:
        reason, text = "ClaimMissing", _missing(cache, pod, missing)
    elif (
        "persistentvolume " in status.message and "not found" in status.message
    ) or "non-existent persistentvolume" in status.message:
        reason, text = "VolumeMissing", "; ".join(_without_volume(cache, pod)) or text
    elif "is being deleted" in status.message:
        reason, text = "ClaimTerminating", f"a claim of the pod is going away: {status.message}"
    elif "unbound immediate" in status.message:
        reason, text = "ClaimUnbound", "; ".join(unbound(cache, pod)) or status.message
    elif _IN_USE in status.message:
        reason, text = "ClaimInUse", _in_use(cache, pod)
    elif status.plugin == DEVICES and (classes := missing_classes(cache, pod)):
        reason, text = "DeviceClassMissing", _without_class(cache, pod, classes)
    return Cause(reason=reason, text=text, plugin=status.plugin, nodes=nodes)


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


def _without_class(cache: Cache, pod: PodInfo, classes: list[str]) -> str:
    known = [str(raw["metadata"]["name"]) for raw in cache.store.list(CLASS_KIND)]
    asking = [
        claim.key
        for claim in open_claims(cache, pod)
        if any(ask.device_class in classes for request in claim.spec.requests for ask in request.asks)
    ]
    hint = did_you_mean(classes[0], known) if len(classes) == 1 else ""
    what = (
        f"class {classes[0]}, which does not exist"
        if len(classes) == 1
        else f"classes {listed(classes)}, which do not exist"
    )
    return f"claim {listed(asking)} asks for devices of {what}{hint}"


_CLAIM: Final = "PersistentVolumeClaim"
_RESOURCES_READ: Final = 1000
_IN_USE: Final = "ReadWriteOncePod"


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


def _in_use(cache: Cache, pod: PodInfo) -> str:
    users = claim_users(cache, pod)
    claims = [name for name, _ in claims_of(pod)]
    by = f"{users[0].key} on {users[0].node_name}" if users else "another pod"
    return f"its claim {listed(claims)} may be used by one pod (ReadWriteOncePod), and {by} uses it"


# Nodes


def _of_group(
    framework: Framework,
    cache: Cache,
    pod: PodInfo,
    verdicts: Verdicts,
    group: Rejected,
    nearest: Sequence[Miss],
) -> Cause:
    node = group.examples[0]
    info = cache.present(node)
    assert info is not None, "a rejected node exists"
    miss = next((each for each in nearest if each.node == node), None)
    detail = next((each.detail for each in miss.problems if each.plugin == group.plugin), "") if miss else ""
    reason, why = _classified(framework, cache, pod, info, group, reserved=info.slot in verdicts.diagnosis.explicit)
    count, total = group.nodes, cache.table.count
    where = (
        f"on {count:,} of {counted(total, 'node')}" if count < total else "on all nodes" if total > 1 else f"on {node}"
    )
    text = f"{where}, {why or group.reason}"
    if detail:
        named = "" if total == 1 else f"; {'there' if count == 1 else 'nearest'} is {node}"
        text += f"{named}: {detail}"
    return Cause(reason=reason, text=text, plugin=group.plugin, nodes=group.nodes)


def _classified(
    framework: Framework, cache: Cache, pod: PodInfo, node: NodeInfo, group: Rejected, *, reserved: bool
) -> tuple[str, str]:
    """The reason, and a text that says more than the plugin's; "" if there is none."""
    if reserved and not framework_rejects(framework, pod, node, group.plugin):
        return "RoomIsNominated", "there is room, but it is kept for pods that are nominated there"
    match group.plugin:
        case "NodeResourcesFit":
            return _resources(framework, cache, pod, node, group)
        case "TaintToleration":
            return _taint(pod, node)
        case "InterPodAffinity":
            anti = "anti-affinity" in group.reason
            return ("PodAntiAffinity" if anti else "PodAffinity"), _no_such_pod(cache, pod, anti=anti)
        case "VolumeBinding":
            return _volume(cache, pod, group)
        case "VolumeRestrictions":
            return "ClaimInUse", _in_use(cache, pod) if _IN_USE in group.reason else ""
    return _REASONS.get(group.plugin, group.plugin), ""


def framework_rejects(framework: Framework, pod: PodInfo, node: NodeInfo, plugin: str) -> bool:
    """Whether the node lacks room for the pod even without nominated pods, as far as NodeResourcesFit says."""
    fit = framework.plugins.get(FIT)
    if plugin != FIT or not isinstance(fit, NodeResourcesFit):
        return False
    return any(
        amount > node.allocatable(name) - node.requested.get(name, 0)
        for name, amount in fit.checked_requests(pod.requests)
    ) or len(node.pods) + 1 > node.allocatable("pods")


def _resources(framework: Framework, cache: Cache, pod: PodInfo, node: NodeInfo, group: Rejected) -> tuple[str, str]:
    if group.reason == "Too many pods":
        return "TooManyPods", "the most pods that a node takes are there"
    resource = group.reason.removeprefix("Insufficient ")
    amount = dict(pod.requests.spec_requests).get(resource, 0)
    table = cache.table
    most = int(table.allocatable(resource)[table.valid].max()) if table.count else 0
    if not most:
        hint = did_you_mean(resource, _offered(cache))
        text = f"no node offers {called(resource)}, of which the pod requests {readable(resource, amount)}{hint}"
        return "NoSuchResource", text
    if amount > most:
        return "TooBig", (
            f"the pod requests {readable(resource, amount)} {called(resource)}, more than any node has"
            f" ({readable(resource, most)})"
        )
    if node.requested.get(resource, 0) > node.allocatable(resource):
        rivals = {other.scheduler_name for other in node.pods.values()} - {pod.scheduler_name}
        return "Overcommitted", (
            f"the pods on the node request more {called(resource)} than it has"
            f"{f': other schedulers place pods there, too ({listed(sorted(rivals))})' if rivals else ''}"
        )
    ending = [other for other in node.pods.values() if other.terminating]
    if ending and fits_without(framework, pod, node, ending):
        return (
            "WaitsForTerminatingPods",
            f"its room is held by pods that are still terminating ({listed([each.key for each in ending])})",
        )
    movable = [other for other in node.pods.values() if not stays(other)]
    above = [other for other in movable if other.priority > pod.priority]
    below = [other for other in movable if other.priority < pod.priority]
    if above and fits_without(framework, pod, node, above + below) and not fits_without(framework, pod, node, below):
        return "PriorityTooLow", (
            f"too little {called(resource)} is free, and the pods there have a higher priority"
            f" (up to {max(other.priority for other in above)}, this pod {pod.priority})"
        )
    return "InsufficientResources", f"too little {called(resource)} is free"


def _offered(cache: Cache) -> list[str]:
    """The extended resources that nodes offer, up to a number."""
    found: dict[str, None] = {}
    for node in cache.table.nodes:
        found.update(dict.fromkeys(name for name in (node.allocatable if node is not None else ()) if "/" in name))
        if len(found) >= _RESOURCES_READ:
            break
    return [*found][:_RESOURCES_READ]


def fits_without(framework: Framework, pod: PodInfo, node: NodeInfo, others: Sequence[PodInfo]) -> bool:
    """Whether the node has enough resources for the pod without these other pods."""
    copy = node.clone()
    for other in others:
        copy.remove(other)
    return not framework_rejects(framework, pod, copy, FIT)


def _taint(pod: PodInfo, node: NodeInfo) -> tuple[str, str]:
    keys = [taint.key for taint in node.present.taints if not pod.tolerations.tolerate(taint)]
    if any(key in _NOT_READY for key in keys):
        return "NodeNotReady", "the node is not ready"
    return "UntoleratedTaint", "the node has a taint that the pod does not tolerate"


def _no_such_pod(cache: Cache, pod: PodInfo, *, anti: bool) -> str:
    if anti:
        return ""
    for term in pod.pod_affinity.required:
        placed = (other for info in cache.nodes.values() for other in info.pods.values())
        if not any(term.matches(o.namespace, cache.namespace_labels(o.namespace), o.labels) for o in placed):
            return f"no pod anywhere matches the pod affinity over {term.topology_key}"
    return ""


def _volume(cache: Cache, pod: PodInfo, group: Rejected) -> tuple[str, str]:
    if "node affinity" in group.reason:
        return "VolumeElsewhere", "a volume of the pod is elsewhere"
    if "find available" in group.reason:
        return "NoVolume", "; ".join(unbound(cache, pod))
    if "non-existent" in group.reason:
        return "VolumeMissing", "a claim of the pod is bound to a volume that does not exist"
    return "NoStorage", ""
