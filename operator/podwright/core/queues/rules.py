"""QueueRules: one queue of the cluster, as its users declare it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.selectors import EVERYTHING, LabelSelector
from podwright.core.queues.tree import QueueSpec

State = Literal["Open", "Hold", "Drain", "Closed"]


@dataclass(frozen=True, slots=True)
class QueueRules(QueueSpec):
    """A queue of the cluster. Runtimes are in seconds.

    `state`: pods start only in an Open queue whose parents are Open, too. `namespaces`: whose pods may use the queue,
    and those below it. `lending`: by resource, how much of the unused guarantee other queues may use; all that is not
    named here.
    `flavors`: in the order in which the queue's pods are to use them, each with the labels of its nodes; empty: another
    queue says which.
    """

    state: State = "Open"
    namespaces: LabelSelector = EVERYTHING
    lending: Mapping[str, int] = field(default_factory=dict)
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    preempt_min_runtime: float = 0.0
    """For how long a pod runs before a pod of its own queue may preempt it."""
    reclaim_min_runtime: float = 0.0
    """For how long a pod runs before another queue may reclaim what it holds."""
    max_runtime: float = 0.0
    """A pod that has run for longer is a victim for any pod of its queue, and for pods of others that stay within their
    shares, whatever its own queue has. 0: never."""
    user_limits: Mapping[str, int] = field(default_factory=dict)
    """By resource: the most that the pods of one user may request in this queue and those below. Their label
    USER_LABEL names the user.
    """
    firm_priority: int | None = None
    """Pods of at least this priority, also of the queues below, are never evicted for a pod of a queue. Together they
    stay within the guarantee of their queue, and within those that queues above have. None: there are no such pods."""
    gather_after: float | None = None
    """After this time, room is held for a gang at the head of the queue that has not started. 0: never. None: what
    `Queues.gather_after` says."""
    usage_half_life: float = 0.0
    """With one, the queue takes its turn by what it has used on average, not by what it has now."""
