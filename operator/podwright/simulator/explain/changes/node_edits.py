"""Changes of one node, by the plugin that rejects it: a taint or a cordon removed, a label set. Also one more node like another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from podwright.core.framework.framework import Framework
from podwright.core.objects.node import HOSTNAME, Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU
from podwright.core.objects.taints import Taint
from podwright.core.state.cache import Cache
from podwright.core.state.devices.index import SLICE_KIND
from podwright.simulator.explain.amounts import quantity
from podwright.simulator.explain.causes import lifecycle
from podwright.simulator.explain.details import untolerated, written
from podwright.simulator.explain.results import Edit

_CORDON: Final = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True)
class NodeEdit:
    """A changed node, with the patch that changes it, and a text."""

    text: str
    node: Node
    patch: Mapping[str, Any]


def edit_for(plugin: str, framework: Framework, pod: PodInfo, node: Node) -> NodeEdit | None:
    """A change after which the plugin may accept the node."""
    editor = _EDITORS.get(plugin)
    return None if editor is None else editor(framework, pod, node)


def _without_taints(framework: Framework, pod: PodInfo, node: Node) -> NodeEdit | None:
    unwanted = untolerated(framework, pod, node.taints)
    if not unwanted:
        return None
    left = tuple(taint for taint in node.taints if taint not in unwanted)
    if any(lifecycle(taint.key) for taint in unwanted):
        text = f"node {node.name} is healthy again, which takes away {' and '.join(map(written, unwanted))}"
    else:
        text = f"take {' and '.join(map(written, unwanted))} away from node {node.name}"
    return NodeEdit(
        text, replace(node, taints=left), {"spec": {"taints": [_raw_taint(taint) for taint in left] or None}}
    )


def _raw_taint(taint: Taint) -> Mapping[str, str]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": taint.effect}


def _uncordoned(_framework: Framework, _pod: PodInfo, node: Node) -> NodeEdit | None:
    left = tuple(taint for taint in node.taints if taint.key != _CORDON)
    patch: dict[str, Any] = {"unschedulable": None}
    if left != node.taints:
        patch["taints"] = [_raw_taint(taint) for taint in left] or None
    return NodeEdit(f"uncordon node {node.name}", replace(node, unschedulable=False, taints=left), {"spec": patch})


def _labelled(_framework: Framework, pod: PodInfo, node: Node) -> NodeEdit | None:
    """Labels that the pod selects. Host names are the kubelet's."""
    labels = {key: value for key, value in pod.node_affinity.node_selector.items() if node.labels.get(key) != value}
    required = pod.node_affinity.required
    if required is not None and not required.matches(node.labels, node.name):
        for each in next((term.expressions for term in required.terms if not term.fields), ()):
            if each.matches_value(node.labels.get(each.key)):
                continue
            if each.operator != "In":
                return None
            labels[each.key] = min(each.values)
    if not labels or HOSTNAME in labels:
        return None
    written_labels = ", ".join(f"{key}={value}" for key, value in labels.items())
    changed = replace(node, labels={**node.labels, **labels})
    return NodeEdit(f"label node {node.name} with {written_labels}", changed, {"metadata": {"labels": labels}})


_EDITORS: Final[Mapping[str, Callable[[Framework, PodInfo, Node], NodeEdit | None]]] = {
    "TaintToleration": _without_taints,
    "NodeUnschedulable": _uncordoned,
    "NodeAffinity": _labelled,
}


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
    return tuple(taint for taint in node.taints if not lifecycle(taint.key))


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
