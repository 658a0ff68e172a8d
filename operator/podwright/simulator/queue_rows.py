"""Queues as rows of a tree, for people: from the objects of the API server, with the status that the operator writes,
or from a loaded cluster. Amounts are in the units of core/objects/resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Final

from podwright.api.policy_status import ACCEPTED, ACTIVE, conditions_by_type
from podwright.api.queue_status import usage_of
from podwright.api.scheduler_policy import identity_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.quantity import NANO, parse_exact_quantity
from podwright.core.objects.raw import Raw, mapping_at, value_at
from podwright.core.objects.times import rfc3339
from podwright.core.queues.amounts import amount_text, unit_of
from podwright.core.queues.flavors import of_flavor
from podwright.core.queues.queues import QueueRules, Queues
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.shown import first_bound, held_by, lent_between, waiting_below
from podwright.core.queues.tree import NO_QUOTA
from podwright.core.queues.usage import Record
from podwright.kube.queues.kinds import QUEUE_KINDS, SCHEDULING_QUEUES, QueueKind
from podwright.simulator.queue_objects import queue_kind_of

_AMOUNTS: Final = ("guarantee", "limit", "share", "allocated", "borrowed", "pending")
UNCHECKED: Final = "the operator has not checked it yet"
"""The problem of a queue without a status."""
MAX_DEPTH: Final = 100
"""Deeper queues are shown at this depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAmounts:
    """A queue's amounts of one resource. `guarantee`: None for all that is requested. `limit`: None without a limit.
    `lending`: how much other queues borrow from this one, or lend to it, by name: see `lent_between`.
    """

    resource: str
    guarantee: int | None = 0
    limit: int | None = None
    lending_limit: int | None = None
    share: int | None = 0
    """None: not known."""
    allocated: int = 0
    pending: int = 0
    lending: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_of_interest(self) -> bool:
        """True if the queue has, wants or may have some of it."""
        return bool(self.guarantee or self.share or self.allocated or self.pending or self.limit is not None)

    @property
    def borrowed(self) -> int:
        """The amount allocated above the guarantee."""
        return 0 if self.guarantee is None else max(0, self.allocated - self.guarantee)


@dataclass(frozen=True, slots=True)
class QueueUsage:
    """A queue's past usage by resource: on average, and in resource-hours since `since`, an RFC 3339 time."""

    since: str = ""
    average: Mapping[str, float] = field(default_factory=dict)
    hours: Mapping[str, float] = field(default_factory=dict)
    users: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The parts of those who have used most. The others are "", with the pods without a user."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        users = [{"user": user, "hours": hours} for user, hours in self.users.items()]
        return {"since": self.since, "average": self.average, "hours": self.hours, "users": users}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A queue. `depth`: how many queues are above it. `problem`: why its newest version is not in force, or not yet.

    `resources`: those that it has a quota of, or pods. `waiting`: its first pod that a bound holds back; `bound`:
    which.
    """

    name: str
    parent: str = ""
    depth: int = 0
    state: str = "Open"
    problem: str = ""
    pending_pods: int = 0
    resources: tuple[QueueAmounts, ...] = ()
    waiting: str = ""
    bound: str = ""
    usage: QueueUsage | None = None

    def of(self, resource: str) -> QueueAmounts:
        """Returns the queue's amounts of this resource."""
        return next((each for each in self.resources if each.resource == resource), QueueAmounts(resource=resource))

    def as_json(self) -> dict[str, Any]:
        """The row for programs. Amounts are quantities, by resource."""
        resources: dict[str, dict[str, Any]] = {}
        for each in self.resources:
            amounts = {name: getattr(each, name) for name in _AMOUNTS}
            resources[each.resource] = {
                name: amount_text(each.resource, amount) for name, amount in amounts.items() if amount is not None
            }
            if each.lending:
                lending = {name: amount_text(each.resource, amount) for name, amount in each.lending.items()}
                resources[each.resource]["borrowedFrom" if each.borrowed else "lentTo"] = lending
        named = {
            "problem": self.problem,
            "firstWaiting": {"pod": self.waiting, "message": self.bound} if self.waiting else {},
            "usage": {} if self.usage is None else self.usage.as_json(),
        }
        return {
            "name": self.name,
            "parent": self.parent,
            "state": self.state,
            **{name: value for name, value in named.items() if value},
            "pendingPods": self.pending_pods,
            "resources": resources,
        }


def rows_of(queues: Queues) -> Sequence[QueueRow]:
    """The queues of a loaded cluster, parents first."""
    if queues.active:
        queues.shared_out()
    known = {*queues.names(), *queues.declared, *queues.refused}
    return _with_lending(_as_tree(_of_core(queues, name) for name in sorted(known)))


