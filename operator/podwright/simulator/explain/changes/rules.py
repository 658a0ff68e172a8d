"""A policy without one of its filter rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from podwright.api.scheduler_policy import KIND
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import value_at
from podwright.simulator.explain.changes.trials import Trials
from podwright.simulator.explain.results import Change, Edit

RULES_TRIED: Final = 6


def without_rule(trials: Trials, pod: PodInfo) -> Iterator[Change]:
    """The SchedulerPolicy of the pod without each of its filter rules in turn, where that places the pod."""
    policy = trials.cluster.policies.of(pod)
    raw = None if policy is None else trials.cluster.policy_objects.get(policy.compiled.name)
    if raw is None:
        return
    for name, spec in islice(_without_each(raw["spec"]), RULES_TRIED):
        with trials.with_policy({**raw, "spec": spec}) as accepted:
            placed = trials.place(pod) if accepted else ""
        if placed:
            policy_name = str(raw["metadata"]["name"])
            edit = Edit(verb="patch", kind=KIND, name=policy_name, object={"spec": {"rules": spec["rules"]}})
            yield Change(
                of="cluster", text=f"take the rule {name} out of policy {policy_name}", node=placed, edits=(edit,)
            )


def _without_each(spec: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    filters = value_at(spec, "rules", "filters")
    if not isinstance(filters, list):
        return
    for index, each in enumerate(filters):
        left = [other for i, other in enumerate(filters) if i != index]
        yield str(each.get("name") or index), {**spec, "rules": {**spec["rules"], "filters": left}}
