"""World: the cluster as it would be if all decisions of one policy in shadow mode had been carried out since the policy
became active.

It is a cache of its own, which shares pods and objects with the real one. Nodes, objects and departing pods change
there as in the cluster. But pods of the policy that were created since are on the nodes that the policy has chosen, on
the state of this world. So each decision affects the next one, as it would in a cluster.

Bounded: it has the pods and nodes of the cluster, and nothing else. Changes are noted by name, and applied in short
steps.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from podwright.core.cycle import Placement, Rejection, always_first, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.queues import queues_of
from podwright.core.state.cache import Cache
from podwright.core.state.object_store import ObjectStore
from podwright.engine.shadow.comparison import waiting_again
from podwright.engine.shadow.used_nodes import UsedNodes

STEP: Final = 100
"""How many changes without a decision one step takes over."""
RETRIED: Final = 100
"""How many waiting pods are tried again when something has made room; if any of them is placed, the next ones follow,
until all were tried once.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowCounts:
    """`elsewhere`: how many pods are on other nodes than in the cluster; `waiting`: how many wait in the world but not
    in the cluster; `unplaced`: how many wait in the cluster but not in the world.

    `undecided`: how many are where they are in the cluster, because the policy could not decide. `settled`: whether all
    changes were taken over.
    """

    elsewhere: int
    waiting: int
    unplaced: int
    undecided: int
    settled: bool


