"""Evaluates one pod and reports everything: the verdict on each node, each plugin's scores, the totals, preemption.

The production core decides; this module only reports its decisions in kube-scheduler's terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from podwright.core.cycle import NO_NODES, Search, find_feasible
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import CycleState, WholeNumbers
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.devices.dynamic_resources import DynamicResources
from podwright.core.preemption.evaluator import DryRun, acceptable
from podwright.core.state.cache import Cache

Expectation = dict[str, Any]
ANY_SHARE: Final = "any"


def evaluate(framework: Framework, cache: Cache, pod: PodInfo, *, preemption: bool = True) -> Expectation:
    """The `expect` of a case, as docs/evaluate.md describes it.

    Every feasible node gets scores, even if it is the only one or if the nominated node is taken. `preemption=False`
    leaves out `preemption`, but `message` still includes PostFilter's message.
    """
    state = CycleState()
    result: Expectation = {}
    try:
        if not cache.table.count:
            framework.pre_filter(state, pod)
            result["message"] = NO_NODES
            result["nodes"] = {}
        else:
            search = find_feasible(framework, cache, pod, state, take_nominated=False)
            result["nodes"] = _nodes(cache, search)
            if search.diagnosis.pre_filter is not None:
                result["prefilterStatus"] = _status(search.diagnosis.pre_filter)
            if len(search.feasible):
                result.update(_scores(framework, cache, pod, state, search))
                result.update(_allocation(framework, cache, state, min(result["best"])))
            else:
                result.update(_failure(framework, pod, state, search, preemption=preemption))
    except PluginError as error:
        result["error"] = str(error)
        result["nodes"] = {}
    if (gate := framework.pre_enqueue(pod)) is not None:
        result["preEnqueue"] = _status(gate)
    if state.skip_filter:
        result["skippedFilters"] = sorted(state.skip_filter)
    return result


def _status(status: Status) -> Expectation:
    plugin: Expectation = {"plugin": status.plugin} if status.plugin else {}
    return {**plugin, "code": status.code.text, "reasons": sorted(status.reasons)}


def _nodes(cache: Cache, search: Search) -> Expectation:
    table = cache.table
    rejected = search.diagnosis.statuses()
    nodes: Expectation = {}
    for slot in np.flatnonzero(table.valid):
        status = rejected.get(int(slot))
        if status is None:
            nodes[table.names[slot]] = {"feasible": True}
            continue
        verdict: Expectation = {
            "feasible": False,
            "plugin": status.plugin,
            "reasons": sorted(status.reasons),
            "resolvable": status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        }
        if status is search.diagnosis.absent:
            verdict["byPreFilter"] = True
        nodes[table.names[slot]] = verdict
    return dict(sorted(nodes.items()))


def _scores(framework: Framework, cache: Cache, pod: PodInfo, state: CycleState, search: Search) -> Expectation:
    details: dict[str, WholeNumbers] = {}
    total = framework.score(state, pod, search.feasible, details)
    names = [cache.table.names[slot] for slot in search.feasible.slots]
    totals = {name: int(value) for name, value in zip(names, total, strict=True)}
    highest = max(totals.values())
    result: Expectation = {
        "scores": {
            plugin: {name: int(value) for name, value in zip(names, scores, strict=True)}
            for plugin, scores in sorted(details.items())
        },
        "total": totals,
        "best": sorted(name for name, value in totals.items() if value == highest),
    }
    if state.skip_score:
        result["skippedScores"] = sorted(state.skip_score)
    if pod.nominated_node_name in totals:
        result["best"] = [pod.nominated_node_name]
        result["nominatedTaken"] = True
    return result


def _allocation(framework: Framework, cache: Cache, state: CycleState, node: str) -> Expectation:
    """`allocation`: what is written to ResourceClaims if the pod goes to this node."""
    plugin = framework.plugins.get(DynamicResources.name)
    if not isinstance(plugin, DynamicResources) or cache.devices.index.empty:
        return {}
    plan = plugin.plan(state, node)
    outcome: Expectation = {"node": node, "claims": {}, "reserved": []}
    if plan is not None:
        outcome["claims"] = {name: _without_share_ids(raw) for name, raw in plan.allocations.items()}
        outcome["reserved"] = list(plan.reserved)
        if plan.extended is not None:
            allocation = _without_share_ids(plan.extended["allocation"])
            outcome["extendedResourceClaim"] = {**plan.extended, "allocation": allocation}
        if plan.waits:
            outcome["waits"] = True
    return {"allocation": outcome}


def _without_share_ids(allocation: Mapping[str, Any]) -> Expectation:
    """A share id says nothing to the reader: it is replaced by `any`."""
    devices = dict(allocation["devices"])
    if "results" in devices:
        devices["results"] = [
            {**result, "shareID": ANY_SHARE} if "shareID" in result else result for result in devices["results"]
        ]
    return {**allocation, "devices": devices}


def _failure(framework: Framework, pod: PodInfo, state: CycleState, search: Search, *, preemption: bool) -> Expectation:
    found, status = framework.post_filter(state, pod, search.diagnosis)
    filter_message = search.diagnosis.message()
    result: Expectation = {"message": search.diagnosis.message(status.message)}
    if result["message"] != filter_message:
        result["filterMessage"] = filter_message
    if not preemption:
        return result
    outcome: Expectation = {
        "status": _status(Status(status.code, status.reasons) if status.code is Code.SUCCESS else status),
        "nominatedNode": found.nominated_node if found else "",
        "victims": [victim.key for victim in found.victims] if found else [],
    }
    if found is not None and isinstance(found.details, DryRun):
        outcome.update(_dry_run(framework, found.details))
    result["preemption"] = outcome
    return result


def _dry_run(framework: Framework, run: DryRun) -> Expectation:
    outcome: Expectation = {}
    if run.candidates:
        best = acceptable(list(run.candidates.values()), framework.handle.now())
        outcome["acceptable"] = sorted(candidate.node_name for candidate in best)
        outcome["candidates"] = {
            name: {"victims": [victim.key for victim in candidate.victims], "pdbViolations": candidate.violations}
            for name, candidate in sorted(run.candidates.items())
        }
    if run.rejected:
        outcome["notCandidates"] = {name: _status(status) for name, status in sorted(run.rejected.items())}
    return outcome


def placed_node(expectation: Mapping[str, Any]) -> str | None:
    """The node on which a sequence places the pod: the first name among the best nodes."""
    best = expectation.get("best")
    return min(best) if best else None
