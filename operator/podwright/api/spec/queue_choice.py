"""`spec.queue` of a SchedulerPolicy: the queue of its pods that name none themselves, and whether they may be
evicted.
"""

from __future__ import annotations

from typing import Final

from podwright.core.framework.validation import Rule, declared
from podwright.core.objects.dataclass import dataclass

_NAME: Final = "(has(self.name) && self.name != '')"
_EXPRESSION: Final = "(has(self.expression) && self.expression != '')"


@dataclass(frozen=True, slots=True)
class QueueChoice:
    name: str = declared("The name of a SchedulingQueue.", default="", maxLength=63)
    expression: str = declared(
        "A CEL expression that gives the name: a string, from the pod, its namespace and params, for example 'team-' + "
        "namespaceObject.labels.team. An empty string: no queue. If it fails, the pod waits.",
        default="",
        maxLength=1024,
    )
    preemptible: bool | None = declared(
        "Whether the pods may be evicted for pods of queues, in whatever queue they are. false: never, and so all such "
        "pods of a queue together stay within its guarantee, and within those above. true: also above the "
        "nonPreemptiblePriority of their queue. Not given: that priority decides. What a pod group of KAI says goes "
        "first.",
        default=None,
    )

    RULES = (
        Rule(
            cel=f"!({_NAME} && {_EXPRESSION}) && ({_NAME} || {_EXPRESSION} || has(self.preemptible))",
            holds=lambda self: (
                not (self.name and self.expression)
                and bool(self.name or self.expression or self.preemptible is not None)
            ),
            message="takes either a name or an expression, or preemptible alone",
        ),
    )
