"""Changes of one node; the plugin that rejects it says which could satisfy it. Also one more node like another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podwright.core.framework.contract import said
from podwright.core.framework.explaining import NodeChange
from podwright.core.framework.interface import Plugin
from podwright.core.objects.node import HOSTNAME, Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU
from podwright.core.objects.taints import Taint
from podwright.core.objects.wording import quantity
from podwright.core.state.cache import Cache
from podwright.core.state.devices.index import SLICE_KIND
from podwright.simulator.explain.results import Edit


def edit_for(plugin: Any, pod: PodInfo, node: Node) -> NodeChange | None:
    """A change after which the plugin may accept the node."""
    if not isinstance(plugin, Plugin):
        return None

    def change() -> NodeChange | None:
        found = plugin.change_of_node(pod, node)
        return None if found is None else NodeChange(*found)

    return said(plugin, "change_of_node", change, None)


def patch_of(before: Node, after: Node) -> Mapping[str, Any]:
    """The patch that makes one node of the other: of its labels, its taints, and whether it is cordoned."""
    patch: dict[str, Any] = {}
    if labels := {
        key: after.labels.get(key)
        for key in {**before.labels, **after.labels}
        if before.labels.get(key) != after.labels.get(key)
    }:
        patch["metadata"] = {"labels": labels}
    spec: dict[str, Any] = {}
    if after.unschedulable != before.unschedulable:
        spec["unschedulable"] = after.unschedulable or None
    if after.taints != before.taints:
        spec["taints"] = [_raw_taint(taint) for taint in after.taints] or None
    return {**patch, "spec": spec} if spec else patch


def _raw_taint(taint: Taint) -> Mapping[str, str]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}


# One more node


def shapes(nodes: Iterator[Node], most: int) -> Iterator[Node]:
    """The first node of each kind: allocatable resources, taints, and labels except the host name."""
    seen: set[object] = set()
    for node in nodes:
        labels = frozenset(pair for pair in node.labels.items() if pair[0] != HOSTNAME)
        shape = (labels, frozenset(node.allocatable.items()), _lasting(node))
        if shape not in seen:
            seen.add(shape)
            yield node
            if len(seen) == most:
                return


def _lasting(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if not taint.managed)


def creation(cache: Cache, node: Node) -> Iterator[Edit]:
    """The node as objects to create: with its devices, which a driver would publish."""
    yield Edit(verb="create", kind="Node", name=node.name, object=_manifest(node))
    for raw in cache.store.list(SLICE_KIND):
        if (raw.get("spec") or {}).get("nodeName") == node.name:
            yield Edit(verb="create", kind=SLICE_KIND, name=raw["metadata"]["name"], object=raw)


def _manifest(node: Node) -> dict[str, Any]:
    """The node as an object that can be created."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {"taints": [_raw_taint(taint) for taint in node.taints]} if node.taints else {},
        "status": {"allocatable": {name: _amount(name, amount) for name, amount in node.allocatable.items()}},
    }


def _amount(name: str, amount: int) -> str:
    return quantity(name, amount) if name == CPU else str(amount)
