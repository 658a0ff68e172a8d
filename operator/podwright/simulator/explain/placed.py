"""Explains a pod that has a node: the decision in its annotation, and how its node compares with the others now. In a
trial, the pod is removed from its node, with its claims, and decided about again. So the scores are the present ones.
The annotation has those of the time when the pod was placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import WholeNumbers
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import mapping_at
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.objects.wording import listed
from podwright.core.state.cache import Cache
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.records.decision_annotation import decision_of
from podwright.simulator.explain.causes import miss
from podwright.simulator.explain.results import Cause, Explanation, PluginScore, PodState, PolicyRef, Recorded, Scores
from podwright.simulator.explain.verdicts import Verdicts, grouped, verdicts_of
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.trial import Trial, created_anew


def explain_placed(cluster: LoadedCluster, pod: PodInfo, raw: Mapping[str, Any] | None) -> Explanation:
    """Explains a pod that has a node. `raw`: the pod's object, with the annotation. Raises PluginError and
    ProfileError.
    """
    cache = cluster.cache
    found = Explanation(kind="Pod", name=pod.key, state=PodState.PLACED, node=pod.node_name, nodes=cache.table.count)
    recorded = None if raw is None else recorded_in(raw)
    if recorded is not None:
        found = replace(found, decisions=(recorded,), policy=recorded.policy)
    policy = cluster.policies.of(pod)
    if policy is None:
        note = f"scheduler {pod.scheduler_name} placed the pod, which no policy of Podwright serves"
        return replace(found, causes=(Cause(reason="PlacedByAnother", text=note),))
    if policy.refusal:
        return replace(found, notes=(policy.refusal,))
    if found.policy is None:
        found = replace(found, policy=PolicyRef(name=policy.compiled.name, generation=policy.compiled.generation))
    found = replace(found, notes=not_asked(policy))
    if note := cluster.params_note(policy.compiled.name):
        found = replace(found, notes=(*found.notes, note))
    there = cache.placement(pod.uid)
    if there is None or there.node is None:
        if pod.phase == "Pending" and pod.start_time is None and recorded is None:
            text = (
                f"its spec names node {pod.node_name}, which does not exist: no scheduler tries the pod, and no "
                "kubelet starts it"
            )
        else:
            text = f"its node {pod.node_name} does not exist any more"
        close = did_you_mean(pod.node_name, (node.name for node in cache.table.nodes if node is not None))
        return replace(found, causes=(Cause(reason="NodeMissing", text=f"{text}{close}"),))
    with Trial(cluster) as trial:
        trial.evict((pod,))
        return _compared(policy.framework, cache, trial.with_claims(created_anew(cluster, pod, pod.name)), found)


def not_asked(policy: ActivePolicy) -> tuple[str, ...]:
    """The note that an explanation leaves the policy's extenders out; empty without extenders."""
    extenders = policy.extenders or policy.compiled.spec.extenders
    return (f"extenders are not asked: {listed(extenders)}",) if extenders else ()


def recorded_in(raw: Mapping[str, Any]) -> Recorded | None:
    """Returns the decision in the pod's annotation; None without one about this pod. Never raises, whatever the object
    contains.
    """
    decision = decision_of(raw)
    if not decision:
        return None
    runner_up = mapping_at(decision, "runnerUp")
    rejected = decision.get("rejected")
    return Recorded(
        outcome="Placed",
        policy=PolicyRef(name=str(decision.get("policy") or ""), generation=_number(decision.get("generation")) or 0),
        node=str(decision.get("node") or ""),
        score=_number(decision.get("score")),
        runner_up=str(runner_up.get("node") or ""),
        runner_up_score=_number(runner_up.get("score")),
        evaluated=_number(decision.get("nodes")) or 0,
        feasible=_number(decision.get("feasible")) or 0,
        rejected={str(key): _number(value) or 0 for key, value in rejected.items()}
        if isinstance(rejected, Mapping)
        else None,
        instance=str(decision.get("instance") or ""),
    )


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _compared(framework: Framework, cache: Cache, pod: PodInfo, found: Explanation) -> Explanation:
    verdicts = verdicts_of(framework, cache, pod)
    info = cache.present(found.node)
    assert info is not None, "the pod's node exists"
    found = replace(found, rejections=grouped(verdicts, cache), feasible=len(verdicts.feasible))
    if info.slot not in verdicts.feasible.slots:
        return replace(found, causes=(_not_any_more(framework, cache, pod, verdicts, info.slot),))
    scores = _scores(framework, cache, pod, verdicts, found.node)
    return replace(found, scores=scores, causes=(_difference(scores),))


def _not_any_more(framework: Framework, cache: Cache, pod: PodInfo, verdicts: Verdicts, row: int) -> Cause:
    status = verdicts.diagnosis.status_of(row)
    detail = ""
    if verdicts.rejects:
        detail = "; ".join(each.detail for each in miss(framework, cache, pod, verdicts, row).problems if each.detail)
    why = "" if status is None else status.message
    text = f"the pod could not be placed on its node today: {why}{f' ({detail})' if detail else ''}"
    return Cause(reason="WouldNotFitToday", text=text, plugin="" if status is None else status.plugin)


def _scores(framework: Framework, cache: Cache, pod: PodInfo, verdicts: Verdicts, node: str) -> Scores:
    names = [cache.table.names[int(slot)] for slot in verdicts.feasible.slots]
    chosen = names.index(node)
    if len(names) == 1:
        return Scores(node=node, total=None, feasible=1)
    details: dict[str, WholeNumbers] = {}
    total = framework.score(verdicts.state, pod, verdicts.feasible, details)
    others = total.copy()
    others[chosen] = np.iinfo(total.dtype).min
    second = int(np.argmax(others))
    plugins = [
        PluginScore(
            plugin=plugin,
            weight=framework.weights[plugin],
            chosen=int(scores[chosen]),
            runner_up=int(scores[second]),
        )
        for plugin, scores in details.items()
    ]
    plugins.sort(key=lambda each: (-abs(each.difference), each.plugin))
    ahead = int(total[chosen]) - int(total[second])
    return Scores(
        node=node,
        total=int(total[chosen]),
        runner_up=names[second],
        runner_up_total=int(total[second]),
        feasible=len(names),
        plugins=tuple(plugins),
        decisive=tuple(each.plugin for each in plugins if each.difference and (each.difference > 0) == (ahead >= 0)),
    )


def _difference(scores: Scores) -> Cause:
    if scores.total is None or scores.runner_up_total is None:
        return Cause(reason="OnlyNode", text=f"{scores.node} is the only node that passes all filters now")
    ahead = scores.total - scores.runner_up_total
    by = ", ".join(f"{each.plugin} {each.difference:+d}" for each in scores.plugins if each.plugin in scores.decisive)
    if not ahead:
        return Cause(reason="Tie", text=f"{scores.node} and {scores.runner_up} have the same total now, {scores.total}")
    if ahead < 0:
        text = f"today {scores.runner_up} would be better by {-ahead} ({by})"
        return Cause(reason="AnotherIsBetterToday", text=text)
    text = f"{scores.node} is ahead of {scores.runner_up} by {ahead} of {scores.total} ({by})"
    return Cause(reason="BestScore", text=text)
