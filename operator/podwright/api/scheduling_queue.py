"""SchedulingQueue v1alpha1: what a team or a project may have of the cluster, and who may use it.

Each field is declared once, in the dataclasses below: `parse_queue` decodes and validates with them, and
podwright/api/crd.py derives the CustomResourceDefinition from them. What depends on other queues, such as a parent that
does not exist, is checked in podwright/core/queues/queues.py: read that next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from podwright.api.own_objects import read_object
from podwright.api.scheduler_policy import Policy, PolicyError, identity_of
from podwright.api.spec.match import Selector
from podwright.core.framework.args import encode
from podwright.core.framework.validation import (
    DURATION_FORM,
    QUANTITY_FORM,
    Problem,
    Rule,
    declared,
    key_path,
    unique_by,
    whole_number,
)
from podwright.core.objects.affinity import interned_selector
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import parse_duration
from podwright.core.objects.quantity import MAX_INT64, NANO, parse_exact_quantity
from podwright.core.objects.resources import CPU, is_qualified_name
from podwright.core.objects.selectors import EVERYTHING
from podwright.core.queues.amounts import unit_of
from podwright.core.queues.flavors import of_flavor
from podwright.core.queues.queues import QueueRules
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import DEFAULT_PRIORITY, Quota

QUEUE_KIND: Final = "SchedulingQueue"
QUEUE_PLURAL: Final = "schedulingqueues"
MAX_QUEUE_NAME: Final = 63
"""The longest name of a queue, in characters: pods name it in a label."""
QuotaAmount = int | str

QUANTITY: Final[Mapping[str, Any]] = {
    "minimum": 0,
    "maxLength": 32,
    "pattern": QUANTITY_FORM,
}
DURATION: Final[Mapping[str, Any]] = {"maxLength": 32, "pattern": DURATION_FORM}
_NAME: Final[Mapping[str, Any]] = {
    "maxLength": MAX_QUEUE_NAME,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
_LONG_NAME: Final = f"has more than {MAX_QUEUE_NAME} characters, the most that the value of a label may have"
OBJECT_RULE: Final = Rule(
    cel=f"size(self.metadata.name) <= {MAX_QUEUE_NAME}",
    holds=lambda raw: len(identity_of(raw)[0]) <= MAX_QUEUE_NAME,
    message=f"metadata.name {_LONG_NAME}",
)
"""A rule on the whole object."""


@dataclass(frozen=True, slots=True)
class QueueResource:
    guarantee: QuotaAmount = declared(
        "What the queue gets before others get more than their guarantees. A quantity.", default=0, **QUANTITY
    )
    limit: QuotaAmount | None = declared(
        "The most that the pods of the queue, and of the queues below it, may request together. A quantity. Not given: "
        "no limit.",
        default=None,
        **QUANTITY,
    )
    lending_limit: QuotaAmount | None = declared(
        "How much of the unused guarantee other queues may use. A quantity. Not given: all of it.",
        default=None,
        **QUANTITY,
    )
    weight: int = whole_number(
        "The queue's part of what the guarantees leave, relative to the other queues of the same parent and priority. "
        "0: nothing of it.",
        0,
        1_000_000,
        default=1,
    )

    RULES = (
        Rule(
            cel="!has(self.limit) || quantity(string(self.guarantee)).compareTo(quantity(string(self.limit))) <= 0",
            holds=lambda self: self.limit is None or _nanos(self.guarantee) <= _nanos(self.limit),
            message="is above the limit",
            path=".guarantee",
        ),
    )


_FLAVOR_NAME: Final[Mapping[str, Any]] = {
    "maxLength": 63,
    "pattern": r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
}
_LABEL_VALUE: Final[Mapping[str, Any]] = {"maxLength": 63, "pattern": r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"}
_NAMES_OF_RESOURCES: Final = (
    Rule(
        violations=lambda self: (key_path(key) for key in self if not is_qualified_name(key)),
        message="is not the name of a resource",
    ),
)


def _nanos(amount: QuotaAmount) -> int:
    return parse_exact_quantity(amount, "")


_NAMES_OF_LABELS: Final = (
    Rule(
        violations=lambda self: (key_path(key) for key in self if not is_qualified_name(key)),
        message="is not the name of a label",
    ),
)


@dataclass(frozen=True, slots=True)
class QueueFlavor:
    name: str = declared("The name of the flavor, such as h100. It means the same nodes in all queues.", **_FLAVOR_NAME)
    node_selector: Mapping[str, str] = declared(
        "The labels that the nodes of the flavor have. Not given: another queue says which. If queues say it "
        "differently, the one nearest to the top counts, then the first by name.",
        default_factory=dict,
        rules=_NAMES_OF_LABELS,
        maxProperties=8,
        additionalProperties=_LABEL_VALUE,
    )
    resources: Mapping[str, QueueResource] = declared(
        "What the queue may have on these nodes, by resource. It is part of what the queue has of the resource on all "
        "nodes.",
        default_factory=dict,
        rules=_NAMES_OF_RESOURCES,
        maxProperties=16,
    )


@dataclass(frozen=True, slots=True)
class SchedulingQueueSpec:
    parent: str = declared(
        "The name of the queue above. Not given: the queue is at the top. Pods can use only queues without queues "
        "below them.",
        default="",
        maxLength=_NAME["maxLength"],
        pattern=f"^$|{_NAME['pattern']}",
    )
    priority: int = whole_number(
        "Of what the guarantees leave, queues of the same parent with a greater priority get their share first.",
        -1_000_000_000,
        1_000_000_000,
        default=DEFAULT_PRIORITY,
    )
    resources: Mapping[str, QueueResource] = declared(
        "What the queue may have, by resource as in a container's requests, for example cpu, memory or nvidia.com/gpu. "
        "A resource that is not given has no guarantee, no limit, and weight 1.",
        default_factory=dict,
        rules=_NAMES_OF_RESOURCES,
        maxProperties=64,
    )
    flavors: tuple[QueueFlavor, ...] = declared(
        "Kinds of nodes, such as those with one GPU model, in the order in which pods of the queue are to use them: "
        "first where the queue stays within its guarantees, then where it borrows. Not given: as in the queue above.",
        default=(),
        maxItems=16,
        **unique_by("name"),
    )
    namespace_selector: Selector | None = declared(
        "Selects by their labels the namespaces whose pods may use the queue and those below it. Not given, or empty: "
        "every namespace.",
        default=None,
    )
    state: Literal["Open", "Hold", "Drain", "Closed"] = declared(
        "Open: pods of the queue are scheduled. Hold, Closed: they wait, also those of the queues below it, and those "
        "that have a node stay there. Drain: they wait, and those that have a node are evicted, within their "
        "PodDisruptionBudgets.",
        default="Open",
    )
    preempt_min_runtime: str = declared(
        "For how long a pod of the queue runs at least before a pod of the same queue with a higher priority may take "
        "its place. A duration such as 90s or 1h30m.",
        default="0s",
        **DURATION,
    )
    reclaim_min_runtime: str = declared(
        "For how long a pod of the queue runs at least before another queue may take back what this queue has above "
        "its share. A duration such as 90s or 1h30m.",
        default="0s",
        **DURATION,
    )

    max_runtime: str = declared(
        "A pod of the queue that has run for longer may be evicted for any pod of the queue, and for those of other "
        "queues that stay within their shares. A duration such as 24h. 0s: no bound.",
        default="0s",
        **DURATION,
    )
    non_preemptible_priority: int | None = whole_number(
        "Pods of at least this priority, also of the queues below, are never evicted for pods of queues. So all of them "
        "together stay within the guarantee of their queue, and of those above. Not given: there are no such pods.",
        -(2**31),
        2**31 - 1,
        default=None,
    )
    user_limits: Mapping[str, QuotaAmount] = declared(
        "The most that the pods of one user may request in this queue and those below it together, by resource. A pod's "
        "label podwright.dev/user names its user.",
        default_factory=dict,
        rules=_NAMES_OF_RESOURCES,
        maxProperties=64,
        additionalProperties=QUANTITY,
    )
    gather_after: str | None = declared(
        "After this time, room is held for the pod groups at the head of the queue that have not started, where they can "
        "start first. Others are placed there only if they declare by activeDeadlineSeconds to end before. A duration "
        "such as 5m. 0s: never. Not given: what the operator's option --gather-after says.",
        default=None,
        **DURATION,
    )
    usage_half_life: str = declared(
        "With a half-life, queues of the same parent and priority take turns by what they have used on average, not by "
        "what they have now: use counts half after this time. A duration such as 24h. 0s: off.",
        default="0s",
        **DURATION,
    )

    def validate(self, where: str) -> Iterator[Problem]:
        """The amounts that have no place in the units of core/objects/resources."""
        yield from _resource_problems(f"{where}.resources", self.resources)
        for index, flavor in enumerate(self.flavors):
            yield from _resource_problems(f"{where}.flavors[{index}].resources", flavor.resources)
        for name, amount in self.user_limits.items():
            if problem := _amount_problem(name, amount):
                yield f"{where}.userLimits{key_path(name)}", problem

    def rules(self, name: str) -> QueueRules:
        """The queue of this name, as the core has it."""
        selector = self.namespace_selector
        resources = {
            **self.resources,
            **{
                of_flavor(resource, flavor.name): quota
                for flavor in self.flavors
                for resource, quota in flavor.resources.items()
            },
        }
        return QueueRules(
            name=name,
            parent=self.parent,
            priority=self.priority,
            quotas={
                resource: Quota(
                    guarantee=_units(resource, quota.guarantee),
                    limit=UNBOUNDED if quota.limit is None else _units(resource, quota.limit),
                    weight=quota.weight,
                )
                for resource, quota in resources.items()
            },
            state=self.state,
            namespaces=EVERYTHING
            if selector is None
            else interned_selector(encode(selector), "spec.namespaceSelector"),
            lending={
                resource: _units(resource, quota.lending_limit)
                for resource, quota in resources.items()
                if quota.lending_limit is not None
            },
            flavors={flavor.name: dict(flavor.node_selector) for flavor in self.flavors},
            preempt_min_runtime=parse_duration(self.preempt_min_runtime),
            reclaim_min_runtime=parse_duration(self.reclaim_min_runtime),
            max_runtime=parse_duration(self.max_runtime),
            firm_priority=self.non_preemptible_priority,
            user_limits={resource: _units(resource, amount) for resource, amount in self.user_limits.items()},
            gather_after=None if self.gather_after is None else parse_duration(self.gather_after),
            usage_half_life=parse_duration(self.usage_half_life),
        )


def _resource_problems(where: str, resources: Mapping[str, QueueResource]) -> Iterator[Problem]:
    for name, resource in resources.items():
        amounts = {"guarantee": resource.guarantee, "limit": resource.limit, "lendingLimit": resource.lending_limit}
        for key, amount in amounts.items():
            if amount is not None and (problem := _amount_problem(name, amount)):
                yield f"{where}{key_path(name)}.{key}", problem


def _units(resource: str, amount: QuotaAmount) -> int:
    return _nanos(amount) // (NANO // unit_of(resource))


def _amount_problem(resource: str, amount: QuotaAmount) -> str:
    units, rest = divmod(_nanos(amount), NANO // unit_of(resource))
    if rest:
        return (
            f"{amount!r} has a fraction; only cpu may have thousandths"
            if resource != CPU
            else f"{amount!r} is finer than 1m"
        )
    return f"{amount!r} is more than {MAX_INT64}" if units > MAX_INT64 else ""


def parse_queue(raw: Mapping[str, Any]) -> QueueRules:
    """Decodes a SchedulingQueue object. Raises InvalidObjectError naming the queue and every field that is wrong."""

    def rules(found: Policy[SchedulingQueueSpec]) -> QueueRules:
        if len(found.name) > MAX_QUEUE_NAME:
            raise PolicyError(found.name, "Invalid", [("metadata.name", _LONG_NAME)])
        return found.spec.rules(found.name)

    return read_object(raw, QUEUE_KIND, SchedulingQueueSpec, rules)
