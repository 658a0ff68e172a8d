"""The devices that each node has to provide for a pod's extended resources. A node may offer a resource itself, through
a device plugin. On other nodes, devices of a DeviceClass provide it. So nodes that offer different resources get
different claims. Source: `filterExtendedResources` in kube-scheduler's plugin DynamicResources (KEP-5004).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.devices.extended import Mapped, can_stand_for, requests_for
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.claims import FOR_EXTENDED_RESOURCES, ResourceClaim, parse_resource_claim
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo, body_of
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.devices import Devices

Bools = NDArray[np.bool_]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """The claim for a pod's extended resources on some nodes."""

    mapped: Mapped
    claim: ResourceClaim
    """The claim has no name yet. Its uid stands for it until it is created."""


@dataclass(slots=True)
class ExtendedResources:
    """The extended resources of a pod. `classes`: the names of the classes that stand for some of them, at least one.

    `others`: those without a class, which a node must offer itself.
    """

    pod: PodInfo
    classes: Mapping[str, str]
    others: tuple[str, ...]
    _claims: dict[int, NodeClaim] = field(default_factory=dict)

    def codes(self, table: NodeTable) -> Codes:
        """int64[nodes]: a bit for each resource of `classes` that the node does not offer."""
        codes = np.zeros(table.size, np.int64)
        for bit, resource in enumerate(self.classes):
            codes |= (table.allocatable(resource) == 0).astype(np.int64) << bit
        return codes

    def code(self, node: Node) -> int:
        """The code of one node."""
        return sum((not node.allocatable.get(resource)) << bit for bit, resource in enumerate(self.classes))

    def fits(self, node: Node) -> bool:
        """True if the node knows all resources that no class stands for there."""
        return all(resource in node.allocatable for resource in self.others)

    def claim(self, code: int) -> NodeClaim | None:
        """The claim on nodes with this code; None: these nodes provide all the resources themselves."""
        if not code:
            return None
        found = self._claims.get(code)
        if found is None:
            wanted = {name: cls for bit, (name, cls) in enumerate(self.classes.items()) if code >> bit & 1}
            found = self._claims[code] = _node_claim(self.pod, wanted)
        return found


def _node_claim(pod: PodInfo, classes: Mapping[str, str]) -> NodeClaim:
    mapped = requests_for((body_of(pod) or _NO_OBJECT).get("spec") or _NO_OBJECT, classes)
    metadata = {
        "namespace": pod.namespace,
        "name": NOT_CREATED,
        "generateName": f"{pod.name}-extended-resources-",
        "uid": f"{pod.uid}/extended-resources",
        "annotations": {FOR_EXTENDED_RESOURCES: "true"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}],
    }
    spec = {"devices": {"requests": mapped.requests}}
    return NodeClaim(mapped, parse_resource_claim({"metadata": metadata, "spec": spec}))


NOT_CREATED: Final = "<extended-resources>"
"""The name of the claim in messages until it is created."""
_NO_OBJECT: Final[Mapping[str, Any]] = {}


def extended_resources(pod: PodInfo, devices: Devices) -> ExtendedResources | None:
    """The extended resources of a pod; None if no class stands for any of them."""
    named = pod.requests.qualified
    if not named or not devices.any_class:
        return None
    classes: dict[str, str] = {}
    others = []
    for resource in named:
        if not can_stand_for(resource):
            continue
        found = devices.class_of_resource(resource)
        if found is None:
            others.append(resource)
        else:
            classes[resource] = found.name
    return ExtendedResources(pod, classes, tuple(others)) if classes else None
