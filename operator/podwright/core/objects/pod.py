"""PodInfo: the fields of a v1.Pod that the scheduler uses.

A PodInfo is never changed after parsing. Parts that the pods of one template share (affinity, tolerations, requests,
labels) are interned, so that caches can compare by identity. Parsed specs are cached, too. Only a pending pod keeps its
`raw` body.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final, NoReturn

import orjson

from podwright.core.objects.affinity import (
    NodeAffinity,
    PodAffinity,
    SpreadConstraints,
    node_affinity_of,
    pod_affinity_of,
    spread_constraints_of,
)
from podwright.core.objects.closeness import Wish, wish_of
from podwright.core.objects.compaction import RecentCache, cleared_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.declared_features import required_features
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.frozen import FrozenBody, FrozenDict, frozen
from podwright.core.objects.interning import Interner
from podwright.core.objects.kai_groups import KAI_SCHEDULER, gpu_part
from podwright.core.objects.pod_group import groups_named
from podwright.core.objects.raw import as_labels, as_list, as_mapping, entries, shortened
from podwright.core.objects.requests import follows_spec, limits_of, requests_of
from podwright.core.objects.resources import Requests, ResourceLimits
from podwright.core.objects.taints import Tolerations, parse_tolerations
from podwright.core.objects.volcano_groups import TASK_KEY

KUBERNETES_DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
"""The scheduler of a pod that names none. Source: `DefaultSchedulerName` in k8s.io/api/core/v1."""


POLICY_ANNOTATION: Final = "podwright.dev/policy"
"""With it, a pod names the policy that should decide about it."""
RUN_TIME_ANNOTATION: Final = "podwright.dev/run-time"
"""With it, a pod says for how long it runs: a duration such as 90s or 1h30m."""
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
"""With it, a pod names its queue to Volcano. Source: `QueueNameAnnotationKey` in volcano.sh/apis v1.16,
scheduling/v1beta1.
"""
STAYS: Final = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Annotations, with the values that forbid autoscalers to move a pod. Sources: the documentation of Karpenter, and the
FAQ of Cluster Autoscaler.
"""
_MAX_NAME: Final = 253


class LabelSet(FrozenDict[str, str]):
    """A pod's labels, interned. Compared and hashed by identity, and never changed."""

    __slots__ = ("__weakref__",)

    def __hash__(self) -> int:  # type: ignore[override]  # a dict that is never changed
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host port that the pod requests. `ip` defaults to 0.0.0.0."""

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


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of `spec.resourceClaims`: names a ResourceClaim, or the template of one that is created for the pod."""

    name: str
    claim: str
    template: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PodImages:
    """Image names of init containers, containers and image volumes. `count` is their total number."""

    init_containers: tuple[str, ...]
    containers: tuple[str, ...]
    volumes: tuple[str, ...]

    @property
    def count(self) -> int:
        return len(self.init_containers) + len(self.containers) + len(self.volumes)


