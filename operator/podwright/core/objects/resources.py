"""What a pod asks for and what a node has: resource names to whole numbers.

CPU is in milli-CPU, everything else in whole units (bytes, devices). Amounts are summed exactly and rounded up once per
pod, as kube-scheduler does. Source: the Kubernetes documentation, "Resource Management for Pods and Containers".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from podwright.core.objects.quantity import parse_quantity, round_up, round_up_milli
from podwright.core.objects.selectors import as_mapping

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

DEFAULT_MILLI_CPU: Final = 100
"""What scoring assumes of a container that requests no CPU."""
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""What scoring assumes of a container that requests no memory, in bytes."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Requests:
    """A pod's requests. Compared by identity: interned by their source.

    `amounts`: resource to amount, zero amounts included as they were given; `scoring_cpu` (milli-CPU) and
    `scoring_memory` (bytes) have the defaults for containers that request none.
    """

    amounts: Mapping[str, int]
    scoring_cpu: int
    scoring_memory: int


def amounts_of(nanos: Mapping[str, int]) -> dict[str, int]:
    """Nano-units to milli-CPU and whole units of everything else, rounded up."""
    return {name: round_up_milli(n) if name == CPU else round_up(n) for name, n in nanos.items()}


def parse_amounts(raw: object, where: str) -> dict[str, int]:
    """A v1.ResourceList in nano-units. Raises InvalidObjectError naming the resource."""
    return {str(name): parse_quantity(value, f"{where}[{name}]") for name, value in as_mapping(raw, where).items()}


def node_amounts(raw: object, where: str) -> dict[str, int]:
    """A node's allocatable or capacity, in milli-CPU and whole units."""
    return amounts_of(parse_amounts(raw, where))
