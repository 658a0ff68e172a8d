"""The CRD of KAI's PodGroup, written from the types of v0.17.0-9-gd5bc503a
(`pkg/apis/scheduling/v2alpha2/podgroup_types.go`), and groups and pods as its pod-grouper writes them.
"""

from __future__ import annotations

from typing import Any

from podwright.testing import pod

SCHEDULER = "kai-scheduler"
COUNT = {"type": "integer", "format": "int32", "minimum": 0}
TEXT = {"type": "string"}
AMOUNTS = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
TOPOLOGY = {
    "type": "object",
    "properties": dict.fromkeys(("topology", "requiredTopologyLevel", "preferredTopologyLevel"), TEXT),
}
SUB_GROUP = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "parent": TEXT,
        "minMember": {**COUNT, "nullable": True},
        "minSubGroup": COUNT,
        "topologyConstraint": TOPOLOGY,
    },
}
CONDITION = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("type", "nodePool", "status", "transitionID", "reason", "message"), TEXT),
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "reasons": {
            "type": "array",
            "items": {"type": "object", "properties": dict.fromkeys(("reason", "message"), TEXT)},
        },
    },
}
SPEC = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("queue", "priorityClassName", "preemptionDelay", "stalenessGracePeriod"), TEXT),
        "minMember": {**COUNT, "nullable": True},
        "minSubGroup": COUNT,
        "preemptibility": {"type": "string", "enum": ["preemptible", "non-preemptible"]},
        "subGroups": {"type": "array", "items": SUB_GROUP},
        "topologyConstraint": TOPOLOGY,
        "markUnschedulable": {"type": "boolean"},
        "schedulingBackoff": {"type": "integer", "format": "int32"},
    },
}
STATUS = {
    "type": "object",
    "properties": {
        "schedulingConditions": {"type": "array", "items": CONDITION},
        "resourcesStatus": {"type": "object", "properties": {"requested": AMOUNTS, "allocated": AMOUNTS}},
    },
}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.run.ai"},
    "spec": {
        "group": "scheduling.run.ai",
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v2alpha2",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
            }
        ],
    },
}
SERVED = "/apis/scheduling.run.ai/v2alpha2/podgroups"


def group(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    """A PodGroup."""
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queue": "team", **spec},
    }


def member(group: str, name: str, namespace: str, sub_group: str = "", **options: Any) -> dict[str, Any]:
    """A pod of the group, and of one of its sub-groups."""
    raw = pod(name, namespace, scheduler=SCHEDULER, **{"memory": None, "cpu": "1", **options})
    raw["metadata"]["annotations"] = {"pod-group-name": group}
    raw["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
    if sub_group:
        raw["metadata"]["labels"]["kai.scheduler/subgroup-name"] = sub_group
    return raw