@dataclass(slots=True, eq=False, weakref_slot=True)
class PodInfo:
    """A pod. Treat as immutable; hashed by identity, identified by `uid`.

    `start_time` and `creation` are in seconds since the epoch. `volumes` are the raw v1.Volume entries of the kinds
    that affect scheduling.
    """

    namespace: str
    name: str
    uid: str
    key: str
    """namespace/name"""
    labels: LabelSet
    resource_version: str
    generation: int
    scheduler_name: str
    node_name: str
    nominated_node_name: str
    phase: str
    terminating: bool
    priority: int
    """The effective priority: that of the PriorityClass that its group names, or its own."""
    own_priority: int
    """The priority in its spec."""
    preemption_policy: str
    creation: float
    start_time: float | None
    owner: Owner | None
    gates: tuple[str, ...]
    """Its scheduling gates, and a field that holds it back in the same way: see `gpu_part`."""
    requests: Requests
    limits: ResourceLimits
    node_affinity: NodeAffinity
    pod_affinity: PodAffinity
    spread: SpreadConstraints
    tolerations: Tolerations
    ports: tuple[HostPort, ...]
    images: PodImages
    volumes: tuple[Mapping[str, Any], ...]
    local_storage: bool
    """True if the pod has a volume of LOCAL_VOLUMES, whose content stays behind when the pod moves."""
    resource_claims: tuple[PodClaim, ...]
    generated_claims: Mapping[str, str]
    """The name of the ResourceClaim that was created for an entry of `resource_claims`, by the entry's name; "" if none
    is needed.
    """
    group: str
    """The key of its PodGroup, see `pod_group.group_key`; empty if it has none."""
    named_groups: tuple[str, ...]
    """The keys of the groups that it names, the most specific first; empty unless there are several."""
    preempted: bool
    """Its condition DisruptionTarget has the reason PreemptionByScheduler."""
    ready: bool
    """Its condition Ready is True."""
    required_features: frozenset[str]
    """Features that a node must declare."""
    priority_class: str
    """The name of its PriorityClass; empty if it has none."""
    run_limit: float
    """For how many seconds it may run (`activeDeadlineSeconds`); 0: it does not say."""
    grace: float
    """How many seconds it has to end (`terminationGracePeriodSeconds`); 0: it does not say."""
    run_time: str
    """For how long it runs, as its annotation podwright.dev/run-time says it; empty if it does not say."""
    policy: str
    """The name of the policy in its annotation podwright.dev/policy, cut if it is too long for a name; empty if it
    names none.
    """
    queue: str
    """The queue in its annotation scheduling.volcano.sh/queue-name, in the same way."""
    stays: bool
    """An annotation of STAYS forbids autoscalers to move it."""
    task: str
    """Its task of a group of Volcano, by its annotation volcano.sh/task-spec, in the same way."""
    wish: Wish
    """How close together its annotations of Kueue ask its pod set to be, see `closeness_of`."""
    raw: Mapping[str, Any] | None
    """The object as the API server sent it; None unless the pod is pending."""

    @property
    def finished(self) -> bool:
        """True if its phase is Succeeded or Failed, so that it no longer uses its node."""
        return self.phase in ("Succeeded", "Failed")

    def on(self, node_name: str) -> PodInfo:
        """A copy with this node name."""
        made: PodInfo = object.__new__(PodInfo)
        for name in _FIELDS:  # a tenth of the time of `replace`
            setattr(made, name, getattr(self, name))
        made.raw = body_of(self)
        made.node_name = node_name
        return _frozen(made)


_FIELDS: Final = tuple(field.name for field in fields(PodInfo) if field.name != "raw")
body_of: Final[Callable[[PodInfo], Mapping[str, Any] | None]] = PodInfo.__dict__["raw"].__get__
"""`raw` for Podwright's own code, which changes nothing in it: reading `raw` itself freezes it first."""
_put_body: Final[Callable[[PodInfo, Any], None]] = PodInfo.__dict__["raw"].__set__


def _frozen_raw(pod: PodInfo) -> Mapping[str, Any] | None:
    body = body_of(pod)
    if body is None or type(body) is FrozenBody:
        return body
    _put_body(pod, frozen(body))
    return body_of(pod)


