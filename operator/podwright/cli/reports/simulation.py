"""The reports of `podwright simulate` for people: what moves, what waits and why, and how full the cluster is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import click

from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.objects.wording import counted, first_of
from podwright.simulator.results import NodeResult, SimulationResult, Totals, Unplaced

_SHOWN: Final = 20
"""Pods, nodes and reasons that are listed without `-o wide`."""
_BYTES: Final = frozenset((MEMORY, "ephemeral-storage"))


def report(result: SimulationResult, *, wide: bool) -> Iterator[str]:
    """The lines about one simulation. `wide`: everything, also each node that changes."""
    most = None if wide else _SHOWN
    for note in result.notes:
        yield f"Note: {note}"
    yield from _landed(result, most)
    yield from _pending(result.pending, most)
    if result.gangs:
        yield ""
        yield click.style(f"{counted(len(result.gangs), 'gang')} would wait", bold=True)
        yield from _indented(result.gangs, most)
    if result.preempted:
        yield ""
        yield click.style(f"{counted(len(result.preempted), 'pod')} would be preempted", bold=True)
        yield from _indented((f"{each.pod} on {each.node}, by {each.by}" for each in result.preempted), most)
    if result.gone:
        yield ""
        yield f"{counted(len(result.gone), 'pod')} would be gone and not recreated"
        yield from _indented(result.gone, most)
    if result.blockers:
        yield ""
        yield click.style(f"{counted(len(result.blockers), 'pod')} would not be evicted", bold=True)
        yield from _indented((f"{each.pod} on {each.node}: {each.why}" for each in result.blockers), most)
    yield ""
    yield from _usage(result.before, result.after)
    if wide and result.changes:
        yield ""
        yield from _changes(result)
    if result.emptied is not None:
        yield ""
        yield from _emptied(result)
    if not result.complete:
        yield click.style("The simulation was stopped before all pods were tried.", fg="red")


def _landed(result: SimulationResult, most: int | None) -> Iterator[str]:
    if not result.landed:
        yield "No pod would get another node."
        return
    yield click.style(f"{counted(len(result.landed), 'pod')} would get a node", bold=True)
    rows = [("POD", "NODE", "BECAUSE", "POLICY")]
    for each in result.landed[:most]:
        because = f"{each.cause} from {each.came_from}" if each.came_from else each.cause
        rows.append((each.pod, each.node, because, each.policy))
    yield from _table(rows)
    if most is not None and len(result.landed) > most:
        by_node = Counter(each.node for each in result.landed)
        yield f"  and {len(result.landed) - most:,} more, on {counted(len(by_node), 'node')} in all; -o wide lists them"


def _pending(pending: Sequence[Unplaced], most: int | None) -> Iterator[str]:
    if not pending:
        return
    yield ""
    yield click.style(f"{counted(len(pending), 'pod')} would be pending", bold=True, fg="red")
    reasons: dict[tuple[str, str], list[Unplaced]] = {}
    for each in pending:
        reasons.setdefault((each.message, ", ".join(each.plugins)), []).append(each)
    lines = []
    for (message, plugins), pods in sorted(reasons.items(), key=lambda item: -len(item[1])):
        names = ", ".join(each.pod for each in pods[: None if most is None else 3])
        more = f" and {len(pods) - 3:,} more" if most is not None and len(pods) > 3 else ""
        lines.append(f"{names}{more}: {message}{f' [{plugins}]' if plugins else ''}")
    yield from _indented(lines, most)


def _usage(before: Totals, after: Totals) -> Iterator[str]:
    rows = [
        ("", "BEFORE", "", "AFTER", ""),
        ("nodes", *(text for each in (before, after) for text in (f"{each.nodes:,}", f"{each.empty_nodes:,} empty"))),
        ("pods", f"{before.pods:,}", "", f"{after.pods:,}", ""),
    ]
    for resource in dict.fromkeys((*before.usage, *after.usage)):
        old, new = before.usage.get(resource), after.usage.get(resource)
        if resource != "pods" and any(usage is not None and usage.allocatable for usage in (old, new)):
            cells = [resource]
            for usage in (old, new):
                amounts = "" if usage is None else _amounts(resource, usage.requested, usage.allocatable)
                cells += [amounts, "" if usage is None else f"{usage.allocation:.1%}"]
            rows.append((cells[0], cells[1], cells[2], cells[3], cells[4]))
    yield from _table(rows)


def _changes(result: SimulationResult) -> Iterator[str]:
    rows = [("NODE", "PODS", "CPU", "MEMORY")]
    for each in result.changes:
        cells = [
            f"{_share(each.requested_before, each.allocatable, resource, each.pods_before)} -> "
            f"{_share(each.requested_after, each.allocatable, resource, each.pods_after)}"
            for resource in (CPU, MEMORY)
        ]
        pods = (
            f"{'-' if each.pods_before is None else each.pods_before} -> "
            f"{'-' if each.pods_after is None else each.pods_after}"
        )
        rows.append((each.node, pods, cells[0], cells[1]))
    yield from _table(rows)


def _share(requested: Mapping[str, int], allocatable: Mapping[str, int], resource: str, pods: int | None) -> str:
    offered = allocatable.get(resource, 0)
    return "-" if pods is None or not offered else f"{requested.get(resource, 0) / offered:.0%}"


def _emptied(result: SimulationResult) -> Iterator[str]:
    assert result.emptied is not None
    together, tried = result.emptied.together, result.emptied.tried
    if not tried:
        return
    if not together:
        one = "The least used node could not be emptied."
        yield one if tried == 1 else f"None of the {tried:,} least used nodes could be emptied."
        return
    yield click.style(f"{counted(len(together), 'node')} could be emptied, one after the other", bold=True)
    yield from _indented(together, _SHOWN)
    yield f"  The {'least used node was' if tried == 1 else f'{tried:,} least used nodes were'} tried (--empty)."


def each_node_report(action: str, results: Sequence[NodeResult], *, wide: bool) -> Iterator[str]:
    """The lines about draining or removing each node on its own."""
    bad = [result for result in results if not result.fits or result.blockers]
    good, blocked = len(results) - len(bad), sum(bool(result.blockers) for result in results)
    verb = "drained" if action == "drain" else "removed"
    yield click.style(
        f"{good:,} of {counted(len(results), 'node')} could be {verb} and all pods would get another node",
        bold=True,
    )
    if blocked:
        yield f"kubectl drain would not evict all pods of {counted(blocked, 'node')}"
    rows: list[Sequence[str]] = [("NODE", "MOVED", "PENDING", "PREEMPTED", "BLOCKED", "FIRST REASON")]
    shown = results if wide else bad[:_SHOWN]
    for result in shown:
        reason = result.pending[0].message if result.pending else result.blockers[0].why if result.blockers else ""
        numbers = (result.moved, len(result.pending), len(result.preempted), len(result.blockers))
        rows.append((result.node, *(f"{number:,}" for number in numbers), reason))
    if shown:
        yield from _table(rows)
    if not wide and len(bad) > _SHOWN:
        yield f"  and {len(bad) - _SHOWN:,} more"
    if not wide and len(shown) < len(results):
        yield (
            f"  {counted(good, 'node')} that could be {verb} {'is' if good == 1 else 'are'} not listed; -o wide lists "
            "all nodes"
        )


def _amounts(resource: str, requested: int, allocatable: int) -> str:
    return f"{_amount(resource, requested)} of {_amount(resource, allocatable)}"


def _amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return f"{amount / 1000:,.10g}"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return f"{amount / 2**30:,.1f} GiB"
    return f"{amount:,}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _indented(lines: Iterable[str], most: int | None) -> Iterator[str]:
    return (f"  {line}" for line in first_of(lines, most))