class ShadowCluster:
    """See the module."""

    def __init__(self, real: Cache, *, kinds: tuple[str, ...], framework: Callable[[Cache], Framework]) -> None:
        """`kinds`: those of the object store; `framework`: builds the policy's plugins for a cache. Raises what plugins
        raise.
        """
        self.cache = Cache()
        self.used = self.cache.observer(UsedNodes)
        self._real = real
        self._framework = framework(self.cache)
        self._queues, self._real_queues = queues_of(self.cache), queues_of(real)
        self._queues.membership.choice_by_policy = self._choice_by_policy
        self._queues.preemptible_by_policy = self._preemptible_by_policy
        self._queues_at = 0
        """`Queues.changes` of the cluster, when its queues were last compared with those here."""
        self._changed_queues: deque[str] = deque()
        self._filling: Iterator[None] | None = self._fill(kinds)
        self._objects: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        """The changes that were not taken over yet, by kind, namespace and name."""
        self._nodes: OrderedDict[str, None] = OrderedDict()
        self._pods: OrderedDict[str, None] = OrderedDict()
        self._decided: set[str] = set()
        """The uids of the pods that the policy decides about here. It decides again about one that comes back with its
        node.
        """
        self._unplaced: dict[str, PodInfo] = {}
        """Pods that have no node in the cluster, and that the policy would place."""
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._retried: deque[str] = deque()
        """The slice of the waiting pods that is being tried again."""
        self._untried = 0
        """How many waiting pods, the first ones, may be tried after this slice."""
        self._placed = False
        """True if a pod of this slice was placed."""
        self._freed = False
        """True if something may have made room since waiting pods were tried."""
        self._elsewhere: set[str] = set()
        self._undecided: set[str] = set()
        compact_regularly(self)

    def compact(self) -> None:
        """Frees the capacity that the lists needed when they were longer, and forgets pods that are gone."""
        self._pods = OrderedDict.fromkeys(uid for uid in self._pods if self._is_known(uid) or self._is_here(uid))
        self._decided = {uid for uid in self._decided if self._is_known(uid)}
        self._waiting = OrderedDict(self._waiting)
        self._objects, self._nodes = OrderedDict(self._objects), OrderedDict(self._nodes)

    # What changes in the cluster

    def pod_changed(self, uid: str) -> None:
        self._pods[uid] = None

    def node_changed(self, name: str) -> None:
        self._nodes[name] = None

    def object_changed(self, kind: str, namespace: str, name: str) -> None:
        self._objects[kind, namespace, name] = None

    def pod_arrived(self, uid: str) -> None:
        """A scheduler has placed the pod. Here, the policy decides about it, also if it has been taken over already."""
        if uid not in self._decided and self.cache.placement(uid) is not None:
            self._remove(uid)
        self._decided.add(uid)
        self._pods[uid] = None

    def pod_fits(self, pod: PodInfo) -> None:
        """The other scheduler cannot place the pod, but the policy would."""
        self._unplaced[pod.uid] = pod
        self._decided.add(pod.uid)
        self._pods[pod.uid] = None

    def pod_stopped_waiting(self, uid: str) -> None:
        """The pod has a node, or is gone."""
        if self._unplaced.pop(uid, None) is not None:
            self.pod_changed(uid)

    # Steps

    @property
    def has_work(self) -> bool:
        """True if there is anything to take over or to decide."""
        queues = self._changed_queues or self._queues_at != self._real_queues.changes
        changed = queues or self._filling is not None or self._objects or self._nodes or self._pods or self._retried
        return bool(changed) or (bool(self._waiting) and (self._freed or (self._placed and self._untried > 0)))

    def step(self) -> None:
        """Takes over some changes, or makes one decision."""
        if self._queues_at != self._real_queues.changes:
            self._queues_at = self._real_queues.changes
            self._changed_queues = deque(self._queues.differing(self._real_queues))
            return
        if self._changed_queues:
            for _ in range(min(STEP, len(self._changed_queues))):
                self._queues.follow(self._real_queues, self._changed_queues.popleft())
            self._freed = True
            return
        if self._filling is not None:
            if next(self._filling, self) is self:
                self._filling = None
            return
        for _ in range(STEP):
            if self._objects:
                self._take_object(*self._objects.popitem(last=False)[0])
            elif self._nodes:
                self._take_node(self._nodes.popitem(last=False)[0])
            elif self._pods:
                if self._take_pod(self._pods.popitem(last=False)[0]):
                    return
            elif self._retried:
                uid = self._retried.popleft()
                pod, theirs = self._in_cluster(uid)
                if uid in self._waiting and pod is not None:
                    self._decide(pod, theirs)
                    self._placed = self._placed or uid not in self._waiting
                    return
            elif self.has_work:
                self._choose_retried()
            else:
                return

    def _choose_retried(self) -> None:
        """Chooses the next waiting pods to try again. Pods that are tried in vain go to the end."""
        if self._freed:
            self._freed, self._untried = False, len(self._waiting)
        self._placed = False
        self._retried.extend(islice(self._waiting, min(RETRIED, self._untried)))
        self._untried -= len(self._retried)

    def _fill(self, kinds: tuple[str, ...]) -> Iterator[None]:
        """Takes over all objects and pods, in steps. Changes in between are noted, and taken over afterwards."""
        store: ObjectStore = self._real.store
        count = 0
        for kind in kinds:
            for raw in [*store.list(kind)]:
                self._set_object(kind, raw["metadata"]["name"], raw["metadata"].get("namespace") or "")
                if (count := count + 1) % STEP == 0:
                    yield
        for name in [*self._real.nodes]:
            self._take_node(name)
            if (count := count + 1) % STEP == 0:
                yield
        for name in [*self._real.nodes]:
            info = self._real.present(name)
            for uid in [*info.pods] if info is not None else ():
                if uid not in self._decided:
                    self._take_pod(uid)
                if (count := count + 1) % STEP == 0:
                    yield

    def _choice_by_policy(self, pod: PodInfo) -> str:
        choice = self._real_queues.membership.choice_by_policy
        return "" if choice is None else choice(pod)

    def _preemptible_by_policy(self, pod: PodInfo) -> bool | None:
        preemptible = self._real_queues.preemptible_by_policy
        return None if preemptible is None else preemptible(pod)

    # Objects and nodes

    def _take_object(self, kind: str, namespace: str, name: str) -> None:
        self._set_object(kind, name, namespace)
        self._freed = True

    def _set_object(self, kind: str, name: str, namespace: str) -> None:
        raw = self._real.store.get(kind, name, namespace)
        if raw is None:
            self.cache.remove_object(kind, name, namespace)
            return
        try:
            self.cache.set_object(kind, raw)
        except InvalidObjectError:
            return  # as in the cluster's own cache, where it was reported

    def _take_node(self, name: str) -> None:
        info = self._real.present(name)
        if info is not None and info.node is not None:
            self.cache.set_node(info.node)
            self._freed = True
            return
        mine = self.cache.present(name)
        for uid in [*mine.pods] if mine is not None else ():
            self._remove(uid)
            self.pod_changed(uid)  # if it is still in the cluster, it needs another node here
        self.cache.remove_node(name)

    # Pods

    def _in_cluster(self, uid: str) -> tuple[PodInfo | None, str]:
        """The pod and its node in the cluster: None if it is gone, "" if it has no node there."""
        there = self._real.placement(uid)
        if there is not None and there.node is not None:
            return there.pods[uid], there.name
        return self._unplaced.get(uid), ""

    def _is_known(self, uid: str) -> bool:
        """True if the real cluster has the pod, placed (also on a deleted node) or pending."""
        return self._real.placement(uid) is not None or uid in self._unplaced

    def _is_here(self, uid: str) -> bool:
        return self.cache.placement(uid) is not None or uid in self._waiting

    def _take_pod(self, uid: str) -> bool:
        """Takes over the changes of the pod. Returns whether that took a decision."""
        pod, theirs = self._in_cluster(uid)
        mine = self.cache.placement(uid)
        if pod is None:
            if self._is_here(uid):
                self._remove(uid)
            if not self._is_known(uid):
                self._decided.discard(uid)
            return False
        if mine is not None:
            known = mine.pods[uid]
            if known.requests is not pod.requests or known.labels is not pod.labels:
                self.cache.set_pod(pod.on(mine.name))
                self._freed = True
            self._compare(uid, mine.name, theirs)
            return False
        decides = uid in self._decided
        if decides and not pod.group and self._framework.estimate(pod) is None:
            self._decide(pod, theirs)
            return True
        if uid not in self._waiting and theirs:
            if decides:
                self._undecided.add(uid)
            self.cache.set_pod(pod.on(theirs))
        return False

    def _decide(self, pod: PodInfo, theirs: str) -> None:
        """The policy decides on the state of this world."""
        decision = schedule(self._framework, self.cache, waiting_again(pod), always_first, preempt=False)
        self._waiting.pop(pod.uid, None)
        if isinstance(decision, Placement):
            self.cache.set_pod(pod.on(decision.node_name))
            self._compare(pod.uid, decision.node_name, theirs)
        elif isinstance(decision, Rejection) or not theirs:
            self._waiting[pod.uid] = None
        else:
            self._undecided.add(pod.uid)
            self.cache.set_pod(pod.on(theirs))

    def _compare(self, uid: str, ours: str, theirs: str) -> None:
        if ours == theirs:
            self._elsewhere.discard(uid)
        else:
            self._elsewhere.add(uid)

    def _remove(self, uid: str) -> None:
        self.cache.remove_pod(uid)
        self._waiting.pop(uid, None)
        self._elsewhere.discard(uid)
        self._undecided.discard(uid)
        self._freed = True

    # What it shows

    @property
    def counts(self) -> ShadowCounts:
        unplaced = sum(self.cache.placement(uid) is not None for uid in self._unplaced)
        return ShadowCounts(
            elsewhere=len(self._elsewhere) - unplaced,
            waiting=sum(uid not in self._unplaced for uid in self._waiting),
            unplaced=unplaced,
            undecided=len(self._undecided),
            settled=not self.has_work,
        )
