"""The report of `podwright rebalance plan` for people."""

from __future__ import annotations

from collections.abc import Iterator

import click

from podwright.core.objects.wording import counted
from podwright.core.rebalance.rules import RebalancePlan

_SHOWN_STEPS = 20


def plan_lines(plan: RebalancePlan, *, wide: bool) -> Iterator[str]:
    """The lines about a plan. `wide`: all steps."""
    nodes, domains = sum(len(step.empties) for step in plan.steps), sum(bool(step.domain) for step in plan.steps)
    rooms = sum(bool(step.makes_room) for step in plan.steps) - domains
    gangs = sum(bool(step.gang) for step in plan.steps)
    mended = sum(bool(step.mends) for step in plan.steps)
    repairs = sum(not (step.empties or step.makes_room or step.gang or step.mends) for step in plan.steps)
    if not plan.steps:
        yield click.style(f"{plan.policy}: no pod would move", bold=True)
    else:
        gains = [counted(nodes, "node") + " emptied"] if nodes else []
        gains += [f"room for {counted(rooms, 'pod')}"] if rooms else []
        gains += [f"room in {counted(domains, 'domain')}"] if domains else []
        gains += [f"room for {counted(gangs, 'pod group')}"] if gangs else []
        gains += [f"fewer fragments by {counted(mended, 'pod')}"] if mended else []
        gains += [counted(repairs, "pod") + " repaired"] if repairs else []
        what = f"{counted(len(plan.moves), 'move')}, {' and '.join(gains)}"
        yield click.style(f"{plan.policy}: {what} (plan {plan.hash})", bold=True)
    for step in plan.steps if wide else plan.steps[:_SHOWN_STEPS]:
        yield ""
        yield (
            f"{step.why} ({counted(len(step.moves), 'move')})"
            if step.empties or step.makes_room or step.gang or step.mends
            else step.why
        )
        width = max(len(move.pod) for move in step.moves)
        yield from (f"  {move.pod:<{width}}  {move.source} -> {move.target}" for move in step.moves)
    if not wide and len(plan.steps) > _SHOWN_STEPS:
        yield f"and {len(plan.steps) - _SHOWN_STEPS:,} more steps; -o wide lists them"
    if plan.held_back:
        yield ""
        yield "Held back"
        yield from (f"  {each}" for each in plan.held_back)
    if plan.exact:
        yield ""
        yield f"{plan.exact[0].upper()}{plan.exact[1:]}."
