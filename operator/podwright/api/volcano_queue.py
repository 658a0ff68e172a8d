"""Volcano's Queue, `scheduling.volcano.sh/v1beta1`: its translation for the core, and the status that its users read.

`deserved` is what the queue gets first, and `guarantee` the part of it that it does not lend. `capability` is its
limit. The weight counts for CPU, memory and the resources that the queue names. Queues without a parent are below
`root`, which exists even without an object. `status.state` is an order as well: pods of a queue that is Closed or
Closing wait.

Not used: `affinity`, `dequeueStrategy`, `extendClusters`, `type`, and quotas by device class.

Source: Volcano v1.16.0-alpha.1-42-ged72c7c81, staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go,
pkg/scheduler/plugins/capacity/capacity.go, pkg/controllers/queue and pkg/scheduler/framework/session.go for the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from math import inf
from typing import Any, Final

from podwright.api.kai_queue import known_fields
from podwright.api.own_objects import naming
from podwright.api.queue_status import MAX_RESOURCES, QueueReport
from podwright.core.framework.args import decode
from podwright.core.framework.validation import Problem, declared, key_path
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.quantity import MAX_INT64, NANO, parse_exact_quantity
from podwright.core.objects.raw import value_at
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.queues import QueueRules
from podwright.core.queues.rules import State
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import DEFAULT_PRIORITY, Quota

VOLCANO_LABEL: Final = "volcano.sh/queue-name"
"""On a pod of a Volcano job: the name of its queue. Source: `QueueNameKey` in volcano.sh/apis, batch/v1alpha1."""
VOLCANO_SCHEDULER: Final = "volcano"
VOLCANO_FIELDS: Final = (
    "parent",
    "priority",
    "weight",
    "reclaimable",
    "capability/",
    "deserved/",
    "guarantee/resource/",
)
"""The fields of the spec that count. One that ends with / is followed by the name of a resource."""
ROOT: Final = QueueRules("root")
"""The queue above all others, as it is without an object."""

_STATES: Final[Mapping[str, State]] = {"Closed": "Closed", "Closing": "Hold"}
_COUNT_QUOTA: Final = "count/"
"""Volcano ignores the names of resources that begin like this."""

Amounts = Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class VolcanoSpec:
    weight: int = declared("", default=1, minimum=0, maximum=65535)
    parent: str = ""
    priority: int = declared("", default=0, minimum=0)
    reclaimable: bool = True
    capability: Amounts = declared("", default_factory=dict, maxProperties=MAX_RESOURCES)
    deserved: Amounts = declared("", default_factory=dict, maxProperties=MAX_RESOURCES)
    guarantee: Mapping[str, Any] = field(default_factory=dict)

    def validate(self, where: str) -> Iterator[Problem]:
        lists = {"capability": self.capability, "deserved": self.deserved}
        for key, amounts in lists.items():
            yield from _wrong(amounts, f"{where}.{key}")


@dataclass(frozen=True, slots=True)
class VolcanoGuarantee:
    resource: Amounts = declared("", default_factory=dict, maxProperties=MAX_RESOURCES)

    def validate(self, where: str) -> Iterator[Problem]:
        yield from _wrong(self.resource, f"{where}.resource")


def _wrong(amounts: Amounts, where: str) -> Iterator[Problem]:
    for name, amount in amounts.items():
        path = where + key_path(name)
        try:
            if parse_exact_quantity(amount, path) < 0:
                yield path, f"{amount!r} is negative"
        except InvalidObjectError as error:
            yield path, error.problem


def parse_volcano_queue(raw: Mapping[str, Any]) -> QueueRules:
    """The queue as the core has it. Fields that Volcano has added since are ignored.

    Raises InvalidObjectError naming the queue and the first field that is wrong.
    """
    with naming("Queue", raw) as name:
        spec = decode(VolcanoSpec, known_fields(VolcanoSpec, raw.get("spec")), "spec")
        reserved = decode(VolcanoGuarantee, known_fields(VolcanoGuarantee, spec.guarantee), "spec.guarantee")
    capability, deserved = _units(spec.capability), _units(spec.deserved)
    kept = _units(reserved.resource)
    quotas = {
        resource: Quota(
            guarantee=max(deserved.get(resource, 0), kept.get(resource, 0)),
            limit=_limit(capability, resource),
            weight=spec.weight or 1,
        )
        for resource in {CPU: 0, MEMORY: 0, **capability, **deserved, **kept}
    }
    return QueueRules(
        name=name,
        parent="" if name == ROOT.name else spec.parent or ROOT.name,
        priority=DEFAULT_PRIORITY + spec.priority,
        quotas=quotas,
        state=_STATES.get(_state(raw), "Open"),
        lending={resource: quotas[resource].guarantee - amount for resource, amount in kept.items()},
        reclaim_min_runtime=0.0 if spec.reclaimable or name == ROOT.name else inf,
    )


def volcano_amount_path(resource: str, key: str) -> tuple[str, ...]:
    """Returns the path of the `guarantee`, `limit` or `lendingLimit` of a resource; empty if Volcano has no such field.
    Of the guarantee, it says what is kept instead of what may be lent.
    """
    field = {"guarantee": ("deserved",), "limit": ("capability",), "lendingLimit": ("guarantee", "resource")}.get(key)
    return ("spec", *field, resource) if field else ()


def _units(amounts: Amounts) -> dict[str, int]:
    """In whole units of the core; fractions are cut off."""
    return {
        name: min(parse_exact_quantity(amount, "") // (NANO // 1000 if name == CPU else NANO), MAX_INT64)
        for name, amount in amounts.items()
        if not name.startswith(_COUNT_QUOTA)
    }


def _limit(capability: Mapping[str, int], resource: str) -> int:
    """For CPU and memory, 0 counts as not given."""
    limit = capability.get(resource, UNBOUNDED)
    return limit if limit or resource not in (CPU, MEMORY) else UNBOUNDED


def _state(raw: Mapping[str, Any]) -> str:
    state = value_at(raw, "status", "state")
    return state if isinstance(state, str) else ""


def volcano_status_of(report: QueueReport) -> dict[str, Any]:
    """The status with the fields that Volcano's scheduler and queue controller write: `state` and `allocated`, of the
    resources that queues name. A queue that is Closing is Closed when no pod of it is left.
    """
    queues, name, before = report.queues, report.name, _state({"status": report.previous})
    status = {**report.previous, "state": before if before in _STATES else "Open"}
    if report.counts and queues.get(name) is not None:
        held = {CPU: 0, MEMORY: 0, **queues.usage(name)}
        status["allocated"] = {resource: amount_text(resource, amount) for resource, amount in sorted(held.items())}
        if before == "Closing" and not queues.usage(name) and not queues.waiting(name):
            status["state"] = "Closed"
    return status
