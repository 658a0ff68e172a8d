"""Simulations: a hypothesis is applied to a loaded cluster, pods are scheduled, and everything is rolled back. Start
here.

    simulate ─► Trial: changes.apply ─► Scheduling.settle: every waiting pod, in the queue's order ─► SimulationResult

The decisions are those of the scheduler: see `scheduling`. `simulate_each_node` drains or removes each node in turn, on
one loaded cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.resources import CPU, MEMORY, PODS
from podwright.simulator.hypotheses.changes import apply
from podwright.simulator.hypotheses.hypothesis import AppliedHypothesis, Blocker, Hypothesis, Stopped, Waiting, never
from podwright.simulator.hypotheses.node_changes import drain_node, remove_node
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.results import (
    BlockedEviction,
    Emptied,
    Eviction,
    Landing,
    NodeDifference,
    NodeResult,
    SimulationResult,
    Totals,
    Unplaced,
    Usage,
)
from podwright.simulator.scheduling import Preempted, Scheduling, SchedulingOutcome
from podwright.simulator.trial import Trial, created_anew

EachNode = Literal["drain", "remove"]

_SHOWN_NAMES: Final = 5
_ARRIVAL_STEP: Final = 1e-6
"""Seconds between the arrivals of two pods, so that the queue keeps their order."""


def simulate(
    cluster: LoadedCluster,
    hypothesis: Hypothesis,
    *,
    seed: int = 0,
    try_to_empty: int = 0,
    stopped: Stopped = never,
) -> SimulationResult:
    """Simulates a hypothesis. `seed` decides among equal scores; `try_to_empty`: how many nodes to try to empty
    afterwards.

    `stopped` is asked before each attempt; once it is True, the result is incomplete. Raises HypothesisError, also if
    the time is up before all changes are made. The cluster is left as it was.
    """
    before, nodes_before = totals(cluster), node_usage(cluster)
    with Trial(cluster) as trial:
        earlier = [*cluster.pending.values()]
        applied = apply(hypothesis, trial, stopped)
        run = _Run(cluster, trial, applied, seed=seed, stopped=stopped)
        outcome = run.settle(earlier if hypothesis.retry_pending else ())
        after, nodes_after = totals(cluster), node_usage(cluster)
        emptied = _empty(cluster, try_to_empty, seed, stopped) if try_to_empty else None
        return SimulationResult(
            name=hypothesis.name,
            landed=run.landings(),
            pending=run.unplaced(),
            preempted=_evictions(outcome.preempted),
            blockers=_blocked(applied.blockers),
            gone=[pod.key for pod in applied.gone],
            before=before,
            after=after,
            changes=_changes(nodes_before, nodes_after),
            emptied=emptied,
            gangs=cluster.cache.groups.waiting(),
            attempts=outcome.attempts,
            complete=outcome.complete,
            notes=notes(cluster),
        )


def simulate_each_node(
    cluster: LoadedCluster,
    action: EachNode,
    nodes: Iterable[str] | None = None,
    *,
    seed: int = 0,
    stopped: Stopped = never,
) -> Iterator[NodeResult]:
    """Drains or removes each node on its own, or each of the given nodes, and yields the results. Raises
    HypothesisError.

    Queues in state Drain are drained, and pods that are pending are scheduled first, once. Those that stay pending are
    not tried again for each node. Consume the iterator, or close it: when it ends, the cluster is as before.
    """
    change = drain_node if action == "drain" else remove_node
    with Trial(cluster) as base:
        earlier = [*cluster.pending.values()]
        _Run(cluster, base, apply(Hypothesis(), base, stopped), seed=seed, stopped=stopped).settle(earlier)
        for name in [*cluster.cache.nodes] if nodes is None else nodes:
            if nodes is None and cluster.cache.present(name) is None:
                continue
            if stopped():
                return
            with Trial(cluster) as trial:
                applied = AppliedHypothesis()
                change(trial, name, applied)
                run = _Run(cluster, trial, applied, seed=seed, stopped=stopped)
                outcome = run.settle(())
                result = NodeResult(
                    node=name,
                    moved=len(outcome.landed),
                    pending=run.unplaced(),
                    preempted=_evictions(outcome.preempted),
                    blockers=_blocked(applied.blockers),
                    complete=outcome.complete,
                )
            yield result


class _Run:
    """One scheduling of all pods that wait in a trial."""

    def __init__(
        self, cluster: LoadedCluster, trial: Trial, applied: AppliedHypothesis, *, seed: int, stopped: Stopped
    ) -> None:
        self._cluster = cluster
        self._trial = trial
        self._waiting = {each.pod.uid: each for each in applied.waiting}
        self._gone = applied.gone
        self._scheduling = Scheduling(cluster, trial, seed=seed, stopped=stopped)
        self._scheduling.on_preempted = self._preempted

    def settle(self, earlier: Iterable[PodInfo]) -> SchedulingOutcome:
        """Schedules these pods, then those that the hypothesis makes wait."""
        for pod in earlier:
            if pod.uid in self._cluster.pending and pod.uid not in self._waiting:
                self._waiting[pod.uid] = Waiting(pod, "pending")
                self._arrives(pod)
        for waiting in [*self._waiting.values()]:
            if waiting.cause != "pending":
                self._arrives(waiting.pod)
        self._scheduling.gangs.take_over()
        self._scheduling.gather()
        return self._scheduling.settle()

    def _arrives(self, pod: PodInfo) -> None:
        self._cluster.clock.now += _ARRIVAL_STEP
        self._scheduling.add(pod)

    def _preempted(self, preempted: Preempted) -> None:
        """Adds the pod that a controller creates in place of a victim."""
        victim = preempted.pod
        if victim.owner is None:
            self._gone.append(victim)
            return
        made = self._trial.with_claims(created_anew(self._cluster, victim, victim.name))
        self._waiting[made.uid] = Waiting(made, "preempted", preempted.node_name)
        self._trial.add_pending(made)
        self._arrives(made)

    def landings(self) -> Sequence[Landing]:
        found = []
        for uid, landed in self._scheduling.outcome.landed.items():
            waiting = self._waiting[uid]
            found.append(
                Landing(landed.pod.key, landed.node_name, waiting.cause, waiting.came_from, policy=landed.policy)
            )
        return found

    def unplaced(self) -> Sequence[Unplaced]:
        found = []
        for uid, pending in self._scheduling.outcome.pending.items():
            waiting = self._waiting[uid]
            found.append(
                Unplaced(
                    pod=pending.pod.key,
                    cause=waiting.cause,
                    came_from=waiting.came_from,
                    message=pending.message,
                    plugins=sorted(pending.plugins),
                    policy=pending.policy,
                )
            )
        return found


def _evictions(preempted: Iterable[Preempted]) -> Sequence[Eviction]:
    return [Eviction(each.pod.key, each.node_name, each.by.key) for each in preempted]


def _blocked(blockers: Iterable[Blocker]) -> Sequence[BlockedEviction]:
    return [BlockedEviction(each.pod.key, each.node_name, each.why) for each in blockers]


# Emptying nodes


def _empty(cluster: LoadedCluster, most: int, seed: int, stopped: Stopped) -> Emptied:
    """Drains nodes one by one, the least used first, and keeps each drain after which all pods have a node. No pod
    preempts, and no PodDisruptionBudget is violated. Rolls everything back.
    """
    order = _by_usage(cluster)[:most]
    together = []
    with Trial(cluster) as base:
        for name in order:
            if stopped():
                break
            trial = Trial(cluster)
            with trial:
                applied = AppliedHypothesis()
                drain_node(trial, name, applied)
                outcome = _Run(cluster, trial, applied, seed=seed, stopped=stopped).settle(())
                lost = outcome.pending or outcome.preempted or not outcome.complete
                if not lost and not any(blocker.pod.owner is not None for blocker in applied.blockers):
                    together.append(name)
                    base.keep(trial)
    return Emptied(together, len(order))


def _by_usage(cluster: LoadedCluster) -> Sequence[str]:
    """The nodes that have pods to move and are not cordoned, the least used first: by their greatest share of CPU and
    memory.
    """
    table = cluster.cache.table
    shares = np.zeros(table.size)
    for resource in (CPU, MEMORY):
        offered = np.maximum(table.allocatable(resource), 1)
        shares = np.maximum(shares, table.requested(resource) / offered)
    movable = [slot for slot in np.flatnonzero(table.valid & ~table.unschedulable).tolist() if _is_used(cluster, slot)]
    return [table.names[slot] for slot in sorted(movable, key=lambda slot: (shares[slot], table.names[slot]))]


# Numbers


def _is_used(cluster: LoadedCluster, slot: int) -> bool:
    """True if the node has a pod that could run elsewhere."""
    return any(not belongs_to_node(pod) for pod in cluster.cache.node_at(slot).pods.values())


def resources_of(cluster: LoadedCluster) -> Sequence[str]:
    """The resources that nodes offer: CPU, memory and pods first, then by name."""
    offered: dict[str, None] = {}
    for node in cluster.cache.table.nodes:
        if node is not None:
            offered.update(dict.fromkeys(node.allocatable))
    first = [resource for resource in (CPU, MEMORY, PODS) if resource in offered]
    return [*first, *sorted(offered.keys() - {*first})]


def totals(cluster: LoadedCluster) -> Totals:
    """Numbers about the cluster in its current state."""
    table = cluster.cache.table
    valid, pods = table.valid, table.pods
    used = np.zeros(table.size, np.bool_)
    for slot in np.flatnonzero(valid & (pods > 0)).tolist():
        used[slot] = _is_used(cluster, slot)
    usage = {}
    for resource in resources_of(cluster):
        allocatable = table.allocatable(resource)
        requested = pods if resource == PODS else table.requested(resource)
        usage[resource] = Usage(
            int(allocatable[valid].sum()), int(requested[valid].sum()), int(allocatable[used].sum())
        )
    return Totals(table.count, int(np.count_nonzero(valid & ~used)), int(pods[valid].sum()), usage)


_NodeUsage = Mapping[str, tuple[int, Mapping[str, int], Mapping[str, int]]]
"""By node: the number of its pods, their requests, and the node's offer."""


