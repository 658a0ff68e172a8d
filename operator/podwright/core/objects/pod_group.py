"""PodGroup: pods that are scheduled together. One class for the PodGroups of all APIs.

`scheduling.k8s.io` is Kubernetes' Workload API (v1beta1 in 1.37, v1alpha2 in 1.36), whose pods name their group in
`spec.schedulingGroup`. `scheduling.x-k8s.io` is the v1alpha1 custom resource of the scheduler-plugins project, whose
pods name it in a label. `scheduling.volcano.sh` is Volcano's v1beta1, and `scheduling.run.ai` KAI's v2alpha2; their
pods name it in an annotation. `scheduler.grove.io` is Grove's v1alpha1, which calls it PodGang; its pods name it in a
label. A PodGroup is never changed after parsing. Sources: the Kubernetes API reference, the documentation of the
scheduler-plugins project, and KAI's `pkg/common/constants/constants.go` at v0.17.0-9-gd5bc503a. What only one of the
other APIs has is in `volcano_groups`, `kai_groups` and `grove_groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final

from podwright.core.objects.closeness import Closeness
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.grove_groups import grove_tree, packed, reused_gang
from podwright.core.objects.kai_groups import is_firm, kai_closeness, kai_seconds, kai_terms, stale_after
from podwright.core.objects.raw import as_list, as_mapping, as_optional_text, as_positive, entries
from podwright.core.objects.resources import resource_list
from podwright.core.objects.sub_groups import BELOW, MAX_LEVELS, PartOf, SubGroup, Terms
from podwright.core.objects.volcano_groups import (
    VOLCANO_DEFAULT_QUEUE,
    volcano_closeness,
    volcano_resources,
    volcano_terms,
)

WORKLOAD_API: Final = "scheduling.k8s.io"
COMPOSITE_API: Final = "composite.scheduling.k8s.io"
"""Not a group of the API: the prefix of the keys of CompositePodGroups, which are of the Workload API."""
PLUGINS_API: Final = "scheduling.x-k8s.io"
VOLCANO_API: Final = "scheduling.volcano.sh"
KAI_API: Final = "scheduling.run.ai"
GROVE_API: Final = "scheduler.grove.io"
KIND: Final = "PodGroup"
"""The Workload API's kind in the object store."""
COMPOSITE_KIND: Final = "CompositePodGroup"
PLUGINS_KIND: Final = "podgroups.v1alpha1.scheduling.x-k8s.io"
"""The custom resource's kind in the object store, and its name in cluster events."""
VOLCANO_KIND: Final = "podgroups.v1beta1.scheduling.volcano.sh"
KAI_KIND: Final = "podgroups.v2alpha2.scheduling.run.ai"
GROVE_KIND: Final = "PodGang"
MADE_API: Final = "podwright.dev"
MADE_KIND: Final = "workloads.podwright.dev"
"""Groups that WorkloadGroupings make of pods. They exist only in memory."""
APIS: Final[Mapping[str, str]] = {
    KIND: WORKLOAD_API,
    COMPOSITE_KIND: COMPOSITE_API,
    PLUGINS_KIND: PLUGINS_API,
    VOLCANO_KIND: VOLCANO_API,
    KAI_KIND: KAI_API,
    GROVE_KIND: GROVE_API,
}
NAMED_OTHERWISE: Final[Mapping[str, str]] = {COMPOSITE_API: COMPOSITE_KIND, GROVE_API: GROVE_KIND}
"""The kind of groups, by the APIs that do not call it PodGroup."""
ALL: Final[Mapping[str, str]] = {**APIS, MADE_KIND: MADE_API}
"""The APIs that a cluster may serve, and our own."""

GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
OLD_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
GROVE_LABEL: Final = "grove.io/podgang"
_GROUP_LABELS: Final = frozenset((GROUP_LABEL, OLD_GROUP_LABEL, GROVE_LABEL))
GROUP_ANNOTATIONS: Final = {
    "scheduling.k8s.io/group-name": VOLCANO_API,
    "scheduling.volcano.sh/group-name": VOLCANO_API,
    "pod-group-name": KAI_API,
}
"""By which pods name their group of these APIs. The first that a pod has counts."""


_LONGEST_NAME: Final = 253


