"""The numbers of the gauges about queues of teams. Their labels are bounded: MOST_QUEUES queues have series of their
own, those nearest to the top first, and MOST_RESOURCES resources, those that most queues name. What the other queues
have is summed up under OTHER, without queues that have queues below them, which would count twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from podwright.core.queues.amounts import unit_of
from podwright.core.queues.queues import QueueRules, Queues
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.shown import is_owed, waiting_below
from podwright.engine.process.steps import Steps
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.queue_metrics import (
    QUEUE_ALLOCATED,
    QUEUE_GUARANTEE,
    QUEUE_HOURS,
    QUEUE_LIMIT,
    QUEUE_OWED,
    QUEUE_PENDING,
    QUEUE_SHARE,
)

MOST_QUEUES: Final = 256
MOST_RESOURCES: Final = 16
OTHER: Final = "other"
AT_ONCE: Final = 64
"""How many queues one step of a gauge reads."""

Amounts = Mapping[str, float]


def compute_queue_gauges(metrics: Metrics, queues: Queues) -> None:
    """Registers the gauges. They are computed in steps, between which queues may change."""

    def used(rules: QueueRules, amounts: Amounts) -> Amounts:
        return {resource: amounts.get(resource, 0) for resource in rules.quotas.keys() | amounts.keys()}

    def allocated(name: str, rules: QueueRules) -> Amounts:
        return used(rules, queues.usage(name))

    def share(name: str, rules: QueueRules) -> Amounts:
        return used(rules, queues.last_share(name))

    def guarantee(_name: str, rules: QueueRules) -> Amounts:
        return {resource: quota.guarantee for resource, quota in rules.quotas.items() if quota.guarantee != UNBOUNDED}

    def limit(_name: str, rules: QueueRules) -> Amounts:
        return {resource: quota.limit for resource, quota in rules.quotas.items() if quota.limit != UNBOUNDED}

    def hours(name: str, _rules: QueueRules) -> Amounts:
        record = queues.records.get(name)
        return {} if record is None else dict(record.hours)

    for gauge, read in (
        (QUEUE_ALLOCATED, allocated),
        (QUEUE_SHARE, share),
        (QUEUE_GUARANTEE, guarantee),
        (QUEUE_LIMIT, limit),
        (QUEUE_HOURS, hours),
    ):
        metrics.compute(gauge, partial(_amounts, queues, read))
    metrics.compute(QUEUE_PENDING, partial(_of_leaves, queues, waiting_below))
    metrics.compute(QUEUE_OWED, partial(_of_leaves, queues, is_owed))


def _amounts(queues: Queues, read: Callable[[str, QueueRules], Amounts]) -> Steps[Mapping[tuple[str, str], float]]:
    resources = _resources(queues) if queues.active else frozenset()
    total: defaultdict[tuple[str, str], float] = defaultdict(float)
    for names in _in_parts(queues):
        for label, name, rules in names:
            for resource, amount in read(name, rules).items():
                if resource in resources:
                    total[label, resource] += amount
        yield
    return {key: amount / unit_of(key[1]) for key, amount in total.items()}


def _of_leaves(queues: Queues, read: Callable[[Queues, str], int]) -> Steps[Mapping[tuple[str], float]]:
    """Numbers of queues without queues below them."""
    total: Counter[tuple[str]] = Counter()
    for names in _in_parts(queues):
        for label, name, _ in names:
            if not queues.children(name):
                total[(label,)] += read(queues, name)
        yield
    return total


def _in_parts(queues: Queues) -> Iterator[Iterator[tuple[str, str, QueueRules]]]:
    """The queues with their labels."""
    own = _own_series(queues) if queues.active else frozenset()
    known = [*queues.names()] if queues.active else []
    for start in range(0, len(known), AT_ONCE):
        yield (
            (name if name in own else OTHER, name, rules)
            for name in known[start : start + AT_ONCE]
            if (rules := queues.get(name)) is not None and (name in own or not queues.children(name))
        )


def _own_series(queues: Queues) -> frozenset[str]:
    found: list[str] = []
    level = sorted(queues.children(""))
    while level and len(found) < MOST_QUEUES:
        found += level
        level = sorted(child for name in level for child in queues.children(name))
    return frozenset(found[:MOST_QUEUES])


def _resources(queues: Queues) -> frozenset[str]:
    named = Counter(resource for name in queues.names() if (rules := queues.get(name)) for resource in rules.quotas)
    first = sorted(named.items(), key=lambda pair: (-pair[1], pair[0]))
    return frozenset(name for name, _ in first[:MOST_RESOURCES])
