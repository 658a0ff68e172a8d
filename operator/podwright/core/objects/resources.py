"""What a pod asks for and what a node has: resource names to whole numbers.

CPU is in milli-CPU, everything else in whole units (bytes, devices). Amounts are summed exactly and rounded up once per
pod, as kube-scheduler does. Source: the Kubernetes documentation, "Resource Management for Pods and Containers".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.quantity import parse_quantity, round_up, round_up_milli
from podwright.core.objects.selectors import as_mapping

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES_PREFIX: Final = "hugepages-"

DEFAULT_MILLI_CPU: Final = 100
"""What scoring assumes of a container that requests no CPU."""
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""What scoring assumes of a container that requests no memory, in bytes."""

_PLAIN: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Requests:
    """A pod's requests. Compared by identity: one object for equal amounts.

    `amounts` is what the pod takes from the node it is on, its status considered: resource to amount, zero amounts
    included as they were given. `scoring_cpu` (milli-CPU) and `scoring_memory` (bytes) are the same with defaults for
    containers that request none.

    The other fields are for the pod while it waits, and take its spec alone: `asked` has what a node must have free,
    positive amounts only, in the order in which they are reported; `pending` is what NodeResourcesFit's score adds to a
    node, with the defaults, and without pod-level requests, which kube-scheduler 1.37 leaves out there.
    """

    amounts: Mapping[str, int]
    scoring_cpu: int
    scoring_memory: int
    asked: tuple[tuple[str, int], ...]
    pending: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Limits:
    """A pod's limits by its spec, as pairs of resource and positive amount: milli-CPU, and whole units of everything else."""

    amounts: tuple[tuple[str, int], ...]


NO_LIMITS: Final = Limits(())


@lru_cache(maxsize=4096)
def is_qualified_name(name: str) -> bool:
    """A label key: an optional DNS domain and a slash, then up to 63 letters, digits, dashes, underscores and dots."""
    domain, slash, short = name.rpartition("/")
    if slash and (len(domain) > 253 or not _DOMAIN.fullmatch(domain)):
        return False
    return len(short) <= 63 and _NAME.fullmatch(short) is not None


@lru_cache(maxsize=4096)
def is_extended_resource(name: str) -> bool:
    """A resource that neither Kubernetes itself defines nor belongs to a kubernetes.io domain."""
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    return is_qualified_name(_QUOTA_PREFIX + name)


@lru_cache(maxsize=4096)
def is_scalar_resource(name: str) -> bool:
    """A resource counted in whole units that not every node has: extended ones, huge pages, attachable volumes."""
    return (
        name.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-"))
        or _NATIVE_DOMAIN in name
        or is_extended_resource(name)
    )


def is_counted_resource(name: str) -> bool:
    """Whether the scheduler keeps account of a resource; others are ignored wherever they stand."""
    return name in _PLAIN or is_scalar_resource(name)


def amounts_of(nanos: Mapping[str, int]) -> dict[str, int]:
    """Nano-units to milli-CPU and whole units of everything else, rounded up."""
    return {name: round_up_milli(n) if name == CPU else round_up(n) for name, n in nanos.items()}


def in_report_order(amounts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The positive amounts of counted resources: CPU, memory, ephemeral storage, then the others by name."""
    plain = [(name, amounts[name]) for name in _PLAIN if amounts.get(name, 0) > 0]
    scalar = [(n, amount) for n, amount in sorted(amounts.items()) if amount > 0 and n not in _PLAIN]
    return (*plain, *(pair for pair in scalar if is_scalar_resource(pair[0])))


def parse_amounts(raw: object, where: str) -> dict[str, int]:
    """A v1.ResourceList in nano-units. Raises InvalidObjectError naming the resource."""
    amounts = {}
    for name, value in as_mapping(raw, where).items():
        nanos = parse_quantity(value, f"{where}[{name}]")
        if nanos < 0:
            raise InvalidObjectError(f"{where}[{name}]", f"{value!r:.80} is negative")
        amounts[str(name)] = nanos
    return amounts


def node_amounts(raw: object, where: str) -> dict[str, int]:
    """A node's allocatable or capacity, in milli-CPU and whole units."""
    return amounts_of(parse_amounts(raw, where))
