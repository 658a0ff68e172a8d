"""Redacts objects for a snapshot: it keeps the fields that scheduling depends on, and no field that may hold a secret.

Environment variables, commands, probes, names of secrets, free texts and unknown annotations are left out. Pods, and
pod templates of workloads, keep only listed fields, so a field of a later Kubernetes is left out, too. A test evaluates
every conformance case with and without redaction and compares the answers.

Owners of pods that WorkloadGroupings read keep numbers, and the texts, annotations and environment variables that an
expression names (`Named`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from podwright.core.objects.closeness import WISHES
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import LOCAL_VOLUMES, QUEUE_ANNOTATION, STAYS
from podwright.core.objects.pod_group import GROUP_ANNOTATIONS, NAMED_OTHERWISE
from podwright.core.objects.raw import Raw, value_at
from podwright.core.objects.volcano_groups import TASK_KEY
from podwright.core.objects.watched_kinds import WATCHED_KINDS

KEPT_ANNOTATIONS: Final = (
    "pv.kubernetes.io/*",
    "volume.kubernetes.io/*",
    "volume.beta.kubernetes.io/*",
    "storage.alpha.kubernetes.io/*",
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.source",
    "resource.kubernetes.io/*",
    "podwright.dev/*",
    QUEUE_ANNOTATION,
    *GROUP_ANNOTATIONS,
    TASK_KEY,
    *STAYS,
    *WISHES,
)
"""Annotations that scheduling, or the drain of a node, depends on."""

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "generateName",
    "labels",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
)
_POD_SPEC: Final = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulerName",
    "activeDeadlineSeconds",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "overhead",
    "resources",
    "hostNetwork",
    "hostUsers",
    "os",
    "runtimeClassName",
    "restartPolicy",
    "schedulingGates",
    "schedulingGroup",
    "workloadRef",
    "resourceClaims",
    "terminationGracePeriodSeconds",
)
_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules")
_CONTAINER_STATUS: Final = ("name", "allocatedResources", "resources")
_POD_STATUS: Final = (
    "phase",
    "nominatedNodeName",
    "startTime",
    "resize",
    "allocatedResources",
    "resources",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
)
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_CONTAINER_STATUSES: Final = ("containerStatuses", "initContainerStatuses")
_VOLUMES_LEFT_OUT: Final = frozenset(("secret", "configMap", "projected", "downwardAPI"))
"""Kinds of a pod's volumes that do not matter to scheduling."""
_CONDITION: Final = ("type", "status", "reason")
_NODE_SPEC: Final = ("taints", "unschedulable", "podCIDR", "podCIDRs")
_NODE_STATUS: Final = ("allocatable", "capacity", "images", "declaredFeatures")
_WORKLOAD_SPEC: Final = ("replicas", "parallelism", "completions", "selector", "template")
_KUEUE_SPEC: Final = ("podSets", "queueName", "priority", "priorityClassRef", "active")
_POD_SET: Final = ("name", "count", "minCount", "topologyRequest", "template")
_KUEUE_STATUS: Final = ("admission", "conditions", "admissionChecks")
_CHECK_STATE: Final = ("name", "state", "lastTransitionTime", "requeueAfterSeconds", "retryCount", "podSetUpdates")
_OPAQUE: Final = frozenset(("volumeAttributes", "parameters", "mountOptions", "opaque", "managedFields"))
"""Fields of other kinds whose content is for drivers. Scheduling does not depend on these."""


@dataclass(frozen=True, slots=True)
class Named:
    """The names in expressions of WorkloadGroupings. `fields`: identifiers and literals; `literals`: literals alone."""

    fields: frozenset[str]
    literals: frozenset[str]

    @classmethod
    def by(cls, expressions: Iterable[str]) -> Named:
        texts = [*expressions]
        literals = frozenset(found[1] for text in texts for found in _LITERAL.finditer(text))
        return cls(frozenset(word for text in texts for word in _WORD.findall(text)) | literals, literals)

    def of_owner(self, raw: Raw) -> dict[str, Any]:
        """Returns the fields to keep of an owner besides its metadata."""
        return {key: self._kept(value, key) for key, value in raw.items() if key not in _NOT_OF_OWNERS}

    def _kept(self, value: Any, field: str) -> Any:
        if isinstance(value, Mapping):
            return {
                key: kept
                for key, item in value.items()
                if key not in _OPAQUE and "secret" not in key.lower()
                if (kept := self._kept(item, key)) is not None
            }
        if isinstance(value, list):
            if field in _CONTAINERS:
                return _each(value, self._container)
            return [kept for item in value if (kept := self._kept(item, field)) is not None]
        return value if not isinstance(value, str) or field in self.fields else None

    def _container(self, raw: Any) -> Any:
        env = raw.get("env") if isinstance(raw, Mapping) else None
        variables = [
            each
            for each in (env if isinstance(env, list) else ())
            if isinstance(each, Mapping) and each.get("name") in self.literals
        ]
        return {**_container(raw), "env": variables} if variables else _container(raw)


