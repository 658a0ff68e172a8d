"""The resources that a node lacks for a pod, and smaller requests: the containers that request most get less."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.explaining import CLOSE, PodChange, Raw, Why, editable
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.resources import PODS, amounts_of, parse_amounts
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.objects.wording import called, listed, quantity, readable
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo

_RESOURCES_READ: Final = 1000
_TOO_GREAT: Final = 3.0
"""The further distance of a node on which the pod would not even fit if the node were empty."""
Checked = Sequence[tuple[str, int]]
"""The resources that the filter checks, with the requested amounts."""


def remoteness(checked: Checked, table: NodeTable) -> NDArray[np.float64]:
    """float[nodes]: 1, and the sum of what each node lacks, as shares of what the pod requests, plus a distance where
    even the empty node lacks it.
    """
    missing = np.where(table.pods + 1 > table.allocatable(PODS), 1.5, 1.0)
    for resource, amount in checked:
        free = table.allocatable(resource) - table.requested(resource)
        missing = missing + np.clip(amount - free, 0, None) / amount
        missing = missing + (amount > table.allocatable(resource)) * _TOO_GREAT
    return missing


def why_not_here(checked: Checked, pod: PodInfo, node: NodeInfo, table: NodeTable, message: str) -> Why:
    reason, text = _cause(checked, pod, node, table, message)
    return Why(reason, text, "; ".join((*_shortfalls(checked, node), *_overhead(pod))))


def _overhead(pod: PodInfo) -> Iterator[str]:
    """How much of the requests comes from the RuntimeClass, which the pod's containers do not show."""
    parts = [f"{readable(name, amount)} {called(name)}" for name, amount in _overhead_of(pod).items() if amount]
    if parts:
        named = str(((pod.raw or {}).get("spec") or {}).get("runtimeClassName") or "")
        yield f"{listed(parts)} of it is overhead of its RuntimeClass{f' {named}' if named else ''}"


def _overhead_of(pod: PodInfo) -> Mapping[str, int]:
    spec = (pod.raw or {}).get("spec")
    overhead = spec.get("overhead") if isinstance(spec, Mapping) else None
    return amounts_of(parse_amounts(overhead, "spec.overhead")) if isinstance(overhead, Mapping) else {}


def _shortfalls(checked: Checked, node: NodeInfo) -> Iterator[str]:
    """Yields a text for each resource that the node lacks for the pod."""
    if len(node.pods) + 1 > node.allocatable(PODS):
        yield f"{len(node.pods)} pods are on it and it takes {node.allocatable(PODS)}"
    for resource, amount in checked:
        capacity, used = node.allocatable(resource), node.requested.get(resource, 0)
        if amount <= capacity - used:
            continue
        if not capacity:
            yield f"it has no {called(resource)}"
            continue
        text = f"{readable(resource, amount)} {called(resource)} requested"
        if amount > capacity:
            yield f"{text}, it has {readable(resource, capacity)} in all"
        elif used > capacity:
            over = readable(resource, used - capacity)
            yield f"{text}, and the pods on it already request {over} more than its {readable(resource, capacity)}"
        else:
            free = capacity - used
            yield (
                f"{text}, {readable(resource, free)} of {readable(resource, capacity)} free: "
                f"{readable(resource, amount - free)} too few"
            )


def _cause(checked: Checked, pod: PodInfo, node: NodeInfo, table: NodeTable, message: str) -> tuple[str, str]:
    if message == "Too many pods":
        return "TooManyPods", "the most pods that a node takes are there"
    resource = message.removeprefix("Insufficient ")
    amount = dict(checked).get(resource, 0)
    most = int(table.allocatable(resource)[table.valid].max()) if table.count else 0
    if not most:
        hint = did_you_mean(resource, _offered(table))
        text = f"no node offers {called(resource)}, of which the pod requests {readable(resource, amount)}{hint}"
        return "NoSuchResource", text
    if amount > most:
        return "TooBig", (
            f"the pod requests {readable(resource, amount)} {called(resource)}, more than any node has"
            f" ({readable(resource, most)})"
        )
    if node.requested.get(resource, 0) > node.allocatable(resource):
        rivals = {other.scheduler_name for other in node.pods.values()} - {pod.scheduler_name}
        return "Overcommitted", (
            f"the pods on the node request more {called(resource)} than it has"
            f"{f': other schedulers place pods there, too ({listed(sorted(rivals))})' if rivals else ''}"
        )
    ending = [other for other in node.pods.values() if other.terminating]
    if ending and _fits_without(checked, node, ending):
        return (
            "WaitsForTerminatingPods",
            f"its room is held by pods that are still terminating ({listed([each.key for each in ending])})",
        )
    movable = [other for other in node.pods.values() if not belongs_to_node(other)]
    above = [other for other in movable if other.priority > pod.priority]
    below = [other for other in movable if other.priority < pod.priority]
    if above and _fits_without(checked, node, above + below) and not _fits_without(checked, node, below):
        return "PriorityTooLow", (
            f"too little {called(resource)} is free, and the pods there have a higher priority"
            f" (up to {max(other.priority for other in above)}, this pod {pod.priority})"
        )
    if pod.preemption_policy == "Never" and below and _fits_without(checked, node, below):
        return "PreemptionOff", (
            f"too little {called(resource)} is free, and the pod never preempts (preemptionPolicy: Never), though "
            "pods there"
            f" have a lower priority ({listed([each.key for each in below])})"
        )
    return "", f"too little {called(resource)} is free"


