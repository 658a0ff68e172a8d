"""Bound: why a pod must not start now."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from podwright.core.objects.dataclass import dataclass


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
    kind: Literal["", "limit", "gang", "kept", "guarantee", "user"] = ""
    """Of a bound that is an amount: the queue's limit for a pod or a gang, what others keep, its guarantee, the limit of a
    user.
    """

    @property
    def lasting(self) -> Bound:
        """The bound without what may change while it holds."""
        return replace(self, held=0, limit=0, message="" if self.resource else self.message)
