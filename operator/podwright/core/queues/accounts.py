"""Accounts: the pods of each queue, what these hold and ask for, and the tree that sums it up.

A `PlacementObserver` of the cache, from the first queue on: so assumed pods, transactions, plans of gangs and the dry
runs on them count by themselves. The intake of pending pods reports those that wait. `Bounds` and `Turns` read the
attributes without an underscore.

Invariants: what a queue holds is the sum over its placed pods and those below, in exact integers. If queues become
invalid, the tree stays as it was when they last were valid. Read next: `membership`, `tree`, `structure`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import PODS
from podwright.core.objects.selectors import LabelSelector
from podwright.core.queues.amounts import amounts_of
from podwright.core.queues.bound import Bound
from podwright.core.queues.claimed_devices import ClaimedDevices, class_of, is_of_class
from podwright.core.queues.flavors import NOWHERE, OF, Flavors, Labels, Place, parts_of
from podwright.core.queues.least_first import Importance, LeastFirst
from podwright.core.queues.membership import LABEL, OUTSIDE, USER_LABEL, Membership, Source
from podwright.core.queues.rules import QueueRules
from podwright.core.queues.structure import Structure
from podwright.core.queues.tree import Queue, QueueTree, add_amounts, move
from podwright.core.queues.usage import Record
from podwright.core.state.cache import Cache
from podwright.core.state.devices.claims import Key
from podwright.core.state.nodeinfo import NodeInfo

QUEUES_PER_STEP: Final = 64
"""How many queues' usage is counted in one step."""

_NOTHING: Final[Mapping[str, int]] = {}
UNKNOWN: Final = Bound("", "")
"""In the place of a bound that is to be computed."""


@dataclass(slots=True)
class QueuePods:
    """The pods of one queue, whether it exists or not, or those that may not use it, and their sums by resource."""

    placed: dict[str, str] = field(default_factory=dict)
    """By uid: the namespace. The cache has the newest versions, without the objects that waiting pods bring."""
    waiting: dict[str, PodInfo] = field(default_factory=dict)
    """By uid, in the order in which they came. A pod that is assumed is in both."""
    order: LeastFirst = field(default_factory=LeastFirst)
    """The placed pods by importance."""
    held: dict[str, int] = field(default_factory=dict)
    going: dict[str, int] = field(default_factory=dict)
    """The amounts of terminating pods."""
    firm: dict[str, int] = field(default_factory=dict)
    firm_uids: set[str] = field(default_factory=set)
    """The pods that are never evicted for a pod of a queue; `firm`: their amounts."""
    users: dict[str, dict[str, int]] = field(default_factory=dict)
    """By user: the amounts of the user's placed pods."""
    user_of: dict[str, str] = field(default_factory=dict)
    """By uid of placed pods: the user."""
    nominated: dict[str, PodInfo] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    """The amounts of pods that are nominated to a node, but not on it yet."""
    asked: dict[str, int] = field(default_factory=dict)
    """The amounts of pods that wait and are not placed."""
    last_asked: str = ""
    """The uid of the pod that `due_claims` has returned last."""


