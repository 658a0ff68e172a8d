"""Computes a pod's requests and limits from its containers, overhead, pod-level resources and in-place resizes.

While a pod is being resized, there are three versions of its requests: those in its spec, those that the kubelet has
allocated, and the actual ones. Each version is summed over the pod, and the greatest sum applies. If the kubelet
declared the resize infeasible, the spec's sum is left out. Sources: KEP-753 (sidecars), KEP-2837 (pod-level resources),
KEP-1287 and KEP-5419 (in-place resize of containers and of pods). The feature gates PodLevelResources,
InPlacePodVerticalScaling and InPlacePodLevelResourcesVerticalScaling are assumed to be on; an API server without them
never sends these fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.frozen import FrozenDict
from podwright.core.objects.interning import Interner, WeakValues
from podwright.core.objects.raw import as_list, as_mapping
from podwright.core.objects.resources import (
    CPU,
    DEFAULT_MEMORY,
    DEFAULT_MILLI_CPU,
    HUGE_PAGES_PREFIX,
    MEMORY,
    NO_LIMITS,
    Requests,
    ResourceLimits,
    amounts_of,
    in_report_order,
    is_counted_resource,
    parse_amounts,
)

Nanos = dict[str, int]

_by_source: Final[Interner[Requests]] = Interner()
_limits: Final[Interner[ResourceLimits]] = Interner()
_by_amounts: Final[WeakValues[object, Requests]] = WeakValues()
_CONTAINER_STATUSES: Final = ("containerStatuses", "initContainerStatuses")
_DEFAULTS: Final[Mapping[str, int]] = {CPU: DEFAULT_MILLI_CPU * 10**6, MEMORY: DEFAULT_MEMORY * 10**9}
_NO_DEFAULTS: Final[Mapping[str, int]] = {}


def requests_of(spec: Mapping[str, Any], status: Mapping[str, Any]) -> Requests:
    """The pod's requests. Raises InvalidObjectError naming the field.

    Interned by the parts of `spec` and `status` that they depend on, so that the pods of one template share them.
    """
    statuses = _resized_containers(status)
    source = (
        _container_sources(spec, "containers", statuses),
        _container_sources(spec, "initContainers", statuses),
        spec.get("overhead"),
        _requests_in(spec.get("resources"), "spec.resources"),
        _pod_source(status) if status else None,
    )
    return _by_source.get(source, lambda: _share(_parse(spec, status, statuses)))


def follows_spec(status: Mapping[str, Any]) -> bool:
    """True if the requests of a pod with this status are those of its spec. Raises InvalidObjectError naming the
    field.
    """
    if "allocatedResources" in status or "resources" in status:
        return False
    for field in _CONTAINER_STATUSES:
        if (listed := status.get(field)) is None:
            continue
        for item in as_list(listed, f"status.{field}"):
            container = item if type(item) is dict else as_mapping(item, f"status.{field}")
            if "allocatedResources" in container or "resources" in container:
                return False
    return not status.get("conditions") or not _infeasible(status)


def _share(requests: Requests) -> Requests:
    """The one object for these amounts, so that equal requests from different sources are the same object."""
    key = (
        frozenset(requests.amounts.items()),
        requests.scoring_cpu,
        requests.scoring_memory,
        requests.spec_requests,
        frozenset(requests.spec_scoring.items()),
    )
    return _by_amounts.keep(key, requests)


def limits_of(spec: Mapping[str, Any]) -> ResourceLimits:
    """The pod's limits, which are only exposed as metrics and affect no decision. Invalid limits count as no limits.

    Containers, init containers and sidecars are summed as for requests. Overhead is added to resources that have a
    limit. Interned.
    """
    try:
        containers = [_limits_in(c) for c in as_list(spec.get("containers"), "spec.containers")]
        init_containers = [_limits_in(c) for c in as_list(spec.get("initContainers"), "spec.initContainers")]
        level = as_mapping(spec.get("resources"), "spec.resources").get("limits")
        if not level and not any(own for own, _ in (*containers, *init_containers)):
            return NO_LIMITS
        overhead = spec.get("overhead")
        source = (containers, init_containers, level, overhead)
        return _limits.get(source, lambda: _parse_limits(containers, init_containers, level, overhead))
    except InvalidObjectError:
        return NO_LIMITS


_Source = tuple[object, bool]
"""A container's limits, and whether it is a sidecar."""


def _limits_in(item: object) -> _Source:
    container = as_mapping(item, "containers")
    own = as_mapping(container.get("resources"), "containers.resources").get("limits")
    return own, container.get("restartPolicy") == "Always"


