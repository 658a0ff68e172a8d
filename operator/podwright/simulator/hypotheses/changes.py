"""Applies a hypothesis to a trial."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from podwright.api.scheduler_policy import KIND
from podwright.api.scheduling_queue import QUEUE_KIND
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import Raw
from podwright.core.objects.similar_names import did_you_mean
from podwright.simulator.hypotheses.hypothesis import AppliedHypothesis, Hypothesis, HypothesisError, Stopped, never
from podwright.simulator.hypotheses.node_changes import add_nodes, drain_node, remove_node
from podwright.simulator.hypotheses.pod_changes import add_pods, scale_workload
from podwright.simulator.hypotheses.queue_changes import drain_queues, with_field
from podwright.simulator.manifests import place_of
from podwright.simulator.queue_objects import queue_kind_of
from podwright.simulator.snapshot import CLAIM_TEMPLATE
from podwright.simulator.trial import Trial
from podwright.simulator.tried_policies import enforced


def apply(hypothesis: Hypothesis, trial: Trial, stopped: Stopped = never) -> AppliedHypothesis:
    """Applies the changes to the trial. Raises HypothesisError, also once `stopped` is True; the trial must then be
    ended.
    """
    applied = AppliedHypothesis(stopped=stopped)
    for index, raw in enumerate(hypothesis.policies):
        applied.go_on()
        _apply_policy(trial, raw, place_of(raw, f"policies[{index}]"))
    for name in dict.fromkeys(hypothesis.remove_policies):
        applied.go_on()
        if not trial.remove_policy(name):
            raise HypothesisError(
                f"remove-policy: there is no policy {name!r}{did_you_mean(name, trial.cluster.policy_objects)}"
            )
    for index, raw in enumerate(hypothesis.objects):
        applied.go_on()
        _set_object(trial, raw, place_of(raw, f"objects[{index}]"))
    for text in hypothesis.set_fields:
        applied.go_on()
        _set_object(trial, with_field(trial.cluster, text), f"set: {text!r}")
    drain_queues(trial, applied)
    for added in hypothesis.add_nodes:
        add_nodes(trial, added, applied)
    for name in hypothesis.remove_nodes:
        applied.go_on()
        remove_node(trial, name, applied)
    for name in dict.fromkeys(hypothesis.drain):
        applied.go_on()
        drain_node(trial, name, applied)
    for scale in hypothesis.scale:
        applied.go_on()
        scale_workload(trial, scale, applied)
    for index, raw in enumerate(hypothesis.pods):
        applied.go_on()
        add_pods(trial, raw, place_of(raw, f"pods[{index}]"), applied)
    return applied


def _apply_policy(trial: Trial, raw: Raw, where: str) -> None:
    if raw.get("kind", KIND) != KIND:
        raise HypothesisError(f"{where}: expected a {KIND}, got {raw['kind']}")
    result = trial.apply_policy(enforced(raw))
    if not result.accepted:
        raise HypothesisError(f"{where}: policy {result.name}: {result.message}")


def _set_object(trial: Trial, raw: Raw, where: str) -> None:
    kind = str(raw.get("kind") or "")
    if kind == CLAIM_TEMPLATE.kind:
        change: Callable[[Raw], None] = trial.set_claim_template
    elif kind == QUEUE_KIND or ((api := queue_kind_of(raw)) is not None and trial.cluster.queue_names.counts(api)):
        change = trial.set_queue
    elif kind in trial.cluster.stored_kinds:
        change = partial(trial.set_object, kind)
    else:
        raise HypothesisError(f"{where}: objects of kind {kind!r} cannot be tried")
    try:
        change(raw)
    except InvalidObjectError as error:
        raise HypothesisError(f"{where}: {error}") from error
