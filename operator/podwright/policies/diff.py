"""Compares two sets of policies: each pod is decided about once under the policies of one cluster and once under those
of another.

A pod that has a node is decided about as if it were recreated, while all others stay where they are. Only sets of best
nodes are compared, so ties make no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from podwright.api.local_policy import LOCAL_KIND
from podwright.api.scheduler_policy import KIND
from podwright.core.cycle import find_feasible
from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import CycleState
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.raw import Raw, mapping_at
from podwright.simulator.evaluations.evaluation import evaluate
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.snapshot import Snapshot
from podwright.simulator.trial import Trial, created_anew
from podwright.simulator.tried_policies import enforced

SHOWN_NODES: Final = 3
_POLICY_KINDS: Final = (KIND, LOCAL_KIND)


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A policy's decision about a pod. `best`: the nodes with the highest score; empty if the pod would wait, with
    `message` saying why.
    """

    policy: str
    best: frozenset[str]
    message: str

    def __str__(self) -> str:
        if not self.best:
            return f"pending: {self.message} ({self.policy})"
        shown = ", ".join(sorted(self.best)[:SHOWN_NODES])
        more = len(self.best) - SHOWN_NODES
        return f"{shown}{f' or one of {more:,} others' if more > 0 else ''} ({self.policy})"


@dataclass(frozen=True, slots=True)
class Difference:
    """A pod that would go elsewhere. `node`: where it is now, empty if it is pending; `why`: what makes the
    difference.
    """

    pod: str
    node: str
    before: PolicyDecision
    after: PolicyDecision
    why: str


def with_policies(snapshot: Snapshot, policies: Sequence[Raw]) -> Snapshot:
    """The snapshot with these policies in place of those of the same kind, namespace and name."""
    replaced = {_identity(raw) for raw in policies}
    kept = [raw for raw in snapshot.objects if raw.get("kind") not in _POLICY_KINDS or _identity(raw) not in replaced]
    return replace(snapshot, objects=[*kept, *map(enforced, policies)])


def _identity(raw: Raw) -> tuple[object, object, object]:
    known = mapping_at(raw, "metadata")
    return raw.get("kind"), known.get("namespace"), known.get("name")


def pods_of(cluster: LoadedCluster) -> Iterator[PodInfo]:
    """The pods that are compared: first those with a node that a scheduler has chosen, then those that wait."""
    for info in cluster.cache.nodes.values():
        for pod in [*info.pods.values()] if info.node is not None else ():
            if not belongs_to_node(pod) and not pod.terminating:
                yield pod
    yield from [*cluster.pending.values()]


def difference(before: LoadedCluster, after: LoadedCluster, pod: PodInfo) -> Difference | None:
    """Compares the decisions about this pod; None if they are equal. Both clusters must have the same nodes and pods.
    They are not changed.
    """
    with Trial(before) as old, Trial(after) as new:
        for trial in (old, new):
            if (placed := trial.cluster.cache.placement(pod.uid)) is not None:
                trial.evict([placed.pods[pod.uid]])
        made = created_anew(before, pod, pod.name)
        first, second = _answer(before, old.with_claims(made)), _answer(after, new.with_claims(made))
        if first.best == second.best and (first.best or first.message == second.message):
            return None
        return Difference(pod.key, pod.node_name, first, second, _why(before, after, made, first, second))


def _answer(cluster: LoadedCluster, pod: PodInfo) -> PolicyDecision:
    policy = cluster.policy_for(pod)
    if policy.refusal:
        return PolicyDecision(policy.label, frozenset(), f"the pod waits because {policy.refusal}")
    framework, cache = policy.framework, cluster.cache
    if (gate := framework.pre_enqueue(pod)) is not None:
        return PolicyDecision(policy.label, frozenset(), "; ".join(gate.reasons))
    state = CycleState()
    try:
        search = find_feasible(framework, cache, pod, state, take_nominated=False)
        if not len(search.feasible):
            return PolicyDecision(policy.label, frozenset(), search.diagnosis.message())
        total = framework.score(state, pod, search.feasible)
    except PluginError as error:
        return PolicyDecision(policy.label, frozenset(), str(error))
    best = search.feasible.slots[total == total.max()]
    return PolicyDecision(policy.label, frozenset(cache.table.names[slot] for slot in best), "")


def _why(
    before: LoadedCluster, after: LoadedCluster, pod: PodInfo, first: PolicyDecision, second: PolicyDecision
) -> str:
    """One sentence: which plugin rejects the other side's node, or which plugin's score differs most."""
    was, becomes = _evaluated(before, pod), _evaluated(after, pod)
    x = min(first.best - second.best or first.best, default="")
    y = min(second.best - first.best or second.best, default="")
    if x and (rejected := _rejection(becomes, x)):
        return f"{second.policy} rejects {x}: {rejected}"
    if y and (rejected := _rejection(was, y)):
        return f"{first.policy} rejects {y}: {rejected}"
    if not (x and y):
        return "" if x or y else "the reasons to wait differ"
    gains = {
        plugin: _gain(becomes, plugin, x, y) - _gain(was, plugin, x, y)
        for plugin in {*was.get("scores", {}), *becomes.get("scores", {})}
    }
    plugin, gain = max(gains.items(), key=lambda entry: (abs(entry[1]), entry[0]), default=("", 0))
    better, worse = (y, x) if gain >= 0 else (x, y)
    return f"{plugin} scores {better} higher than {worse}, by {abs(gain)} more under {second.policy}"


def _evaluated(cluster: LoadedCluster, pod: PodInfo) -> Mapping[str, Any]:
    policy = cluster.policy_for(pod)
    return {} if policy.refusal else evaluate(policy.framework, cluster.cache, pod, preemption=False)


def _rejection(evaluation: Mapping[str, Any], node: str) -> str:
    verdict = evaluation.get("nodes", {}).get(node, {"feasible": True})
    return "" if verdict["feasible"] else f"{verdict['plugin']}: {', '.join(verdict['reasons'])}"


def _gain(evaluation: Mapping[str, Any], plugin: str, x: str, y: str) -> int:
    scores = evaluation.get("scores", {}).get(plugin, {})
    return int(scores.get(y, 0)) - int(scores.get(x, 0))