@dataclass(frozen=True, slots=True, eq=False)
class PodGroup:
    """See the module. Compared by identity; an update is a new object.

    `priority` and `preemption_policy` are None if the API does not have them; then those of the pods apply, see
    `PodGroups.ranked`.
    """

    key: str
    """See `group_key`. Equals `PodInfo.group` of its members."""
    api: str
    namespace: str
    name: str
    uid: str
    generation: int
    gang: bool
    """False for the basic policy, under which each pod is scheduled alone."""
    min_count: int
    """The number of members that must be placed together, at least; 1 for the basic policy."""
    min_resources: Mapping[str, int]
    """The resources that the whole group needs, in the units of `Requests.amounts`; empty if absent or unreadable."""
    schedule_timeout: float | None
    """Seconds that placed members wait for the others; None for the default."""
    near: Closeness
    """How close together the members are to be."""
    all_or_none: bool
    """Disruption mode `all`: preemption evicts all members or none."""
    priority: int | None
    preemption_policy: str | None
    queue: str
    """The queue of its members that name none themselves; empty if the API has none."""
    raw: Mapping[str, Any]
    owner: str = ""
    """The name of the owner if a WorkloadGrouping made the group. `raw` has the owner's `kind` and `uid`."""
    tree: SubGroup | None = None
    """Its parts, if they have minimums of their own."""
    part_of: PartOf | None = None
    """The part to which a member belongs."""
    firm: bool | None = None
    """True if its members are never evicted for other pods, False if they may be; None: their priorities say it."""
    preemption_delay: float = 0.0
    """For how many seconds it waits before it preempts."""
    stale_after: float = inf
    """For how many seconds it may run without its minimum, before what is left of it is evicted."""
    parent: str = ""
    """The key of the CompositePodGroup above it; empty at the top."""
    claims: frozenset[tuple[str, str, str]] = frozenset()
    """Its entries of `spec.resourceClaims`, as PodClaim has them: name, claim and template. If a pod has the same
    entry, the claim is the group's.
    """
    priority_class: str = ""
    """The PriorityClass that it names, of which its members have their priority, whatever their own; empty if none."""
    reuses: str = ""
    """The key of the group whose room this one takes over; empty if it names no group."""
    order: tuple[str, str] = ("", "")
    """Where it stands among the groups beside it: when it was created, and its name."""
    resources_problem: str = ""
    """Why `min_resources` cannot be read, of a group of Volcano, which counts without them unless a policy requires
    them.
    """

    @property
    def composite(self) -> bool:
        """True for a CompositePodGroup, whose `min_count` is a number of groups directly below it."""
        return self.api == COMPOSITE_API

    @property
    def label(self) -> str:
        """namespace/name; of a group that a WorkloadGrouping has made, kind and name of its owner."""
        if self.api == MADE_API:
            return workload_label(str(self.raw.get("kind")), self.namespace, self.owner)
        return f"{self.namespace}/{self.name}"

    @property
    def workload(self) -> str:
        """The kind and the name of the workload whose pods these are: the group's owner. Empty if it has none."""
        if self.api == MADE_API:
            return self.label
        owners = self.raw["metadata"].get("ownerReferences")
        listed = [each for each in owners if isinstance(each, Mapping)] if isinstance(owners, list) else []
        owner = next((each for each in listed if each.get("controller") is True), listed[0] if listed else None)
        return "" if owner is None else workload_label(str(owner.get("kind")), self.namespace, str(owner.get("name")))

    @property
    def title(self) -> str:
        """The group, with its workload if there is one."""
        workload = self.workload
        return f"{self.label} of {workload}" if workload and self.api != MADE_API else self.label


def workload_label(kind: str, namespace: str, name: str) -> str:
    """Returns the workload's name in messages: `RayCluster ray/llm`."""
    return f"{kind} {namespace}/{name}"


def group_key(api: str, namespace: str, name: str) -> str:
    """A group's key: API, namespace and name."""
    return f"{api}:{namespace}/{name}"


def groups_named(
    spec: Mapping[str, Any], labels: Mapping[str, str], namespace: str, annotations: object = None
) -> tuple[str, ...]:
    """The keys of the groups that a pod names, the most specific first: in its spec, in its labels, in its annotations,
    which may be anything. `PodGroups.counting` says which of them counts. Raises InvalidObjectError.
    """
    if annotations is None and "schedulingGroup" not in spec and _GROUP_LABELS.isdisjoint(labels):
        return ()  # as of most pods
    return tuple(dict.fromkeys(_named(spec, labels, namespace, annotations)))


def _named(spec: Mapping[str, Any], labels: Mapping[str, str], namespace: str, annotations: object) -> Iterator[str]:
    named = spec.get("schedulingGroup")
    if named is not None:
        name = as_mapping(named, "spec.schedulingGroup").get("podGroupName")
        if name is not None and not isinstance(name, str):
            raise InvalidObjectError("spec.schedulingGroup.podGroupName", "expected a string")
        if name:
            yield group_key(WORKLOAD_API, namespace, name)
    if name := labels.get(GROUP_LABEL) or labels.get(OLD_GROUP_LABEL):
        yield group_key(PLUGINS_API, namespace, name)
    if name := labels.get(GROVE_LABEL):
        yield group_key(GROVE_API, namespace, name)
    if isinstance(annotations, Mapping):
        for key, api in GROUP_ANNOTATIONS.items():
            if (name := annotations.get(key)) and isinstance(name, str) and len(name) <= _LONGEST_NAME:
                yield group_key(api, namespace, name)


