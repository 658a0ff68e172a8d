"""The CRDs of KAI's and Volcano's queues, of KAI's and Kueue's topologies, and of Volcano's
HyperNodes, written for the tests from the Go types of their APIs.

KAI v0.17.0-9-gd5bc503a, pkg/apis/scheduling/v2; Volcano v1.16.0-alpha.1-42-ged72c7c81, volcano.sh/apis,
pkg/apis/scheduling/v1beta1.
"""

from __future__ import annotations

from typing import Any

from podwright.kube.kinds import HYPER_NODE, KAI_QUEUE, KAI_TOPOLOGY, KUEUE_TOPOLOGY, VOLCANO_QUEUE, Resource
from podwright.testing import ControlPlane, wait_until

Json = dict[str, Any]

_STRING: Json = {"type": "string"}
_INTEGER: Json = {"type": "integer"}
_AMOUNTS: Json = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


_NUMBER: Json = {"type": "number"}
_KAI_RESOURCE = _object(quota=_NUMBER, overQuotaWeight=_NUMBER, limit=_NUMBER)
_TIME: Json = {"type": "string", "format": "date-time"}
_SCHEMAS = {
    KAI_QUEUE: _object(
        spec=_object(
            displayName=_STRING,
            parentQueue=_STRING,
            priority=_INTEGER,
            preemptMinRuntime=_STRING,
            reclaimMinRuntime=_STRING,
            resources=_object(gpu=_KAI_RESOURCE, cpu=_KAI_RESOURCE, memory=_KAI_RESOURCE),
        ),
        status=_object(
            conditions=_list(
                {
                    **_object(
                        type=_STRING,
                        status=_STRING,
                        reason=_STRING,
                        message=_STRING,
                        lastProbeTime=_TIME,
                        lastTransitionTime=_TIME,
                    ),
                    "required": ["status", "type"],
                }
            ),
            childQueues=_list(_STRING),
            allocated=_AMOUNTS,
            allocatedNonPreemptible=_AMOUNTS,
            requested=_AMOUNTS,
        ),
    ),
    **dict.fromkeys(
        (KAI_TOPOLOGY[0], KUEUE_TOPOLOGY[0]), _object(spec=_object(levels=_list(_object(nodeLabel=_STRING))))
    ),
    HYPER_NODE: _object(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    VOLCANO_QUEUE: _object(
        spec=_object(
            weight={"type": "integer", "default": 1, "minimum": 1, "maximum": 65535},
            capability=_AMOUNTS,
            reclaimable={"type": "boolean"},
            guarantee=_object(resource=_AMOUNTS),
            type=_STRING,
            parent=_STRING,
            deserved=_AMOUNTS,
            priority={"type": "integer", "minimum": 0},
            dequeueStrategy={"type": "string", "default": "traverse", "enum": ["fifo", "traverse"]},
        ),
        status=_object(
            state={"type": "string", "enum": ["Open", "Closed", "Closing", "Unknown"]},
            **dict.fromkeys(("unknown", "pending", "running", "inqueue", "completed"), _INTEGER),
            reservation=_object(nodes=_list(_STRING), resource=_AMOUNTS),
            allocated=_AMOUNTS,
        ),
    ),
}


def crd(resource: Resource) -> Json:
    """The CRD of this kind."""
    kind = resource.kind
    names = {"kind": kind, "plural": resource.plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _SCHEMAS[resource]},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {"group": resource.group, "names": names, "scope": "Cluster", "versions": [version]},
    }


def install(cluster: ControlPlane, resource: Resource) -> None:
    """Installs the CRD, and waits until the API server serves it."""
    cluster.apply(crd(resource))
    wait_until(
        lambda: cluster.client.raw("GET", resource.collection)[0] == 200, 30, f"{resource.plural} of {resource.group}"
    )


def uninstall(cluster: ControlPlane, resource: Resource) -> None:
    """Removes the CRD with all its objects, if it is there."""
    cluster.client.raw(
        "DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{resource.plural}.{resource.group}"
    )
    wait_until(
        lambda: cluster.client.raw("GET", resource.collection)[0] == 404,
        30,
        f"no {resource.plural} of {resource.group}",
    )
