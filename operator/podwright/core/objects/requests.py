"""A pod's requests: containers, init containers, sidecars, overhead, pod-level resources, resize in place.

Source of the rules: KEP-753 (sidecars), KEP-2837 (pod-level resources), KEP-1287 (in-place resize).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.interning import Interner
from podwright.core.objects.resources import (
    CPU,
    DEFAULT_MEMORY,
    DEFAULT_MILLI_CPU,
    MEMORY,
    Requests,
    amounts_of,
    parse_amounts,
)
from podwright.core.objects.selectors import as_list, as_mapping

_known: Final[Interner[Requests]] = Interner()
_SCORING_DEFAULTS: Final = {CPU: DEFAULT_MILLI_CPU * 10**6, MEMORY: DEFAULT_MEMORY * 10**9}


def requests_of(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Requests:
    """What the pod asks of its node. Raises InvalidObjectError naming the field."""
    containers = _resources(spec, "containers")
    init_containers = _resources(spec, "initContainers")
    source = (containers, init_containers, spec.get("overhead"), spec.get("resources"))
    return _known.get(source, lambda: _parse(spec))


def _resources(spec: Mapping[str, Any], field: str) -> list[tuple[object, object]]:
    return [
        (as_mapping(c, f"spec.{field}[{i}]").get("resources"), c.get("restartPolicy"))
        for i, c in enumerate(as_list(spec.get(field), f"spec.{field}"))
    ]


def _parse(spec: Mapping[str, Any]) -> Requests:
    plain = _total(spec, {})
    scoring = _total(spec, _SCORING_DEFAULTS)
    amounts = amounts_of(scoring)
    return Requests(amounts_of(plain), amounts.get(CPU, 0), amounts.get(MEMORY, 0))


def _total(spec: Mapping[str, Any], defaults: Mapping[str, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for i, item in enumerate(as_list(spec.get("containers"), "spec.containers")):
        _add(total, _container(item, f"spec.containers[{i}]", defaults))
    sidecars: dict[str, int] = {}
    largest: dict[str, int] = {}
    for i, item in enumerate(as_list(spec.get("initContainers"), "spec.initContainers")):
        mine = _container(item, f"spec.initContainers[{i}]", defaults)
        if item.get("restartPolicy") == "Always":
            _add(total, mine)
            _add(sidecars, mine)
            mine = dict(sidecars)
        else:
            _add(mine, sidecars)
        _max(largest, mine)
    _max(total, largest)
    resources = as_mapping(spec.get("resources"), "spec.resources")
    for name, amount in parse_amounts(resources.get("requests"), "spec.resources.requests").items():
        if name in (CPU, MEMORY) or name.startswith("hugepages-"):
            total[name] = amount
    _add(total, parse_amounts(spec.get("overhead"), "spec.overhead"))
    return total


def _container(raw: object, where: str, defaults: Mapping[str, int]) -> dict[str, int]:
    resources = as_mapping(as_mapping(raw, where).get("resources"), f"{where}.resources")
    return {**defaults, **parse_amounts(resources.get("requests"), f"{where}.resources.requests")}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _max(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, -1):
            total[name] = amount
