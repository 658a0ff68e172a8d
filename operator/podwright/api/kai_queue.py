"""KAI's Queue, `scheduling.run.ai/v2`: its translation for the core, and the status that its users read.

KAI writes amounts as numbers: GPUs, thousandths of a CPU, and megabytes of 1,000,000 bytes. -1 means unbounded, and a
missing amount is 0. So a queue may use nothing of a resource without a limit. The core counts whole units:
fractions of one are cut off, so that no queue gets more than it was given.

Source: KAI v0.17.0-9-gd5bc503a, pkg/apis/scheduling/v2, pkg/scheduler/api/queue_info/queue_info.go,
pkg/scheduler/plugins/proportion (proportion.go, capacity_policy), and pkg/queuecontroller for the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from fractions import Fraction
from math import isfinite
from typing import Any, Final

from podwright.api.own_objects import accepted, naming
from podwright.api.policy_status import UntimedCondition, conditions_by_type, timed
from podwright.api.queue_status import QueueReport
from podwright.core.framework.args import decode, key_of
from podwright.core.framework.validation import Problem
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import parse_duration
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import CPU, MEMORY, PODS
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.queues import QueueRules
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import DEFAULT_PRIORITY, NO_QUOTA, Quota

KAI_LABEL: Final = "kai.scheduler/queue"
"""On a pod: the name of its queue. Source: pkg/common/constants/constants.go."""
KAI_GPU: Final = "nvidia.com/gpu"
KAI_FIRM_PRIORITY: Final = 100
"""Pods of at least this priority are not preemptible. Source: pkg/common/podgroup/preemptible.go."""
ORPHAN: Final = "Orphan"
OVER_QUOTA: Final = "OverQuota"

KAI_UNITS: Final = {"gpu": (KAI_GPU, 1), "cpu": (CPU, 1), "memory": (MEMORY, 1_000_000)}
"""By KAI's name of a resource: ours, and the core's units in one of KAI's."""
KAI_FIELDS: Final = (
    "parentQueue",
    "priority",
    "preemptMinRuntime",
    "reclaimMinRuntime",
    *(f"resources/{name}/{field}" for name in KAI_UNITS for field in ("quota", "limit", "overQuotaWeight")),
)
"""The fields of the spec that count."""


@dataclass(frozen=True, slots=True)
class KaiResource:
    quota: float = 0
    over_quota_weight: float = 0
    limit: float = 0

    def validate(self, where: str) -> Iterator[Problem]:
        for key, amount in (("quota", self.quota), ("limit", self.limit), ("overQuotaWeight", self.over_quota_weight)):
            if not isfinite(amount):
                yield f"{where}.{key}", f"{amount} is not finite"
            elif amount < 0 and amount != UNBOUNDED and key != "overQuotaWeight":
                yield f"{where}.{key}", f"{amount} is negative, and not -1"

    def quota_in(self, units: int) -> Quota:
        """Returns the quota in the core's units. `units`: how many of them one of KAI's units has."""
        return Quota(_whole(self.quota, units), _whole(self.limit, units), min(self.over_quota_weight, MAX_INT64))


def _whole(amount: float, units: int) -> int:
    return UNBOUNDED if amount == UNBOUNDED else min(int(Fraction(str(amount)) * units), MAX_INT64)


@dataclass(frozen=True, slots=True)
class KaiSpec:
    parent_queue: str = ""
    priority: int = DEFAULT_PRIORITY
    preempt_min_runtime: str = ""
    reclaim_min_runtime: str = ""
    resources: Mapping[str, Any] = field(default_factory=dict)

    def validate(self, where: str) -> Iterator[Problem]:
        for key, text in (
            ("preemptMinRuntime", self.preempt_min_runtime),
            ("reclaimMinRuntime", self.reclaim_min_runtime),
        ):
            try:
                _seconds(text)
            except ValueError as error:
                yield f"{where}.{key}", str(error)


def _seconds(text: str) -> float:
    return max(0.0, parse_duration(text)) if text else 0.0


def parse_kai_queue(raw: Mapping[str, Any]) -> QueueRules:
    """The queue as the core has it. Fields that KAI has added since are ignored.

    Raises InvalidObjectError naming the queue and the first field that is wrong.
    """
    with naming("Queue", raw) as name:
        spec = decode(KaiSpec, known_fields(KaiSpec, raw.get("spec")), "spec")
        quotas = {}
        for key, (resource, units) in KAI_UNITS.items():
            where = f"spec.resources.{key}"
            given = decode(KaiResource, known_fields(KaiResource, spec.resources.get(key)), where)
            quotas[resource] = given.quota_in(units)
    return QueueRules(
        name=name,
        parent=spec.parent_queue,
        priority=spec.priority,
        quotas=quotas,
        preempt_min_runtime=_seconds(spec.preempt_min_runtime),
        reclaim_min_runtime=_seconds(spec.reclaim_min_runtime),
        firm_priority=KAI_FIRM_PRIORITY,
    )


def kai_amount_path(resource: str, key: str) -> tuple[str, ...]:
    """Returns the path of the `guarantee` or `limit` of a resource; empty if KAI has no such field."""
    name = next((name for name, (ours, _) in KAI_UNITS.items() if ours == resource), "")
    field = {"guarantee": "quota", "limit": "limit"}.get(key, "")
    return ("spec", "resources", name, field) if name and field else ()


def known_fields(cls: type[Any], raw: object) -> object:
    """The object without the fields that the dataclass does not have."""
    if not isinstance(raw, Mapping):
        return raw
    return {key: raw[key] for key in map(key_of, fields(cls)) if key in raw}


def kai_status_of(report: QueueReport) -> dict[str, Any]:
    """The status that KAI's queue controller writes, and the conditions that its API has, besides Accepted.

    The amounts are those of the resources that queues name. What is empty is left out, as KAI does.
    """
    queues, name = report.queues, report.name
    status: dict[str, Any] = {}
    problem, orphan = report.problem, report.orphan
    conditions = [
        accepted("queue", problem),
        UntimedCondition(ORPHAN, orphan, "ParentNotFound" if orphan else "NoParentMissing", problem if orphan else ""),
    ]
    rules = queues.get(name) if report.counts else None
    if rules is not None:
        held, waiting = queues.usage(name), queues.waiting(name)
        requested = {resource: held.get(resource, 0) + waiting.get(resource, 0) for resource in {*held, *waiting}}
        status = {
            "childQueues": sorted(queues.children(name)),
            "allocated": _texts(held),
            "allocatedNonPreemptible": _texts(queues.queue(name).firm),
            "requested": _texts(requested),
        }
        over = [
            f"{resource} {amount_text(resource, amount)} of {amount_text(resource, quota.guarantee)}"
            for resource, amount in sorted(held.items())
            if UNBOUNDED != (quota := rules.quotas.get(resource, NO_QUOTA)).guarantee < amount and resource != PODS
        ]
        conditions.append(
            UntimedCondition(OVER_QUOTA, bool(over), OVER_QUOTA if over else "WithinQuota", "; ".join(over)[:1024])
        )
    before = conditions_by_type(report.previous)
    status["conditions"] = [_timed(each, before.get(each.type), report.now) for each in conditions]
    return {key: value for key, value in status.items() if value}


def _timed(condition: UntimedCondition, before: Mapping[str, Any] | None, now: str) -> dict[str, Any]:
    """KAI's conditions have no observedGeneration, and no empty message."""
    found = timed(condition, before, 0, now)
    return {key: value for key, value in found.items() if value and key != "observedGeneration"}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in sorted(amounts.items()) if amount and name != PODS}
