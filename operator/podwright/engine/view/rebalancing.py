"""The RebalancePolicies: the last plan of each, what has become of it, and its picture.

Every viewer sees policies, numbers and nodes. Moves are shown to those who may see their pods; texts, which may name
any pod, to those who may see all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from podwright.core.objects.resources import CPU
from podwright.core.rebalance.rules import RebalanceRules, Step
from podwright.engine.process.steps import Steps
from podwright.engine.rebalance.rebalancing import Progress, Rebalancing
from podwright.engine.view.nodes import MOST_RESOURCES, RACK_LABELS
from podwright.engine.view.rebalance_picture import PictureOptions, picture_of

MOST_POLICIES: Final = 200
MOST_MOVES: Final = 200
MOST_REASONS: Final = 50
MOST_NODES: Final = 1000
"""How many nodes a picture has."""
POLICIES_A_STEP: Final = 5
LONGEST: Final = 300
"""Characters of a text."""

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlanRow:
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
    names, rows = sorted(rebalancing.names()), list[PlanRow]()
    for number, name in enumerate(names[:MOST_POLICIES], start=1):
        if (rules := rebalancing.get(name)) is not None:
            rows.append(_row(rebalancing, rules))
        if number % POLICIES_A_STEP == 0:
            yield
    return PlanRows(tuple(rows), len(names))


def about_plan(
    rebalancing: Rebalancing,
    name: str,
    shows: Callable[[str], bool],
) -> Steps[Answer]:
    """The last plan of a policy, empty if there is no policy. `shows`: whether the pods of a namespace are shown by name,
    "" for those of all.
    """
    rules = rebalancing.get(name)
    if rules is None:
        return {}
    row, progress = _row(rebalancing, rules), rebalancing.progress(name)
    found: Answer = {
        "name": name,
        "state": row.state,
        "conflict": rebalancing.conflict(name)[:LONGEST],
        "goals": [[goal, weight] for goal, weight in rules.weights.items()],
        "recent": sum(moves for _, moves in rebalancing.recent(name)),
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
        "time": progress.time,
        "gain": row.gain,
        "gained": row.gained,
        "moves": row.moves,
        "moved": row.moved,
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
    progress = rebalancing.progress(name)
    if progress is None:
        return ""
    options = PictureOptions(resource, RACK_LABELS, MOST_NODES, progress.moved, style="")
    return (yield from picture_of(rebalancing.cache, progress.plan, rebalancing.waiting_pod, options))


def _row(rebalancing: Rebalancing, rules: RebalanceRules) -> PlanRow:
    progress = rebalancing.progress(rules.name)
    state: str = rules.mode
    if rebalancing.conflict(rules.name):
        state = "Conflict"
    elif rebalancing.is_closed(rules.name):
        state = "Closed"
    if progress is None:
        return PlanRow(rules.name, state, None, 0, 0, 0, 0, ended=False)
    plan = progress.plan
    moves = sum(len(step.moves) for step in plan.steps)
    return PlanRow(
        rules.name,
        state,
        progress.time,
        plan.gain,
        progress.gained,
        moves,
        len(progress.moved),
        ended=bool(progress.ended),
    )


def _moves(step: Step, progress: Progress, shows: Callable[[str], bool], most: int) -> Iterator[tuple[str, ...]]:
    """Of the first moves: namespace, pod, its node, the node that it goes to, and whether it has moved."""
    for move in step.moves[:most]:
        namespace, _, pod = move.pod.partition("/")
        if shows(namespace):
            yield namespace, pod, move.source, move.target, "moved" if move.uid in progress.moved else ""