def _of_core(queues: Queues, name: str) -> QueueRow:
    problem, rules = queues.problem(name), queues.get(name)
    row = QueueRow(name=name, problem="" if problem is None else f"{problem.where}: {problem.problem}")
    if name in queues.refused:
        return replace(row, problem=queues.refused[name].partition(": ")[2])
    if rules is None:
        return replace(row, parent=queues.declared[name].parent)
    share, held, asked = queues.last_share(name), held_by(queues, name), queues.waiting(name)
    first = first_bound(queues, name)
    resources = sorted(rules.quotas.keys() | held.keys() | asked.keys())
    return replace(
        row,
        parent=rules.parent,
        state=rules.state,
        pending_pods=waiting_below(queues, name),
        resources=tuple(
            _of_rules(rules, resource, share.get(resource, 0), held.get(resource, 0), asked.get(resource, 0))
            for resource in resources
        ),
        waiting="" if first is None else first[0].key,
        bound="" if first is None else first[1].message,
    )


def _of_rules(rules: QueueRules, resource: str, share: int | None, allocated: int, pending: int) -> QueueAmounts:
    quota = rules.quotas.get(resource, NO_QUOTA)
    return QueueAmounts(
        resource=resource,
        guarantee=None if quota.guarantee == UNBOUNDED else quota.guarantee,
        limit=None if quota.limit == UNBOUNDED else quota.limit,
        lending_limit=rules.lending.get(resource),
        share=share,
        allocated=allocated,
        pending=pending,
    )


def rows_from(raws: Iterable[Raw]) -> Sequence[QueueRow]:
    """The queues of all APIs as the API server has them, parents first. What cannot be read is left out."""
    found = [(queue_kind_of(raw) or SCHEDULING_QUEUES, raw) for raw in raws]
    found.sort(key=lambda each: QUEUE_KINDS.index(each[0]), reverse=True)  # of several of one name, the last is shown
    rows = (_of_object(raw) if kind is SCHEDULING_QUEUES else _of_other(kind, raw) for kind, raw in found)
    return _with_lending(_as_tree(rows))


def rows_of_views(raws: Iterable[Raw]) -> Sequence[QueueRow]:
    """The queues that a namespace uses, from its QueueViews."""
    return _as_tree(map(_of_view, raws))


def _of_view(raw: Raw) -> QueueRow:
    status = mapping_at(raw, "status")
    bounds = {field: mapping_at(status, field) for field in ("guarantee", "limit")}
    resources = {
        name: {field: amounts.get(name) for field, amounts in bounds.items()}
        for name in {*bounds["guarantee"], *bounds["limit"], *mapping_at(status, "share")}
    }
    accepted = {"type": ACCEPTED, "status": "True"}
    conditions = [*conditions_by_type(status).values(), *([accepted] if status else [])]
    spec = {"state": status.get("state"), "resources": resources}
    return _of_object({**raw, "spec": spec, "status": {**status, "conditions": conditions}})


def _of_object(raw: Raw) -> QueueRow:
    spec, status = mapping_at(raw, "spec"), mapping_at(raw, "status")
    quotas, flavors = dict[str, Raw](), spec.get("flavors")
    for part in (spec, *(flavors if isinstance(flavors, list) else ())):
        flavor = "" if part is spec else str(value_at(part, "name"))
        for name, quota in mapping_at(part, "resources").items():
            quotas[of_flavor(name, flavor) if flavor else name] = mapping_at(quota)
    given = {field: mapping_at(status, field) for field in ("share", "allocated", "pending")}
    first, pending = mapping_at(status, "firstWaiting"), status.get("pendingPods")
    return QueueRow(
        name=identity_of(raw)[0],
        parent=str(spec.get("parent") or ""),
        state=str(spec.get("state") or "Open"),
        problem=_problem(status),
        pending_pods=pending if isinstance(pending, int) else 0,
        resources=tuple(
            QueueAmounts(
                resource=resource,
                guarantee=_amount(resource, quotas.get(resource, {}).get("guarantee")) or 0,
                limit=_amount(resource, quotas.get(resource, {}).get("limit")),
                lending_limit=_amount(resource, quotas.get(resource, {}).get("lendingLimit")),
                share=_amount(resource, given["share"].get(resource)) or 0,
                allocated=_amount(resource, given["allocated"].get(resource)) or 0,
                pending=_amount(resource, given["pending"].get(resource)) or 0,
            )
            for resource in sorted({*quotas, *given["allocated"], *given["pending"]})
        ),
        waiting=str(first.get("pod") or ""),
        bound=str(first.get("message") or ""),
        usage=_usage(usage_of(status)),
    )