def parse_pod_group(kind: str, raw: Mapping[str, Any]) -> PodGroup:
    """A PodGroup of any API; `kind` as in the object store. Raises InvalidObjectError naming the group and the
    field.
    """
    metadata = as_mapping(raw.get("metadata"), "metadata")
    namespace, name = str(metadata.get("namespace") or "default"), metadata.get("name")
    try:
        if not isinstance(name, str) or not name:
            raise InvalidObjectError("metadata.name", "a name is required")
        return _parse(ALL[kind], raw, metadata, namespace, name)
    except InvalidObjectError as error:
        raise error.in_object(NAMED_OTHERWISE.get(ALL[kind], KIND), f"{namespace}/{name or '?'}") from error


_GATED_FIELDS: Final[Mapping[str, str]] = {
    "TopologyAwareWorkloadScheduling": "schedulingConstraints",
    "DRAWorkloadResourceClaims": "resourceClaims",
}
"""Fields of the spec of a group of the Workload API, by the feature gate without which they do not count."""


def fields_off(enabled: Callable[[str], bool]) -> Sequence[str]:
    """The fields of the spec that do not count. `enabled`: of a feature gate."""
    return [name for gate, name in _GATED_FIELDS.items() if not enabled(gate)]


def without_fields(raw: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
    """The group without these fields of its spec."""
    spec = raw.get("spec")
    if not names or not isinstance(spec, Mapping):
        return raw
    return {**raw, "spec": {name: value for name, value in spec.items() if name not in names}}


def metadata_only_pod_group(kind: str, raw: Mapping[str, Any]) -> PodGroup:
    """A stand-in for a group with an invalid spec, for events and errors about it.

    Raises InvalidObjectError if its metadata is invalid, too.
    """
    metadata = as_mapping(raw.get("metadata"), "metadata")
    return parse_pod_group(kind, {"metadata": metadata, "spec": {"minMember": 1}, "status": raw.get("status")})


def _parse(api: str, raw: Mapping[str, Any], metadata: Mapping[str, Any], namespace: str, name: str) -> PodGroup:
    spec = as_mapping(raw.get("spec"), "spec")
    tree, part_of = _TREES[api](spec)
    least, where = spec.get("minResources"), "spec.minResources"
    min_resources, problem = (
        volcano_resources(least, where) if api == VOLCANO_API else (resource_list(least, where), "")
    )
    priority = spec.get("priority")
    if priority is not None and type(priority) is not int:
        raise InvalidObjectError("spec.priority", "expected a whole number")
    return PodGroup(
        key=group_key(api, namespace, name),
        api=api,
        namespace=namespace,
        name=name,
        uid=str(metadata.get("uid") or ""),
        generation=generation if isinstance(generation := metadata.get("generation"), int) else 0,
        gang=tree.least > 0,
        min_count=max(1, tree.least),
        min_resources=min_resources,
        resources_problem=problem,
        schedule_timeout=_timeout(spec.get("scheduleTimeoutSeconds")),
        near=_CLOSENESS.get(api, _workload_closeness)(spec),
        all_or_none=_all_or_none(spec.get("disruptionMode")),
        priority=priority if api in (WORKLOAD_API, COMPOSITE_API) else None,
        preemption_policy=str(spec["preemptionPolicy"]) if spec.get("preemptionPolicy") else None,
        queue=_QUEUES[api](spec.get("queue")) if api in _QUEUES else "",
        raw=raw,
        owner=str(spec.get("owner") or "") if api == MADE_API else "",
        tree=tree if part_of else None,
        part_of=part_of,
        firm=is_firm(spec.get("preemptibility")) if api == KAI_API else None,
        preemption_delay=kai_seconds(spec, "preemptionDelay", 0.0) if api == KAI_API else 0.0,
        stale_after=stale_after(spec) if api == KAI_API else inf,
        claims=_claims(spec) if api == WORKLOAD_API and spec.get("resourceClaims") else frozenset(),
        parent=_parent(spec, namespace) if api in (WORKLOAD_API, COMPOSITE_API) else "",
        priority_class=_class_named(spec) if api in (VOLCANO_API, KAI_API, GROVE_API) else "",
        reuses=_reuses(spec, namespace) if api == GROVE_API else "",
        order=(str(metadata.get("creationTimestamp") or ""), name),
    )


def _class_named(spec: Mapping[str, Any]) -> str:
    name = spec.get("priorityClassName")
    return name if isinstance(name, str) else ""


def _reuses(spec: Mapping[str, Any], namespace: str) -> str:
    name = reused_gang(spec, namespace)
    return group_key(GROVE_API, namespace, name) if name else ""


def _queue(value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise InvalidObjectError("spec.queue", "expected a string")
    return value or ""


_QUEUES: Final[Mapping[str, Callable[[object], str]]] = {
    VOLCANO_API: lambda value: _queue(value) or VOLCANO_DEFAULT_QUEUE,
    KAI_API: _queue,
}


def _of_workload(spec: Mapping[str, Any], minimum: str = "minCount", basic: int = 0) -> Terms:
    """`minimum`: the field of a gang's; `basic`: that of a group under the basic policy."""
    policy = as_mapping(spec.get("schedulingPolicy"), "spec.schedulingPolicy")
    gang = policy.get("gang")
    if gang is None:
        return SubGroup(pods=basic), None
    where = "spec.schedulingPolicy.gang"
    return SubGroup(pods=as_positive(as_mapping(gang, where).get(minimum), f"{where}.{minimum}")), None


def _of_composite(spec: Mapping[str, Any]) -> Terms:
    """Parses the minimum of a composite group. Under the basic policy, even one group may be placed alone."""
    return _of_workload(spec, "minGroupCount", basic=1)


def _claims(spec: Mapping[str, Any]) -> frozenset[tuple[str, str, str]]:
    found = set()
    for where, entry in entries(spec.get("resourceClaims"), "spec.resourceClaims"):
        name, claim, template = (
            as_optional_text(entry.get(key), f"{where}.{key}")
            for key in ("name", "resourceClaimName", "resourceClaimTemplateName")
        )
        found.add((name, claim, template))
    return frozenset(found)


def _parent(spec: Mapping[str, Any], namespace: str) -> str:
    name = as_optional_text(spec.get("parentCompositePodGroupName"), "spec.parentCompositePodGroupName")
    return group_key(COMPOSITE_API, namespace, name) if name else ""


def _of_plugins(spec: Mapping[str, Any]) -> Terms:
    return SubGroup(pods=as_positive(spec.get("minMember", 1), "spec.minMember")), None


def _of_made(spec: Mapping[str, Any]) -> Terms:
    """With parts, `partSizes` has their minimums. A pod names its part as `part_of_made` does."""
    pods = as_positive(spec.get("minCount"), "spec.minCount")
    sizes = as_list(spec.get("partSizes"), "spec.partSizes")
    children = tuple(SubGroup(f"of {size}", each=size) for size in sizes)
    return SubGroup(pods=pods, children=children), (lambda pod: pod.task) if children else None


def part_of_made(name: str, size: int) -> str:
    """How a pod names its part, which needs so many pods, in a group that a WorkloadGrouping has made."""
    return f"of {size}{BELOW}{name}"


_TREES: Final[Mapping[str, Callable[[Mapping[str, Any]], Terms]]] = {
    WORKLOAD_API: _of_workload,
    COMPOSITE_API: _of_composite,
    PLUGINS_API: _of_plugins,
    VOLCANO_API: volcano_terms,
    KAI_API: kai_terms,
    GROVE_API: grove_tree,
    MADE_API: _of_made,
}


def _timeout(value: object) -> float | None:
    return None if value is None else float(as_positive(value, "spec.scheduleTimeoutSeconds"))


def _workload_closeness(spec: Mapping[str, Any]) -> Closeness:
    constraints = as_mapping(spec.get("schedulingConstraints"), "spec.schedulingConstraints")
    where, keys = "spec.schedulingConstraints.topology", []
    for item in as_list(constraints.get("topology"), where):
        key = as_mapping(item, where).get("key")
        if not isinstance(key, str) or not key:
            raise InvalidObjectError(f"{where}.key", "a label key is required")
        keys.append(key)
    if len(keys) > MAX_LEVELS:
        raise InvalidObjectError(where, f"has {len(keys)} entries, at most {MAX_LEVELS} are read")
    return Closeness(tuple(dict.fromkeys(keys)))


_CLOSENESS: Final[Mapping[str, Callable[[Mapping[str, Any]], Closeness]]] = {
    GROVE_API: lambda spec: packed(spec, "spec"),
    KAI_API: lambda spec: kai_closeness(spec, "spec", leaf=not spec.get("subGroups")),
    VOLCANO_API: lambda spec: volcano_closeness(spec, "spec"),
}


def _all_or_none(mode: object) -> bool:
    """True if the mode is `{all: {}}` (v1beta1) or the string `PodGroup` (v1alpha2)."""
    return "all" in mode if isinstance(mode, Mapping) else mode == "PodGroup"
