"""Answers cases of fair shares: a capacity, a tree of queues and their demands. docs/queues.md describes the fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.core.framework.args import ArgsError, decode
from podwright.core.framework.validation import declared
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.queues.tree import QueueSpec, QueueTree
from podwright.simulator.evaluations.cases import Case, CaseError, case_id

_AMOUNT = {"minimum": 0}


@dataclass(frozen=True, slots=True)
class _SharesCase:
    id: str = ""
    capacity: Mapping[str, int] = declared(
        "Whole units by resource.", default_factory=dict, additionalProperties=_AMOUNT
    )
    queues: tuple[QueueSpec, ...] = ()
    demand: Mapping[str, Mapping[str, int]] = declared(
        "Whole units by queue without children and resource.", default_factory=dict
    )
    expect: Mapping[str, Any] | None = None


def answer(case: Case) -> dict[str, Any]:
    """Returns `{"id", "shares": {queue: {resource: units}}}`. Raises CaseError, which names the case and the field."""
    name = case_id(case)
    try:
        decoded = decode(_SharesCase, case, "")
        tree = QueueTree(decoded.queues, decoded.capacity)
        for queue, amounts in decoded.demand.items():
            if queue not in tree:
                raise InvalidObjectError(f"demand.{queue}", "there is no such queue")
            if negative := next((resource for resource, amount in amounts.items() if amount < 0), ""):
                raise InvalidObjectError(f"demand.{queue}.{negative}", "expected at least 0")
            if tree.is_leaf(queue):
                tree.add_demand(queue, amounts)
    except (ArgsError, InvalidObjectError) as error:
        raise CaseError(f"case {name}: {error}", name) from error
    return {"id": name, "shares": tree.shares()}