def _parse_limits(
    containers: Sequence[_Source], init_containers: Sequence[_Source], level: object, overhead: object
) -> ResourceLimits:
    def parsed(sources: Sequence[_Source]) -> list[_Container]:
        return [_Container(parse_amounts(own, "limits"), None, None, sidecar=sidecar) for own, sidecar in sources]

    pod = _Pod(
        containers=parsed(containers),
        init_containers=parsed(init_containers),
        overhead={},
        level={},
        allocated=None,
        actuated=None,
        resized=False,
        infeasible=False,
        spec_only=True,
    )
    total = _sum(pod, _spec_of, _NO_DEFAULTS)
    total.update(_pod_level(parse_amounts(level, "spec.resources.limits")))
    _add(total, {name: n for name, n in parse_amounts(overhead, "spec.overhead").items() if total.get(name)})
    return ResourceLimits(tuple(pair for pair in sorted(amounts_of(total).items()) if pair[1]))


# The keys of interned requests


def _requests_in(resources: object, where: str) -> object:
    return None if resources is None else as_mapping(resources, where).get("requests")


def _container_sources(spec: Mapping[str, Any], field: str, statuses: Mapping[str, Mapping[str, Any]]) -> object:
    items = spec.get(field)
    if not items:
        return None
    sources: list[object] = []
    for item in as_list(items, f"spec.{field}"):
        container = item if type(item) is dict else as_mapping(item, f"spec.{field}")
        own = _requests_in(container.get("resources"), f"spec.{field}.resources")
        restart = container.get("restartPolicy")
        if statuses and (status := statuses.get(str(container.get("name")))) is not None:
            sources.append((own, restart, status.get("allocatedResources"), status.get("resources")))
        else:
            sources.append((own, restart))
    return sources


