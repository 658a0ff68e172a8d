"""The metrics about queues of teams, a part of the catalogue. See `metrics`, and engine/records/queue_gauges.py."""

from __future__ import annotations

from typing import Final

from podwright.engine.records.families import Gauge

QUEUES: Final = Gauge(
    "podwright_queues", "SchedulingQueues by whether their newest generation is accepted.", ("state",)
)
QUEUE_ALLOCATED: Final = Gauge(
    "podwright_queue_allocated",
    "What the pods of a queue, and of those below it, have on nodes: cores, bytes or units.",
    ("queue", "resource"),
)
QUEUE_SHARE: Final = Gauge("podwright_queue_share", "The fair share of a queue.", ("queue", "resource"))
QUEUE_GUARANTEE: Final = Gauge("podwright_queue_guarantee", "What a queue is guaranteed.", ("queue", "resource"))
QUEUE_LIMIT: Final = Gauge(
    "podwright_queue_limit", "The most that a queue may have, if it has a limit.", ("queue", "resource")
)
QUEUE_HOURS: Final = Gauge(
    "podwright_queue_resource_hours",
    "What a queue has used since its record began: core-hours, byte-hours or unit-hours.",
    ("queue", "resource"),
)
QUEUE_PENDING: Final = Gauge(
    "podwright_queue_pending_pods", "Pods of a queue without queues below it that wait for a node.", ("queue",)
)
QUEUE_OWED: Final = Gauge(
    "podwright_queue_owed",
    "1 if pods of a queue wait although it would have no more than its share with one of them.",
    ("queue",),
)
