"""The CRD of Grove's PodGang, written from the types at fcc3b3bb (`scheduler/api/core/v1alpha1/podgang.go`), and gangs
and pods as its operator writes them.
"""

from __future__ import annotations

from typing import Any

from podwright.testing import pod

SCHEDULER = "kai-scheduler"
GATE = {"name": "grove.io/podgang-pending-creation"}
TEXT = {"type": "string"}
NAMED = {"type": "object", "properties": {"namespace": TEXT, "name": TEXT}}
PACK = {
    "type": "object",
    "properties": {
        "packConstraint": {"type": "object", "properties": {"required": TEXT, "preferred": TEXT}},
    },
}
SPEC = {
    "type": "object",
    "required": ["podgroups"],
    "properties": {
        "podgroups": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "podReferences", "minReplicas"],
                "properties": {
                    "name": TEXT,
                    "podReferences": {"type": "array", "items": NAMED},
                    "minReplicas": {"type": "integer", "format": "int32"},
                    "topologyConstraint": PACK,
                },
            },
        },
        "topologyConstraint": PACK,
        "topologyConstraintGroupConfigs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": TEXT,
                    "podGroupNames": {"type": "array", "items": TEXT},
                    "topologyConstraint": PACK,
                },
            },
        },
        "priorityClassName": TEXT,
        "reuseReservationRef": NAMED,
    },
}
CONDITION = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        **dict.fromkeys(("type", "status", "reason", "message"), TEXT),
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64"},
    },
}
STATUS = {
    "type": "object",
    "required": ["phase"],
    "properties": {
        "phase": TEXT,
        "conditions": {"type": "array", "items": CONDITION},
        "placementScore": {"type": "number"},
    },
}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgangs.scheduler.grove.io"},
    "spec": {
        "group": "scheduler.grove.io",
        "names": {"kind": "PodGang", "listKind": "PodGangList", "plural": "podgangs", "singular": "podgang"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
            }
        ],
    },
}
SERVED = "/apis/scheduler.grove.io/v1alpha1/podgangs"


def gang(name: str, namespace: str, groups: dict[str, int], **spec: Any) -> dict[str, Any]:
    """A PodGang with these pod groups and their minimums, before its pods are known."""
    podgroups = [{"name": each, "podReferences": [], "minReplicas": count} for each, count in groups.items()]
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": name, "namespace": namespace, "labels": {"grove.io/scheduler-name": SCHEDULER}},
        "spec": {"podgroups": podgroups, **spec},
    }


def member(gang_name: str, clique: str, index: int, namespace: str) -> dict[str, Any]:
    """A pod of a clique, gated until its gang refers to it."""
    raw = pod(f"{clique}-{index}", namespace, scheduler=SCHEDULER, cpu="1", memory=None)
    raw["metadata"]["labels"] = {"grove.io/podgang": gang_name, "grove.io/podclique": clique}
    raw["spec"]["schedulingGates"] = [GATE]
    return raw
