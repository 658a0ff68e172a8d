"""`spec.queue` of a SchedulerPolicy: the queue of its pods that name none themselves."""

from __future__ import annotations

from dataclasses import dataclass

from podwright.core.framework.validation import Rule, declared


@dataclass(frozen=True, slots=True)
class QueueChoice:
    name: str = declared("The name of a SchedulingQueue.", default="", maxLength=63)
    expression: str = declared(
        "A CEL expression that gives the name: a string, from the pod, its namespace and params, for example 'team-' + "
        "namespaceObject.labels.team. An empty string: no queue. If it fails, the pod waits.",
        default="",
        maxLength=1024,
    )

    RULES = (
        Rule(
            cel="(has(self.name) && self.name != '') != (has(self.expression) && self.expression != '')",
            holds=lambda self: bool(self.name) != bool(self.expression),
            message="takes either a name or an expression",
        ),
    )
