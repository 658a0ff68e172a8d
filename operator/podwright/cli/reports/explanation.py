"""The report of `podwright explain` for people: why the pod waits, which plugins rejected nodes, and what would
help.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from podwright.cli.reports.console import open_table
from podwright.cli.reports.queues import queue_resources, queue_table
from podwright.core.objects.wording import counted
from podwright.simulator.explain.results import (
    Change,
    Explanation,
    PodState,
    PolicyRef,
    PreemptionFound,
    QueuePlace,
    Recorded,
    Scores,
    SharedCause,
    WorkloadExplanation,
)

_NODES_SHOWN: Final = 5
_CAUSES_SHOWN: Final = 4
_GOOD: Final = frozenset((PodState.PLACED, PodState.FITS, PodState.FINISHED))


def report(found: Explanation | WorkloadExplanation, *, wide: bool) -> Iterator[RenderableType]:
    """The parts of the report. `wide`: with the nearest nodes, the events, all scores and the message of the
    scheduler's event.
    """
    return _workload(found, wide=wide) if isinstance(found, WorkloadExplanation) else _pod(found, wide=wide)


# Workloads


def _workload(found: WorkloadExplanation, *, wide: bool) -> Iterator[RenderableType]:
    yield Text.assemble((f"{found.kind.lower()} {found.name}", "bold"))
    lines = [("pods", f"{found.pods}: {found.placed} placed, {found.waiting} waiting")]
    if found.nodes:
        shown = [f"{count} on {node}" for node, count in list(found.nodes.items())[:_NODES_SHOWN]]
        more = len(found.nodes) - len(shown)
        lines.append(("nodes", ", ".join(shown) + (f" and {counted(more, 'more node')}" if more > 0 else "")))
    lines += [("why", f"{_pods_of(each)}: {each.text}") for each in found.causes]
    lines += [("note", note) for note in found.notes]
    yield _fields(lines)
    if found.queue:
        yield ""
        yield queue_table(found.queue, queue_resources(found.queue))
    if found.first is not None:
        yield ""
        yield from _pod(found.first, wide=wide)


# Pods


def _pod(found: Explanation, *, wide: bool) -> Iterator[RenderableType]:
    colour = "green" if found.state in _GOOD else "yellow"
    yield Text.assemble((f"{found.kind.lower()} {found.name}", "bold"), "  ", (found.state.value, colour))
    yield _fields(_facts(found, wide=wide))
    if found.scores is not None and found.scores.plugins:
        yield ""
        yield _score_table(found.scores, wide=wide)
    if found.rejections:
        yield ""
        yield _rejection_table(found)
    if wide and found.nearest:
        yield ""
        yield _nearest_table(found)
    if found.changes:
        yield ""
        yield _change_table(found.changes)


def _facts(found: Explanation, *, wide: bool) -> Iterable[tuple[str, str]]:
    for index, cause in enumerate(found.causes[: None if wide else _CAUSES_SHOWN]):
        yield "also" if index else "why", cause.text
    if found.node:
        yield "node", found.node
    if found.policy is not None:
        yield "policy", _policy(found.policy)
    if found.nodes and (found.rejections or found.feasible):
        yield "nodes", f"{found.feasible:,} of {found.nodes:,} are feasible"
    if found.preemption is not None and (found.preemption.node or wide):
        yield "preemption", _preemption(found.preemption)
    if found.queue is not None:
        yield "queue", _queue(found.queue)
    for decision in found.decisions:
        yield "decided", _decision(decision)
    if found.start is not None:
        yield "could start", found.start.text
    if found.events and found.state not in _GOOD:
        shown = found.events if wide else found.events[:_NODES_SHOWN]
        yield "retried when", ", or ".join(shown) + (", …" if len(shown) < len(found.events) else "")
    if wide and found.message:
        yield "message", found.message
    for note in found.notes:
        yield "note", note


def _pods_of(cause: SharedCause) -> str:
    if cause.examples:
        return f"{counted(cause.pods, 'pod')} ({', '.join(cause.examples)})"
    return f"{counted(cause.pods, 'pod')} more" if cause.pods else "further pods"


def _policy(policy: PolicyRef) -> str:
    return f"{policy.name}, generation {policy.generation}" if policy.generation else policy.name


def _fields(pairs: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, Text(value))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _rejection_table(found: Explanation) -> RenderableType:
    table = open_table("REJECTED BY", "REASON", "NODES", "NEAREST")
    table.columns[2].justify = "right"
    for each in found.rejections:
        table.add_row(each.plugin, Text(each.reason), f"{each.nodes:,}", ", ".join(each.examples))
    return table


def _nearest_table(found: Explanation) -> RenderableType:
    table = open_table("NEAREST NODE", "WHAT IS IN THE WAY")
    for miss in found.nearest:
        texts = [f"{each.plugin}: {each.detail or each.reason}" for each in miss.problems]
        table.add_row(miss.node, Text("; ".join(texts)))
    return table


def _change_table(changes: Sequence[Change]) -> RenderableType:
    table = open_table("CHANGE OF", "WHAT WOULD HELP", "THEN ON")
    for change in changes:
        after = f"{change.node}, after preemption" if change.after_preemption else change.node
        table.add_row(change.of, Text(change.text, style="green"), after)
    return Group(table, Text("Each change was proved by a decision on a copy of the cluster.", style="dim"))


def _score_table(scores: Scores, *, wide: bool) -> RenderableType:
    table = open_table("SCORE OF", "WEIGHT", scores.node, scores.runner_up, "DIFFERENCE")
    for column in table.columns[1:]:
        column.justify = "right"
    for each in scores.plugins:
        if each.difference or wide:
            difference = Text(f"{each.difference:+d}", style="green" if each.plugin in scores.decisive else "")
            table.add_row(each.plugin, str(each.weight), str(each.chosen), str(each.runner_up), difference)
    if scores.total is not None and scores.runner_up_total is not None:
        ahead = scores.total - scores.runner_up_total
        table.add_row("all", "", str(scores.total), str(scores.runner_up_total), f"{ahead:+d}", style="bold")
    return table


def _preemption(found: PreemptionFound) -> str:
    if not found.node:
        return found.message
    victims = ", ".join(f"{victim.pod} (priority {victim.priority})" for victim in found.victims[:_NODES_SHOWN])
    broken = f"; {counted(found.violations, 'eviction')} would break a PodDisruptionBudget" if found.violations else ""
    return f"would evict {counted(len(found.victims), 'pod')} on {found.node}: {victims}{broken}"


def _queue(place: QueuePlace) -> str:
    parts = [place.place, counted(place.attempts, "attempt"), f"waiting for {place.waited:.0f} s"]
    if place.ahead is not None:
        parts.append(f"{counted(place.ahead, 'pod')} before it")
    if place.tried_in is not None:
        parts.append("tried next" if place.tried_in <= 0 else f"tried again within {place.tried_in:.0f} s")
    if place.gated_by:
        parts.append(f"gated by {place.gated_by}")
    if place.costly:
        parts.append("in the lane of costly pods")
    return ", ".join(parts)


def _decision(decision: Recorded) -> str:
    parts = []
    if decision.at:
        parts.append(f"{decision.at}:")
    if decision.node:
        score = "" if decision.score is None else f", score {decision.score}"
        parts.append(f"{decision.node}{score}")
    if decision.runner_up:
        parts.append(f"before {decision.runner_up} with {decision.runner_up_score}")
    if decision.evaluated:
        parts.append(f"({decision.feasible:,} of {decision.evaluated:,} nodes feasible)")
    if decision.rejected:
        rejected = ", ".join(f"{count:,} by {plugin}" for plugin, count in decision.rejected.items())
        parts.append(f"rejected: {rejected}")
    if decision.message:
        parts.append(decision.message)
    return " ".join(parts)