def _offered(table: NodeTable) -> list[str]:
    """The extended resources that nodes offer, up to a number."""
    found: dict[str, None] = {}
    for node in table.nodes:
        found.update(dict.fromkeys(name for name in (node.allocatable if node is not None else ()) if "/" in name))
        if len(found) >= _RESOURCES_READ:
            break
    return [*islice(found, _RESOURCES_READ)]


def _fits_without(checked: Checked, node: NodeInfo, others: Sequence[PodInfo]) -> bool:
    """True if the node has enough resources for the pod without these other pods."""
    copy = node.clone()
    for other in others:
        copy.remove(other)
    enough = all(amount <= copy.allocatable(name) - copy.requested.get(name, 0) for name, amount in checked)
    return enough and len(copy.pods) + 1 <= copy.allocatable(PODS)


# Smaller requests


def changes_of_pod(checked: Checked, pod: PodInfo, node: NodeInfo) -> Iterator[PodChange]:
    """The resource's name, spelt as the node's; then smaller requests."""
    lacks = lacking(checked, node)
    for resource in lacks:
        if not node.allocatable(resource):
            yield from _renamed(pod, node, resource)
    if lacks and (change := with_less(pod, lacks)) is not None:
        yield change


def lacking(checked: Checked, node: NodeInfo) -> Mapping[str, int]:
    """Returns the amounts that the node lacks for the pod; empty if smaller requests would not be enough."""
    if len(node.pods) + 1 > node.allocatable(PODS):
        return {}
    free = {name: max(0, node.allocatable(name) - node.requested.get(name, 0)) for name, _ in checked}
    return {name: amount - free[name] for name, amount in checked if amount > free[name]}


def with_less(pod: PodInfo, less: Mapping[str, int]) -> PodChange | None:
    """The pod with smaller requests; None if nothing would be left of one of them."""
    made, texts = editable(pod), []
    for resource, amount in less.items():
        before = dict(pod.requests.spec_requests).get(resource, 0) - _overhead_of(pod).get(resource, 0)
        if before <= amount or not _take_away(made["spec"], resource, amount):
            return None
        texts.append(
            f"request {readable(resource, amount)} {called(resource)} less"
            f" ({quantity(resource, before - amount)} instead of {quantity(resource, before)})"
        )
    return PodChange(" and ".join(texts), made)


def _renamed(pod: PodInfo, node: NodeInfo, resource: str) -> Iterator[PodChange]:
    """The pod with the name of a node's resource in place of a misspelt one."""
    offered = [name for name in node.present.allocatable if "/" in name]
    for close in difflib.get_close_matches(resource, offered, n=1, cutoff=CLOSE):
        made = editable(pod)
        for container in (*_containers(made["spec"], "containers"), *_containers(made["spec"], "initContainers")):
            resources = dict(container.get("resources") or {})
            for field in ("requests", "limits"):
                amounts = resources.get(field) or {}
                if resource in amounts:
                    resources[field] = {close if name == resource else name: each for name, each in amounts.items()}
            container["resources"] = resources
        yield PodChange(f"request {close} instead of {resource}", made)


def _containers(spec: Raw, field: str) -> list[Raw]:
    return list(spec.get(field) or ())


def _take_away(spec: Raw, resource: str, amount: int) -> bool:
    """Lowers the pod's request, or those of the containers that request most. Whether that leaves each of them some."""
    if (spec.get("resources") or {}).get("requests", {}).get(resource) is not None:
        return _lower(spec, resource, amount)
    first = _containers(spec, "initContainers")
    lasting = [*_containers(spec, "containers"), *(each for each in first if each.get("restartPolicy") == "Always")]
    passing = [each for each in first if each.get("restartPolicy") != "Always"]
    running = sum(_requested(each, resource) for each in lasting)
    enough = max([running, *(_requested(each, resource) for each in passing)]) - amount
    for container in passing:
        over = _requested(container, resource) - enough
        if over > 0 and not _lower(container, resource, over):
            return False
    left = enough
    for i, container in enumerate(sorted(lasting, key=lambda each: _requested(each, resource))):
        before = _requested(container, resource)
        kept = min(before, left // (len(lasting) - i))
        if kept < before and (kept <= 0 or not _lower(container, resource, before - kept)):
            return False
        left -= kept
    return enough >= 0


def _requested(holder: Mapping[str, Any], resource: str) -> int:
    requests = (holder.get("resources") or {}).get("requests") or {}
    if resource not in requests:
        return 0
    return amounts_of(parse_amounts({resource: requests[resource]}, "requests"))[resource]


def _lower(holder: Raw, resource: str, amount: int) -> bool:
    resources = dict(holder.get("resources") or {})
    requests = dict(resources.get("requests") or {})
    left = _requested(holder, resource) - amount
    if left < 0:
        return False
    requests[resource] = quantity(resource, left)
    resources["requests"] = requests
    limits = dict(resources.get("limits") or {})
    if resource in limits and "/" in resource:
        limits[resource] = quantity(resource, left)  # the API server wants both to be equal
        resources["limits"] = limits
    holder["resources"] = resources
    return True
