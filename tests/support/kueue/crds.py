"""CRDs of Kueue's API v1beta2, written from its Go types in v0.19.2 (apis/kueue/v1beta2): the fields that admission
checks read and write, with their bounds and list types. Templates of pods are not validated at all.
"""

from __future__ import annotations

from typing import Any

GROUP = "kueue.x-k8s.io"
Schema = dict[str, Any]


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": [*required]} if required else {})}


def _list(items: Schema, most: int, key: str = "") -> Schema:
    kind = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]} if key else {}
    return {"type": "array", "items": items, "maxItems": most, **kind}


def _text(most: int = 253, **more: Any) -> Schema:
    return {"type": "string", "maxLength": most, **more}


def _number(least: int = 0) -> Schema:
    return {"type": "integer", "format": "int32", "minimum": least}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_QUANTITY = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_TIME = {"type": "string", "format": "date-time"}
_CONDITION = _object(
    ("type", "status", "reason", "message", "lastTransitionTime"),
    type=_text(316),
    status={"type": "string", "enum": ["True", "False", "Unknown"]},
    reason=_text(1024, minLength=1),
    message=_text(32768),
    lastTransitionTime=_TIME,
    observedGeneration={"type": "integer", "format": "int64", "minimum": 0},
)
_TOLERATIONS = _list(_ANY, 8)
_UPDATE = _object(
    ("name",),
    name=_text(63),
    labels=_map({"type": "string"}),
    annotations=_map({"type": "string"}),
    nodeSelector=_map({"type": "string"}),
    tolerations=_TOLERATIONS,
)
_CHECK_STATE = _object(
    ("name", "state", "lastTransitionTime", "message"),
    name=_text(316, minLength=1),
    state={"type": "string", "enum": ["Pending", "Ready", "Retry", "Rejected"]},
    lastTransitionTime=_TIME,
    message=_text(32768),
    requeueAfterSeconds=_number(),
    retryCount=_number(),
    podSetUpdates=_list(_UPDATE, 18),
)
_VALUES = _object(
    universal=_text(63),
    individual=_object(("roots",), prefix=_text(63), suffix=_text(63), roots=_list(_text(63), 100_000)),
)
_SLICE = _object(
    ("domainCount", "valuesPerLevel", "podCounts"),
    domainCount=_number(1),
    valuesPerLevel=_list(_VALUES, 16),
    podCounts=_object(universal=_number(1), individual=_list(_number(1), 100_000)),
)
_ASSIGNMENT = _object(
    name=_text(63, default="main"),
    flavors=_map(_text()),
    resourceUsage=_map(_QUANTITY),
    count=_number(),
    topologyAssignment=_object(("levels", "slices"), levels=_list(_text(317), 16), slices=_list(_SLICE, 1000)),
    delayedTopologyRequest={"type": "string", "enum": ["Pending", "Ready"]},
)
_POD_SET = _object(
    ("template",),
    name=_text(63, default="main"),
    template=_object(metadata=_ANY, spec=_ANY),
    count={**_number(), "default": 1},
    minCount=_number(1),
    topologyRequest=_object(required=_text(63), preferred=_text(63), unconstrained={"type": "boolean"}),
)
_PRIORITY_CLASS = _object(("group", "kind", "name"), group=_text(), kind=_text(), name=_text())


def _crd(kind: str, plural: str, *, namespaced: bool, spec: Schema, status: Schema) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue/pull/1"},
        },
        "spec": {
            "group": GROUP,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [
                {
                    "name": "v1beta2",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object(spec=spec, status=status)},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


CRDS = (
    _crd(
        "Workload",
        "workloads",
        namespaced=True,
        spec=_object(
            podSets=_list(_POD_SET, 18, "name"),
            queueName=_text(),
            priorityClassRef=_PRIORITY_CLASS,
            priority={"type": "integer", "format": "int32"},
            active={"type": "boolean", "default": True},
        ),
        status=_object(
            conditions=_list(_CONDITION, 16, "type"),
            admission=_object(clusterQueue=_text(), podSetAssignments=_list(_ASSIGNMENT, 18, "name")),
            requeueState=_object(count=_number(), requeueAt=_TIME),
            admissionChecks=_list(_CHECK_STATE, 8, "name"),
        ),
    ),
    _crd(
        "AdmissionCheck",
        "admissionchecks",
        namespaced=False,
        spec=_object(("controllerName",), controllerName=_text(253, minLength=1), parameters=_ANY),
        status=_object(conditions=_list(_CONDITION, 16, "type")),
    ),
    _crd(
        "ResourceFlavor",
        "resourceflavors",
        namespaced=False,
        spec=_object(nodeLabels=_map({"type": "string"}), nodeTaints=_TOLERATIONS, tolerations=_TOLERATIONS),
        status=_object(),
    ),
)
