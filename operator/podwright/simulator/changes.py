"""Applies a hypothesis to a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podwright.api.scheduler_policy import KIND
from podwright.core.objects.errors import InvalidObjectError
from podwright.simulator.hypothesis import Applied, Hypothesis, HypothesisError
from podwright.simulator.manifests import place_of
from podwright.simulator.node_changes import add_nodes, drain_node, remove_node
from podwright.simulator.pod_changes import add_pods, scale_workload
from podwright.simulator.trial import Trial

Raw = Mapping[str, Any]


def apply(hypothesis: Hypothesis, trial: Trial) -> Applied:
    """Applies the changes to the trial. Raises HypothesisError; then leave the trial."""
    applied = Applied()
    for index, raw in enumerate(hypothesis.policies):
        _apply_policy(trial, raw, place_of(raw, f"policies[{index}]"))
    for index, raw in enumerate(hypothesis.objects):
        _set_object(trial, raw, place_of(raw, f"objects[{index}]"))
    for added in hypothesis.add_nodes:
        add_nodes(trial, added, applied)
    for name in hypothesis.remove_nodes:
        remove_node(trial, name, applied)
    for name in hypothesis.drain:
        drain_node(trial, name, applied)
    for scale in hypothesis.scale:
        scale_workload(trial, scale, applied)
    for index, raw in enumerate(hypothesis.pods):
        add_pods(trial, raw, place_of(raw, f"pods[{index}]"), applied)
    return applied


def _apply_policy(trial: Trial, raw: Raw, where: str) -> None:
    if raw.get("kind", KIND) != KIND:
        raise HypothesisError(f"{where}: expected a {KIND}, got {raw['kind']}")
    result = trial.apply_policy(raw)
    if not result.accepted:
        raise HypothesisError(f"{where}: policy {result.name}: {result.message}")


def _set_object(trial: Trial, raw: Raw, where: str) -> None:
    kind = str(raw.get("kind") or "")
    if kind not in trial.cluster.stored_kinds:
        raise HypothesisError(f"{where}: kind {kind!r} does not matter to scheduling")
    try:
        trial.set_object(kind, raw)
    except InvalidObjectError as error:
        raise HypothesisError(f"{where}: {error}") from error