class _FrozenPod(PodInfo):
    """A pod whose fields cannot be set. It has the layout of PodInfo, and becomes one of this class once all its fields
    are set.
    """

    __slots__ = ()
    raw: Any = property(_frozen_raw)

    def __new__(cls, **fields: Any) -> _FrozenPod:  # noqa: PYI034 -- `replace` makes no other subclass
        return _frozen(PodInfo(**fields))

    def __init__(self, **_fields: Any) -> None:
        """`__new__` has set the fields."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (*[getattr(self, name) for name in _FIELDS], body_of(self))

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"pod {self.key} is read-only: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"pod {self.key} is read-only: {name} cannot be deleted")


def _restored(*values: Any) -> PodInfo:
    """A copied or unpickled pod."""
    return _frozen(PodInfo(*values))


def _frozen(pod: PodInfo) -> _FrozenPod:
    pod.__class__ = _FrozenPod
    return pod  # type: ignore[return-value]  # it is one now


_NODE_BOUND_OWNERS: Final = ("DaemonSet", "Node")
"""The kinds of owners whose pods belong to one node: DaemonSets, and the node itself for static pods."""


def belongs_to_node(pod: PodInfo) -> bool:
    """True if the pod is of a DaemonSet, or static, so that it ends with its node."""
    return pod.owner is not None and pod.owner.kind in _NODE_BOUND_OWNERS


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
LOCAL_VOLUMES: Final = ("emptyDir", "hostPath")
_NO_OBJECT: Final[Mapping[str, Any]] = FrozenDict()


def parse_pod(raw: Mapping[str, Any], *, keep_raw: bool = False) -> PodInfo:
    """A v1.Pod. Raises InvalidObjectError naming the pod and the field."""
    try:
        metadata = raw.metadata if type(raw) is PodText else as_mapping(raw.get("metadata"), "metadata")
        name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
        if not isinstance(name, str) or not name or not isinstance(namespace, str):
            raise InvalidObjectError("metadata.name", "a name and a namespace are required")
        return _parse(raw, metadata, namespace, name, keep_raw=keep_raw)
    except InvalidObjectError as error:
        raise error.in_object("Pod", _name_of(raw)) from error


def _name_of(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return "?"
    return f"{metadata.get('namespace') or 'default'}/{metadata.get('name') or '?'}"


def _parse(
    raw: Mapping[str, Any], metadata: Mapping[str, Any], namespace: str, name: str, *, keep_raw: bool
) -> PodInfo:
    if type(raw) is PodText:
        parsed, node_name, status = raw.spec, raw.node_name, raw.status
    else:
        spec = as_mapping(raw.get("spec"), "spec")
        parsed, node_name = spec_of(spec, namespace), str(spec.get("nodeName") or "")
        status = as_mapping(raw.get("status"), "status")
    conditions = _true_conditions(listed) if (listed := status.get("conditions")) else _NO_OBJECT
    labels = _label_set(own) if (own := metadata.get("labels")) else _UNLABELLED
    annotations = metadata.get("annotations")
    groups = groups_named(parsed.brief, labels, namespace, annotations)
    made = PodInfo(
        namespace=namespace,
        name=name,
        uid=str(metadata.get("uid") or f"{namespace}/{name}"),
        key=f"{namespace}/{name}",
        labels=labels,
        resource_version=str(metadata.get("resourceVersion") or ""),
        generation=generation if isinstance(generation := metadata.get("generation"), int) else 0,
        scheduler_name=parsed.scheduler_name,
        node_name=node_name,
        nominated_node_name=str(status.get("nominatedNodeName") or ""),
        phase=str(status.get("phase") or "Pending"),
        terminating=bool(metadata.get("deletionTimestamp")),
        priority=parsed.priority,
        own_priority=parsed.priority,
        preemption_policy=parsed.preemption_policy,
        creation=parse_time(metadata.get("creationTimestamp"), "metadata.creationTimestamp") or 0.0,
        start_time=parse_time(status.get("startTime"), "status.startTime"),
        owner=controller_of(metadata),
        gates=(
            (*parsed.gates, *gpu_part(annotations))
            if annotations and parsed.scheduler_name == KAI_SCHEDULER
            else parsed.gates
        ),
        requests=parsed.requests if follows_spec(status) else requests_of(parsed.brief, status),
        limits=parsed.limits,
        node_affinity=parsed.node_affinity,
        pod_affinity=parsed.pod_affinity,
        spread=parsed.spread,
        tolerations=parsed.tolerations,
        ports=parsed.ports,
        images=parsed.images,
        volumes=parsed.volumes,
        local_storage=parsed.local_storage,
        resource_claims=parsed.resource_claims,
        generated_claims=_generated_claims(status) if parsed.resource_claims else _NO_OBJECT,
        group=groups[0] if groups else "",
        named_groups=groups if len(groups) > 1 else (),
        preempted=conditions.get("DisruptionTarget", _NO_OBJECT).get("reason") == "PreemptionByScheduler",
        ready="Ready" in conditions,
        required_features=parsed.required_features,
        priority_class=parsed.priority_class,
        run_limit=parsed.run_limit,
        grace=parsed.grace,
        run_time=_named(annotations, RUN_TIME_ANNOTATION) if annotations else "",
        policy=_named(annotations, POLICY_ANNOTATION) if annotations else "",
        queue=_named(annotations, QUEUE_ANNOTATION) if annotations else "",
        stays=any(_named(annotations, key) == value for key, value in STAYS.items()) if annotations else False,
        task=_named(annotations, TASK_KEY) if annotations else "",
        wish=wish_of(annotations) if annotations else (),
        raw=raw if keep_raw else None,
    )
    return _frozen(made)


def _named(annotations: object, key: str) -> str:
    named = annotations.get(key) if isinstance(annotations, Mapping) else None
    if not isinstance(named, str):
        return ""
    return named if len(named) <= _MAX_NAME else f"{named[:_MAX_NAME]}…"


def _label_set(raw: object) -> LabelSet:
    return _labels.get(raw, lambda: LabelSet(as_labels(raw, "metadata.labels")))


_UNLABELLED: Final = _label_set({})


# The spec


@dataclass(frozen=True, slots=True, eq=False)
class ParsedSpec:
    """The fields of PodInfo that depend only on the namespace and the spec without its nodeName."""

    scheduler_name: str
    priority: int
    preemption_policy: str
    gates: tuple[str, ...]
    requests: Requests
    limits: ResourceLimits
    node_affinity: NodeAffinity
    pod_affinity: PodAffinity
    spread: SpreadConstraints
    tolerations: Tolerations
    ports: tuple[HostPort, ...]
    images: PodImages
    volumes: tuple[Mapping[str, Any], ...]
    local_storage: bool
    resource_claims: tuple[PodClaim, ...]
    required_features: frozenset[str]
    priority_class: str
    run_limit: float
    grace: float
    brief: Mapping[str, Any]
    """The spec with only what is read together with metadata and status: requests, and the name of the group."""


class PodText(Mapping[str, Any]):
    """A v1.Pod with a node as JSON text, of which only metadata and status have been read, because a pod with the same
    spec is known: see `pod_text`. What else is asked for is read then. Has no managed fields.
    """

    __slots__ = ("metadata", "node_name", "spec", "status", "text")

    def __init__(
        self, text: bytes, metadata: Mapping[str, Any], status: Mapping[str, Any], spec: ParsedSpec, node_name: str
    ) -> None:
        self.text = text
        self.metadata = metadata
        self.status = status
        self.spec = spec
        self.node_name = node_name

    def __getitem__(self, key: str) -> Any:
        if key == "metadata":
            return self.metadata
        return self.status if key == "status" else self.whole()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("metadata", "spec", "status"))

    def __len__(self) -> int:
        return 3

    def whole(self) -> dict[str, Any]:
        """The pod as any other raw object."""
        whole: dict[str, Any] = orjson.loads(self.text)
        return whole


MAX_CACHED_SPECS: Final = 1024
MAX_CACHED_BYTES: Final = 4 << 20
"""The most bytes of JSON of all cached specs. A parsed spec takes several times as much."""
SPEC_CACHE: Final[RecentCache[bytes, ParsedSpec]] = RecentCache(MAX_CACHED_SPECS // 2, MAX_CACHED_BYTES // 2)
_TOKEN_VOLUME: Final = b"kube-api-access-"
_TOKEN_VOLUMES: Final = re.compile(_TOKEN_VOLUME + rb"[a-z0-9]{5}\b")
"""The name of the service account token's volume. Its random suffix would otherwise make the specs of one template
differ.
"""


def spec_of(spec: Mapping[str, Any], namespace: str) -> ParsedSpec:
    """The parsed spec, cached by its JSON bytes, because the pods of one template have equal specs.

    A lookup takes a tenth of the time of parsing. Raises InvalidObjectError.
    """
    own = dict(spec)
    own.pop("nodeName", None)
    try:
        key = spec_key(orjson.dumps(own), namespace)
    except orjson.JSONEncodeError:
        return _parse_spec(spec, namespace)
    parsed = SPEC_CACHE.get(key)
    if parsed is None:
        parsed = _parse_spec(spec, namespace)
        if not parsed.volumes:  # volume names of these pods are significant, and the key has lost token suffixes
            SPEC_CACHE.put(key, parsed, len(key))
    return parsed


def spec_key(text: bytes, namespace: str) -> bytes:
    """The key in SPEC_CACHE of a spec without its nodeName."""
    if _TOKEN_VOLUME in text:
        text = _TOKEN_VOLUMES.sub(_TOKEN_VOLUME, text)
    return b"%b %b" % (namespace.encode(), text)


def _parse_spec(spec: Mapping[str, Any], namespace: str) -> ParsedSpec:
    containers = containers_of(spec, "containers")
    init_containers = containers_of(spec, "initContainers")
    tolerations = spec.get("tolerations")
    volumes = _volumes(spec)
    return ParsedSpec(
        scheduler_name=str(spec.get("schedulerName") or KUBERNETES_DEFAULT_SCHEDULER_NAME),
        priority=_int32(spec.get("priority"), "spec.priority"),
        preemption_policy=str(spec.get("preemptionPolicy") or "PreemptLowerPriority"),
        gates=tuple(
            str(as_mapping(g, "spec.schedulingGates").get("name"))
            for g in as_list(spec.get("schedulingGates"), "spec.schedulingGates")
        ),
        requests=requests_of(spec, {}),
        limits=limits_of(spec),
        node_affinity=node_affinity_of(spec, allow_invalid_bounds=True),
        pod_affinity=pod_affinity_of(spec, namespace),
        spread=spread_constraints_of(spec),
        tolerations=_tolerations.get(tolerations, lambda: parse_tolerations(tolerations, "spec.tolerations")),
        ports=_host_ports(containers, init_containers),
        images=_pod_images(containers, init_containers, volumes),
        volumes=volumes,
        local_storage=any(kind in volume for volume in spec.get("volumes") or () for kind in LOCAL_VOLUMES),
        resource_claims=_pod_claims(spec) if spec.get("resourceClaims") else (),
        required_features=required_features(spec),
        priority_class=str(spec.get("priorityClassName") or ""),
        run_limit=_positive(spec.get("activeDeadlineSeconds")),
        grace=_positive(spec.get("terminationGracePeriodSeconds")),
        brief={
            "containers": [_brief(each) for each in containers],
            "initContainers": [_brief(each) for each in init_containers],
            **{key: spec[key] for key in ("overhead", "resources", "schedulingGroup") if key in spec},
        },
    )


def _brief(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: container[key] for key in ("name", "resources", "restartPolicy") if key in container}


def _positive(value: object) -> float:
    return float(value) if isinstance(value, int) and 0 < value < 2**31 else 0.0


def containers_of(spec: Mapping[str, Any], field: str) -> Sequence[Mapping[str, Any]]:
    """`spec.containers` or `spec.initContainers`. Raises InvalidObjectError."""
    items = as_list(spec.get(field), f"spec.{field}")
    return [as_mapping(item, f"spec.{field}[{i}]") for i, item in enumerate(items)]


def parse_time(value: object, where: str) -> float | None:
    """An RFC 3339 time in seconds since the epoch; None for None. Raises InvalidObjectError."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidObjectError(where, "expected a time")
    try:
        return _seconds(value)
    except (ValueError, OverflowError) as error:
        raise InvalidObjectError(where, f"{shortened(value, 40)} is not a time") from error


