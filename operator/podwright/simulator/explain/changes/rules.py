"""A policy without one of its filter rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from podwright.api.scheduler_policy import KIND
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw, value_at
from podwright.simulator.explain.changes.trials import ClusterChange
from podwright.simulator.explain.results import Edit
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.trial import Trial

RULES_TRIED: Final = 6


def without_rule(cluster: LoadedCluster, pod: PodInfo) -> Iterator[ClusterChange]:
    """The SchedulerPolicy of the pod without each of its filter rules in turn."""
    policy = cluster.policies.of(pod)
    raw = None if policy is None else cluster.policy_objects.get(policy.compiled.name)
    if raw is None:
        return
    policy_name = str(raw["metadata"]["name"])
    for name, spec in islice(_without_each(raw["spec"]), RULES_TRIED):
        edit = Edit(verb="patch", kind=KIND, name=policy_name, object={"spec": {"rules": spec["rules"]}})
        text = f"take the rule {name} out of policy {policy_name}"
        yield ClusterChange(text, (edit,), partial(_apply, {**raw, "spec": spec}))


def _apply(raw: Raw, trial: Trial) -> None:
    result = trial.apply_policy(raw)
    if not result.accepted:
        raise InvalidObjectError("spec.rules", result.message)


def _without_each(spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    filters = value_at(spec, "rules", "filters")
    if not isinstance(filters, list):
        return
    for index, each in enumerate(filters):
        left = [other for i, other in enumerate(filters) if i != index]
        yield str(each.get("name") or index), {**spec, "rules": {**spec["rules"], "filters": left}}
