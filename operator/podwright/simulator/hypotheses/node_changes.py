"""Adds, drains and removes nodes in a trial, and creates their pods again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import HOSTNAME, Node
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.raw import Raw, mapping_at
from podwright.core.objects.readable import parse_known_node
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.preemption.budgets import BudgetRules, StoredBudgets
from podwright.core.state.object_store import key_of
from podwright.simulator.hypotheses.daemons import copy_daemons, daemons_on
from podwright.simulator.hypotheses.hypothesis import (
    MAX_NODES,
    AddedNodes,
    AppliedHypothesis,
    Blocker,
    HypothesisError,
    Waiting,
)
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.trial import Trial, created_anew, pods_on

_PER_NODE: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of taints that describe the present state of a node. They are not copied to a node like it."""
_RESOURCE_SLICE: Final = "ResourceSlice"


def _node(cluster: LoadedCluster, name: str, field_name: str) -> Node:
    info = cluster.cache.present(name)
    if info is None or info.node is None:
        known = (info.name for info in cluster.cache.nodes.values() if info.node is not None)
        raise HypothesisError(f"{field_name}: there is no node {name!r}{did_you_mean(name, known)}")
    return info.node


def add_nodes(trial: Trial, added: AddedNodes, applied: AppliedHypothesis) -> None:
    cluster = trial.cluster
    applied.go_on()
    if not 0 <= added.count <= MAX_NODES:
        raise HypothesisError(f"add-nodes: {added.count} is not between 0 and {MAX_NODES:,}")
    if len(applied.added_nodes) + added.count > MAX_NODES:
        raise HypothesisError(f"add-nodes: more than {MAX_NODES:,} in all")
    if added.template is not None:
        try:
            model, _ = parse_known_node(added.template)
        except InvalidObjectError as error:
            raise HypothesisError(f"add-nodes: {error}") from error
        daemons: Sequence[PodInfo] = ()
    elif added.like:
        model = _node(cluster, added.like, "add-nodes")
        daemons = daemons_on(cluster, added.like)
    else:
        raise HypothesisError("add-nodes: says neither which node the new ones are like, nor what they are")
    number = 0
    for _ in range(added.count):
        applied.go_on()
        number += 1
        while cluster.cache.present(f"{model.name}-added-{number}") is not None:
            number += 1
        name = f"{model.name}-added-{number}"
        _copy_node_objects(trial, model.name, name)
        trial.set_node(_like(model, name))
        applied.added_nodes.append(name)
        copy_daemons(trial, daemons, model.name, name, applied)


def _like(model: Node, name: str) -> Node:
    """A fresh node like the model: without images, a cordon, and taints of its present state."""
    return replace(
        model,
        name=name,
        uid=name,
        labels={**model.labels, HOSTNAME: name},
        taints=tuple(taint for taint in model.taints if not taint.key.startswith(_PER_NODE)),
        unschedulable=False,
        terminating=False,
    )


def _copy_node_objects(trial: Trial, model: str, name: str) -> None:
    """The CSINode and the ResourceSlices of the model, for the new node."""
    store = trial.cluster.cache.store
    csi_node = store.get("CSINode", model)
    if csi_node is not None:
        trial.set_object("CSINode", _named(csi_node, name))
    for raw in [*store.list(_RESOURCE_SLICE)]:
        spec = raw.get("spec")
        if isinstance(spec, Mapping) and spec.get("nodeName") == model:
            made = _named(raw, f"{key_of(raw)[1]}-{name}")
            pool = {**(spec.get("pool") or {}), "name": name}
            trial.set_object(_RESOURCE_SLICE, {**made, "spec": {**spec, "nodeName": name, "pool": pool}})


def _named(raw: Raw, name: str) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "name": name, "uid": name}}


def remove_node(trial: Trial, name: str, applied: AppliedHypothesis) -> None:
    """Removes the node, as if it had failed. Its pods are recreated, whether they have controllers or not."""
    _node(trial.cluster, name, "remove-node")
    pods = pods_on(trial.cluster, name)
    trial.evict(pods)
    trial.remove_node(name)
    applied.removed_nodes.append(name)
    for pod in pods:
        create_anew(trial, pod, "removed", name, applied)


def drain_node(trial: Trial, name: str, applied: AppliedHypothesis) -> None:
    """Cordons the node, and evicts its pods except those of DaemonSets."""
    node = _node(trial.cluster, name, "drain")
    pods = [pod for pod in pods_on(trial.cluster, name) if not belongs_to_node(pod)]
    applied.blockers += _blockers(trial.cluster, pods, name)
    trial.set_node(replace(node, unschedulable=True))
    trial.evict(pods)
    applied.drained_nodes.append(name)
    for pod in pods:
        create_anew(trial, pod, "drained", name, applied)


def _blockers(cluster: LoadedCluster, pods: Sequence[PodInfo], node_name: str) -> Iterator[Blocker]:
    rules = StoredBudgets(cluster.cache.store).rules()
    for pod in pods:
        if why := _protected(cluster, rules, pod):
            yield Blocker(pod, node_name, why)
        elif pod.owner is None:
            yield Blocker(pod, node_name, "no controller would create it again")


def _protected(cluster: LoadedCluster, rules: BudgetRules, pod: PodInfo) -> str:
    """Why the eviction API would refuse the pod for as long as kubectl drain tries; "" if it would not.

    A budget that allows a single disruption is enough for any number of pods: kubectl drain tries again until the pods
    that were created in place of those it evicted are ready. Source: `pkg/registry/core/pod/storage/eviction.go`.
    """
    budgets = rules.of(pod.namespace) if pod.labels else None
    applying = None if budgets is None else budgets.applying(pod)
    status = mapping_at(cluster.assigned.get(pod.uid), "status")
    if budgets is None or applying is None or pod.terminating or status.get("phase") == "Pending":
        return ""
    first, mask = applying
    if mask.sum() > 1:
        return "several PodDisruptionBudgets select it, and the eviction API then refuses"
    if budgets.allowed[first] > 0 or _evicted_as_unhealthy(status, budgets.objects[first]):
        return ""
    return f"PodDisruptionBudget {key_of(budgets.objects[first])[1]} allows no disruption"


def _evicted_as_unhealthy(pod_status: Raw, budget: Raw) -> bool:
    """A pod that is not ready may be evicted if its budget always allows that, or has enough healthy pods without
    it.
    """
    conditions = pod_status.get("conditions")
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, Mapping) and each.get("type") == "Ready" and each.get("status") == "True":
            return False
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    always = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    return always or healthy >= desired > 0


def create_anew(trial: Trial, pod: PodInfo, cause: str, node_name: str, applied: AppliedHypothesis) -> None:
    """Adds the pod that waits in place of one that has left the node."""
    if belongs_to_node(pod) or pod.terminating:
        applied.gone.append(pod)
        return
    made = trial.with_claims(created_anew(trial.cluster, pod, pod.name))
    trial.add_pending(made)
    applied.waiting.append(Waiting(made, cause, node_name))
