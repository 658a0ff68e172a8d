"""Explains one pod. Start here.

finished, placed, terminating? ─► who decides? ─► is it gated? ─► verdicts of all filters on all nodes
    ─► causes, changes
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

from podwright.core.cycle import Placement, always_first, schedule
from podwright.core.framework.errors import PluginError
from podwright.core.framework.explaining import Raw
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import condition_of
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.objects.wording import counted, listed
from podwright.core.plugins.scheduling_gates import is_field
from podwright.core.preemption.evaluator import DryRun
from podwright.core.preemption.units import may_evict
from podwright.core.state.cache import Cache
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.simulator.explain.causes import causes_of, miss, why_nowhere
from podwright.simulator.explain.changes.device_repairs import fails_selector, of_failing_selectors
from podwright.simulator.explain.changes.entering import entering
from podwright.simulator.explain.changes.search import DEVICES, ChangeSearch, after, tried
from podwright.simulator.explain.changes.trials import Trials
from podwright.simulator.explain.events import events_for
from podwright.simulator.explain.groups import explain_member
from podwright.simulator.explain.held_room import held_room
from podwright.simulator.explain.placed import explain_placed, not_asked
from podwright.simulator.explain.queue_causes import standing
from podwright.simulator.explain.results import (
    Cause,
    Change,
    Explanation,
    PodState,
    PolicyRef,
    PreemptionFound,
    victims_of,
)
from podwright.simulator.explain.start import start_of
from podwright.simulator.explain.verdicts import Verdicts, grouped, verdicts_of
from podwright.simulator.hypotheses.hypothesis import Stopped, never
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.snapshot import CLAIM_TEMPLATE

_MOST_TRIED: Final = 8
"""How many changes are named that do not help."""
_NEXT: Final = ": the next attempt places it"
NEAREST: Final = 5
"""How many of the nearest nodes are described."""


def explain_pod(
    cluster: LoadedCluster,
    pod: PodInfo,
    *,
    changes: bool = True,
    raw: Mapping[str, Any] | None = None,
    stopped: Stopped = never,
) -> Explanation:
    """Why the pod waits, or why it is on its node. `changes`: whether to search for changes that would help. `raw`: the
    object of a placed pod.

    `stopped` is asked before each trial of a change; once it is True, only those that were found are in the
    explanation.

    Raises PluginError and ProfileError.
    """
    if pod.node_name and not pod.finished and not pod.terminating:
        return explain_placed(cluster, pod, raw)
    pod = cluster.joined(pod, cluster.cache.set_object)
    trials = Trials(cluster, stopped) if changes else None
    found = _explained(cluster, pod, trials)
    if trials and not found.changes and found.state in (PodState.IGNORED, PodState.GATED, PodState.WAITS_FOR_POLICY):
        found = _entered(trials, pod, found)
    if trials and not found.changes and not trials.cut_short and trials.tried:
        tried_texts = listed([*trials.tried], _MOST_TRIED)
        found = replace(found, notes=(*found.notes, f"nothing found that helps; tried: {tried_texts}"))
    if trials and trials.cut_short:
        found = replace(found, notes=(*found.notes, "there was no time to try everything that could help"))
    return found


def _entered(trials: Trials, pod: PodInfo, found: Explanation) -> Explanation:
    """Adds the changes with which the scheduler tries the pod. If these are not enough, also adds the obstacles that
    would remain, and changes that would then help.
    """
    options = [*entering(trials.cluster, pod)]
    changes = tuple(trials.in_time(_enough(trials, pod, options)))
    if changes or trials.cut_short:
        return replace(found, changes=changes)
    for text, raw in options[:1]:
        then = _explained(trials.cluster, trials.cluster.parsed(raw), trials)
        if then.state is PodState.PENDING:
            changes = tuple(after(change, pod, text, raw) for change in then.changes)
            return replace(found, causes=(*found.causes, *then.causes), nearest=then.nearest, changes=changes)
    return found


def _enough(trials: Trials, pod: PodInfo, options: Iterable[tuple[str, Raw]]) -> Iterable[Change]:
    """The first of these changes that places the pod."""
    for text, raw in options:
        change = tried(trials, pod, text, raw)
        if change is not None:
            yield change
            return


def _explained(cluster: LoadedCluster, pod: PodInfo, trials: Trials | None) -> Explanation:
    found = Explanation(kind="Pod", name=pod.key, state=PodState.PENDING, nodes=cluster.cache.table.count)
    if pod.finished:
        cause = Cause(reason="Finished", text=f"the pod has ended ({pod.phase})")
        return replace(found, state=PodState.FINISHED, node=pod.node_name, causes=(cause,))
    if pod.terminating:
        return replace(found, state=PodState.TERMINATING, causes=(_terminating(pod),))
    policy = cluster.policies.of(pod)
    if policy is None:
        return replace(found, state=PodState.IGNORED, causes=(_not_served(cluster, pod),))
    return explain_under(policy, cluster, pod, trials)


def explain_under(policy: ActivePolicy, cluster: LoadedCluster, pod: PodInfo, trials: Trials | None) -> Explanation:
    """Why a pending pod waits under this policy. `trials`: tries changes; None: no changes are searched for. If a
    plugin fails, that is the cause, and nothing is raised.
    """
    compiled = policy.compiled
    reference = None if compiled.misnamed else PolicyRef(name=compiled.name, generation=compiled.generation)
    found = Explanation(
        kind="Pod", name=pod.key, state=PodState.PENDING, nodes=cluster.cache.table.count, policy=reference
    )
    found = replace(found, notes=not_asked(policy))
    if note := cluster.params_note(compiled.name):
        found = replace(found, notes=(*found.notes, note))
    if policy.refusal:
        if unusable := cluster.accepted_by_operator.get(compiled.name):
            text = f"policy {compiled.name}, generation {compiled.generation}, cannot be used: {unusable}"
            return replace(found, causes=(Cause(reason="PolicyUnusable", text=text),))
        cause = Cause(reason="PolicyNotAccepted", text=f"the pod waits because {policy.why_waits(pod)}")
        return replace(found, state=PodState.WAITS_FOR_POLICY, causes=(cause,))
    try:
        tried_now = _tried(policy.framework, cluster, pod, found, trials)
        if trials and tried_now.state is PodState.PENDING and not trials.cut_short:
            tried_now = replace(tried_now, start=start_of(cluster, policy.framework, pod))
        extenders = policy.extenders or compiled.spec.extenders
        conditions = [f"extender {name} agrees" for name in extenders]
        if cluster.lacks_groups_of(pod):
            conditions.append(f"its PodGroup {pod.group.partition(':')[2]}, which could not be read, lets it")
        return _only_if(tried_now, conditions, pod) if conditions else tried_now
    except PluginError as error:
        changes: Iterable[Change] = ()
        reason, text = "PluginFailed", f"a plugin of policy {policy.compiled.name} fails: {error}"
        if error.plugin == DEVICES and fails_selector(error.problem):
            reason, text = "DeviceSelectorFails", error.problem
            if trials and pod.raw:
                repairs = of_failing_selectors(cluster.cache, pod, error.problem)
                changes = islice(trials.in_time(trials.helping(pod, repairs)), 1)
        cause = Cause(reason=reason, text=text, plugin=error.plugin)
        return replace(found, causes=(cause,), message=str(error), changes=tuple(changes))


def _tried(
    framework: Framework, cluster: LoadedCluster, pod: PodInfo, found: Explanation, trials: Trials | None
) -> Explanation:
    if pod.group and not pod.gates and cluster.cache.groups.is_member(pod):
        return explain_member(cluster, framework, pod, found, trials)
    gate = framework.pre_enqueue(pod)
    if gate is not None:
        cause = why_nowhere(framework, pod, gate, 0, gated=_gated(pod, gate.message))
        missing = [each for each in pod.resource_claims if each.template and each.name not in pod.generated_claims]
        if cause.reason == "DeviceClaimMissing" and missing:
            cause = replace(cause, text=_without_template(cluster, pod, missing[0].template) or cause.text)
        events = events_for(framework, (gate.plugin,))
        return replace(found, state=PodState.GATED, causes=(cause,), message=gate.message, events=events)
    return _decided(cluster, framework, pod, found, trials)


def _decided(
    cluster: LoadedCluster, framework: Framework, pod: PodInfo, found: Explanation, trials: Trials | None
) -> Explanation:
    cache = cluster.cache
    if not cache.table.count:
        cause = Cause(reason="NoNodes", text="the cluster has no nodes")
        return replace(found, causes=(cause,), message="no nodes available to schedule pods")
    verdicts = verdicts_of(framework, cache, pod)
    if len(verdicts.feasible):
        return _fits(cache, pod, verdicts, found)
    groups = grouped(verdicts, cache)
    nearest = tuple(miss(framework, cache, pod, verdicts, row) for row in verdicts.nearest(NEAREST))
    causes = causes_of(framework, cache, pod, verdicts, groups)
    preemption, message = _preemption(framework, pod, verdicts)
    waiting = _waits_for_victims(cache, pod)
    held = held_room(cluster, partial(_without_reservations, framework, cache, pod))
    others = map(str, cluster.queue_names.standing_by(cluster.queues.queue_of(pod)))
    notes = (*found.notes, *standing(cluster.queues, pod), *others)
    search = ChangeSearch(trials, framework, pod, verdicts) if trials and not waiting and pod.raw else None
    return replace(
        found,
        causes=(*(each for each in (waiting, held) if each), *causes),
        message=message,
        notes=notes,
        rejections=groups,
        nearest=nearest,
        preemption=preemption,
        events=events_for(framework, {group.plugin for group in groups}),
        changes=search.changes() if search else (),
    )


# What keeps a pod from being scheduled at all


def _terminating(pod: PodInfo) -> Cause:
    if pod.node_name:
        return Cause(reason="Terminating", text=f"the pod is being deleted, and ends on {pod.node_name}")
    return Cause(reason="Terminating", text="the pod is being deleted, so it is not scheduled any more")


def _not_served(cluster: LoadedCluster, pod: PodInfo) -> Cause:
    served = sorted(cluster.policies.policy_set.scheduler_names)
    text = (
        f"no policy serves its scheduler name {pod.scheduler_name!r}"
        f"{did_you_mean(pod.scheduler_name, served) or f': served are {listed(served)}'}"
    )
    return Cause(reason="SchedulerNameNotServed", text=text)


def _without_template(cluster: LoadedCluster, pod: PodInfo, name: str) -> str:
    """Says that the ResourceClaimTemplate does not exist, as far as the snapshot has templates; "" if it does."""
    names = [own for namespace, own in cluster.claim_templates if namespace == pod.namespace]
    if name in names or CLAIM_TEMPLATE.kind in cluster.missing:
        return ""
    return f"its ResourceClaimTemplate {pod.namespace}/{name} does not exist{did_you_mean(name, names)}"


def _gated(pod: PodInfo, message: str) -> str:
    if pod.gates and not is_field(pod.gates[-1]):
        return f"scheduling gates hold it back: {listed(pod.gates)}; their author has to remove them"
    return message


# A pod that the scheduler tries


def _fits(cache: Cache, pod: PodInfo, verdicts: Verdicts, found: Explanation) -> Explanation:
    names = [cache.table.names[int(slot)] for slot in verdicts.feasible.slots[:3]]
    count = len(verdicts.feasible)
    nominated = cache.nominator.node_of(pod.uid) or pod.nominated_node_name
    text = f"it fits on {counted(count, 'node')} now ({listed(names)}){_NEXT}"
    if nominated and nominated in cache.table.names:
        text += f"; it is nominated to {nominated}"
    cause = Cause(reason="FitsNow", text=text)
    return replace(found, state=PodState.FITS, causes=(cause,), feasible=count)


def _only_if(found: Explanation, conditions: Sequence[str], pod: PodInfo) -> Explanation:
    """The explanation with these conditions in place of the promise that the next attempt places the pod, and with what
    the last attempt said.
    """
    if found.state is not PodState.FITS:
        return found
    text = f", if {' and '.join(conditions)}"
    causes = tuple(replace(cause, text=cause.text.replace(_NEXT, text)) for cause in found.causes)
    last = _last_failure(pod)
    return replace(
        found, causes=causes, notes=(*found.notes, f"its last attempt failed: {last}") if last else found.notes
    )


def _last_failure(pod: PodInfo) -> str:
    """Returns the message of the condition PodScheduled; "" unless the condition is False."""
    condition = condition_of(pod.raw, "PodScheduled")
    return str(condition.get("message") or "") if condition.get("status") == "False" else ""


def _waits_for_victims(cache: Cache, pod: PodInfo) -> Cause | None:
    """The pod has preempted, and its victims have not ended."""
    nominated = cache.present(cache.nominator.node_of(pod.uid) or pod.nominated_node_name)
    if nominated is None:
        return None
    going = [
        other.key
        for other in nominated.pods.values()
        if other.terminating and may_evict(pod, pod.priority, other, cache)
    ]
    if not going:
        return None
    text = (
        f"it has preempted, is nominated to {nominated.name}, and waits there until {listed(going)} {_has(going)} ended"
    )
    return Cause(reason="WaitsForPreemption", text=text, nodes=1)


def _without_reservations(framework: Framework, cache: Cache, pod: PodInfo) -> Collection[str]:
    """The node that the pod would get."""
    decision = schedule(framework, cache, pod, always_first, preempt=False)
    return (decision.node_name,) if isinstance(decision, Placement) else ()


def _has(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _preemption(framework: Framework, pod: PodInfo, verdicts: Verdicts) -> tuple[PreemptionFound | None, str]:
    """The result of PostFilter, and the message of the event FailedScheduling."""
    diagnosis = verdicts.diagnosis
    if not framework.post_filter_plugins:
        return None, diagnosis.message()
    result, status = framework.post_filter(verdicts.state, pod, diagnosis)
    found = PreemptionFound(
        message=status.message.removeprefix("preemption: "),
        node=result.nominated_node if result else "",
        victims=victims_of(result.victims) if result else (),
        violations=result.violations if result else 0,
        candidates=len(result.details.candidates) if result and isinstance(result.details, DryRun) else 0,
    )
    return found, diagnosis.message(status.message)