def _of_other(kind: QueueKind, raw: Raw) -> QueueRow:
    """A queue of another API, whose status says nothing of its share."""
    status = mapping_at(raw, "status")
    accepted = conditions_by_type(status).get(ACCEPTED, {})
    try:
        rules = kind.parse(raw)
    except InvalidObjectError as error:
        return QueueRow(name=identity_of(raw)[0], problem=f"{error.where}: {error.problem}")
    held, requested = (
        {name: _amount(name, amount) or 0 for name, amount in mapping_at(status, field).items()}
        for field in ("allocated", "requested")
    )
    return QueueRow(
        name=rules.name,
        parent=rules.parent,
        state=rules.state,
        problem=str(accepted.get("message") or "") if accepted.get("status") == "False" else "",
        resources=tuple(
            _of_rules(rules, resource, None, (has := held.get(resource, 0)), max(0, requested.get(resource, 0) - has))
            for resource in sorted({*rules.quotas, *held, *requested})
        ),
    )


def _usage(record: Record | None) -> QueueUsage | None:
    if record is None:
        return None
    users = {user: _numbers(hours) for user, hours in record.users.items()}
    left = {
        resource: round(max(0.0, total - sum(hours.get(resource, 0.0) for hours in users.values())), 4)
        for resource, total in _numbers(record.hours).items()
    }
    return QueueUsage(
        since=rfc3339(record.since),
        average=_numbers(record.average),
        hours=_numbers(record.hours),
        users={**users, "": left} if users else {},
    )


def _numbers(amounts: Mapping[str, float]) -> dict[str, float]:
    """In whole units: CPUs, bytes, devices."""
    return {resource: amount / unit_of(resource) for resource, amount in amounts.items()}


def _problem(status: Raw) -> str:
    """Returns the problem of a queue that is not in force as it is written, by its conditions; else ""."""
    conditions = conditions_by_type(status)
    accepted, active = conditions.get(ACCEPTED), conditions.get(ACTIVE)
    if accepted is None:
        return UNCHECKED
    if accepted.get("status") != "True":
        return str(accepted.get("message") or "is not accepted")
    shut = active is not None and active.get("reason") == "NotOpen"
    return str(active.get("message") or "") if shut and active is not None else ""


def _as_tree(rows: Iterable[QueueRow]) -> Sequence[QueueRow]:
    """Parents before children, siblings by name. Queues of a cycle come last, as if they had no parent."""
    given = {row.name: row for row in sorted(rows, key=lambda row: row.name)}
    children: dict[str, list[str]] = {}
    for row in given.values():
        children.setdefault(row.parent if row.parent in given else "", []).append(row.name)
    found = [*_below("", children, given)]
    seen = {row.name for row in found}
    return [*found, *(row for name, row in given.items() if name not in seen)]


def _below(top: str, children: Mapping[str, Sequence[str]], given: Mapping[str, QueueRow]) -> Iterator[QueueRow]:
    waiting = [(name, 0) for name in reversed(children.get(top, ()))]
    while waiting:
        name, depth = waiting.pop()
        yield replace(given[name], depth=min(depth, MAX_DEPTH))
        waiting += [(child, depth + 1) for child in reversed(children.get(name, ()))]


def _with_lending(rows: Sequence[QueueRow]) -> Sequence[QueueRow]:
    """Returns the same queues, with who lends to whom among those of one parent. Guarantees that may not be in force do
    not count.
    """
    families: dict[tuple[str, str], dict[str, tuple[int, int, int | None]]] = {}
    for row in rows:
        in_force = not row.problem or row.state != "Open"
        for each in row.resources:
            guarantee = each.guarantee if in_force and each.guarantee is not None else each.allocated
            families.setdefault((row.parent, each.resource), {})[row.name] = (
                each.allocated,
                guarantee,
                each.lending_limit,
            )
    lending = {key: lent_between(siblings) for key, siblings in families.items()}
    return [
        replace(
            row,
            resources=tuple(
                replace(each, lending=lending[row.parent, each.resource][row.name]) for each in row.resources
            ),
        )
        for row in rows
    ]


def _amount(resource: str, value: Any) -> int | None:
    with suppress(InvalidObjectError):
        if isinstance(value, int | str) and value != "":
            return parse_exact_quantity(value, "") // (NANO // unit_of(resource))
    return None
