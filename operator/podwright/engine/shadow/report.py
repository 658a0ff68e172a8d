"""The findings of the policies in shadow mode, for /debug/shadow, one policy in a step. Bounded, as the tallies are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from podwright.engine.process.steps import Steps
from podwright.engine.shadow.comparison import ShadowComparison
from podwright.engine.shadow.shadow import Shadow
from podwright.engine.shadow.tally import AgreementStats, Disagreement, Skip
from podwright.engine.shadow.used_nodes import ClusterUsage
from podwright.engine.shadow.worlds import Worlds

Report = dict[str, Any]


def reports(shadow: Shadow, name: str = "") -> Steps[Report]:
    """Reports on the policies in shadow mode. `name`: of one policy, "" for all; the answer is empty if it is not in
    shadow mode.

    An instance that does not decide, because another one leads, says so (`standby`).
    """
    if not shadow.deciding:
        return {"policies": [], "waiting": 0, "standby": True}
    unplaced = yield from shadow.unplaced.counts()
    found: list[Report] = []
    for tally in shadow.tallies:
        if name in ("", tally.name):
            groups = [shadow.groups.placed_text(key) for key in tally.groups if shadow.groups.placed(key)]
            found.append({**_report(tally, unplaced), "groups": groups, "world": _world(shadow.worlds, tally)})
            yield
    return {"policies": found, "waiting": shadow.waiting} if found or not name else {}


def _report(tally: AgreementStats, unplaced: Mapping[tuple[str, str], int]) -> Report:
    compiled = tally.policy.compiled
    return {
        "name": compiled.name,
        "generation": compiled.generation,
        "schedulerName": compiled.spec.scheduler_name,
        "since": tally.since,
        "agreement": tally.agreement,
        "outcomes": tally.counts(),
        "onlyChoice": tally.only_choice,
        "changed": tally.changed,
        "skipped": {why.value: tally.skipped[why] for why in Skip if tally.skipped[why]},
        "unplaced": {verdict: unplaced.get((compiled.name, verdict), 0) for verdict in ("fits", "waits")},
        "disagreements": [_disagreement(each) for each in reversed(tally.disagreements)],
    }


def _world(worlds: Worlds, tally: AgreementStats) -> Report:
    """How the cluster is used, and how it would be used if all decisions of the policy had been carried out."""
    world, usage = worlds.of(tally), worlds.usage(tally)
    if world is None or usage is None:
        return {"missing": worlds.why_missing(tally) or "it is about to be made"}
    return {**asdict(world.counts), "cluster": _usage(usage[0]), "shadow": _usage(usage[1])}


def _usage(usage: ClusterUsage) -> Report:
    return {
        "nodes": usage.nodes,
        "inUse": usage.in_use,
        "allocated": usage.allocated,
        "utilisation": usage.utilisation,
    }


def _disagreement(found: Disagreement) -> Report:
    return {
        "pod": found.pod,
        "at": found.at,
        "scheduler": found.scheduler,
        "outcome": found.comparison.outcome.value,
        "ours": _ours(found.comparison),
        "theirs": _present(
            node=found.theirs,
            message=found.their_message,
            score=found.comparison.their_score,
            why=found.comparison.their_why,
        ),
        "plugins": [asdict(pair) for pair in found.comparison.plugins],
        "changes": found.changes,
    }


def _ours(comparison: ShadowComparison) -> Report:
    return _present(
        node=comparison.node,
        score=comparison.score,
        why=comparison.why,
        evaluated=comparison.evaluated,
        feasible=comparison.feasible,
    )


def _present(**values: Any) -> Report:
    """The values that are known."""
    return {key: value for key, value in values.items() if value is not None and value != ""}
