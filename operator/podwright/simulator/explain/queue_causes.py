"""Explains how its queue keeps a pod waiting."""

from __future__ import annotations

from collections.abc import Sequence

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.objects.wording import listed
from podwright.core.queues.amounts import amount_text, amounts_of
from podwright.core.queues.bound import Bound
from podwright.core.queues.queues import QUEUE_QUOTA, Queues
from podwright.simulator.explain.results import Cause

_SOURCES = {"policy": ", which its policy chooses,", "namespace": ", which the label of its namespace names,"}


def cause_of(queues: Queues, pod: PodInfo, message: str, nodes: int) -> Cause:
    """Why the queue forbids the pod to start, which `message` says."""
    bound = queues.bounds.of(pod)
    reason, text = "QueueLimit", message
    if bound is not None and not bound.resource:
        reason = _reason(queues, bound)
        text = f"{message}{_hint(queues, bound, reason)}"
    name = bound.queue if bound is not None and reason != "QueueLimit" else queues.queue_of(pod)
    source = _SOURCES.get(queues.source_of(pod), "")
    return Cause(
        reason=reason, text=f"its queue {name}{source} keeps it waiting: {text}", plugin=QUEUE_QUOTA, nodes=nodes
    )


def _reason(queues: Queues, bound: Bound) -> str:
    if queues.get(bound.queue) is None:
        return "QueueInvalid" if queues.problem(bound.queue) or bound.queue in queues.refused else "QueueMissing"
    if queues.children(bound.queue):
        return "QueueHasQueues"
    return "QueueNotOpen" if queues.shut_by(bound.queue) else "QueueNotAllowed"


def _hint(queues: Queues, bound: Bound, reason: str) -> str:
    if reason == "QueueHasQueues":
        return f" ({listed([*queues.children(bound.queue)])})"
    return did_you_mean(bound.queue, queues.names()) if reason == "QueueMissing" else ""


def standing(queues: Queues, pod: PodInfo) -> Sequence[str]:
    """Returns the queue's usage and share of each resource that the pod requests, as at most one text."""
    name = queues.queue_of(pod) if queues.active else ""
    bound = queues.bounds.of(pod) if name else None
    if queues.get(name) is None or (bound is not None and not bound.resource):
        return ()
    share, held = queues.share(name), queues.usage(name)
    texts = [
        f"{amount_text(resource, held.get(resource, 0))} of its share of {amount_text(resource, share[resource])} "
        f"{resource}"
        for resource, amount in amounts_of(pod).items()
        if amount and resource in share
    ]
    return (f"its queue {name} has {listed(texts)}",) if texts else ()
