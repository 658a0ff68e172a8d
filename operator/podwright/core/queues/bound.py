"""Bound: why a pod must not start now."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from podwright.core.objects.dataclass import dataclass
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.tree import Queue


@dataclass(frozen=True, slots=True)
class Bound:
    """Why a pod must not start now. `queue` is where the bound is: the pod's queue or one above it, "" for the cluster.

    `held` and `limit` are amounts of `resource`, which is empty for a bound that is no amount.
    """

    queue: str
    message: str
    resource: str = ""
    held: int = 0
    limit: int = 0
    requested: int = 0
    others: int = 0
    """The amount that nominated pods have been promised and other queues keep."""
    kind: Literal["", "limit", "gang", "kept", "guarantee", "user", "share"] = ""
    """The kind of a bound on an amount: the queue's limit for a pod or a gang, what others keep, its guarantee, the
    limit of a user, or its share if there is no room without evictions.
    """

    @property
    def over(self) -> int:
        """The amount by which the limit is too low."""
        return self.held + self.others + self.requested - self.limit

    @property
    def lasting(self) -> Bound:
        """The bound without what may change while it holds."""
        return replace(self, held=0, limit=0, others=0, message="" if self.resource else self.message)


def at_share(queue: Queue, resource: str, held: int, requested: int, who: str = "pod") -> Bound:
    """Returns the bound that the queue would exceed the larger of guarantee and share. `who` requests this. Numbers are
    in brackets.
    """
    most, share = queue.entitled(resource), queue.share.get(resource, 0)
    numbers = f"{amount_text(resource, held)} of {amount_text(resource, most)}"
    if held < most:
        numbers += f", and the {who} requests {amount_text(resource, requested)}"
    message = f"{queue.spec.name} is at its {'guarantee' if most > share else 'share'} of {resource} ({numbers})"
    return Bound(queue.spec.name, message, resource, held=held, limit=most, requested=requested, kind="share")
