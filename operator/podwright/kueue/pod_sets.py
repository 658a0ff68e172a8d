"""The pods of a Workload, as the API server will have them once Kueue has started the job.

Kueue adds to the template of each pod set: the node labels and tolerations of the assigned flavors, its own labels, and
what admission checks ask for (`podSetUpdates`). With its topology-aware scheduling, each pod also gets the node labels
of its domain. Source: pkg/podset and pkg/controller/jobframework of Kueue v0.19.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import Any, Final

from podwright.core.objects.closeness import ANYWHERE, Closeness
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.raw import Raw, as_labels, as_list, as_mapping
from podwright.core.state.deadline import never
from podwright.kueue.workload import Workload

PLACE_LABEL: Final = "podwright.dev/place"
"""The label by which the pods of a pod set find their place. Kueue puts it on them, because the check asks for it."""
POD_SET_LABEL: Final = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_LABEL: Final = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_LABEL: Final = "kueue.x-k8s.io/cluster-queue-name"
WORKLOAD_ANNOTATION: Final = "kueue.x-k8s.io/workload"
_ANYWHERE: Final[Mapping[str, str]] = {}
UNSEEN: Final = "ResourceClaims and ephemeral volumes are made with the pods, so they were not looked at"


@dataclass(frozen=True, slots=True)
class PodSet:
    """`pods`: of one template. `place`: the value of PLACE_LABEL. `near`: how close together they
    are to be. `partly`: the template names things that do not exist
    before the pods.
    """

    name: str
    place: str
    pods: Sequence[PodInfo]
    near: Closeness = ANYWHERE
    partly: bool = False


def counts_of(workload: Workload) -> Mapping[str, int]:
    """How many pods each pod set has, by its name."""
    given = {each["name"]: each.get("count") for each in workload.admission.get("podSetAssignments") or ()}
    counts = {}
    for each in workload.spec.get("podSets") or ():
        name = str(each.get("name") or "main")
        assigned = given.get(name)
        counts[name] = int(each.get("count", 1) if assigned is None else assigned)
    return counts


def flavors_of(workload: Workload) -> frozenset[str]:
    """The names of the assigned flavors."""
    assignments = workload.admission.get("podSetAssignments") or ()
    return frozenset(str(name) for each in assignments for name in (each.get("flavors") or {}).values())


def pod_sets_of(workload: Workload, flavors: Mapping[str, Raw], point: Callable[[], None] = never) -> Sequence[PodSet]:
    """The pod sets with all their pods. `flavors`: the assigned ResourceFlavors by name. `point`: see Deadline. Raises
    InvalidObjectError naming the pod set and the field.
    """
    counts = counts_of(workload)
    assigned = {each["name"]: each for each in workload.admission.get("podSetAssignments") or ()}
    found = []
    for index, each in enumerate(workload.spec.get("podSets") or ()):
        name = str(each.get("name") or "main")
        try:
            assignment = assigned.get(name, {})
            template = _template(workload, name, each["template"], assignment, flavors)
            template["metadata"]["labels"][PLACE_LABEL] = place = f"{workload.uid}-{index}"
            spec, partly = template["spec"], _without_made(template["spec"])
            domains = _domains(assignment.get("topologyAssignment"))
            selectors = (selector for selector, count in domains for _ in range(count))
            pods = [*_pods(workload, name, template, selectors, counts[name], point)]
            near = _closeness(each.get("topologyRequest") or {})
        except InvalidObjectError as error:
            raise InvalidObjectError(f'pod set "{name}"', str(error)) from error
        needed = "topologyAssignment" not in assignment and spec.get("nodeName") is None
        found.append(
            PodSet(
                name=name,
                place=place,
                pods=pods,
                near=near if needed else ANYWHERE,
                partly=partly,
            )
        )
    return found


def _closeness(request: Raw) -> Closeness:
    names = ("required", "preferred", "podSetSliceRequiredTopology", "podIndexLabel")
    required, preferred, level, index_label = (str(request.get(name) or "") for name in names)
    size = request.get("podSetSliceSize") if level else 0
    if type(size) is not int or (level and size < 1):
        raise InvalidObjectError("topologyRequest.podSetSliceSize", "expected a positive number")
    return Closeness((required,) if required else (), preferred, "", level, size, index_label)


def _pods(
    workload: Workload,
    name: str,
    template: dict[str, Any],
    selectors: Iterable[Raw],
    count: int,
    point: Callable[[], None],
) -> Iterator[PodInfo]:
    """`selectors`: the node labels of the pods that have a domain. The others have none of their own."""
    stem, spec, last = f"{workload.name}-{name}", template["spec"], None
    for index, selector in enumerate(islice(chain(selectors, repeat(_ANYWHERE)), count)):
        point()
        if last is None or last[0] != selector:
            metadata = {**template["metadata"], "name": stem}
            raw = {"metadata": metadata, "spec": {**spec, "nodeSelector": {**spec["nodeSelector"], **selector}}}
            last = selector, parse_pod(raw, keep_raw=True)
        own = f"{stem}-{index}"
        yield replace(last[1], name=own, key=f"{workload.namespace}/{own}", uid=f"{workload.uid}/{name}/{index}")


def _template(
    workload: Workload, name: str, template: Raw, assignment: Raw, flavors: Mapping[str, Raw]
) -> dict[str, Any]:
    """Metadata and spec of a pod, as Kueue and the API server make them of the template."""
    metadata = as_mapping(template.get("metadata"), "template.metadata")
    spec = dict(as_mapping(template.get("spec"), "template.spec"))
    labels = dict(as_labels(metadata.get("labels") or {}, "template.metadata.labels"))
    annotations = dict(as_mapping(metadata.get("annotations"), "template.metadata.annotations"))
    selector = dict(as_labels(spec.get("nodeSelector") or {}, "template.spec.nodeSelector"))
    tolerations = [*as_list(spec.get("tolerations"), "template.spec.tolerations")]
    for flavor in dict.fromkeys((assignment.get("flavors") or {}).values()):
        own = flavors[flavor].get("spec") or {}
        selector |= own.get("nodeLabels") or {}
        tolerations += own.get("tolerations") or ()
    for update in (each for check in workload.checks for each in check.get("podSetUpdates") or ()):
        if update["name"] == name:
            labels |= update.get("labels") or {}
            annotations |= update.get("annotations") or {}
            selector |= update.get("nodeSelector") or {}
            tolerations += update.get("tolerations") or ()
    labels[POD_SET_LABEL] = name
    labels[LOCAL_QUEUE_LABEL] = str(workload.spec.get("queueName") or "")
    labels[CLUSTER_QUEUE_LABEL] = str(workload.admission.get("clusterQueue") or "")
    annotations[WORKLOAD_ANNOTATION] = workload.name
    spec |= {"nodeSelector": selector, "tolerations": tolerations}
    for kind in ("containers", "initContainers"):
        if containers := as_list(spec.get(kind), f"template.spec.{kind}"):
            spec[kind] = [_defaulted(as_mapping(each, f"template.spec.{kind}")) for each in containers]
    if not spec.get("containers"):
        raise InvalidObjectError("template.spec.containers", "at least one container is required")
    if "priority" not in spec and (workload.spec.get("priorityClassRef") or {}).get("kind") == "PriorityClass":
        spec["priority"] = workload.spec.get("priority", 0)
    return {"metadata": {"namespace": workload.namespace, "labels": labels, "annotations": annotations}, "spec": spec}


def _defaulted(container: Raw) -> Raw:
    """The container with requests for what has only a limit, as the API server fills them in."""
    resources = as_mapping(container.get("resources"), "template.spec.containers.resources")
    limits = as_mapping(resources.get("limits"), "template.spec.containers.resources.limits")
    if not limits:
        return container
    requests = {**limits, **as_mapping(resources.get("requests"), "template.spec.containers.resources.requests")}
    return {**container, "resources": {**resources, "requests": requests}}


def _without_made(spec: dict[str, Any]) -> bool:
    """Takes out what is made with each pod, and does not exist before. Returns whether there was any."""
    found = False
    for field, made in (("resourceClaims", "resourceClaimTemplateName"), ("volumes", "ephemeral")):
        entries = as_list(spec.get(field), f"template.spec.{field}")
        kept = [each for each in entries if made not in as_mapping(each, f"template.spec.{field}")]
        if len(kept) < len(entries):
            found, spec[field] = True, kept
    return found


def _domains(assignment: Raw | None) -> Iterator[tuple[Raw, int]]:
    """The node labels of each domain of a topology assignment, and how many pods it gets."""
    if assignment is None:
        return
    for part in assignment.get("slices") or ():
        for index in range(int(part["domainCount"])):
            values = [_value(each, index) for each in part["valuesPerLevel"]]
            counts = part["podCounts"]
            count = counts["universal"] if "universal" in counts else counts["individual"][index]
            yield dict(zip(assignment["levels"], values, strict=True)), int(count)


def _value(values: Raw, index: int) -> str:
    if "universal" in values:
        return str(values["universal"])
    own = values["individual"]
    return f"{own.get('prefix', '')}{own['roots'][index]}{own.get('suffix', '')}"