def _resized_containers(status: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """All container statuses by container name, if any of them reports resources; else empty.

    The first status of a name applies.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for field in _CONTAINER_STATUSES:
        for item in as_list(status.get(field), f"status.{field}"):
            container = item if type(item) is dict else as_mapping(item, f"status.{field}")
            found.setdefault(str(container.get("name")), container)
    if any("allocatedResources" in c or "resources" in c for c in found.values()):
        return found
    return {}


def _pod_source(status: Mapping[str, Any]) -> object:
    allocated, resources = status.get("allocatedResources"), status.get("resources")
    if allocated is None and resources is None and not status.get("conditions"):
        return None
    return (allocated, resources, _infeasible(status))


def _infeasible(status: Mapping[str, Any]) -> bool:
    for item in as_list(status.get("conditions"), "status.conditions"):
        condition = item if type(item) is dict else as_mapping(item, "status.conditions")
        if condition.get("type") == "PodResizePending":
            return condition.get("reason") == "Infeasible"
    return False


# Parsing


class _Container(NamedTuple):
    """A container's requests in nano-units. `allocated` and `actuated` are None if its status has none."""

    spec: Nanos
    allocated: Nanos | None
    actuated: Nanos | None
    sidecar: bool


class _Pod(NamedTuple):
    containers: list[_Container]
    init_containers: list[_Container]
    overhead: Nanos
    level: Nanos
    """Pod-level requests of the resources that can have them; empty if the pod has no such requests."""
    allocated: Nanos | None
    actuated: Nanos | None
    resized: bool
    """The pod's status has a field `resources`, even if that is empty."""
    infeasible: bool
    spec_only: bool
    """The status has no resources, so the spec alone counts."""


_View = Callable[[_Container, bool], Nanos]


def _parse(spec: Mapping[str, Any], status: Mapping[str, Any], statuses: Mapping[str, Mapping[str, Any]]) -> Requests:
    pod = _pod(spec, status, statuses)
    taken = _total(pod, _NO_DEFAULTS)
    missing = {n: amount for n, amount in _DEFAULTS.items() if n not in taken} if pod.level else _DEFAULTS
    scoring = amounts_of(_total(pod, missing))
    required = taken if pod.spec_only else _finish(_sum(pod, _spec_of, _NO_DEFAULTS), pod.level, pod.overhead)
    spec_scoring = scoring
    if pod.level or not pod.spec_only:
        spec_scoring = amounts_of(_finish(_sum(pod, _spec_of, _DEFAULTS), {}, pod.overhead))
    counted = _Counted()
    spec_requests = in_report_order(counted.of(amounts_of(required)))
    return Requests(
        amounts=FrozenDict(counted.of(amounts_of(taken))),
        scoring_cpu=scoring.get(CPU, 0),
        scoring_memory=scoring.get(MEMORY, 0),
        spec_requests=spec_requests,
        spec_scoring=FrozenDict(counted.of(spec_scoring)),
        qualified=tuple(name for name, _ in spec_requests if "/" in name),
    )


class _Counted(dict[str, bool]):
    """Which resources of a pod are counted. The pod may have more than the cache of `is_counted_resource` holds."""

    def __missing__(self, name: str) -> bool:
        counted = self[name] = is_counted_resource(name)
        return counted

    def of(self, amounts: dict[str, int]) -> dict[str, int]:
        """The amounts of counted resources."""
        return {name: amount for name, amount in amounts.items() if self[name]}


def _pod(spec: Mapping[str, Any], status: Mapping[str, Any], statuses: Mapping[str, Mapping[str, Any]]) -> _Pod:
    level = parse_amounts(_requests_in(spec.get("resources"), "spec.resources"), "spec.resources.requests")
    allocated = _optional(status.get("allocatedResources"), "status.allocatedResources")
    actuated = _optional(_requests_in(status.get("resources"), "status.resources"), "status.resources.requests")
    resized = status.get("resources") is not None
    infeasible = _infeasible(status)
    return _Pod(
        containers=_containers(spec, "containers", statuses),
        init_containers=_containers(spec, "initContainers", statuses),
        overhead=parse_amounts(spec.get("overhead"), "spec.overhead"),
        level=_pod_level(level),
        allocated=allocated,
        actuated=actuated,
        resized=resized,
        infeasible=infeasible,
        spec_only=not (statuses or resized or infeasible or allocated is not None),
    )


def _containers(spec: Mapping[str, Any], field: str, statuses: Mapping[str, Mapping[str, Any]]) -> list[_Container]:
    parsed = []
    for i, item in enumerate(as_list(spec.get(field), f"spec.{field}")):
        where = f"spec.{field}[{i}]"
        raw = as_mapping(item, where)
        status = statuses.get(str(raw.get("name")), _NO_STATUS)
        in_status = f"status of container {raw.get('name')}"
        allocated = _optional(status.get("allocatedResources"), f"{in_status}.allocatedResources")
        actuated = _requests_in(status.get("resources"), f"{in_status}.resources")
        parsed.append(
            _Container(
                parse_amounts(_requests_in(raw.get("resources"), f"{where}.resources"), f"{where}.resources.requests"),
                allocated,
                _optional(actuated, f"{in_status}.resources.requests"),
                sidecar=raw.get("restartPolicy") == "Always",
            )
        )
    return parsed


_NO_STATUS: Final[Mapping[str, Any]] = {}


def _optional(raw: object, where: str) -> Nanos | None:
    return None if raw is None else parse_amounts(raw, where)


def _pod_level(amounts: Nanos) -> Nanos:
    """The resources that pod-level requests support; others are ignored."""
    return {n: amount for n, amount in amounts.items() if n in (CPU, MEMORY) or n.startswith(HUGE_PAGES_PREFIX)}


# Summing


def _spec_of(container: _Container, _infeasible: bool) -> Nanos:
    return container.spec


def _allocated_of(container: _Container, infeasible: bool) -> Nanos:
    if container.allocated is not None:
        return container.allocated
    return {} if infeasible else container.spec


def _actuated_of(container: _Container, infeasible: bool) -> Nanos:
    return container.actuated if container.actuated is not None else _allocated_of(container, infeasible)


def _total(pod: _Pod, defaults: Mapping[str, int]) -> Nanos:
    """Returns the pod's total requests by its spec and status."""
    if pod.spec_only:
        return _finish(_sum(pod, _spec_of, defaults), pod.level, pod.overhead)
    if pod.allocated is not None and pod.actuated is not None:
        status = (pod.actuated, pod.allocated)
    else:
        status = (_sum(pod, _actuated_of, defaults), _sum(pod, _allocated_of, defaults))
    total = {} if pod.infeasible else _sum(pod, _spec_of, defaults)
    for amounts in status:
        _max(total, amounts)
    level = pod.level
    if level and pod.resized:
        level = {} if pod.infeasible else dict(level)
        _max(level, _pod_level(pod.actuated or {}))
        _max(level, _pod_level(pod.allocated or {}))
    return _finish(total, level, pod.overhead)


def _finish(total: Nanos, level: Nanos, overhead: Nanos) -> Nanos:
    """Replaces the containers' sums by pod-level requests, then adds overhead."""
    total.update(level)
    _add(total, overhead)
    return total


def _sum(pod: _Pod, view: _View, defaults: Mapping[str, int]) -> Nanos:
    """The sum over the containers and sidecars or, if greater, over an init container and the sidecars started before
    it.
    """
    total: Nanos = {}
    for container in pod.containers:
        _add(total, {**defaults, **view(container, pod.infeasible)})
    sidecars: Nanos = {}
    largest: Nanos = {}
    for container in pod.init_containers:
        own = {**defaults, **view(container, pod.infeasible)}
        if container.sidecar:
            _add(total, own)
            _add(sidecars, own)
        else:
            _add(own, sidecars)
            _max(largest, own)
    _max(total, largest)
    return total


def _add(total: Nanos, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _max(total: Nanos, other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        if amount > total.get(name, -1):
            total[name] = amount
