"""Decisions under a hypothesis: a changed pod, changed nodes, further objects, moved pods.

Invariant: each hypothesis is rolled back when its block ends (simulator/trial.py), so the cluster is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from podwright.core.cycle import Placement, Rejection, always_first, schedule
from podwright.core.framework.interface import PostFilterResult
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.simulator.explain.results import Change, Edit
from podwright.simulator.hypotheses.hypothesis import AddedNodes, AppliedHypothesis, Stopped, never
from podwright.simulator.hypotheses.node_changes import add_nodes
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.placing import place
from podwright.simulator.trial import Trial, created_anew

_AS_IT_IS: Final[Mapping[str, str]] = {}


class TimeIsUpError(Exception):
    """There is no time for further trials."""


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """A change of the cluster that may help. `apply` makes it in a trial, and raises InvalidObjectError if it
    cannot.
    """

    text: str
    edits: tuple[Edit, ...]
    apply: Callable[[Trial], object]


class Trials:
    """See the module. `count`: how many decisions were made; `cut_short`: there was no time for all.

    `stopped` is asked before each decision. Once it is True, each raises TimeIsUpError.
    """

    def __init__(self, cluster: LoadedCluster, stopped: Stopped = never) -> None:
        self.cluster = cluster
        self.cache = cluster.cache
        self.count = 0
        self.tried: dict[str, None] = {}
        """The changes that were tried and did not help, in words."""
        self.cut_short = False
        self._stopped = stopped

    def begin(self) -> None:
        """Counts a decision. Raises TimeIsUpError."""
        if self._stopped():
            raise TimeIsUpError
        self.count += 1

    def in_time(self, changes: Iterable[Change]) -> Iterator[Change]:
        """The items that are found before the time is up."""
        try:
            yield from changes
        except TimeIsUpError:
            self.cut_short = True

    # Decisions

    def place(self, pod: PodInfo) -> str:
        """The node on which the production core would place the pod; "" if it would not."""
        with Trial(self.cluster) as trial:
            return self.place_in(trial, pod)

    def place_in(self, trial: Trial, pod: PodInfo) -> str:
        """As `place`, but the pod stays there until the trial ends."""
        self.begin()
        policy = self.cluster.policies.of(pod)
        return "" if policy is None else place(trial, policy, pod)

    def place_again(self, trial: Trial, pod: PodInfo, only: str = "") -> str:
        """The node where a pod fits that was evicted in the trial, or "". The pod stays there until the
        trial ends. `only`: the one node that may be chosen.
        """
        self.begin()
        made = trial.with_claims(created_anew(self.cluster, pod, pod.name))
        return place(trial, self.cluster.policy_for(pod), made, only)

    def preempts(self, pod: PodInfo) -> PostFilterResult | None:
        """The node to which the pod is nominated, and its victims there; None if it does not preempt. Raises
        PluginError.
        """
        self.begin()
        framework = self.cluster.policy_for(pod).framework
        decision = schedule(framework, self.cache, pod, always_first)
        found = decision.post_filter if isinstance(decision, Rejection) else None
        return found if found is not None and found.nominated_node else None

    def helping(self, pod: PodInfo, changes: Iterable[ClusterChange]) -> Iterator[Change]:
        """Yields the changes with which the production core places the pod."""
        for each in changes:
            self.tried[each.text] = None
            with Trial(self.cluster) as trial:
                try:
                    each.apply(trial)
                except InvalidObjectError:
                    continue
                placed = self.place(pod)
            if placed:
                yield Change(of="cluster", text=each.text, node=placed, edits=each.edits)

    # Hypotheses

    @contextmanager
    def more_nodes(self, like: str, count: int = 1, labels: Mapping[str, str] = _AS_IT_IS) -> Iterator[Sequence[Node]]:
        """A context with further nodes like the named one, and the pods of its DaemonSets. `labels`: those that
        differ.
        """
        applied = AppliedHypothesis()
        with Trial(self.cluster) as trial:
            add_nodes(trial, AddedNodes(count, like), applied)
            for name in applied.added_nodes if labels else ():
                node = self.cache.nodes[name].present
                trial.set_node(replace(node, labels={**node.labels, **labels}))
            yield [self.cache.nodes[name].present for name in applied.added_nodes]

    @contextmanager
    def placed(self, placements: Sequence[Placement]) -> Iterator[None]:
        """A context in which these members of a group are on their nodes. Raises PluginError."""
        with Trial(self.cluster) as trial:
            for placement in placements:
                trial.place(self.cluster.policy_for(placement.pod).framework, placement)
            yield


def least_that_helps(most: int, attempt: Callable[[int], Change | None]) -> Change | None:
    """The change for the least number that helps, if all greater ones help, too; None if `most` does not help."""
    found, enough, too_little = attempt(most), most, 0
    while found is not None and enough - too_little > 1:
        middle = (enough + too_little) // 2
        fewer = attempt(middle)
        if fewer is None:
            too_little = middle
        else:
            found, enough = fewer, middle
    return found


def of_each_kind(changes: Iterable[ClusterChange], helps: Callable[[ClusterChange], Change | None]) -> Iterator[Change]:
    """The first change of each kind that helps. The kind is the first word of the text."""
    kinds: set[str] = set()
    for each in changes:
        kind = each.text.partition(" ")[0]
        if kind not in kinds and (change := helps(each)) is not None:
            kinds.add(kind)
            yield change


def with_objects(text: str, edits: Iterable[Edit], objects: Sequence[tuple[str, Mapping[str, Any]]]) -> ClusterChange:
    """Added or changed objects, by kind."""
    return ClusterChange(text, tuple(edits), partial(_set_objects, objects))


def _set_objects(objects: Sequence[tuple[str, Mapping[str, Any]]], trial: Trial) -> None:
    for kind, raw in objects:
        trial.set_object(kind, raw)


def without_pods(text: str, pods: Sequence[PodInfo]) -> ClusterChange:
    """A change that ends these placed pods, and removes their claims."""
    edits = tuple(Edit(verb="delete", kind="Pod", name=pod.name, namespace=pod.namespace) for pod in pods)
    return ClusterChange(text, edits, lambda trial: trial.evict(pods))
