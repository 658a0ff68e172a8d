"""The queues of teams: what each has of some resources, what it may have, and how many of its pods wait.

Every viewer sees all queues, as those who may get SchedulingQueues do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Final, NamedTuple

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.resources import CPU, PODS
from podwright.core.queues.queues import Queues
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.shown import held_by, lent_between, waiting_below
from podwright.core.queues.tree import NO_QUOTA
from podwright.engine.process.steps import Steps

MOST_QUEUES: Final = 200
MOST_RESOURCES: Final = 4
LONGEST: Final = 300
"""Characters of a text."""

Lending = tuple[tuple[str, int], ...]
Amounts = tuple[int, int, int, int | None, Lending]


class QueueLine(NamedTuple):
    """A queue. `depth`: how many queues are above it. `problem`: why its newest version is not in force.

    `amounts`: for each resource what it has, its share, its guarantee, its limit, None without one, and which others
    borrow how much from it, or lend to it: see `lent_between`.
    """

    name: str
    depth: int
    state: str
    problem: str
    waiting: int
    amounts: tuple[Amounts, ...]


@dataclass(frozen=True, slots=True)
class QueueTreeView:
    """The first MOST_QUEUES queues, parents before children. `resources`: those that most queues name, else have.

    `count`: how many there are.
    """

    resources: tuple[str, ...]
    lines: tuple[QueueLine, ...]
    count: int


def queue_tree(queues: Queues) -> Steps[QueueTreeView]:
    """Reads what all queues have. They may change between two steps."""
    if not queues.active:
        return QueueTreeView((), (), 0)
    queues.shared_out()
    resources = yield from _resources(queues)
    left_out = [name for name in queues.structure.problems() if queues.get(name) is None] + [*queues.refused]
    lines, families = dict[str, QueueLine](), defaultdict[str, list[QueueLine]](list)
    for name, depth in islice(_in_order(queues), MOST_QUEUES):
        if (line := _line(queues, name, depth, resources)) is not None and (rules := queues.get(name)) is not None:
            lines[name] = line
            families[rules.parent].append(line)
        yield
    for family in families.values():
        lines.update((line.name, line) for line in _with_lending(queues, family, resources))
        yield
    wrong = [
        QueueLine(name, 0, "", text[:LONGEST], 0, ())
        for name in sorted(left_out)[: MOST_QUEUES - len(lines)]
        if (text := queues.refused.get(name) or _problem(queues, name))
    ]
    return QueueTreeView(tuple(resources), (*lines.values(), *wrong), len(queues.names()) + len(left_out))


def _resources(queues: Queues) -> Steps[Sequence[str]]:
    """Extended resources first, then CPU and others, each by the number of queues that name it or, else, have it."""
    named, held = Counter[str](), Counter[str]()
    for name in queues.names():
        if (rules := queues.get(name)) is not None:
            named.update(rules.quotas.keys())
        if (pods := queues.pods.get(name)) is not None:
            held.update(pods.held.keys() - {PODS})
        yield
    named = named or held
    found = sorted(named, key=lambda resource: ("/" not in resource, -named[resource], resource != CPU, resource))
    return found[:MOST_RESOURCES]


def _in_order(queues: Queues) -> Iterator[tuple[str, int]]:
    """The names and depths, parents first, siblings by name."""
    waiting = [(name, 0) for name in _first(queues.children(""))]
    while waiting:
        name, depth = waiting.pop()
        yield name, depth
        waiting += [(child, depth + 1) for child in _first(queues.children(name))]


def _first(names: Sequence[str]) -> Sequence[str]:
    """The first names that can be shown, the last one first."""
    return nsmallest(MOST_QUEUES, names)[::-1]


def _line(queues: Queues, name: str, depth: int, resources: Sequence[str]) -> QueueLine | None:
    rules = queues.get(name)
    if rules is None:
        return None
    held, share = held_by(queues, name), queues.last_share(name)
    amounts: list[Amounts] = []
    for resource in resources:
        quota = rules.quotas.get(resource, NO_QUOTA)
        limit = None if quota.limit == UNBOUNDED else quota.limit
        has = held.get(resource, 0)
        guarantee = has if quota.guarantee == UNBOUNDED else quota.guarantee
        amounts.append((has, share.get(resource, 0), guarantee, limit, ()))
    return QueueLine(name, depth, rules.state, _problem(queues, name), waiting_below(queues, name), tuple(amounts))


def _with_lending(queues: Queues, family: Sequence[QueueLine], resources: Sequence[str]) -> Iterator[QueueLine]:
    """Yields the same queues, which have one parent, with who lends to whom."""
    limits = {line.name: {} if (rules := queues.get(line.name)) is None else rules.lending for line in family}
    found = [
        lent_between(
            {
                line.name: (line.amounts[index][0], line.amounts[index][2], limits[line.name].get(resource))
                for line in family
            }
        )
        for index, resource in enumerate(resources)
    ]
    for line in family:
        pairs = zip(line.amounts, found, strict=True)
        yield line._replace(amounts=tuple((*each[:4], tuple(lent[line.name].items())) for each, lent in pairs))


def _problem(queues: Queues, name: str) -> str:
    problem = queues.problem(name)
    return "" if problem is None else f"{problem.where}: {problem.problem}"[:LONGEST]