class Accounts:
    """See the module."""

    def __init__(self, cache: Cache) -> None:
        self.active = False
        """True if there is any queue, also a refused one. Without one, nothing is counted and nothing forbidden."""
        self.changes = 0
        """Rises with each change of a queue."""
        self.pending: Callable[[], Iterable[PodInfo]] = tuple
        """All pending pods, for the moment when the first queue is added. Whoever knows them sets it."""
        self.preemptible_by_policy: Callable[[PodInfo], bool | None] | None = None
        """Returns whether the pod's policy lets it be evicted for pods of queues; None if the policy does not say.
        Whoever knows policies sets it.
        """
        self.gather_after = 0.0
        """`QueueRules.gather_after` of the queues that do not say it."""
        self.serves: Callable[[str], bool] | None = None
        """True if pods with a scheduler name are ours. None: all are. Whoever knows policies sets it."""
        self.refused: dict[str, str] = {}
        """By name: the problem of a queue of which no version was ever valid, so that nothing is known of it. Its pods
        wait.
        """
        self.as_written: Callable[[InvalidObjectError], InvalidObjectError] = lambda problem: problem
        """Returns a queue's problem with the kind and the field of its API. Whoever knows the APIs sets it."""
        self.place_rules: Any = None
        """`Cache.place_rules` while queues name flavors. Whoever makes bounds sets it."""
        self._cache = cache
        self.flavors = Flavors(cache.table)
        self.devices = ClaimedDevices(cache, self._claims_told)
        self.structure = Structure(self)
        self.pods: dict[str, QueuePods] = {}
        self.placed_in: dict[str, str] = {}
        self.waiting_in: dict[str, str] = {}
        self._ending_on: dict[str, int] = {}
        """By uid of the placed pods that terminate, also of those without a queue: the slot of their node."""
        self.nominated_in: dict[str, tuple[str, Mapping[str, int]]] = {}
        """By uid: the queue, and the amounts that count there."""
        self.trying: dict[str, tuple[str, PodInfo, Mapping[str, int], bool]] = {}
        """By uid: the pods that are tried again because their bounds let them start, each with where it counts, for
        what, and whether it is never evicted.
        """
        self.tried_by: dict[tuple[str, str], dict[str, int]] = {}
        """By queue and user: what these request that have no node yet."""
        self.firm_priorities: dict[str, int] = {}
        """By queue, as pods are counted: the lowest `QueueRules.firm_priority` of it and of those above."""
        self.membership = Membership(cache, lambda name: name in self.declared)
        cache.groups.listen_to_groups(self._group_changed)
        self._attached = False
        self._overdue_at = 0
        self._above_timed: set[str] = set()
        """The queues that bound the runtime of their pods, and those above, when `changes` was `_overdue_at`."""
        self.records: dict[str, Record] = {}
        """The usage of each queue of the tree over time."""
        self.regrouped = 0
        self._due: set[str | None] = set()
        """The namespaces whose pods may belong to other queues now. None: all."""
        self._due_groups: set[str] = set()
        """The same of the members of groups, by key."""
        self.bounds_of_gangs: dict[str, tuple[Bound | None, tuple[int, int]]] = {}
        """The answers of `Turns.bound_of` about gangs, by key of the group, and what `lacking` returned then. UNKNOWN:
        to be computed again.
        """
        self._hears_groups = False
        self.ended_promises: dict[tuple[str, str], PodInfo] = {}
        """By uid and queue: pods that are nominated no longer, or not in this queue. See `Turns.take_ended_promises`.
        """
        self.changed_bounds: set[str] = set()
        """See `Turns.take_changed_bounds`."""
        self.touched: set[str] = set()
        """The queues that `Turns` sorts again."""
        self._listeners: list[Callable[[], None]] = []
        compact_regularly(self)

    @property
    def declared(self) -> Mapping[str, QueueRules]:
        """All queues as they were last set, also invalid ones."""
        return self.structure.declared

    @property
    def problems(self) -> Mapping[str, InvalidObjectError]:
        """The problem of a queue, by its name: its parent is missing, is below the queue itself, and so on."""
        return {name: self.as_written(found) for name, found in self.structure.problems().items()}

    def problem(self, name: str) -> InvalidObjectError | None:
        """Returns the problem of one queue, or None."""
        found = self.structure.problem(name)
        return None if found is None else self.as_written(found)

    def listen(self, callback: Callable[[], None]) -> None:
        """Calls `callback` after each change of a queue."""
        self._listeners.append(callback)

    # Pods

    def name_by(self, keys: Sequence[str]) -> None:
        """From now on, pods name their queues by these labels and annotations, too: see `Membership.keys`."""
        if [LABEL, *keys] != [*self.membership.keys]:
            self.membership.keys = (LABEL, *keys)
            self.regroup()

    def queue_of(self, pod: PodInfo) -> str:
        """The name of the pod's queue, which may not exist; empty if it has none, or may not use the one that it
        names.
        """
        found = self.set_of(pod)
        return "" if found.endswith(OUTSIDE) else found

    def names_queue(self, pod: PodInfo) -> bool:
        """True if a queue decides when the pod may start, which it may not be able to use."""
        return self.active and bool(self.set_of(pod))

    def source_of(self, pod: PodInfo) -> Source:
        """Returns the source of the name of the pod's queue."""
        return self.membership.named_by(pod)[1]

    def contradiction(self, pod: PodInfo) -> str:
        """Which field of the pod, or its group, names another queue than that to which it belongs; empty if none
        does.
        """
        several = self.active and (pod.group or len(self.membership.keys) > 1)
        return self.membership.contradiction(pod) if several else ""

    def add_waiting(self, pod: PodInfo) -> None:
        """Adds or replaces a pending pod."""
        known = self.waiting_in.get(pod.uid, "")
        before = self.pods[known].waiting[pod.uid] if known else None
        if known:
            self.remove_waiting(pod.uid)
        self.membership.waits(pod)
        name = self.membership.of(pod)
        if before is not None and (
            (known, before.requests, before.nominated_node_name) != (name, pod.requests, pod.nominated_node_name)
            or self.devices.classes
        ):
            self._bound_changed(pod)
        if name:
            self.waiting_in[pod.uid] = name
            self._pods_of(name).waiting[pod.uid] = pod
            if pod.uid not in self.placed_in:
                self._ask(name, pod, 1)
        if node_name := self._cache.nominator.node_of(pod.uid):
            self._cache.nominator.add(pod, node_name)  # it may have another queue now

    def remove_waiting(self, uid: str) -> None:
        """The pod is no longer pending. Ignores an unknown uid."""
        name = self.waiting_in.pop(uid, "")
        if name:
            self.changed_bounds.discard(uid)
            pod = self.pods[name].waiting.pop(uid)
            if uid not in self.placed_in:
                self._ask(name, pod, -1)
            self._drop_if_empty(name)

    def waiting_pods(self, name: str) -> Sequence[PodInfo]:
        """The pods of this queue, without those below, that wait and are not assumed. In the order in which they
        came.
        """
        self.tree()
        pods = self.pods.get(name)
        return [] if pods is None else [pod for uid, pod in pods.waiting.items() if uid not in self.placed_in]

    def placed_pods(self, name: str) -> Sequence[PodInfo]:
        """The pods of this queue, without those below, that are placed or assumed on nodes that exist."""
        return [pod for ending in (False, True) for _, pod in self.least_important(name, ending=ending)]

    def placed_in_order(self, name: str) -> Sequence[PodInfo]:
        """The same, in the order in which they got their nodes, or last changed there."""
        pods = self.pods.get(name)
        return [] if pods is None else [pod for uid in pods.placed if (pod := self._on_a_node(uid)) is not None]

    def least_important(
        self, name: str, *, ending: bool = False, after: Importance | None = None
    ) -> Iterator[tuple[Importance, PodInfo]]:
        """Returns the placed pods of a queue that stay, or that terminate (`ending`), the least important first, each
        with its sort key. `after`: only those with a greater key.
        """
        pods = self.pods.get(name)
        return iter(()) if pods is None else pods.order.items(self._on_a_node, ending=ending, after=after)

    def nodes_of_ending_pods(self) -> Sequence[NodeInfo]:
        """The nodes that exist with pods that terminate, also those without a queue."""
        return [self._cache.node_at(slot) for slot in dict.fromkeys(self._ending_on.values()) if slot >= 0]

    def lost_with_ending_pods(self) -> Mapping[str, int]:
        """By resource: what pods of queues hold that terminate on nodes that take no pods, so that it will not be
        free.
        """
        lost: dict[str, int] = {}
        if self._ending_on:
            uids, slots = [*self._ending_on], np.fromiter(self._ending_on.values(), np.intp, len(self._ending_on))
            for index in np.flatnonzero((slots < 0) | ~self._offering()[slots]):
                if uids[index] in self.placed_in and (info := self._cache.placement(uids[index])) is not None:
                    add_amounts(lost, self.placed_amounts(info.pods[uids[index]]))
        return lost

    def _placed(self, pods: QueuePods) -> Iterator[PodInfo]:
        return (info.pods[uid] for uid in pods.placed if (info := self._cache.placement(uid)) is not None)

    def _on_a_node(self, uid: str) -> PodInfo | None:
        info = self._cache.placement(uid)
        return None if info is None or info.node is None else info.pods[uid]

    def regroup(self, namespace: str | None = None) -> None:
        """Finds the queues of these pods again, because something else may name them now. None: of all pods."""
        if self.active:
            self._due.add(namespace)

    def _group_changed(self, before: PodGroup | None, after: PodGroup | None) -> None:
        """Groups say the queue of their pods, and whether these are never evicted."""
        was, now = (("", None) if group is None else (group.queue, group.firm) for group in (before, after))
        group = after or before
        if self.active and was != now and group is not None and not self._cache.groups.members(group.key).empty:
            self._due_groups.add(group.key)

    # What queues have

    def get(self, name: str) -> QueueRules | None:
        """The queue as it is in the tree: as it last was valid."""
        self.tree()
        return self.structure.valid.get(name)

    def names(self) -> Sequence[str]:
        """The queues of the tree."""
        self.tree()
        return [*self.structure.valid]

    def path(self, name: str) -> Sequence[str]:
        """The names of the queue, its parent, and so on, up to the top. Empty if it is not in the tree."""
        queue = self.tree().get(name)
        return () if queue is None else queue.names()

    def top_of(self, pod: PodInfo) -> str:
        """The name of the queue at the top that is above the pod's queue, or of its queue if that does not exist."""
        name = self.queue_of(pod)
        return (self.path(name) or (name,))[-1]

    def children(self, name: str) -> Sequence[str]:
        """The names of the queues right below this one; of those at the top for ""."""
        queue = self.tree().top if not name else self.tree().get(name)
        return () if queue is None else [child.spec.name for child in queue.children]

    def usage(self, name: str) -> Mapping[str, int]:
        """By resource that any queue names: what the pods of the queue and of those below have on nodes."""
        return self.queue(name).held

    def held_by(self, user: str, names: Iterable[str], resource: str) -> int:
        """Returns the amount that a user's pods in these queues, without those below, have on nodes."""
        pods = (self.pods[name] for name in names if name in self.pods)
        return sum(each.users[user].get(resource, 0) for each in pods if user in each.users)

    def waiting(self, name: str) -> Mapping[str, int]:
        """By resource: what the pods of the queue and of those below request that are not placed and may start."""
        return self.queue(name).asked

    def share(self, name: str) -> Mapping[str, int]:
        """The queue's fair share, by resource that any queue names."""
        return self.shared_out().share(name)

    def shared_out(self) -> QueueTree:
        """The tree, with the shares of all queues as they are now."""
        tree = self.tree()
        tree.set_capacity(self.capacity())
        tree.compute_shares()
        return tree

    def last_shared_out(self) -> QueueTree:
        """The tree, with the shares as they were last computed, or as they are now if the tree has just been built."""
        tree = self.tree()
        return tree if tree.top.share or not tree.resources else self.shared_out()

    def sample_usage(self, now: float) -> Generator[None, None, None]:
        """Counts what all queues of the tree, and their users, have as used since the last call. `now`: seconds since
        the epoch. Yields between two steps, in which queues may change.
        """
        for name in self.records.keys() - self.names():
            del self.records[name]
        for index, name in enumerate(self.names(), start=1):
            queue, rules = self.tree().get(name), self.structure.valid.get(name)
            if queue is None or rules is None:
                continue
            record = self.records.setdefault(name, Record())
            record.sample(queue.held, now, rules.usage_half_life)
            if rules.usage_half_life:
                self.touched.add(name)
            pods = self.pods.get(name)
            yield from record.sample_users({} if pods is None else pods.users, now)
            if not index % QUEUES_PER_STEP:
                yield

    def last_share(self, name: str) -> Mapping[str, int]:
        """The queue's fair share, as in `last_shared_out`."""
        return self.last_shared_out().last_share(name)

    def shut_by(self, name: str) -> str:
        """Which state of the queue, or of one above it, keeps its pods from starting; empty if they may start."""
        queue = self.tree().get(name)
        for above in queue.path if queue is not None and name in self.structure.shut else ():
            if (state := self.structure.valid[above.spec.name].state) != "Open":
                return f"queue {above.spec.name} is in state {state}"
        return ""

    @property
    def draining(self) -> AbstractSet[str]:
        """The queues whose placed pods are to go, because they, or queues above them, are in state Drain."""
        if not self.active:
            return frozenset()
        self.tree()
        return self.structure.draining

    def is_usable_in(self, name: str, namespace: str) -> bool:
        """True if the queue is in the tree, and pods of the namespace may use it."""
        return name in self.tree() and self.membership.allows(name, namespace)

    def capacity(self) -> Mapping[str, int]:
        """By resource that any queue names: what is free on the nodes that take pods, and what pods in queues hold."""
        return self._capacity_of(self.tree().resources)

    def capacity_of(self, resource: str) -> int:
        """The same of one resource."""
        return self._capacity_of((resource,))[resource]

    def _offering(self) -> NDArray[np.bool_]:
        """bool[nodes]: the nodes that take pods."""
        table = self._cache.table
        taken = [any(t.managed and t.effect != "PreferNoSchedule" for t in taints) for taints in table.taint_sets]
        offering = table.valid & ~table.unschedulable
        if any(taken):
            offering &= ~np.array(taken, np.bool_)[table.taints]
        return offering

    def _capacity_of(self, names: Iterable[str]) -> Mapping[str, int]:
        """Sums up the nodes once for each resource, however many flavors have it."""
        held, offering = self.tree().top.held, self._offering()
        sums, found = dict[str, Mapping[str, int]](), dict[str, int]()
        for name in names:
            resource, flavor = parts_of(name)
            if is_of_class(resource):
                there = offering & self.flavors.nodes_of(flavor) if flavor else offering
                free = self.devices.supply.free(class_of(resource), there)
            else:
                if resource not in sums:
                    sums[resource] = self.flavors.sums(self._free_on(offering, resource))
                free = sums[resource].get(flavor, 0)
            found[name] = free + held.get(name, 0)
        return found

    def _free_on(self, offering: NDArray[np.bool_], resource: str) -> NDArray[np.int64]:
        """int64[nodes]: what is free on these nodes, and 0 on others. The sum is an int64, too."""
        table = self._cache.table
        requested = table.pods if resource == PODS else table.requested(resource)
        free = np.clip(table.allocatable(resource) - requested, 0, MAX_INT64 // max(1, table.size))
        return np.where(offering, free, 0)

    # How long pods run, and which are never evicted

    def is_firm_in(self, name: str, pod: PodInfo) -> bool:
        """True if the pod, which belongs to this queue, is never evicted for a pod of a queue."""
        group = self._cache.groups.of(pod) if pod.group else None
        if group is not None and group.firm is not None:
            return group.firm
        if self.preemptible_by_policy is not None and (preemptible := self.preemptible(pod)) is not None:
            return not preemptible
        at = self.firm_priorities.get(name)
        return at is not None and pod.priority >= at

    def is_ours(self, pod: PodInfo) -> bool:
        """True if we decide where the pod is. A queue evicts no others, because they would come back: those of other
        schedulers, of DaemonSets, and static ones.
        """
        return not belongs_to_node(pod) and (self.serves is None or self.serves(pod.scheduler_name))

    def preemptible(self, pod: PodInfo) -> bool | None:
        """Returns whether the pod's policy lets it be evicted for pods of queues, or did when the pod got its node."""
        by_policy = self.preemptible_by_policy
        return None if by_policy is None else by_policy(self.membership.as_first(pod))

    def max_runtime(self, name: str) -> float:
        """For how long a pod of the queue runs before it is a victim for anybody, in seconds. Infinite without a
        bound.
        """
        queue = self.tree().get(name) if self.structure.timed else None
        path = () if queue is None else queue.path
        return min((each for above in path if (each := self.structure.valid[above.spec.name].max_runtime)), default=inf)

    def may_be_overdue(self, name: str) -> bool:
        """True if pods of the queue, or of one below it, may run for longer than their queues let them."""
        if self._overdue_at != self.changes:
            self._overdue_at = self.changes
            self._above_timed = {above for timed in self.structure.timed for above in self.path(timed)}
        return name in self._above_timed or self.max_runtime(name) < inf

    def gathers_after(self, name: str) -> float:
        """See `QueueRules.gather_after`. 0 if the queue is not in the tree."""
        rules = self.get(name) if self.active else None
        if rules is None:
            return 0.0
        return self.gather_after if rules.gather_after is None else rules.gather_after

    def is_firm(self, pod: PodInfo) -> bool:
        """True if the pod is never evicted for a pod of a queue."""
        return self.is_firm_in(self.queue_of(pod), pod)

    # The pods that are tried again

    def _bound_changed(self, pod: PodInfo) -> None:
        self.changed_bounds.add(pod.uid)
        if pod.group:
            self._forget_bound(self._cache.groups.key_of(pod))

    def _members_changed(self, key: str) -> None:
        known = self.bounds_of_gangs.get(key)
        if known is not None and known[1] != self.lacking(key):
            self._forget_bound(key)

    def _forget_bound(self, key: str) -> None:
        bound, _ = self.bounds_of_gangs.pop(key, (UNKNOWN, None))
        if bound is not UNKNOWN:
            self.changed_bounds.update(self._cache.groups.members(key).waiting)

    def lacking(self, key: str) -> tuple[int, int]:
        """How many members of a gang have to start together, and of how many that wait."""
        groups = self._cache.groups
        group = groups.get(key)
        return 0 if group is None or not group.gang else groups.lacking(group), groups.members(key).unplaced_count

    def start_try(self, pod: PodInfo, place: Collection[str]) -> None:
        """The pod is tried again because its bounds let it start on nodes of these flavors. It counts there
        meanwhile.
        """
        name = self.queue_of(pod)
        self.trying[pod.uid] = name, pod, self.amounts_at(pod, place), self.is_firm_in(name, pod)
        if pod.uid not in self.placed_in:
            self._count_trying(pod.uid, 1)

    def end_try(self, uid: str) -> bool:
        """The attempt at the pod is over. Returns whether it was tried again and did not use its room."""
        if uid not in self.trying:
            return False
        unused = uid not in self.placed_in
        if unused:
            self._count_trying(uid, -1)
        del self.trying[uid]
        return unused

    # PlacementObserver

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        self.membership.arrives(pod)
        if pod.terminating:
            self._ending_on[pod.uid] = slot
        name, uid = self.membership.of(pod), pod.uid
        if not name:
            return
        place = self.flavors.at(slot) if self.flavors.named else NOWHERE
        asking = self.waiting_in.get(uid)
        asks = asking == name and self._demands_alike(name, pod, place)
        starts = asks and not self.devices.classes
        if asking is not None and not starts:
            self._ask(asking, self.pods[asking].waiting[uid], -1, demand=not asks)
        if uid in self.trying:
            self._count_trying(uid, -1)
        self.placed_in[uid] = name
        pods = self._pods_of(name)
        pods.placed[uid] = pod.namespace
        pods.order.add(pod)
        self._hold(name, pod, place, 1, demand=not asks, starts=starts)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        uid = pod.uid
        self.membership.leaves(pod)
        self._ending_on.pop(uid, None)
        name = self.placed_in.pop(uid, "")
        if not name:
            return
        if uid in self.trying:
            self._count_trying(uid, 1)
        place = self.flavors.at(slot) if self.flavors.named else NOWHERE
        asks = self.waiting_in.get(uid) == name and self._demands_alike(name, pod, place)
        pods = self.pods[name]
        pods.order.remove(uid)
        del pods.placed[uid]
        self._hold(name, pod, place, -1, demand=not asks)
        if uid in self.waiting_in:
            asking = self.waiting_in[uid]
            self._ask(asking, self.pods[asking].waiting[uid], 1, demand=not asks)
        self._drop_if_empty(name)

    def node_set(self, slot: int, before: Node | None, after: Node | None) -> None:
        """The node may have other flavors now. The capacity is read from the table of nodes."""
        if not self.flavors.named or self.flavors.at(slot) == (
            NOWHERE if after is None else self.flavors.place_of(after.labels)
        ):
            return
        name = self._cache.table.names[slot]
        info, nominator = self._cache.present(name), self._cache.nominator
        # Of a node that comes or goes, the pods do so by themselves.
        placed = [] if info is None or before is None or after is None else [*info.pods.values()]
        nominated = [*nominator.on(name)]
        for pod in placed:
            self.pod_removed(pod, slot)
        self.flavors.set_node(slot, after)
        for pod in placed:
            self.pod_added(pod, slot)
        for pod in nominated:
            nominator.add(pod, name)

    def namespace_set(self, name: str, labels: Mapping[str, str]) -> None:
        if self.membership.label(name, labels) and self._attached:
            self.regroup(name)

    # What pods take

    def plain_amounts(self, pod: PodInfo, seen: MutableSet[Key] | None = None) -> Mapping[str, int]:
        """Returns the amounts that the pod takes on any node. `seen`: see `ClaimedDevices.takes`."""
        amounts, devices = amounts_of(pod), self.devices
        if not devices.classes:
            return amounts
        placed = pod.uid in self.placed_in
        return {**amounts, **(devices.counted(pod.uid) if placed else devices.takes(self.set_of(pod), pod, seen))}

    def tracked(self, tree: QueueTree, pod: PodInfo) -> Mapping[str, int]:
        """Returns the amounts that the pod takes on any node, of the resources that queues name."""
        return tree.tracked(self.plain_amounts(pod)) if self.devices.classes else tree.tracked_of(pod.requests)

    def amounts_together(self, pods: Iterable[PodInfo], place: Collection[str]) -> dict[str, int]:
        """Returns the amounts of these pods of a queue on nodes of these flavors. A claim that they share counts
        once.
        """
        found, seen = dict[str, int](), set[Key]()
        for pod in pods:
            amounts = self.plain_amounts(pod, seen)
            add_amounts(found, {**amounts, **self.flavors.taken(amounts, place)})
        return found

    def amounts_at(self, pod: PodInfo, place: Collection[str]) -> Mapping[str, int]:
        """Returns the amounts that the pod takes on nodes of these flavors."""
        amounts = self.plain_amounts(pod)
        return {**amounts, **self.flavors.taken(amounts, place)} if place else amounts

    def placed_amounts(self, pod: PodInfo) -> Mapping[str, int]:
        """Returns the amounts that a placed pod takes."""
        info = self._cache.placement(pod.uid)
        return self.plain_amounts(pod) if info is None else self.amounts_at(pod, self.flavors.at(info.slot))

    def flavors_on(self, pod: PodInfo, node_name: str) -> Sequence[str]:
        """The flavors of a node in which the pod takes something."""
        self.tree()
        if not self.flavors.named:
            return ()
        return [*dict.fromkeys(parts_of(name)[1] for name in self.amounts_on(pod, node_name) if OF in name)]

    def amounts_on(self, pod: PodInfo, node_name: str) -> Mapping[str, int]:
        """Returns the amounts that the pod takes on this node, which may not exist."""
        info = self._cache.present(node_name)
        return self.plain_amounts(pod) if info is None else self.amounts_at(pod, self.flavors.at(info.slot))

    # Internals

    def set_of(self, pod: PodInfo) -> str:
        """The name of the set in which the pod counts: see `Membership.of`."""
        if self._due or self._due_groups:
            self.tree()
        return self.placed_in.get(pod.uid) or self.waiting_in.get(pod.uid) or self.membership.of(pod)

    def _regroup(self) -> None:
        """Counts pods in other queues that belong to these now."""
        due, self._due = self._due, set()
        members = [*map(self._cache.groups.members, self._due_groups)]
        self._due_groups.clear()
        self.regrouped += 1
        waiting = [pod for pod in (self.pending() if due else ()) if None in due or pod.namespace in due]
        waiting += [pod for each in members for pod in each.waiting.values()]
        placed = [
            (pod, info.slot)
            for info in (self._cache.nodes.values() if due else ())
            for pod in info.pods.values()
            if None in due or pod.namespace in due
        ]
        there = ((uid, self._cache.placement(uid)) for each in members for uid in each.placed)
        placed += [(info.pods[uid], info.slot) for uid, info in there if info is not None]
        self._group_again([each for each in placed if not self._counts_rightly(each[0])], waiting)

    def _counts_rightly(self, pod: PodInfo) -> bool:
        """True if the placed pod counts in its queue, and as what it is."""
        name = self.membership.of(pod)
        if name != self.placed_in.get(pod.uid, ""):
            return False
        return not name or self.is_firm_in(name, pod) == (pod.uid in self.pods[name].firm_uids)

    def _regroup_queue(self, name: str) -> None:
        """The same for the pods that name a queue, because other namespaces may use it."""
        self.regrouped += 1
        pods = [pods for each in (name, name + OUTSIDE) if (pods := self.pods.get(each)) is not None]
        placed = [
            (info.pods[uid], info.slot)
            for each in pods
            for uid in each.placed
            if (info := self._cache.placement(uid)) is not None
        ]
        self._group_again(placed, [pod for each in pods for pod in each.waiting.values()])

    def _group_again(self, placed: Sequence[tuple[PodInfo, int]], waiting: Sequence[PodInfo]) -> None:
        for pod, slot in placed:
            self.pod_removed(pod, slot)
            self.pod_added(pod, slot)
        for pod in waiting:
            self.add_waiting(pod)
        self._cache.nominator.add_again()

    def _start(self) -> None:
        """Starts to count pods, when the first queue is added."""
        self.active = True
        nominator = self._cache.nominator
        nominator.queue_of, nominator.listener = self.queue_of, self._nominated
        self._cache.attach(self, off_nodes=True)
        self._attached = True
        self._cache.groups.also_told.append(self)
        if not self._hears_groups:
            self._hears_groups = True
            self._cache.groups.listen(self._members_changed)
        nominator.add_again()
        for pod in self.pending():
            self.add_waiting(pod)

    def _stop(self) -> None:
        """Stops counting, when the last queue is gone."""
        self.active = self._attached = False
        self._cache.nominator.queue_of = self._cache.nominator.listener = None
        self._cache.nominator.add_again()
        self.nominated_in.clear()
        self._cache.detach(self)
        self._cache.groups.also_told.remove(self)
        placed = self.placed_in, self._ending_on
        for known in (self.records, self.firm_priorities, self.pods, self.waiting_in, self.bounds_of_gangs, *placed):
            known.clear()
        self.structure.clear()
        self.flavors_are({}, ())
        self.membership.clear()
        self.trying.clear()
        self.tried_by.clear()
        self.touched.clear()
        self._due.clear()
        self._due_groups.clear()
        self.changed_bounds.clear()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def tree(self) -> QueueTree:
        """The tree of the valid queues, with what their pods request and hold."""
        tree = self.structure.current
        if tree is None or (self.devices.classes and self.devices.stale):
            self.structure.current = None
            tree = self.structure.tree()
        if self._due or self._due_groups:
            self._regroup()
        return tree

    # PodCounts

    def count_pods_of(self, tree: QueueTree, names: Collection[str]) -> None:
        self.touched.update(names)
        for name in names:
            queue = tree.get(name)
            self._count_firm(name, self.structure.firm_priority(() if queue is None else queue.path))
            if (pods := self.pods.get(name)) is not None:
                tree.add_firm(name, tree.tracked(pods.firm))
                tree.add_held(name, tree.tracked(pods.held))
                tree.add_going(name, tree.tracked(pods.going))
                tree.add_promised(name, tree.tracked(pods.promised))
                if self._open(tree, name):
                    tree.add_asked(name, tree.tracked(pods.asked))
        for uid, (name, *_) in self.trying.items():
            if name in names and uid not in self.placed_in:
                self._add_trying(tree, uid, 1)

    def _count_firm(self, name: str, priority: int | None) -> None:
        if priority == self.firm_priorities.get(name):
            return
        if priority is None:
            del self.firm_priorities[name]
        else:
            self.firm_priorities[name] = priority
        if (pods := self.pods.get(name)) is not None:
            pods.firm.clear()
            firm = [pod for pod in self._placed(pods) if self.is_firm_in(name, pod)]
            pods.firm_uids = {pod.uid for pod in firm}
            for pod in firm:
                add_amounts(pods.firm, self.placed_amounts(pod))

    def flavors_are(self, labels: Mapping[str, Labels], resources: Iterable[str]) -> None:
        resources = [*resources]
        if self.flavors.define(labels, resources) | self.devices.define(resources):
            self.flavors.off_nodes = frozenset(name for name in self.flavors.named if name == PODS or is_of_class(name))
            self._cache.place_rules = self.place_rules if self.flavors.named else None
            self.tried_by.clear()
            trying, self.trying = self.trying, {}
            for name, pods in self.pods.items():
                self._sum_up(name, pods)
            for uid, (name, pod, _, firm) in trying.items():
                self.trying[uid] = name, pod, self.plain_amounts(pod), firm
                if uid not in self.placed_in:
                    self._count_tried_by(uid, 1)  # the new tree gets it with the pods of the queue

    def _sum_up(self, name: str, pods: QueuePods) -> None:
        """Sums up again what the pods of a queue take, because that has changed."""
        for sums in (pods.held, pods.going, pods.firm, pods.users, pods.promised, pods.asked):
            sums.clear()
        for pod in self._placed(pods):
            if self.devices.classes:
                self.devices.count(name, pod, placed=True)
            amounts = self.placed_amounts(pod)
            add_amounts(pods.held, amounts)
            _add_parts(pods, pod, amounts, firm=pod.uid in pods.firm_uids)
            if user := pods.user_of.get(pod.uid, ""):
                add_amounts(pods.users.setdefault(user, {}), amounts)
        for uid, pod in pods.nominated.items():
            amounts = self.amounts_on(pod, self._cache.nominator.node_of(uid))
            self.nominated_in[uid] = name, amounts
            add_amounts(pods.promised, amounts)
        for uid, pod in pods.waiting.items():
            if uid not in self.placed_in and not pod.gates:
                if self.devices.classes:
                    self.devices.count(name, pod, placed=False)
                add_amounts(pods.asked, self.amounts_at(pod, self.flavors.open_to(pod.node_affinity)))

    def may_use(self, queue: str, namespaces: LabelSelector) -> None:
        if self.membership.select(queue, namespaces):
            self._regroup_queue(queue)

    def restricted(self) -> AbstractSet[str]:
        return self.membership.restricted

    def queue(self, name: str) -> Queue:
        """Returns a queue of the tree with the amounts of its pods and those below. Raises KeyError for other names."""
        queue = self.tree().get(name)
        if queue is None:
            raise KeyError(name)
        return queue

    def _open(self, tree: QueueTree, name: str) -> bool:
        """True if pods may start in a queue of the tree."""
        return name in tree and name not in self.structure.shut

    def _demands_alike(self, name: str, pod: PodInfo, place: Place) -> bool:
        """True if the pod is the same part of its queue's demand while it waits and when it is placed."""
        waiting, tree = self.pods[name].waiting[pod.uid], self.structure.current
        alike = waiting.requests is pod.requests and not waiting.gates
        if self.devices.classes and (pod.resource_claims or self.devices.takes(name, pod)):
            return False
        if self.flavors.named and alike and not self.flavors.named.isdisjoint(self.plain_amounts(pod)):
            alike = {*self.flavors.open_to(waiting.node_affinity)} == {*place}
        return alike and tree is not None and tree.get(name) is not None and name not in self.structure.shut

    def _hold(self, name: str, pod: PodInfo, place: Place, sign: int, *, demand: bool, starts: bool = False) -> None:
        """`starts`: the pod takes from now on what it has asked for."""
        amounts = amounts_of(pod)
        if self.devices.classes:
            devices = self.devices.count(name, pod, placed=True) if sign > 0 else self.devices.counted(pod.uid)
            amounts = {**amounts, **devices}
        if place:
            amounts = {**amounts, **self.flavors.taken(amounts, place)}
        self._add_held(name, pod, amounts, sign, demand=demand, starts=starts)
        if self.devices.classes:
            others = self.devices.leave(name, pod.uid) if sign < 0 else self.devices.relieved(name, pod)
            self._claims_changed(others)

    def _claims_told(self, uids: Iterable[str]) -> None:
        """The API server says something else of a claim of these pods."""
        if self._claims_changed(uids):
            self._tell()  # a bound may let others start now

    def _claims_changed(self, uids: Iterable[str]) -> bool:
        """Counts again these pods, which may take other devices now. Returns whether any does."""
        changed = False
        for uid in uids:
            name = self.placed_in.get(uid) or self.waiting_in[uid]
            info = self._cache.placement(uid) if uid in self.pods[name].placed else None
            pod = None if info is None else info.pods[uid]
            if self.devices.takes(name, pod or self.pods[name].waiting[uid]) == self.devices.counted(uid):
                continue
            changed = True
            if pod is None:
                self._ask(name, self.pods[name].waiting[uid], -1)
                self._ask(name, self.pods[name].waiting[uid], 1)
            else:
                place = NOWHERE if info is None else self.flavors.at(info.slot)
                self._add_held(name, pod, self.amounts_at(pod, place), -1, demand=True)
                self.devices.count(name, pod, placed=True)
                self._add_held(name, pod, self.amounts_at(pod, place), 1, demand=True)
        return changed

    def _add_held(
        self, name: str, pod: PodInfo, amounts: Mapping[str, int], sign: int, *, demand: bool, starts: bool = False
    ) -> None:
        tree = self.structure.current
        if sign < 0:
            amounts = {resource: -amount for resource, amount in amounts.items()}
        pods = self.pods[name]
        if (
            sign > 0
            and (pod.group or name in self.firm_priorities or self.preemptible_by_policy)
            and self.is_firm_in(name, pod)
        ):
            pods.firm_uids.add(pod.uid)
        firm = pod.uid in pods.firm_uids
        if starts:
            move((pods.asked,), (pods.held,), amounts)
        else:
            add_amounts(pods.held, amounts)
        _add_parts(pods, pod, amounts, firm=firm)
        if sign < 0:
            pods.firm_uids.discard(pod.uid)
            user = pods.user_of.pop(pod.uid, "")
        else:
            user = self.membership.user_of(pod) if self.membership.first_labels else pod.labels.get(USER_LABEL, "")
        if user:
            add_amounts(pods.users.setdefault(user, {}), amounts)
            if sign > 0:
                pods.user_of[pod.uid] = user
            elif not pods.users[user]:
                del pods.users[user]
        if tree is not None and tree.get(name) is not None:
            tracked = tree.tracked(amounts)
            if starts:
                tree.start(name, tracked)
            else:
                tree.add_held(name, tracked, demand=demand)
            if pod.terminating:
                tree.add_going(name, tracked)
            if firm:
                tree.add_firm(name, tracked)
            self.touched.add(name)

    def _ask(self, name: str, pod: PodInfo, sign: int, *, demand: bool = True) -> None:
        if pod.gates:
            return
        wanted = amounts_of(pod)
        if self.devices.classes:
            devices = self.devices.count(name, pod, placed=False) if sign > 0 else self.devices.counted(pod.uid)
            wanted = {**wanted, **devices}
            if sign < 0:
                self.devices.leave(name, pod.uid)
        if self.flavors.named and not self.flavors.named.isdisjoint(wanted):
            wanted = {**wanted, **self.flavors.taken(wanted, self.flavors.open_to(pod.node_affinity))}
        amounts = wanted if sign > 0 else {r: -amount for r, amount in wanted.items()}
        tree = self.structure.current
        add_amounts(self.pods[name].asked, amounts)
        queue = None if tree is None or name in self.structure.shut else tree.get(name)
        if tree is not None and queue is not None:
            before = len(queue.asked)
            tree.add_asked(name, tree.tracked(amounts), demand=demand)
            if len(queue.asked) != before:
                self.touched.add(name)

    def _count_trying(self, uid: str, sign: int) -> None:
        self._count_tried_by(uid, sign)
        if (tree := self.structure.current) is not None and self.trying[uid][0] in tree:
            self._add_trying(tree, uid, sign)

    def _count_tried_by(self, uid: str, sign: int) -> None:
        name, pod, amounts, _ = self.trying[uid]
        if user := self.membership.user_of(pod):
            sums = self.tried_by.setdefault((name, user), {})
            add_amounts(sums, {r: sign * amount for r, amount in amounts.items()})
            if not sums:
                del self.tried_by[name, user]

    def _add_trying(self, tree: QueueTree, uid: str, sign: int) -> None:
        name, _, taken, firm = self.trying[uid]
        amounts = {r: sign * amount for r, amount in tree.tracked(taken).items()}
        tree.add_trying(name, amounts, firm=firm)

    def _nominated(self, pod: PodInfo, sign: int) -> None:
        """The pod is nominated to a node (1), or no longer (-1)."""
        name, taken = self.nominated_in.pop(pod.uid, ("", _NOTHING)) if sign < 0 else (self.queue_of(pod), _NOTHING)
        # Finding the queue may have grouped all pods again, and this one with them.
        if not name or (sign > 0 and pod.uid in self.nominated_in):
            return
        if pod.uid in self.waiting_in:
            self._bound_changed(pod)
        pods = self._pods_of(name)
        if sign > 0:
            taken = self.amounts_on(pod, self._cache.nominator.node_of(pod.uid))
            self.nominated_in[pod.uid] = name, taken
            pods.nominated[pod.uid] = pod
        else:
            del pods.nominated[pod.uid]
            self.ended_promises[pod.uid, name] = pod
        amounts, tree = {r: sign * amount for r, amount in taken.items()}, self.structure.current
        add_amounts(pods.promised, amounts)
        if tree is not None and name in tree:
            tree.add_promised(name, tree.tracked(amounts))
        self._drop_if_empty(name)

    def _pods_of(self, name: str) -> QueuePods:
        pods = self.pods.get(name)
        if pods is None:
            pods = self.pods[name] = QueuePods()
        return pods

    def _drop_if_empty(self, name: str) -> None:
        pods = self.pods[name]
        if not pods.placed and not pods.waiting and not pods.nominated:
            del self.pods[name]


def _add_parts(pods: QueuePods, pod: PodInfo, amounts: Mapping[str, int], *, firm: bool) -> None:
    if firm:
        add_amounts(pods.firm, amounts)
    if pod.terminating:
        add_amounts(pods.going, amounts)
