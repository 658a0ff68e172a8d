"""Decisions under a hypothesis: a changed pod, changed nodes, further objects, pods that are elsewhere.

Invariant: each hypothesis is rolled back when its block ends (simulator/trial.py), so the cluster is as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from podwright.core.cycle import Placement, Rejection, schedule
from podwright.core.framework.interface import PostFilterResult
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.simulator.explain.results import Change
from podwright.simulator.hypotheses.hypothesis import AddedNodes, Applied, Stopped, never
from podwright.simulator.hypotheses.node_changes import add_nodes
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.placing import place
from podwright.simulator.trial import Trial, created_anew


class TimeIsUpError(Exception):
    """There is no time for further trials."""


class Trials:
    """See the module. `count`: how many decisions were made; `cut_short`: there was no time for all.

    `stopped` is asked before each decision. Once it is True, each raises TimeIsUpError.
    """

    def __init__(self, cluster: LoadedCluster, stopped: Stopped = never) -> None:
        self.cluster = cluster
        self.cache = cluster.cache
        self.count = 0
        self.cut_short = False
        self._stopped = stopped

    def begin(self) -> None:
        """One more decision. Raises TimeIsUpError."""
        if self._stopped():
            raise TimeIsUpError
        self.count += 1

    def in_time(self, changes: Iterable[Change]) -> Iterator[Change]:
        """Those that are found before the time is up."""
        try:
            yield from changes
        except TimeIsUpError:
            self.cut_short = True

    # Decisions

    def place(self, pod: PodInfo) -> str:
        """The node on which the production core places the pod now; empty if it does not."""
        with Trial(self.cluster) as trial:
            return self.place_in(trial, pod)

    def place_in(self, trial: Trial, pod: PodInfo) -> str:
        """The same, and the pod stays there until the trial ends."""
        self.begin()
        policy = self.cluster.policies.of(pod)
        return "" if policy is None else place(trial, policy, pod)

    def place_again(self, trial: Trial, pod: PodInfo, only: str = "") -> str:
        """Where a pod fits that was evicted in the trial; empty if nowhere. It stays there until the trial ends. `only`: the one node that may be taken."""
        self.begin()
        made = trial.with_claims(created_anew(self.cluster, pod, pod.name))
        return place(trial, self.cluster.policy_for(pod), made, only)

    def preempts(self, pod: PodInfo) -> PostFilterResult | None:
        """The node to which the pod is nominated, and its victims there; None if it does not preempt. Raises PluginError."""
        self.begin()
        framework = self.cluster.policy_for(pod).framework
        decision = schedule(framework, self.cache, pod, _first)
        found = decision.post_filter if isinstance(decision, Rejection) else None
        return found if found is not None and found.nominated_node else None

    # Hypotheses

    @contextmanager
    def with_node(self, node: Node) -> Iterator[None]:
        """A node that is added, or another version of a node."""
        with Trial(self.cluster) as trial:
            trial.set_node(node)
            yield

    @contextmanager
    def one_more_node(self, like: str) -> Iterator[Node]:
        """A further node like the named one, with the pods of its DaemonSets."""
        applied = Applied()
        with Trial(self.cluster) as trial:
            add_nodes(trial, AddedNodes(1, like), applied)
            (name,) = applied.added_nodes
            yield self.cache.nodes[name].present

    @contextmanager
    def placed(self, placements: Sequence[Placement]) -> Iterator[None]:
        """These members of a group are on their nodes. Raises PluginError."""
        with Trial(self.cluster) as trial:
            for placement in placements:
                trial.place(self.cluster.policy_for(placement.pod).framework, placement)
            yield

    @contextmanager
    def with_policy(self, raw: Mapping[str, Any]) -> Iterator[bool]:
        """Another version of a SchedulerPolicy. Gives whether it is accepted."""
        with Trial(self.cluster) as trial:
            yield trial.apply_policy(raw).accepted

    @contextmanager
    def with_objects(self, objects: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[None]:
        """Objects of the store by kind, added or in another version."""
        with Trial(self.cluster) as trial:
            for kind, raw in objects:
                trial.set_object(kind, raw)
            yield


def _first(_count: int) -> int:
    """The choice among equals: always the same, so that explanations repeat."""
    return 0
