"""Smaller requests of a pod: the containers that request most get less, by what a node lacks."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY, amounts_of, parse_amounts
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.simulator.explain.amounts import called, quantity, readable
from podwright.simulator.explain.changes.place import CLOSE, Option, Place, Raw, spec_of
from podwright.simulator.explain.verdicts import FIT


def lacking(place: Place) -> Mapping[str, int]:
    """What the node lacks for the pod, by resource; empty if smaller requests would not be enough."""
    fit = place.framework.plugins.get(FIT)
    if not isinstance(fit, NodeResourcesFit) or len(place.node.pods) + 1 > place.node.allocatable("pods"):
        return {}
    found = {}
    for resource, amount in fit.checked_requests(place.pod.requests):
        free = max(0, place.node.allocatable(resource) - place.node.requested.get(resource, 0))
        if amount > free:
            found[resource] = amount - free
    return found


def with_less(raw: Raw, pod: PodInfo, less: Mapping[str, int], *, to_nothing: bool = False) -> Option | None:
    """The pod with smaller requests; None if its containers do not request that much. `pod` is parsed from `raw`.

    Also None if nothing would be left of CPU or memory, unless `to_nothing` allows that.
    """
    made, texts = spec_of(raw), []
    for resource, amount in less.items():
        before = dict(pod.requests.spec_requests)[resource]
        if before <= amount and resource in (CPU, MEMORY) and not to_nothing:
            return None
        if not _take_away(made["spec"], resource, amount):
            return None
        texts.append(
            f"request {readable(resource, amount)} {called(resource)} less"
            f" ({quantity(resource, before - amount)} instead of {quantity(resource, before)})"
        )
    return " and ".join(texts), made


def less(place: Place) -> Iterator[Option]:
    """The resource's name, spelt as the node's; then smaller requests."""
    lacks = lacking(place)
    for resource in lacks:
        if not place.node.allocatable(resource):
            yield from _renamed(place, resource)
    if lacks and (option := with_less(place.raw, place.pod, lacks, to_nothing=place.to_nothing)) is not None:
        yield option


def _renamed(place: Place, resource: str) -> Iterator[Option]:
    """The pod with the name of a node's resource in place of a misspelt one."""
    offered = [name for name in place.node.present.allocatable if "/" in name]
    for close in difflib.get_close_matches(resource, offered, n=1, cutoff=CLOSE):
        made = spec_of(place.raw)
        for container in (*_containers(made["spec"], "containers"), *_containers(made["spec"], "initContainers")):
            resources = dict(container.get("resources") or {})
            for field in ("requests", "limits"):
                amounts = resources.get(field) or {}
                if resource in amounts:
                    resources[field] = {close if name == resource else name: each for name, each in amounts.items()}
            container["resources"] = resources
        yield f"request {close} instead of {resource}", made


def _containers(spec: Raw, field: str) -> list[Raw]:
    return list(spec.get(field) or ())


def _take_away(spec: Raw, resource: str, amount: int) -> bool:
    """Lowers the pod's request, or those of the containers that request most. Whether that is possible."""
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
    left = running - enough
    for container in sorted(lasting, key=lambda each: -_requested(each, resource)):
        part = min(left, _requested(container, resource))
        if part > 0 and not _lower(container, resource, part):
            return False
        left -= max(part, 0)
    return enough >= 0 and left <= 0


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