_LITERAL: Final = re.compile(r"'([^']+)'")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_OF_OWNERS: Final = ("apiVersion", "kind", "metadata", "status")


def redacted(
    kind: str, raw: Raw, annotations: Sequence[str] = (), *, messages: bool = False, named: Named | None = None
) -> dict[str, Any]:
    """A copy of an object with the fields that are kept. `annotations`: patterns of further annotations to keep.
    `messages`: whether to keep why a controller cannot create pods, which is a quota's or an admission webhook's own
    text. `named`: of an owner of pods, what expressions name.

    A value of a wrong type is kept unchanged, so that reading the snapshot gives the same error as reading the object.
    """
    keep = (*KEPT_ANNOTATIONS, *annotations)
    own = _KINDS.get(kind)
    copy = {key: raw[key] for key in ("apiVersion", "kind") if key in raw}
    if "metadata" in raw:
        copy["metadata"] = _metadata(raw["metadata"], keep)
    if own is not None:
        copy.update(own(raw, keep))
        if messages and own is _workload and "status" in copy:
            copy["status"] = {"conditions": replica_failures(raw)}
        return copy if named is None else _merged(named.of_owner(raw), copy)
    if named is not None:
        return {**named.of_owner(raw), **copy}
    if kind not in KNOWN_KINDS:
        return copy
    for key, value in raw.items():
        if key not in ("apiVersion", "kind", "metadata") and key not in _OPAQUE:
            copy[key] = _without_secrets(value)
    return copy


