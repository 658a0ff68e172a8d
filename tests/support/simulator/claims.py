"""Nodes with devices, and pods with claims, for simulations and replays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.objects.devices import allocated, exactly, make_claim, make_class, make_device, make_slice
from support.simulator.kit import item, node, pod

DRA = "resource.k8s.io/v1"
EXTENDED = "example.com/gpu"
FOR_EXTENDED = {"resource.kubernetes.io/extended-resource-claim": "true"}


def gpu_node(name: str, gpus: int = 1, **more: Any) -> list[dict[str, Any]]:
    devices = [make_device(f"g{i}") for i in range(gpus)]
    return [node(name, **more), item("ResourceSlice", make_slice(name, devices, node=name), DRA)]


def gpu_class(**spec: Any) -> dict[str, Any]:
    return item("DeviceClass", make_class("gpu", **spec), DRA)


def template(name: str = "t", **request: Any) -> dict[str, Any]:
    return item("ResourceClaimTemplate", {"metadata": {"name": name, "namespace": "default"}, "spec": {"spec": make_claim("x", exactly(**request))["spec"]}}, DRA)  # fmt: skip


def from_template(name: str, on: str = "", device: str = "g0", **more: Any) -> list[dict[str, Any]]:
    """A pod whose claim was made from the template `t`, and that claim."""
    spec = {"resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}]}
    claim = f"{name}-x-abcde"
    status = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": claim}]}
    made = pod(name, on=on, spec=spec, status=status, **more)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"], "controller": True}
    got = allocated(device, node=on, reserved_for=[owner["uid"]]) if on else None
    return [made, item("ResourceClaim", make_claim(claim, exactly(), status=got, ownerReferences=[owner]), DRA)]


def sharing(name: str, on: str = "", **more: Any) -> dict[str, Any]:
    return pod(name, on=on, spec={"resourceClaims": [{"name": "x", "resourceClaimName": "shared"}]}, **more)


def shared_claim(*users: Mapping[str, Any], on: str = "", device: str = "g0") -> dict[str, Any]:
    got = allocated(device, node=on, reserved_for=[each["metadata"]["uid"] for each in users]) if users else None
    return item("ResourceClaim", make_claim("shared", exactly(), status=got), DRA)


def extended(name: str, on: str = "") -> list[dict[str, Any]]:
    """A pod with a device for an extended resource, and the special claim if it has a node."""
    made = pod(name, on=on, spec={"containers": [{"name": "c", "resources": {"requests": {EXTENDED: "1"}, "limits": {EXTENDED: "1"}}}]})  # fmt: skip
    if not on:
        return [made]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": made["metadata"]["uid"], "controller": True}
    got = allocated("g0", node=on, reserved_for=[owner["uid"]])
    claim = make_claim(f"{name}-extended", exactly(), status=got, annotations=FOR_EXTENDED, ownerReferences=[owner])
    return [made, item("ResourceClaim", claim, DRA)]