@lru_cache(maxsize=16)  # small: pods of one burst share few times, and larger caches pin the memory pages of a burst
def _seconds(time: str) -> float:
    parsed = datetime.datetime.fromisoformat(time)
    if parsed.tzinfo is None:  # Python would take it for a time in the zone of this process
        raise ValueError("a time without a zone")
    return parsed.timestamp()


def _int32(value: object, where: str) -> int:
    if value is None:
        return 0
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise InvalidObjectError(where, "expected a 32-bit whole number")
    return value


def controller_of(metadata: Mapping[str, Any]) -> Owner | None:
    """The controlling owner reference in an object's metadata; None if it has none. Raises InvalidObjectError."""
    references = metadata.get("ownerReferences")
    if references is None:
        return None
    for item in as_list(references, "metadata.ownerReferences"):
        owner = as_mapping(item, "metadata.ownerReferences")
        if owner.get("controller"):
            return _owner(*[str(owner.get(k) or "") for k in ("apiVersion", "kind", "name", "uid")])
    return None


_owner: Final = cleared_regularly(lru_cache(maxsize=1024)(Owner))
"""The pods of one owner share it."""


def _host_ports(
    containers: Sequence[Mapping[str, Any]], init_containers: Sequence[Mapping[str, Any]]
) -> tuple[HostPort, ...]:
    sidecars = [c for c in init_containers if c.get("restartPolicy") == "Always"]
    ports: dict[HostPort, None] = {}
    for container in (*sidecars, *containers):
        if own := container.get("ports"):
            ports.update(dict.fromkeys(parse_host_ports(own, "spec.containers.ports")))
    return tuple(ports)


