"""A queue with another value in one field, as `podwright simulate --set` names it; and the evictions of queues in state
Drain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from podwright.core.objects.pod import PodInfo
from podwright.core.objects.raw import Raw, mapping_at
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.preemption.budgets import Budgets, StoredBudgets
from podwright.engine.draining import may_be_evicted
from podwright.kube.queues.kinds import SCHEDULING_QUEUES
from podwright.simulator.hypotheses.hypothesis import AppliedHypothesis, Blocker, HypothesisError
from podwright.simulator.hypotheses.node_changes import create_anew
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.queue_objects import with_quota
from podwright.simulator.trial import Trial

_KINDS: Final = ("queue", "queues", "squeue", "schedulingqueue", "schedulingqueues")
_OF_QUEUE: Final = (
    "parent",
    "priority",
    "state",
    "preemptMinRuntime",
    "reclaimMinRuntime",
    "maxRuntime",
    "nonPreemptiblePriority",
    "gatherAfter",
    "usageHalfLife",
)
_OF_USERS: Final = "userLimits/"
_OF_RESOURCE: Final = ("guarantee", "limit", "lendingLimit", "weight")
_TEXTS: Final = ("parent", "parentQueue", "preemptMinRuntime", "reclaimMinRuntime")
"""Fields of other APIs whose values are no numbers."""
_NUMBERS: Final = ("priority", "nonPreemptiblePriority", "weight")


def with_field(cluster: LoadedCluster, text: str) -> Raw:
    """The queue that `queue/NAME/RESOURCE/FIELD=VALUE`, `queue/NAME/userLimits/RESOURCE=VALUE` or
    `queue/NAME/FIELD=VALUE` names, changed so. A RESOURCE may be one of a flavor: `nvidia.com/gpu@h100`. Of a queue of
    another API, FIELD is one of `QueueKind.fields`. Without a VALUE, the field is removed. Raises HypothesisError;
    whether the value is valid, the parser of queues says.
    """
    path, equals, value = text.partition("=")
    kind, _, rest = path.partition("/")
    name, _, rest = rest.partition("/")
    rest = rest.removeprefix("spec/")
    api = cluster.queue_names.holder(name) or SCHEDULING_QUEUES
    queues = cluster.queue_objects[api]
    if api.fields and name in queues and kind.lower() in _KINDS and equals and rest:
        return _with_other_field(api.fields, queues[name], rest, value, text)
    rest = rest.removeprefix("resources/")
    of_users = rest.startswith(_OF_USERS)
    resource, field = ("", rest.removeprefix(_OF_USERS)) if of_users else rest.rpartition("/")[::2]
    known = _OF_RESOURCE if resource else _OF_QUEUE
    if kind.lower() not in _KINDS or not equals or not name or not field:
        raise HypothesisError(f"set: {text!r} is not of the form queue/NAME/RESOURCE/limit=8 or queue/NAME/state=Hold")
    if field not in known and not of_users:
        raise HypothesisError(f"set: {text!r}: {field!r} is not one of {', '.join(known)}{did_you_mean(field, known)}")
    if name not in queues:
        raise HypothesisError(f"set: {text!r}: there is no valid queue {name!r}{did_you_mean(name, queues)}")
    found: Any = int(value) if field in _NUMBERS and value.removeprefix("-").isdecimal() and len(value) < 20 else value
    spec = dict(queues[name]["spec"])
    if resource:
        spec = with_quota(spec, resource, lambda quota: _changed(quota, field, found))
    elif of_users:
        spec["userLimits"] = _changed(spec.get("userLimits") or {}, field, value)
    else:
        spec = _changed(spec, field, found)
    return {**queues[name], "spec": spec}


def _with_other_field(fields: Sequence[str], raw: Raw, path: str, value: str, text: str) -> Raw:
    """The same of a queue of another API with these fields."""
    known = next((each for each in fields if path == each or (each.endswith("/") and path.startswith(each))), "")
    if not known:
        shown = [f"{each}RESOURCE" if each.endswith("/") else each for each in fields]
        raise HypothesisError(f"set: {text!r}: {path!r} is not one of {', '.join(shown)}{did_you_mean(path, shown)}")
    steps = [*known.split("/")[:-1], path[len(known) :]] if known.endswith("/") else known.split("/")
    found: Any = value
    with suppress(ValueError):
        found = value if steps[-1] in _TEXTS or value == "" else json.loads(value)
    return {**raw, "spec": _with_path(mapping_at(raw, "spec"), steps, found)}


def _with_path(fields: Raw, steps: Sequence[str], value: Any) -> dict[str, Any]:
    first, *rest = steps
    if not rest:
        return _changed(fields, first, value)
    return {**fields, first: _with_path(mapping_at(fields, first), rest, value)}


def _changed(fields: Raw, name: str, value: Any) -> dict[str, Any]:
    left = {key: each for key, each in fields.items() if key != name}
    return left if value == "" else {**left, name: value}


def drained_pods(cluster: LoadedCluster) -> Iterator[tuple[PodInfo, bool]]:
    """The pods on nodes that the operator evicts from queues in state Drain, and whether they go: not if a budget keeps
    them. Each has left its node, if it goes, before the next one is asked for.
    """
    budgets = Budgets(StoredBudgets(cluster.cache.store).rules(), by_eviction=True)
    for name in sorted(cluster.queues.draining):
        for _, pod in [*cluster.queues.least_important(name)]:
            info = cluster.cache.placement(pod.uid)
            if info is not None and cluster.queues.is_ours(pod):
                yield pod, may_be_evicted(pod, budgets)


def drain_queues(trial: Trial, applied: AppliedHypothesis) -> None:
    """Evicts the pods of queues in state Drain, and creates them again where they have a controller. Pods that a budget
    protects stay: no pod that would take their place starts.
    """
    queues = trial.cluster.queues
    for pod, goes in drained_pods(trial.cluster):
        applied.go_on()
        if not goes:
            why = f"{queues.shut_by(queues.queue_of(pod))}, and a PodDisruptionBudget allows no further disruption"
            applied.blockers.append(Blocker(pod, pod.node_name, why))
            continue
        trial.evict([pod])
        if pod.owner is None:
            applied.gone.append(pod)
        else:
            create_anew(trial, pod, "drained", pod.node_name, applied)
