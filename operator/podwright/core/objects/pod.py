"""PodInfo: what the scheduler keeps of a v1.Pod.

A PodInfo is never changed after parsing. Parts that pods of one template share (affinity, tolerations, requests, labels)
are single interned objects, so caches can go by identity. Only a pending pod keeps its `raw` body.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from podwright.core.objects.affinity import (
    NodeAffinity,
    PodAffinity,
    SpreadConstraints,
    node_affinity_of,
    pod_affinity_of,
    spread_constraints_of,
)
from podwright.core.objects.declared_features import required_features
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.interning import Interner
from podwright.core.objects.pod_group import group_of
from podwright.core.objects.requests import requests_of
from podwright.core.objects.resources import Requests
from podwright.core.objects.selectors import as_labels, as_list, as_mapping
from podwright.core.objects.taints import Tolerations, parse_tolerations

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


class LabelSet(dict[str, str]):
    """A pod's labels, one object for equal labels. Compared and hashed by identity; never changed."""

    __slots__ = ("__weakref__",)

    def __hash__(self) -> int:  # type: ignore[override]  # a dict that is never changed
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port that the pod wants on its node. `ip` is 0.0.0.0 where none was given."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class Owner:
    """The controlling owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PodImages:
    """Image names of init containers, containers and image volumes; `count` is how many they are together."""

    init_containers: tuple[str, ...]
    containers: tuple[str, ...]
    volumes: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.init_containers) + len(self.containers) + len(self.volumes)


@dataclass(slots=True, eq=False, weakref_slot=True)
class PodInfo:
    """A pod. Treat as immutable; hashed by identity, identified by `uid`.

    `start_time` and `creation` are seconds since the epoch; `volumes` are the raw v1.Volume entries that may matter to
    scheduling (claims, ephemeral, and the kinds with exclusive use).
    """

    namespace: str
    name: str
    uid: str
    key: str
    """namespace/name"""
    labels: LabelSet
    resource_version: str
    scheduler_name: str
    node_name: str
    nominated_node_name: str
    phase: str
    terminating: bool
    priority: int
    preemption_policy: str
    creation: float
    start_time: float | None
    owner: Owner | None
    gates: tuple[str, ...]
    requests: Requests
    node_affinity: NodeAffinity
    pod_affinity: PodAffinity
    spread: SpreadConstraints
    tolerations: Tolerations
    ports: tuple[HostPort, ...]
    images: PodImages
    volumes: tuple[Mapping[str, Any], ...]
    resource_claims: tuple[str, ...]
    group: str
    """The key of the PodGroup that it belongs to, see `pod_group.group_key`; empty: none."""
    preempted: bool
    """The condition DisruptionTarget says that a scheduler preempted it."""
    required_features: frozenset[str]
    """Features that a node must declare."""
    raw: Mapping[str, Any] | None
    """The body as it was served, of pending pods only."""

    @property
    def finished(self) -> bool:
        """Phase Succeeded or Failed: it no longer uses its node."""
        return self.phase in ("Succeeded", "Failed")

    def on(self, node_name: str) -> PodInfo:
        """The pod as it is once it is placed on this node."""
        return replace(self, node_name=node_name)


_labels: Final[Interner[LabelSet]] = Interner()
_tolerations: Final[Interner[Tolerations]] = Interner()
_images: Final[Interner[PodImages]] = Interner()
_VOLUME_KINDS: Final = (
    "persistentVolumeClaim",
    "ephemeral",
    "image",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "rbd",
    "iscsi",
    "csi",
    "azureDisk",
    "cinder",
    "portworxVolume",
    "vsphereVolume",
    "azureFile",
)
_NO_OBJECT: Final[Mapping[str, Any]] = {}


def parse_pod(raw: Mapping[str, Any], *, keep_raw: bool = False) -> PodInfo:
    """A v1.Pod. Raises InvalidObjectError naming the pod and the field."""
    try:
        metadata = as_mapping(raw.get("metadata"), "metadata")
        name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
        if not isinstance(name, str) or not name or not isinstance(namespace, str):
            raise InvalidObjectError("metadata.name", "a name and a namespace are required")
        return _parse(raw, metadata, namespace, name, keep_raw=keep_raw)
    except InvalidObjectError as error:
        raise error.of("Pod", _name_of(raw)) from error


def _name_of(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return "?"
    return f"{metadata.get('namespace') or 'default'}/{metadata.get('name') or '?'}"


def _parse(
    raw: Mapping[str, Any], metadata: Mapping[str, Any], namespace: str, name: str, *, keep_raw: bool
) -> PodInfo:
    spec = as_mapping(raw.get("spec"), "spec")
    status = as_mapping(raw.get("status"), "status")
    containers = containers_of(spec, "containers")
    init_containers = containers_of(spec, "initContainers")
    labels = as_labels(metadata.get("labels"), "metadata.labels")
    tolerations = spec.get("tolerations")
    volumes = _volumes(spec)
    return PodInfo(
        namespace=namespace,
        name=name,
        uid=str(metadata.get("uid") or f"{namespace}/{name}"),
        key=f"{namespace}/{name}",
        labels=_labels.get(labels, lambda: LabelSet(labels)),
        resource_version=str(metadata.get("resourceVersion") or ""),
        scheduler_name=str(spec.get("schedulerName") or DEFAULT_SCHEDULER_NAME),
        node_name=str(spec.get("nodeName") or ""),
        nominated_node_name=str(status.get("nominatedNodeName") or ""),
        phase=str(status.get("phase") or "Pending"),
        terminating=bool(metadata.get("deletionTimestamp")),
        priority=_int32(spec.get("priority"), "spec.priority"),
        preemption_policy=str(spec.get("preemptionPolicy") or "PreemptLowerPriority"),
        creation=parse_time(metadata.get("creationTimestamp"), "metadata.creationTimestamp") or 0.0,
        start_time=parse_time(status.get("startTime"), "status.startTime"),
        owner=_controller(metadata),
        gates=tuple(
            str(as_mapping(g, "spec.schedulingGates").get("name"))
            for g in as_list(spec.get("schedulingGates"), "spec.schedulingGates")
        ),
        requests=requests_of(spec, status),
        node_affinity=node_affinity_of(spec, any_bound=True),
        pod_affinity=pod_affinity_of(spec, namespace),
        spread=spread_constraints_of(spec),
        tolerations=_tolerations.get(tolerations, lambda: parse_tolerations(tolerations, "spec.tolerations")),
        ports=_host_ports(containers, init_containers),
        images=_pod_images(containers, init_containers, volumes),
        volumes=volumes,
        resource_claims=tuple(
            str(as_mapping(c, "spec.resourceClaims").get("name"))
            for c in as_list(spec.get("resourceClaims"), "spec.resourceClaims")
        ),
        group=group_of(spec, labels, namespace),
        preempted=_preempted(status),
        required_features=required_features(spec),
        raw=raw if keep_raw else None,
    )


def containers_of(spec: Mapping[str, Any], field: str) -> Sequence[Mapping[str, Any]]:
    """`spec.containers` or `spec.initContainers`. Raises InvalidObjectError."""
    items = as_list(spec.get(field), f"spec.{field}")
    return [as_mapping(item, f"spec.{field}[{i}]") for i, item in enumerate(items)]


def parse_time(value: object, where: str) -> float | None:
    """An RFC 3339 time as seconds since the epoch, None for none. Raises InvalidObjectError."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidObjectError(where, "expected a time")
    try:
        return datetime.datetime.fromisoformat(value).timestamp()
    except ValueError as error:
        raise InvalidObjectError(where, f"{value!r:.40} is not a time") from error