def parse_host_ports(raw: object, where: str) -> Sequence[HostPort]:
    """The host ports of a container's `ports`. Raises InvalidObjectError."""
    ports = []
    for item in as_list(raw, where):
        port = as_mapping(item, where)
        number = port.get("hostPort") or 0
        if type(number) is not int or not 0 <= number < 65536:
            raise InvalidObjectError(f"{where}.hostPort", f"{shortened(number, 40)} is not a port")
        if number > 0:
            ip = str(port.get("hostIP") or "0.0.0.0")  # noqa: S104 -- the wildcard by name
            ports.append(HostPort(ip, str(port.get("protocol") or "TCP"), number))
    return ports


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
    volumes = []
    for at, volume in entries(raw, "spec.volumes"):
        kinds = [kind for kind in _VOLUME_KINDS if kind in volume]
        for kind in kinds:
            as_mapping(volume[kind], f"{at}.{kind}")
        if kinds:
            volumes.append(frozen(volume))
    return tuple(volumes)


def _pod_claims(spec: Mapping[str, Any]) -> tuple[PodClaim, ...]:
    keys = ("name", "resourceClaimName", "resourceClaimTemplateName")
    claims = entries(spec["resourceClaims"], "spec.resourceClaims")
    return tuple(PodClaim(*(str(claim.get(key) or "") for key in keys)) for _, claim in claims)


def _generated_claims(status: Mapping[str, Any]) -> Mapping[str, str]:
    where = "status.resourceClaimStatuses"
    statuses = (as_mapping(item, where) for item in as_list(status.get("resourceClaimStatuses"), where))
    return FrozenDict({str(item.get("name") or ""): str(item.get("resourceClaimName") or "") for item in statuses})


def _true_conditions(raw: object) -> Mapping[str, Mapping[str, Any]]:
    """The conditions that are True, by their types."""
    conditions = as_list(raw, "status.conditions")
    return {
        str(item.get("type")): item
        for item in conditions
        if (type(item) is dict or isinstance(item, Mapping)) and item.get("status") == "True"
    }
