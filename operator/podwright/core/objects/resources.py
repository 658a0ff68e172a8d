"""Resources that pods request and nodes have: resource names to integer amounts.

CPU is in milli-CPU, everything else in whole units (bytes, devices). Amounts are summed exactly and rounded up once per
pod, as in kube-scheduler. Source: the Kubernetes documentation, "Resource Management for Pods and Containers".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from podwright.core.objects.compaction import cleared_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.names import is_dns_subdomain
from podwright.core.objects.quantity import (
    MAX_INT64,
    NANO,
    parse_exact_quantity,
    parse_quantity,
    round_up,
    round_up_milli,
)
from podwright.core.objects.raw import as_mapping, shortened

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES_PREFIX: Final = "hugepages-"

DEFAULT_MILLI_CPU: Final = 100
"""The milli-CPU that scoring assumes for a container without a CPU request."""
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""The bytes that scoring assumes for a container without a memory request."""

_STANDARD: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Requests:
    """A pod's requests. Interned and compared by identity.

    For a placed pod, according to spec and status: `amounts` is what it takes from its node, by resource, including
    requests of 0. `scoring_cpu` (milli-CPU) and `scoring_memory` (bytes) are the same with defaults for containers that
    request none.

    For a pending pod, according to its spec alone: `spec_requests` is what must be free on a node, positive amounts
    only, in the order in which reasons report them. `spec_scoring` is what NodeResourcesFit's score adds to a node:
    with the defaults, and without pod-level requests, which kube-scheduler 1.37 ignores there.
    """

    amounts: Mapping[str, int]
    scoring_cpu: int
    scoring_memory: int
    spec_requests: tuple[tuple[str, int], ...]
    spec_scoring: Mapping[str, int]
    qualified: tuple[str, ...]
    """The names in `spec_requests` with a slash: no DeviceClass can stand for the others."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ResourceLimits:
    """A pod's limits according to its spec: pairs of resource and positive amount, in the units of this module."""

    amounts: tuple[tuple[str, int], ...]


NO_LIMITS: Final = ResourceLimits(())


@cleared_regularly
@lru_cache(maxsize=4096)
def is_qualified_name(name: str) -> bool:
    """True if this is a valid label key.

    An optional DNS domain and slash, then up to 63 letters, digits, dashes, underscores and dots.
    """
    domain, slash, short = name.rpartition("/")
    if slash and not _is_domain(domain):
        return False
    return len(short) <= 63 and _NAME.fullmatch(short) is not None


@cleared_regularly
@lru_cache(maxsize=256)
def _is_domain(name: str) -> bool:
    """One pod may name thousands of resources, mostly of one domain."""
    return is_dns_subdomain(name)


@cleared_regularly
@lru_cache(maxsize=4096)
def is_extended_resource(name: str) -> bool:
    """True if a resource has a domain outside kubernetes.io, such as `example.com/gpu`."""
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    return is_qualified_name(_QUOTA_PREFIX + name)


@cleared_regularly
@lru_cache(maxsize=4096)
def is_scalar_resource(name: str) -> bool:
    """True if a resource counts in whole units and exists on some nodes only.

    These are extended resources, huge pages and attachable volumes.
    """
    return (
        name.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-"))
        or _NATIVE_DOMAIN in name
        or is_extended_resource(name)
    )


def is_counted_resource(name: str) -> bool:
    """True if the scheduler tracks a resource. It ignores all others."""
    return name in _STANDARD or is_scalar_resource(name)


def amounts_of(nanos: Mapping[str, int]) -> dict[str, int]:
    """Nano-units to the units of this module, rounded up."""
    return {name: round_up_milli(n) if name == CPU else round_up(n) for name, n in nanos.items()}


def in_report_order(counted: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The positive amounts, which are all of counted resources: CPU, memory, ephemeral storage, then the others by
    name.
    """
    standard = [(name, counted[name]) for name in _STANDARD if counted.get(name, 0) > 0]
    return (*standard, *sorted((n, amount) for n, amount in counted.items() if amount > 0 and n not in _STANDARD))


def parse_amounts(raw: object, where: str) -> dict[str, int]:
    """A v1.ResourceList in nano-units. Raises InvalidObjectError naming the resource."""
    amounts = {}
    for name, value in as_mapping(raw, where).items():
        nanos = parse_quantity(value, f"{where}[{name}]")
        if nanos < 0:
            raise InvalidObjectError(f"{where}[{name}]", f"{shortened(value)} is negative")
        amounts[str(name)] = nanos
    return amounts


def resource_list(raw: object, where: str) -> dict[str, int]:
    """Reads what a node has, a v1.ResourceList, in the units of this module. Raises InvalidObjectError naming the
    resource, also for an amount that has no place in an int64: kube-scheduler's arithmetic makes 0 of it, or less. A
    binary amount is capped before (`16Ei` of memory).
    """
    amounts = parse_amounts(raw, where)
    for name, nanos in amounts.items():
        if nanos >= _GREATEST_CPU and (problem := _overflow(name, nanos, as_mapping(raw, where)[name])):
            raise InvalidObjectError(f"{where}[{name}]", problem)
    return amounts_of(amounts)


_GREATEST_CPU: Final = MAX_INT64 * (NANO // 1000)
"""In nano-units, the most CPU of which the milli-units are an int64."""


def _overflow(name: str, nanos: int, value: object) -> str:
    if name == CPU:
        unit, too_many = " milli-CPU", nanos > _GREATEST_CPU
    else:
        binary = isinstance(value, str) and value.endswith("i")
        unit, too_many = "", not binary and parse_exact_quantity(value, name) > MAX_INT64 * NANO
    return f"{shortened(value)} is more than {MAX_INT64}{unit}, so the node counts as having none" if too_many else ""
