"""The tree of queues for people: what each has of some resources, and what its pods wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from podwright.cli.reports.console import open_table
from podwright.core.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from podwright.core.objects.wording import counted, readable
from podwright.core.queues.flavors import parts_of
from podwright.simulator.queue_rows import UNCHECKED, QueueAmounts, QueueRow, QueueUsage

_COLUMNS: Final = ("GUARANTEE", "LIMIT", "SHARE", "ALLOCATED", "BORROWED", "PENDING")
_IN_BYTES: Final = (MEMORY, EPHEMERAL_STORAGE)
_NONE: Final = Text("-", style="dim")
WAITING_SHOWN: Final = 10
"""How many bounds, and how many problems, are listed."""
BORROWERS_SHOWN: Final = 3
"""How many borrowers of a queue are named."""


def queue_resources(rows: Sequence[QueueRow]) -> Sequence[str]:
    """The resource to show: the extended one that most queues name, else CPU, else the one that most queues name.
    One in a flavor counts for the resource.
    """
    named: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for row in rows:
        used.update({parts_of(each.resource)[0] for each in row.resources})
        named.update({parts_of(each.resource)[0] for each in row.resources if each.guarantee or each.limit is not None})
    for counts in (named, used):
        extended = Counter({name: count for name, count in counts.items() if "/" in name})
        first = sorted((extended or counts).items(), key=lambda pair: (pair[0] != CPU, -pair[1], pair[0]))
        if extended or counts:
            return [first[0][0]]
    return [CPU]


def queue_table(rows: Sequence[QueueRow], resources: Sequence[str]) -> RenderableType:
    """The tree, with a row for each queue and resource; then what keeps pods and queues from going on."""
    table = open_table()
    several = len(resources) > 1
    for column in ("QUEUE", "STATE", *(("RESOURCE",) if several else ()), *_COLUMNS, "PODS"):
        right = column not in ("QUEUE", "STATE", "RESOURCE")
        table.add_column(column, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for branch, row in zip(branches(rows), rows, strict=True):
        name = Text.assemble((branch, "dim"), (row.name, "bold" if not row.depth else ""))
        shown = [each for each in resources if row.of(each).is_of_interest] or resources[:1]
        for number, resource in enumerate(shown):
            pods = Text(f"{row.pending_pods:,}", style="yellow") if row.pending_pods else _NONE
            first = (name, _state(row)) if not number else (Text(_continued(branch), style="dim"), Text())
            names = (resource,) if several else ()
            table.add_row(*first, *names, *_cells(row.of(resource)), pods if not number else Text())
    note = "PODS wait." if several else f"Amounts are of {resources[0]}. PODS wait."
    return Group(table, Text(note, style="dim"), *_notes(rows, resources))


def usage_table(rows: Sequence[QueueRow], resource: str) -> RenderableType:
    """The tree with what queues and their users have used of a resource; with users, the largest first."""
    table = open_table()
    for column in ("QUEUE", "USER", "HOURS", "PART", "AVERAGE", "NOW", "SINCE"):
        table.add_column(column, justify="left" if column in ("QUEUE", "USER", "SINCE") else "right", no_wrap=True)
    total = sum(_hours(row, resource) for row in rows if not row.depth)
    for branch, row in zip(branches(rows), rows, strict=True):
        name = Text.assemble((branch, "dim"), (row.name, "bold" if not row.depth else ""))
        usage, hours = row.usage or QueueUsage(), _hours(row, resource)
        average = _number(resource, usage.average.get(resource, 0.0))
        now = Text(_readable(resource, row.of(resource).allocated)) if row.of(resource).allocated else _NONE
        since = Text(usage.since[:10], style="dim")
        table.add_row(name, Text(), _number(resource, hours), _part(hours, total), average, now, since)
        for user, used in usage.users.items():
            if mine := used.get(resource, 0.0):
                shown = Text(user) if user else Text("others", style="dim")
                table.add_row(Text(_continued(branch), style="dim"), shown, _number(resource, mine), _part(mine, hours))
    note = (
        f"HOURS are {resource}-hours. PART: of all queues, and a user's of the queue. AVERAGE: with the half-life of the"
        " queue."
    )
    return Group(table, Text(note, style="dim"))


def _lending(amounts: QueueAmounts) -> str:
    """Names the queues that borrow from this one, with the amounts; empty if none does."""
    resource, lent = amounts.resource, [] if amounts.borrowed else [*amounts.lending.items()]
    texts = [
        f"{_readable(resource, amount)} {'' if index else f'{resource} '}to {name}"
        for index, (name, amount) in enumerate(lent[:BORROWERS_SHOWN])
    ]
    if len(lent) > BORROWERS_SHOWN:
        texts.append(f"and some to {counted(len(lent) - BORROWERS_SHOWN, 'more queue')}")
    return f"lends {', '.join(texts)}" if texts else ""


def _hours(row: QueueRow, resource: str) -> float:
    return 0.0 if row.usage is None else row.usage.hours.get(resource, 0.0)


def _number(resource: str, amount: float) -> Text:
    if amount < 0.05:
        return _NONE
    return Text(_readable(resource, round(amount)) if parts_of(resource)[0] in _IN_BYTES else f"{amount:,.1f}")


def _readable(resource: str, amount: int) -> str:
    return readable(parts_of(resource)[0], amount)


def _part(amount: float, total: float) -> Text:
    return Text(f"{100 * amount / total:.0f} %", style="dim") if total and amount else _NONE


def branches(rows: Sequence[QueueRow]) -> Sequence[str]:
    """The lines of the tree in front of each name."""
    found: list[str] = []
    top = min((row.depth for row in rows), default=0)
    below: dict[int, bool] = {}
    """By depth: whether a later row has that depth before one that is less deep."""
    for row in reversed(rows):
        lines = ["│ " if below.get(depth) else "  " for depth in range(top + 1, row.depth)]
        corner = "" if row.depth == top else "├ " if below.get(row.depth) else "└ "
        found.append("".join(lines) + corner)
        below = {depth: more for depth, more in below.items() if depth <= row.depth}
        below[row.depth] = True
    return found[::-1]


def _continued(branch: str) -> str:
    return branch.replace("├", "│").replace("└", " ")


def _state(row: QueueRow) -> Text:
    if row.problem and row.state == "Open":
        return Text("Unchecked", style="yellow") if row.problem == UNCHECKED else Text("Invalid", style="red")
    return Text(row.state, style="" if row.state == "Open" else "yellow")


def _cells(amounts: QueueAmounts) -> Iterator[Text]:
    """Yellow: above the share, so that others may take it back. Red: pods wait, although the queue is below its
    share.
    """

    def cell(amount: int, style: str = "") -> Text:
        return Text(_readable(amounts.resource, amount), style=style) if amount else _NONE

    above = amounts.share is not None and amounts.allocated > max(amounts.share, amounts.guarantee or 0)
    starved = bool(amounts.pending) and amounts.allocated < (amounts.share or 0)
    yield cell(amounts.guarantee or 0)
    yield _NONE if amounts.limit is None else Text(_readable(amounts.resource, amounts.limit))
    yield cell(amounts.share or 0)
    yield cell(amounts.allocated, "yellow" if above else "green")
    yield cell(amounts.borrowed)
    yield cell(amounts.pending, "red" if starved else "")


def _notes(rows: Sequence[QueueRow], resources: Sequence[str]) -> Iterator[Text]:
    """Yields the problems of queues, then who lends to whom, and the bounds that keep pods waiting."""
    wrong = [(row.name, row.problem) for row in rows if row.problem and row.state == "Open"]
    shut = [(row.name, row.problem) for row in rows if row.problem and row.state != "Open"]
    waiting = [(row.name, f"{row.waiting} waits: {row.bound}") for row in rows if row.waiting]
    lent = [(row.name, _lending(row.of(resource))) for row in rows for resource in resources]
    lent = [(name, text) for name, text in lent if text]
    for pairs, style in ((wrong, "red"), (shut, "yellow"), (lent, ""), (waiting, "yellow")):
        if pairs:
            yield Text()
        for name, text in pairs[:WAITING_SHOWN]:
            yield Text.assemble((name, "bold"), ": ", (text, style))
        if len(pairs) > WAITING_SHOWN:
            yield Text(f"and {counted(len(pairs) - WAITING_SHOWN, 'more queue')}", style="dim")
