"""The amounts that pods take of each resource, as queues count them, and their text."""

from __future__ import annotations

from collections.abc import Mapping

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, PODS
from podwright.core.objects.wording import quantity
from podwright.core.queues.flavors import OF, parts_of


def unit_of(name: str) -> int:
    """How many of the core's units are one of a resource, or of one in a flavor: 1,000 milli-CPU are a CPU."""
    return 1000 if parts_of(name)[0] == CPU else 1


def amount_text(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it. `name`: of a resource, or of one in a flavor."""
    return quantity(name.partition(OF)[0], amount)  # parts_of would be one more call for each amount


def amounts_of(pod: PodInfo) -> Mapping[str, int]:
    """Returns the amounts that the pod takes of each resource, with the pod itself as one of PODS."""
    return {**pod.requests.amounts, PODS: 1}
