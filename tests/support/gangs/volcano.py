"""The CRD of Volcano's PodGroup, written from the types of v1.16.0-alpha.1-42-ged72c7c81
(`staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go`), and groups and pods as operators write them.
"""

from __future__ import annotations

from typing import Any

COUNT = {"type": "integer", "format": "int32", "minimum": 0}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
AMOUNTS = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
CONDITION = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("type", "status", "transitionID", "reason", "message")},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}
SUB_GROUP_POLICY = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "subGroupSize": {"type": "integer", "format": "int32", "minimum": 1, "default": 1},
        "minSubGroups": {**COUNT, "default": 0},
        "labelSelector": {"type": "object", "properties": {"matchLabels": TEXTS}},
        "matchLabelKeys": {"type": "array", "items": {"type": "string"}},
    },
}
SPEC = {
    "type": "object",
    "properties": {
        "minMember": COUNT,
        "minTaskMember": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
        "queue": {"type": "string", "default": "default"},
        "priorityClassName": {"type": "string"},
        "minResources": AMOUNTS,
        "subGroupPolicy": {"type": "array", "items": SUB_GROUP_POLICY},
    },
}
STATUS = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "conditions": {"type": "array", "items": CONDITION},
        "running": COUNT,
        "succeeded": COUNT,
        "failed": COUNT,
    },
}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
            }
        ],
    },
}
SERVED = "/apis/scheduling.volcano.sh/v1beta1/podgroups"


def group(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A PodGroup."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
