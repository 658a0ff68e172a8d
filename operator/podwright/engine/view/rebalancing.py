"""The RebalancePolicies: the last plan of each, its progress, and its picture.

Every viewer sees policies, numbers and nodes. Moves are shown to those who may see their pods; texts, which may name
any pod, to those who may see all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.resources import CPU
from podwright.core.rebalance.rules import Step
from podwright.engine.process.steps import Steps
from podwright.engine.rebalance.rebalancing import KnownPolicy, Progress, Rebalancing
from podwright.engine.view.nodes import MOST_RESOURCES, RACK_LABELS
from podwright.engine.view.rebalance_picture import PictureOptions, picture_of

MOST_POLICIES: Final = 200
MOST_MOVES: Final = 200
MOST_REASONS: Final = 50
MOST_NODES: Final = 1000
"""How many nodes a picture has."""
LONGEST: Final = 300
"""Characters of a text."""

Answer = dict[str, Any]


class PlanRow(NamedTuple):
    """A policy in short. `state`: Plan, Enforce, Stop, Closed (no window is open), or Conflict. `time`: when the last
    plan was made, in seconds since the epoch; None before the first. `ended`: it ended before all was moved.
    """

    name: str
    state: str
    time: float | None
    gain: int
    gained: int
    moves: int
    moved: int
    ended: bool


@dataclass(frozen=True, slots=True)
class PlanRows:
    """The first MOST_POLICIES by name. `count`: how many there are."""

    rows: tuple[PlanRow, ...]
    count: int


def plan_rows(rebalancing: Rebalancing) -> Steps[PlanRows]:
    """Reads all policies."""
    names, rows = sorted(rebalancing.known), list[PlanRow]()
    for name in names[:MOST_POLICIES]:
        if (known := rebalancing.known.get(name)) is not None:
            rows.append(_row(rebalancing, known))
        yield
    return PlanRows(tuple(rows), len(names))


def about_plan(
    rebalancing: Rebalancing,
    name: str,
    shows: Callable[[str], bool],
) -> Steps[Answer]:
    """The last plan of a policy, empty without such a policy. `shows`: whether the pods of a namespace are shown by
    name, "" for those of all.
    """
    known = rebalancing.known.get(name)
    if known is None:
        return {}
    rules, progress, row = known.rules, known.progress, _row(rebalancing, known)
    found: Answer = {
        "name": name,
        "state": row.state,
        "conflict": rebalancing.conflict(name)[:LONGEST],
        "goals": [[goal, weight] for goal, weight in rules.weights.items()],
        "recent": rebalancing.count_recent(known),
        "maxMoves": rules.max_moves,
    }
    if progress is None:
        return found
    plan = progress.plan
    steps, listed = list[Answer](), 0
    resources = dict[str, None]()
    for step in plan.steps:
        moves = [*_moves(step, progress, shows, MOST_MOVES - listed)]
        if moves:
            listed += len(moves)
            hidden = step.gang and not shows(step.gang.partition(":")[2].partition("/")[0])
            why = "makes room for a pod group" if hidden else step.why
            steps.append({"why": why[:LONGEST], "gain": step.gain, "count": len(step.moves), "moves": moves})
        for move in step.moves:
            resources.update(dict.fromkeys(move.requests))
        yield
    found |= {
        **{each: getattr(row, each) for each in ("time", "gain", "gained", "moves", "moved")},
        "steps": steps,
        "unlisted": row.moves - listed,
        "resources": sorted(resources, key=lambda each: ("/" not in each, each != CPU, each))[:MOST_RESOURCES],
    }
    if shows(""):
        found["ended"] = progress.ended[:LONGEST]
        found["hash"] = plan.hash
        found["exact"] = plan.exact[:LONGEST]
        found["heldBack"] = [str(each)[:LONGEST] for each in plan.held_back[:MOST_REASONS]]
    return found


def plan_picture(rebalancing: Rebalancing, name: str, resource: str) -> Steps[str]:
    """The picture of the last plan of a policy, as SVG without a style; "" without a plan."""
    known = rebalancing.known.get(name)
    if known is None or (progress := known.progress) is None:
        return ""
    options = PictureOptions(resource, RACK_LABELS, MOST_NODES, progress.moved, style="")
    return (yield from picture_of(rebalancing.cache, progress.plan, rebalancing.waiting_pod, options))


def _row(rebalancing: Rebalancing, known: KnownPolicy) -> PlanRow:
    name, state, progress = known.rules.name, rebalancing.state_of(known.rules), known.progress
    if progress is None:
        return PlanRow(name, state, None, 0, 0, 0, 0, ended=False)
    gain, moves, moved = progress.plan.gain, len(progress.plan.moves), len(progress.moved)
    return PlanRow(name, state, progress.time, gain, progress.gained, moves, moved, ended=bool(progress.ended))


def _moves(step: Step, progress: Progress, shows: Callable[[str], bool], most: int) -> Iterator[tuple[str, ...]]:
    """Yields for the first moves: namespace, pod, its node, the node that it goes to, and whether it has moved."""
    for move in step.moves[:most]:
        namespace, _, pod = move.pod.partition("/")
        if shows(namespace):
            yield namespace, pod, move.source, move.target, "moved" if move.uid in progress.moved else ""