def _int32(value: object, where: str) -> int:
    if value is None:
        return 0
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise InvalidObjectError(where, "expected a 32-bit whole number")
    return value


def _controller(metadata: Mapping[str, Any]) -> Owner | None:
    for item in as_list(metadata.get("ownerReferences"), "metadata.ownerReferences"):
        owner = as_mapping(item, "metadata.ownerReferences")
        if owner.get("controller"):
            return Owner(*(str(owner.get(k) or "") for k in ("apiVersion", "kind", "name", "uid")))
    return None


def _host_ports(
    containers: Sequence[Mapping[str, Any]], init_containers: Sequence[Mapping[str, Any]]
) -> tuple[HostPort, ...]:
    sidecars = [c for c in init_containers if c.get("restartPolicy") == "Always"]
    ports: dict[HostPort, None] = {}
    for container in (*sidecars, *containers):
        for item in as_list(container.get("ports"), "spec.containers.ports"):
            port = as_mapping(item, "spec.containers.ports")
            number = port.get("hostPort") or 0
            if type(number) is not int or not 0 <= number < 65536:
                raise InvalidObjectError("spec.containers.ports.hostPort", f"{number!r:.40} is not a port")
            if number > 0:
                ports[HostPort(port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", number)] = None  # noqa: S104 -- the wildcard by name
    return tuple(ports)


def _pod_images(
    containers: Sequence[Mapping[str, Any]],
    init_containers: Sequence[Mapping[str, Any]],
    volumes: Sequence[Mapping[str, Any]],
) -> PodImages:
    first = tuple(str(c.get("image") or "") for c in init_containers)
    second = tuple(str(c.get("image") or "") for c in containers)
    mounted = [as_mapping(v.get("image"), "spec.volumes.image").get("reference") for v in volumes if v.get("image")]
    third = tuple(str(reference or "") for reference in mounted)
    return _images.get((first, second, third), lambda: PodImages(first, second, third))


def _volumes(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    raw = spec.get("volumes")
    if not raw:
        return ()
    volumes = [as_mapping(v, f"spec.volumes[{i}]") for i, v in enumerate(as_list(raw, "spec.volumes"))]
    return tuple(v for v in volumes if any(kind in v for kind in _VOLUME_KINDS))


def _preempted(status: Mapping[str, Any]) -> bool:
    for item in as_list(status.get("conditions"), "status.conditions"):
        condition = item if isinstance(item, Mapping) else _NO_OBJECT
        if condition.get("type") == "DisruptionTarget":
            return condition.get("status") == "True" and condition.get("reason") == "PreemptionByScheduler"
    return False
