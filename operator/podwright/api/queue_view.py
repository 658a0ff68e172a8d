"""QueueView v1alpha1: the status of a queue, for those who may read only a namespace that uses it.

The operator writes all of it. The view of a queue has the queue's name. It says nothing about pods of other namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from podwright.api.own_objects import conditions, count
from podwright.api.policy_status import conditions_by_type, timed
from podwright.api.queue_status import (
    FirstWaiting,
    QueueCondition,
    QueueReport,
    active,
    amount_texts,
    amounts_in,
    described_amounts,
)
from podwright.api.scheduling_queue import MAX_QUEUE_NAME
from podwright.core.framework.args import encode
from podwright.core.framework.validation import declared
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.shown import bound_of

VIEW_KIND: Final = "QueueView"
VIEW_PLURAL: Final = "queueviews"


@dataclass(frozen=True, slots=True)
class QueueViewSpec:
    queue: str = declared("The name of the queue.", minLength=1, maxLength=MAX_QUEUE_NAME)


@dataclass(frozen=True, slots=True)
class QueueViewStatus:
    conditions: tuple[QueueCondition, ...] = conditions("Active.")
    state: str = declared("The state of the queue.", default="", maxLength=16)
    summary: str = declared(
        "In short what the queue has of each resource that it has a quota of.", default="", maxLength=1024
    )
    guarantee: Mapping[str, str] = described_amounts("What the queue is guaranteed, by resource.")
    limit: Mapping[str, str] = described_amounts("The most that it may have, by resource.")
    share: Mapping[str, str] = described_amounts("Its fair share now, by resource.")
    allocated: Mapping[str, str] = described_amounts(
        "What the pods of the queue that have a node request, by resource."
    )
    borrowed: Mapping[str, str] = described_amounts("How much of what it has is above its guarantee, by resource.")
    lent: Mapping[str, str] = described_amounts("How much of its guarantee it does not use, by resource.")
    pending: Mapping[str, str] = described_amounts("What its waiting pods request, by resource.")
    pending_pods: int = count("How many pods of the queue wait for a node.")
    first_waiting: FirstWaiting | None = declared(
        "The first pod of this namespace that a bound holds back.", default=None
    )


def view_status_of(report: QueueReport, first: PodInfo | None) -> dict[str, Any]:
    """The status of the view of a queue that is in the tree. `first`: the first pod of the namespace that a bound holds
    back.

    `report.previous`: the status that the view has.
    """
    queues, name = report.queues, report.name
    rules = queues.get(name)
    assert rules is not None
    condition = active(report, in_tree=True)
    bound = None if first is None else bound_of(queues, first)
    waiting = None if first is None or bound is None else FirstWaiting(first.key, bound.message[:1024])
    quotas = rules.quotas.items()
    status = {
        **encode(replace(amounts_in(queues, name), capacity={}, first_waiting=waiting)),
        "state": rules.state,
        "guarantee": amount_texts({resource: quota.guarantee for resource, quota in quotas}),
        "limit": amount_texts({resource: quota.limit for resource, quota in quotas}, least=0),
        "conditions": [
            timed(condition, conditions_by_type(report.previous).get(condition.type), report.generation, report.now)
        ],
    }
    return {key: value for key, value in status.items() if value}
