"""Writes what a scheduler writes to the claims of a pod, without a search: the devices may be in use.

    claim of a template:   PUT (finalizer) ─► PUT status (allocation and reservation)
    extended resources:    POST (the claim) ─► PUT ─► PUT status ─► PATCH the pod's status

Each request gets as many devices as it asks for, with made-up names of the length that real ones have.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from benchmarks.http_client import Api, Json

_GROUP: Final = "/apis/resource.k8s.io/v1"
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_DRIVER: Final = "gpu.example.com"
_EXTENDED: Final = "example.com/gpu-"


class NullClaims:
    """The claims that exist when it starts, by (namespace, name)."""

    def __init__(self, api: Api, claims: Mapping[tuple[str, str], Json]) -> None:
        self._api = api
        self._claims = claims

    @classmethod
    async def read(cls, api: Api) -> NullClaims:
        listed = (await api.get(f"{_GROUP}/resourceclaims"))["items"]
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
        return cls(api, {(raw["metadata"]["namespace"], raw["metadata"]["name"]): {**raw, **kind} for raw in listed})

    async def write(self, pod: Json, node: str) -> None:
        """Writes everything for a pod that goes to a node. Raises RuntimeError if the API server refuses it."""
        for entry in pod.get("status", {}).get("resourceClaimStatuses", ()):
            claim = self._claims[pod["metadata"]["namespace"], entry["resourceClaimName"]]
            await self._allocate(claim, pod, node)
        asked = [name for each in pod["spec"]["containers"] for name in each.get("resources", {}).get("limits", {})]
        if extended := [name for name in asked if name.startswith(_EXTENDED)]:
            await self._create(pod, node, extended)

    async def _allocate(self, claim: Json, pod: Json, node: str) -> str:
        metadata = claim["metadata"]
        path = f"{_GROUP}/namespaces/{metadata['namespace']}/resourceclaims/{metadata['name']}"
        protected = await self._api.send("PUT", path, {**claim, "metadata": {**metadata, "finalizers": [_FINALIZER]}})
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        status = {"allocation": _allocation(claim, node), "reservedFor": [consumer]}
        await self._api.send("PUT", f"{path}/status", {**protected, "status": status})
        return str(metadata["name"])

    async def _create(self, pod: Json, node: str, resources: Iterable[str]) -> None:
        metadata = pod["metadata"]
        mappings = [
            {"containerName": "pause", "resourceName": name, "requestName": f"container-0-request-{i}"}
            for i, name in enumerate(resources)
        ]
        exactly = {"allocationMode": "ExactCount", "count": 1}
        requests = [
            {
                "name": entry["requestName"],
                "exactly": {**exactly, "deviceClassName": entry["resourceName"].partition("/")[2]},
            }
            for entry in mappings
        ]
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": f"{metadata['name']}-extended-resources-",
                "namespace": metadata["namespace"],
                "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
                "ownerReferences": [owner],
            },
            "spec": {"devices": {"requests": requests}},
        }
        created = await self._api.send("POST", f"{_GROUP}/namespaces/{metadata['namespace']}/resourceclaims", body)
        name = await self._allocate(created, pod, node)
        change = {"status": {"extendedResourceClaimStatus": {"resourceClaimName": name, "requestMappings": mappings}}}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        await self._api.send("PATCH", path, change)


def _allocation(claim: Json, node: str) -> Json:
    devices = claim["spec"]["devices"]
    results = [result for request in devices["requests"] for result in _results(request, node)]
    where = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [where]}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }


def _results(request: Json, node: str) -> Iterable[Json]:
    name = request["name"]
    if alternatives := request.get("firstAvailable"):
        name, asked = f"{name}/{alternatives[-1]['name']}", alternatives[-1]
    else:
        asked = request["exactly"]
    for i in range(asked.get("count", 1)):
        result = {"driver": _DRIVER, "pool": node, "request": name, "device": f"{name.partition('/')[0]}-{i}"}
        if capacity := asked.get("capacity"):
            result |= {"shareID": str(uuid.uuid4()), "consumedCapacity": capacity["requests"]}
        yield result
