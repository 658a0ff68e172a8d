"""Builders of raw objects of resource.k8s.io/v1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Raw = dict[str, Any]

DRIVER = "gpu.example.com"


def make_device(name: str, **fields: Any) -> Raw:
    """A device. `attributes` and `capacity` may be given as plain values: `{"model": "a100"}`, `{"memory": "80Gi"}`."""
    attributes = {key: _attribute(value) for key, value in fields.pop("attributes", {}).items()}
    capacity = {k: v if isinstance(v, Mapping) else {"value": v} for k, v in fields.pop("capacity", {}).items()}
    return {"name": name, "attributes": attributes, "capacity": capacity, **fields}


def _attribute(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    return {"bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string": value}


def make_slice(
    name: str,
    devices: Sequence[Raw] = (),
    *,
    node: str = "",
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> Raw:
    """A slice of DRIVER, local to `node` unless `spec` says something else. The pool has the node's name."""
    where = {"nodeName": node} if node else {}
    pools = {"name": pool or node or name, "generation": generation, "resourceSliceCount": count}
    return {
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "pool": pools, "devices": list(devices), **where, **spec},
    }


def make_class(name: str, *expressions: str, **spec: Any) -> Raw:
    """A class with these selectors."""
    return {"metadata": {"name": name}, "spec": {"selectors": [selector(text) for text in expressions], **spec}}


def selector(expression: str) -> Raw:
    return {"cel": {"expression": expression}}


def exactly(name: str = "r", device_class: str = "gpu", **fields: Any) -> Raw:
    """A request for one device, or what `fields` say."""
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


def first_available(name: str, *alternatives: Raw) -> Raw:
    """A request with alternatives, each as `exactly` makes it."""
    return {"name": name, "firstAvailable": [{"name": one["name"], **one["exactly"]} for one in alternatives]}


def make_claim(
    name: str,
    *requests: Raw,
    constraints: Sequence[Raw] = (),
    status: Mapping[str, Any] | None = None,
    namespace: str = "default",
    **metadata: Any,
) -> Raw:
    """A claim with these requests."""
    devices: Raw = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    claim: Raw = {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **metadata},
        "spec": {"devices": devices},
    }
    if status:
        claim["status"] = dict(status)
    return claim


def allocated(*devices: str, node: str = "", pool: str = "", reserved_for: Sequence[str] = (), **result: Any) -> Raw:
    """The status of a claim that has these devices of a pool. `reserved_for`: uids."""
    results = [{"request": "r", "driver": DRIVER, "pool": pool or node, "device": name, **result} for name in devices]
    allocation: Raw = {"devices": {"results": results}}
    if node:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    references = [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved_for]
    return {"allocation": allocation, "reservedFor": references}


def claiming(*names: str) -> Raw:
    """The part of a pod's spec that names these claims."""
    return {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in names]}