def node_usage(cluster: LoadedCluster) -> _NodeUsage:
    """The current usage of each node."""
    return {
        info.name: (len(info.pods), dict(info.requested), info.node.allocatable)
        for info in cluster.cache.nodes.values()
        if info.node is not None
    }


def _changes(before: _NodeUsage, after: _NodeUsage) -> Sequence[NodeDifference]:
    """The nodes whose usage has changed, with the usage before and after."""
    changed = []
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old != new:
            offered = (new or old or (0, {}, {}))[2]
            changed.append(
                NodeDifference(
                    node=name,
                    allocatable=offered,
                    pods_before=None if old is None else old[0],
                    pods_after=None if new is None else new[0],
                    requested_before={} if old is None else old[1],
                    requested_after={} if new is None else new[1],
                )
            )
    return changed


def notes(cluster: LoadedCluster) -> Sequence[str]:
    """The limitations of all answers about this cluster."""
    found = [*cluster.missing_notes]
    for each in cluster.refused:
        problem = "cannot be used" if each.name in cluster.accepted_by_operator else "is not accepted"
        found.append(f"policy {each.name}, generation {each.generation}, {problem}: {each.message}")
    found += cluster.params_notes
    found += [
        f"policy {policy.name} has extenders, which a simulation does not ask"
        for policy in (*cluster.policies.policy_set.active, *cluster.policies.policy_set.built_in)
        if policy.profile.extenders or policy.spec.extenders
    ]
    found += [
        f"the {kind.about} do not count, because no policy serves the scheduler name {kind.scheduler_name}"
        for kind, objects in cluster.queue_objects.items()
        if objects and not cluster.queue_names.counts(kind)
    ]
    foreign = {pod.scheduler_name for pod in cluster.pending.values() if cluster.policies.of(pod) is None}
    if foreign:
        names = ", ".join(sorted(foreign)[:_SHOWN_NAMES])
        found.append(f"no policy serves pending pods of {names}: the built-in policy decides about them here")
    return found