def _merged(first: Any, second: Any) -> Any:
    """Both together, at any depth."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return {key: _merged(first.get(key), second.get(key)) for key in (*first, *(second.keys() - first.keys()))}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [_merged(*pair) for pair in zip(first, second, strict=True)]
    return first if second is None else second


def _metadata(raw: Any, keep: Sequence[str]) -> Any:
    if not isinstance(raw, Mapping):
        return raw
    metadata = _only(raw, _METADATA)
    annotations = raw.get("annotations")
    if isinstance(annotations, Mapping):
        kept = {key: value for key, value in annotations.items() if any(fnmatchcase(key, each) for each in keep)}
        if kept:
            metadata["annotations"] = kept
    return metadata


def _only(raw: Any, fields: Sequence[str]) -> Any:
    return {key: raw[key] for key in fields if key in raw} if isinstance(raw, Mapping) else raw


def _each(raw: Any, kept: Callable[[Any], Any]) -> Any:
    return [kept(item) for item in raw] if isinstance(raw, list) else raw


def _without_secrets(value: Any) -> Any:
    """A copy without opaque fields and without fields whose names suggest secrets, at any depth."""
    if isinstance(value, Mapping):
        return {
            key: _condition(item) if key == "conditions" else _without_secrets(item)
            for key, item in value.items()
            if key not in _OPAQUE and "secret" not in key.lower()
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def _condition(raw: Any) -> Any:
    return _each(raw, lambda item: _only(item, _CONDITION))


# Pods


def _pod(raw: Raw, _keep: Sequence[str]) -> dict[str, Any]:
    copy = {}
    if "spec" in raw:
        copy["spec"] = _pod_spec(raw["spec"])
    if "status" in raw:
        copy["status"] = _pod_status(raw["status"])
    return copy


def _pod_spec(raw: Any) -> Any:
    if not isinstance(raw, Mapping):
        return raw
    spec = _only(raw, _POD_SPEC)
    for field in _CONTAINERS:
        if field in raw:
            spec[field] = _each(raw[field], _container)
    if "volumes" in raw:
        volumes = raw["volumes"]
        spec["volumes"] = _without_secrets(
            [_volume(each) for each in volumes if not isinstance(each, Mapping) or not _VOLUMES_LEFT_OUT & each.keys()]
            if isinstance(volumes, list)
            else volumes
        )
    return spec


def _volume(raw: Any) -> Any:
    """Keeps only the kind of volumes that no filter reads."""
    return {key: {} if key in LOCAL_VOLUMES else each for key, each in raw.items()} if isinstance(raw, Mapping) else raw


def _container(raw: Any) -> Any:
    if not isinstance(raw, Mapping):
        return raw
    container = _only(raw, _CONTAINER)
    mounts = raw.get("volumeMounts")
    if isinstance(mounts, list):
        kept = [_only(mount, ("bindMountOptions",)) for mount in mounts]
        if any(kept):
            container["volumeMounts"] = kept
    return container


def _pod_status(raw: Any) -> Any:
    if not isinstance(raw, Mapping):
        return raw
    status = _only(raw, _POD_STATUS)
    if "conditions" in raw:
        status["conditions"] = _condition(raw["conditions"])
    for field in _CONTAINER_STATUSES:
        if field in raw:
            status[field] = _each(raw[field], _container_status)
    return status


def _container_status(raw: Any) -> Any:
    kept = _only(raw, _CONTAINER_STATUS)
    state = raw.get("state") if isinstance(raw, Mapping) else None
    if isinstance(state, Mapping) and isinstance(ended := state.get("terminated"), Mapping):
        kept["state"] = {"terminated": _only(ended, ("finishedAt",))}
    return kept


# Other kinds


def _node(raw: Raw, _keep: Sequence[str]) -> dict[str, Any]:
    copy = {}
    if "spec" in raw:
        copy["spec"] = _only(raw["spec"], _NODE_SPEC)
    status = raw.get("status")
    if isinstance(status, Mapping):
        copy["status"] = _only(status, _NODE_STATUS)
        if "conditions" in status:
            copy["status"]["conditions"] = _condition(status["conditions"])
    elif "status" in raw:
        copy["status"] = status
    return copy


def _workload(raw: Raw, keep: Sequence[str]) -> dict[str, Any]:
    spec = _with_template(_only(raw.get("spec"), _WORKLOAD_SPEC), keep)
    failures = replica_failures(raw)
    status = {"status": {"conditions": _condition(failures)}} if failures else {}
    return {"spec": spec, **status} if "spec" in raw else status


def _with_template(raw: Any, keep: Sequence[str]) -> Any:
    if isinstance(raw, dict) and isinstance(template := raw.get("template"), Mapping):
        raw["template"] = {
            "metadata": _metadata(template.get("metadata"), keep),
            "spec": _pod_spec(template.get("spec")),
        }
    return raw


def _kueue_workload(raw: Raw, keep: Sequence[str]) -> dict[str, Any]:
    spec, status = _only(raw.get("spec"), _KUEUE_SPEC), _only(raw.get("status"), _KUEUE_STATUS)
    if isinstance(spec, dict) and "podSets" in spec:
        spec["podSets"] = _each(spec["podSets"], lambda each: _with_template(_only(each, _POD_SET), keep))
    if isinstance(status, dict) and "conditions" in status:
        status["conditions"] = _condition(status["conditions"])
    if isinstance(status, dict) and "admissionChecks" in status:
        status["admissionChecks"] = _each(status["admissionChecks"], lambda each: _only(each, _CHECK_STATE))
    return {"spec": spec, "status": status}


def replica_failures(raw: Raw) -> list[Raw]:
    """The condition with which a workload says that its controller cannot create pods; [] if it says nothing of that
    kind.
    """
    conditions = value_at(raw, "status", "conditions")
    found = (each for each in (conditions if isinstance(conditions, list) else ()) if isinstance(each, Mapping))
    return [each for each in found if each.get("type") == "ReplicaFailure" and each.get("status") == "True"]


def _claim_template(raw: Raw, _keep: Sequence[str]) -> dict[str, Any]:
    return {"spec": _without_secrets(_only(raw["spec"], ("spec",)))} if "spec" in raw else {}


def _service(raw: Raw, _keep: Sequence[str]) -> dict[str, Any]:
    return {"spec": _only(raw["spec"], ("selector",))} if "spec" in raw else {}


def _namespace(_raw: Raw, _keep: Sequence[str]) -> dict[str, Any]:
    return {}


def _policy(raw: Raw, _keep: Sequence[str]) -> dict[str, Any]:
    return {key: raw[key] for key in ("spec", "status") if key in raw}


_KINDS: Final[Mapping[str, Callable[[Raw, Sequence[str]], dict[str, Any]]]] = {
    "Pod": _pod,
    "Node": _node,
    "Namespace": _namespace,
    "Service": _service,
    **dict.fromkeys(
        (
            *("SchedulerPolicy", "LocalSchedulerPolicy", "SchedulingQueue", "RebalancePolicy", "Queue"),
            *("Reservation", "ResourceFlavor", "Topology", "HyperNode", "WorkloadGrouping"),
        ),
        _policy,
    ),
    "Workload": _kueue_workload,
    "ResourceClaimTemplate": _claim_template,
    **dict.fromkeys(
        ("ReplicationController", "ReplicaSet", "StatefulSet", "Deployment", "DaemonSet", "Job"), _workload
    ),
}
"""By kind: what is kept besides `apiVersion`, `kind` and `metadata`. Other known kinds keep everything but opaque
fields.
"""
KNOWN_KINDS: Final = frozenset(
    (*_KINDS, "PodGroup", *NAMED_OTHERWISE.values(), *(watched.kind for watched in WATCHED_KINDS))
)
"""Only metadata is kept of other kinds, on which scheduling does not depend."""
