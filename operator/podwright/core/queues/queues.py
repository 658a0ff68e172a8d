"""Queues: the queues of the cluster, the pods in each, and the bound that forbids a pod now.

A `PlacementObserver` of the cache, from the first queue on: so assumed pods, transactions, plans of gangs and the dry
runs on them count by themselves. The intake of pending pods reports those that wait. A pod's queue is the one that its
label names, else the one that its policy chooses, else the one that the label of its namespace names.

Invariants: what a queue holds is the sum over its placed pods and those below, in exact integers. If queues become
invalid, the tree stays as it was when they last were valid. Read next: `membership`, `tree`, `validity`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Mapping, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podwright.core.framework.status import Status, unresolvable
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.quantity import MAX_INT64, NANO, canonical
from podwright.core.objects.resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, PODS
from podwright.core.objects.selectors import LabelSelector
from podwright.core.objects.volcano_groups import VOLCANO_DEFAULT_QUEUE
from podwright.core.queues.bound import Bound
from podwright.core.queues.claimed_devices import ClaimedDevices, class_of, is_of_class
from podwright.core.queues.flavors import NOWHERE, OF, Flavors, Labels, Place, field_of, judged, labels_text, parts_of
from podwright.core.queues.least_first import Importance, LeastFirst
from podwright.core.queues.membership import LABEL, OUTSIDE, USER_LABEL, Membership, Source, same_selector
from podwright.core.queues.places import Places
from podwright.core.queues.rules import QueueRules
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.structure import Structure
from podwright.core.queues.tree import NO_QUOTA, Queue, QueueTree, add_amounts, move
from podwright.core.queues.usage import Record
from podwright.core.state.cache import Cache
from podwright.core.state.devices.claims import Key
from podwright.core.state.nodeinfo import NodeInfo
from podwright.core.state.reservations import gathered_name

__all__ = [
    "CLAIMS_AT_ONCE",
    "QUEUE_LABEL",
    "QUEUE_QUOTA",
    "USER_LABEL",
    "Bound",
    "QueueRules",
    "Queues",
    "amount_text",
    "amounts_of",
    "queues_of",
]

QUEUE_QUOTA: Final = "QueueQuota"
"""The plugin in whose name bounds refuse pods."""
QUEUE_LABEL: Final = LABEL
OVER_LIMIT: Final = "OverLimit"
NO_NODES: Final = "FlavorWithoutNodes"
UNKNOWN_CAPACITY: Final = "CapacityUnknown"

_PARTS: Final = 2**20
"""Dominant shares are compared in these parts of the capacity."""

FIRST_PODS: Final = 16
"""How many waiting pods of a queue `is_owed` and `first_bound` look at."""
CLAIMS_AT_ONCE: Final = 32
"""The most pods that `due_claims` returns."""
QUEUES_AT_ONCE: Final = 1000
"""Of how many queues it looks at the pods."""
QUEUES_PER_STEP: Final = 64
"""Of how many queues the use is counted in one step."""


_NOTHING: Final[Mapping[str, int]] = {}


@dataclass(slots=True)
class _Pods:
    """The pods of one queue, whether it exists or not, or those that may not use it, and their sums by resource."""

    placed: dict[str, str] = field(default_factory=dict)
    """By uid: the namespace. The cache has the newest versions, without the objects that waiting pods bring."""
    waiting: dict[str, PodInfo] = field(default_factory=dict)
    """By uid, in the order in which they came. A pod that is assumed is in both."""
    order: LeastFirst = field(default_factory=LeastFirst)
    """Of the placed ones."""
    held: dict[str, int] = field(default_factory=dict)
    going: dict[str, int] = field(default_factory=dict)
    """Of those that terminate."""
    firm: dict[str, int] = field(default_factory=dict)
    firm_uids: set[str] = field(default_factory=set)
    """Of those that are never evicted for a pod of a queue."""
    users: dict[str, dict[str, int]] = field(default_factory=dict)
    """By user: of the user's placed pods."""
    user_of: dict[str, str] = field(default_factory=dict)
    """By uid of these pods."""
    nominated: dict[str, PodInfo] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)
    """Of those that are nominated to a node, but not on it yet."""
    asked: dict[str, int] = field(default_factory=dict)
    """Of those that wait and are not placed."""
    last_asked: str = ""
    """The uid of the pod that `due_claims` has returned last."""


class Queues:
    """See the module."""

    def __init__(self, cache: Cache) -> None:
        self.active = False
        """True if there is any queue. Without one, nothing is counted and nothing forbidden."""
        self.changes = 0
        """Rises with each change of a queue."""
        self.pending: Callable[[], Iterable[PodInfo]] = tuple
        """All pending pods, for the moment when the first queue is added. Whoever knows them sets it."""
        self._cache = cache
        self.flavors = Flavors(cache.table)
        self.places = Places(self, QUEUE_QUOTA)
        self.devices = ClaimedDevices(cache, self._claims_told)
        self._structure = Structure(self)
        self._pods: dict[str, _Pods] = {}
        self._placed_in: dict[str, str] = {}
        self._waiting_in: dict[str, str] = {}
        self._ending_on: dict[str, int] = {}
        """By uid of the placed pods that terminate, also of those without a queue: the slot of their node."""
        self._nominated_in: dict[str, tuple[str, Mapping[str, int]]] = {}
        """By uid: the queue, and the amounts that count there."""
        self._trying: dict[str, tuple[str, PodInfo, Mapping[str, int], bool]] = {}
        """By uid: the pods that are tried again because their bounds let them start, each with where it counts, for
        what, and whether it is never evicted.
        """
        self._tried_by: dict[tuple[str, str], dict[str, int]] = {}
        """By queue and user: what these request that have no node yet."""
        self._firm: dict[str, int] = {}
        """`QueueRules.firm_priority` by queue, as pods are counted."""
        self._membership = Membership(cache, lambda name: name in self.declared)
        cache.groups.listen_to_groups(self._group_changed)
        self._attached = False
        self._overdue_at = 0
        self._above_timed: set[str] = set()
        """The queues that bound the runtime of their pods, and those above, when `changes` was `_overdue_at`."""
        self.records: dict[str, Record] = {}
        """What each queue of the tree has used over time."""
        self._last_asked = ""
        """The queue of which `due_claims` has asked last."""
        self._regrouped = 0
        self._due: set[str | None] = set()
        """The namespaces whose pods may belong to other queues now. None: all."""
        self._due_groups: set[str] = set()
        """The same of the members of groups, by key."""
        self._touched: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        compact_regularly(self)

    # Declaring queues

    def set(self, spec: QueueRules) -> None:
        """Adds or replaces a queue. The rest of the tree stays valid, whatever it says: see `problems`."""
        before = self.declared.get(spec.name)
        if before is not None and _alike(before, spec):
            return  # only its status has changed
        if before is None and spec.name == VOLCANO_DEFAULT_QUEUE:
            self.regroup()
        self._structure.set(spec)
        if not self.active:
            self.active = True
            nominator = self._cache.nominator
            nominator.queue_of, nominator.listener = self.queue_of, self._nominated
            self._cache.attach(self, off_nodes=True)
            self._attached = True
            self._cache.groups.also_told.append(self)
            self._cache.refusals[QUEUE_QUOTA] = self._refusal
            nominator.add_again()
            for pod in self.pending():
                self.add_waiting(pod)
        self._changed()

    def remember(self, spec: QueueRules) -> None:
        """The queue as it last was valid, before this process began. It counts while no newer version is valid."""
        self._structure.remember(spec)

    def keep(self, name: str) -> None:
        """The newest version of the queue cannot be read: it stays as it last was valid, if that is known."""
        if name not in self.declared and (last := self._structure.remembered(name)) is not None:
            self.set(last)

    def remove(self, name: str) -> None:
        """The queue no longer exists. It stays in the tree as long as queues below it do. Ignores an unknown name."""
        self._structure.forget(name)
        if name not in self.declared:
            return
        self._structure.remove(name)
        if name == VOLCANO_DEFAULT_QUEUE:
            self.regroup()
        if not self.declared:
            self.active = self._attached = False
            self._cache.nominator.queue_of = self._cache.nominator.listener = None
            self._cache.nominator.add_again()
            self._nominated_in.clear()
            self._cache.detach(self)
            self._cache.groups.also_told.remove(self)
            del self._cache.refusals[QUEUE_QUOTA]
            placed = self._placed_in, self._ending_on
            for known in (self.records, self._firm, self._pods, self._waiting_in, *placed):
                known.clear()
            self._structure.clear()
            self.flavors_are({}, ())
            self._membership.clear()
            self._trying.clear()
            self._tried_by.clear()
            self._touched.clear()
            self._due.clear()
            self._due_groups.clear()
        self._changed()

    def restorer(self) -> Callable[[], None]:
        """A function that makes the queues what they are now, also those that stay as they last were. Pods stay where
        they are then.
        """
        structure = self._structure.restorer()
        names = frozenset(self.declared)

        def restore() -> None:
            for name in [name for name in self.declared if name not in names]:
                self.remove(name)
            structure()
            self._changed()

        return restore

    def listen(self, callback: Callable[[], None]) -> None:
        """Calls `callback` after each change of a queue."""
        self._listeners.append(callback)

    @property
    def declared(self) -> Mapping[str, QueueRules]:
        """All queues as they were last set, also invalid ones."""
        return self._structure.declared

    @property
    def problems(self) -> Mapping[str, InvalidObjectError]:
        """What is wrong with a queue, by its name: its parent is missing, is below the queue itself, and so on."""
        return self._structure.problems()

    # Pods

    @property
    def choice_by_policy(self) -> Callable[[PodInfo], str] | None:
        """The queue that a pod's policy chooses, or "". Whoever knows policies sets it."""
        return self._membership.choice_by_policy

    @choice_by_policy.setter
    def choice_by_policy(self, choice: Callable[[PodInfo], str] | None) -> None:
        self._membership.choice_by_policy = choice

    def name_by(self, keys: Sequence[str]) -> None:
        """From now on, pods name their queues by these labels and annotations, too: see `Membership.keys`."""
        if [LABEL, *keys] != [*self._membership.keys]:
            self._membership.keys = (LABEL, *keys)
            self.regroup()

    def queue_of(self, pod: PodInfo) -> str:
        """The name of the pod's queue, which may not exist; empty if it has none, or may not use the one that it names."""
        found = self._set_of(pod)
        return "" if found.endswith(OUTSIDE) else found

    def names_queue(self, pod: PodInfo) -> bool:
        """True if a queue decides when the pod may start, which it may not be able to use."""
        return self.active and bool(self._set_of(pod))

    def source_of(self, pod: PodInfo) -> Source:
        """What names the pod's queue."""
        return self._membership.named_by(pod)[1]

    def contradiction(self, pod: PodInfo) -> str:
        """Which field of the pod, or its group, names another queue than that to which it belongs; empty if none does."""
        several = self.active and (pod.group or len(self._membership.keys) > 1)
        return self._membership.contradiction(pod) if several else ""

    def add_waiting(self, pod: PodInfo) -> None:
        """Adds or replaces a pending pod."""
        if pod.uid in self._waiting_in:
            self.remove_waiting(pod.uid)
        self._membership.waits(pod)
        name = self._membership.of(pod)
        if name:
            self._waiting_in[pod.uid] = name
            self._pods_of(name).waiting[pod.uid] = pod
            if pod.uid not in self._placed_in:
                self._ask(name, pod, 1)
        if node_name := self._cache.nominator.node_of(pod.uid):
            self._cache.nominator.add(pod, node_name)  # it may have another queue now

    def remove_waiting(self, uid: str) -> None:
        """The pod is no longer pending. Ignores an unknown uid."""
        name = self._waiting_in.pop(uid, "")
        if name:
            pod = self._pods[name].waiting.pop(uid)
            if uid not in self._placed_in:
                self._ask(name, pod, -1)
            self._drop_if_empty(name)

    def waiting_pods(self, name: str) -> Sequence[PodInfo]:
        """The pods of this queue, without those below, that wait and are not assumed. In the order in which they came."""
        self._built()
        pods = self._pods.get(name)
        return [] if pods is None else [pod for uid, pod in pods.waiting.items() if uid not in self._placed_in]

    def placed_pods(self, name: str) -> Sequence[PodInfo]:
        """The pods of this queue, without those below, that are placed or assumed on nodes that exist."""
        return [pod for ending in (False, True) for _, pod in self.least_important(name, ending=ending)]

    def placed_in_order(self, name: str) -> Sequence[PodInfo]:
        """The same, in the order in which they got their nodes, or last changed there."""
        pods = self._pods.get(name)
        return [] if pods is None else [pod for uid in pods.placed if (pod := self._on_a_node(uid)) is not None]

    def least_important(
        self, name: str, *, ending: bool = False, after: Importance | None = None
    ) -> Iterator[tuple[Importance, PodInfo]]:
        """Those of them that stay, or that terminate, the least important first, each with what sorts them. `after`:
        only those that this sorts before.
        """
        pods = self._pods.get(name)
        return iter(()) if pods is None else pods.order.items(self._on_a_node, ending=ending, after=after)

    def nodes_of_ending_pods(self) -> Sequence[NodeInfo]:
        """The nodes that exist with pods that terminate, also those without a queue."""
        return [self._cache.node_at(slot) for slot in dict.fromkeys(self._ending_on.values()) if slot >= 0]

    def _placed(self, pods: _Pods) -> Iterator[PodInfo]:
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
        self._built()
        return self._valid.get(name)

    def names(self) -> Sequence[str]:
        """The queues of the tree."""
        self._built()
        return [*self._valid]

    def path(self, name: str) -> Sequence[str]:
        """The names of the queue, its parent, and so on, up to the top. Empty if it is not in the tree."""
        queue = self._built().get(name)
        return () if queue is None else queue.names()

    def top_of(self, pod: PodInfo) -> str:
        """The name of the queue at the top that is above the pod's queue, or of its queue if that does not exist."""
        name = self.queue_of(pod)
        return (self.path(name) or (name,))[-1]

    def children(self, name: str) -> Sequence[str]:
        """The names of the queues right below this one; of those at the top for ""."""
        queue = self._built().top if not name else self._built().get(name)
        return () if queue is None else [child.spec.name for child in queue.children]

    def usage(self, name: str) -> Mapping[str, int]:
        """By resource that any queue names: what the pods of the queue and of those below have on nodes."""
        return self._queue(name).held

    def firm_usage(self, name: str) -> Mapping[str, int]:
        """The part of it that pods have that are never evicted for a pod of a queue."""
        return self._queue(name).firm

    def waiting(self, name: str) -> Mapping[str, int]:
        """By resource: what the pods of the queue and of those below request that are not placed and may start."""
        return self._queue(name).asked

    def request(self, name: str) -> Mapping[str, int]:
        """By resource: what the queue has and asks for, at most its limit, which its share never exceeds."""
        return self._queue(name).request

    def share(self, name: str) -> Mapping[str, int]:
        """The queue's fair share, by resource that any queue names."""
        return self.shared_out().share(name)

    def shared_out(self) -> QueueTree:
        """The tree, with the shares of all queues as they are now."""
        tree = self._built()
        tree.set_capacity(self.capacity())
        tree.compute_shares()
        return tree

    def sample_usage(self, now: float) -> Generator[None, None, None]:
        """Counts what all queues of the tree, and their users, have as used since the last call. `now`: seconds since the
        epoch. Yields between two steps, in which queues may change.
        """
        for name in self.records.keys() - self.names():
            del self.records[name]
        for index, name in enumerate(self.names(), start=1):
            queue, rules = self._built().get(name), self._valid.get(name)
            if queue is None or rules is None:
                continue
            record = self.records.setdefault(name, Record())
            record.sample(queue.held, now, rules.usage_half_life)
            if rules.usage_half_life:
                self._touched.add(name)
            pods = self._pods.get(name)
            yield from record.sample_users({} if pods is None else pods.users, now)
            if not index % QUEUES_PER_STEP:
                yield

    # What is shown of queues

    def last_share(self, name: str) -> Mapping[str, int]:
        """The queue's fair share as it was last computed."""
        return self._built().last_share(name)

    def shut_by(self, name: str) -> str:
        """Which state of the queue, or of one above it, keeps its pods from starting; empty if they may start."""
        queue = self._built().get(name)
        for above in queue.path if queue is not None and name in self._structure.shut else ():
            if (state := self._valid[above.spec.name].state) != "Open":
                return f"queue {above.spec.name} is in state {state}"
        return ""

    @property
    def draining(self) -> AbstractSet[str]:
        """The queues whose placed pods are to go, because they, or queues above them, are in state Drain."""
        if not self.active:
            return frozenset()
        self._built()
        return self._structure.draining

    def warnings(self, name: str) -> Mapping[str, InvalidObjectError]:
        """What a queue of the tree says that does not agree with the cluster, or is not known of it, by OVER_LIMIT,
        NO_NODES or UNKNOWN_CAPACITY.
        """
        queue, found = self._queue(name), dict[str, InvalidObjectError]()

        def warn(kind: str, where: str, text: str) -> None:
            found.setdefault(kind, InvalidObjectError(where, text).in_object("SchedulingQueue", name))

        for resource, quota in queue.spec.quotas.items():
            if UNBOUNDED != quota.limit < (held := queue.held.get(resource, 0)):
                limit = amount_text(resource, quota.limit)
                text = f"pods of the queue hold {amount_text(resource, held)}, more than this limit of {limit}"
                warn(OVER_LIMIT, f"{field_of(resource)}.limit", text)
        for resource in queue.spec.quotas:
            plain = parts_of(resource)[0]
            if is_of_class(plain) and (reason := self.devices.supply.uncounted(class_of(plain))):
                warn(UNKNOWN_CAPACITY, field_of(resource), f"not all free devices are counted: {reason}")
        for flavor in self._valid[name].flavors:
            if flavor in self.flavors.labels and not self.flavors.has_nodes(flavor):
                where = f"spec.flavors[{flavor}].nodeSelector"
                warn(NO_NODES, where, f"no node has the labels {labels_text(self.flavors.labels[flavor])}")
        return found

    def waiting_below(self, name: str) -> int:
        """How many pods of the queue and of those below wait for a node, without those that a gate holds back."""
        names = self._built().below([name])
        return sum(self._pods[each].asked.get(PODS, 0) for each in names if each in self._pods)

    def is_owed(self, name: str) -> bool:
        """True if one of the first pods that wait could start, and the queue and those above it would still have no
        more than they are entitled to, by the shares as they were last computed.
        """
        pods, queue = self._pods.get(name), self._built().get(name)
        if pods is None or queue is None or self.shut_by(name):
            return False
        first = islice(pods.waiting.items(), FIRST_PODS)
        waiting = [pod for uid, pod in first if uid not in self._placed_in and not pod.gates]
        return any(
            all(
                above.held.get(resource, 0) + amount <= above.entitled(resource)
                for resource, amount in amounts.items()
                for above in queue.path
            )
            for pod in waiting
            for amounts in self._choices(pod)
        )

    def first_bound(self, name: str) -> tuple[PodInfo, Bound] | None:
        """The first of some waiting pods of the queue that a bound holds back, and the bound. None if no bound does."""
        pods = self._pods.get(name)
        waiting = (
            pod
            for uid, pod in (() if pods is None else pods.waiting.items())
            if uid not in self._placed_in and not pod.gates
        )
        for pod in islice(waiting, FIRST_PODS):
            if (bound := self.bound(pod)) is not None:
                return pod, bound
        return None

    def namespaces_of(self, name: str) -> Mapping[str, PodInfo | None]:
        """The namespaces of the queue's pods, each with its first pod that waits for a node and that no gate holds
        back.
        """
        pods = self._pods.get(name)
        if pods is None:
            return {}
        found: dict[str, PodInfo | None] = dict.fromkeys(pods.placed.values())
        for uid, pod in pods.waiting.items():
            if found.setdefault(pod.namespace) is None and uid not in self._placed_in and not pod.gates:
                found[pod.namespace] = pod
        return found

    def named_by_namespaces(self) -> Iterator[tuple[str, str]]:
        """The namespaces whose label names a queue, which may not exist, with its name."""
        return self._membership.labelled()

    def is_usable_in(self, name: str, namespace: str) -> bool:
        """True if the queue is in the tree, and pods of the namespace may use it."""
        return name in self._built() and self._membership.allows(name, namespace)

    def guarantee(self, name: str, resource: str) -> int:
        """The queue's guarantee of a resource; UNBOUNDED (-1) for all that it requests."""
        return self._queue(name).spec.quotas.get(resource, NO_QUOTA).guarantee

    def capacity(self) -> Mapping[str, int]:
        """By resource that any queue names: what is free on the nodes that take pods, and what pods in queues hold."""
        offering = self._offering()
        return {name: self._capacity_of(name, offering) for name in self._built().resources}

    def _offering(self) -> NDArray[np.bool_]:
        """bool[nodes]: the nodes that take pods."""
        table = self._cache.table
        taken = [any(t.managed and t.effect != "PreferNoSchedule" for t in taints) for taints in table.taint_sets]
        offering = table.valid & ~table.unschedulable
        if any(taken):
            offering &= ~np.array(taken, np.bool_)[table.taints]
        return offering

    def _capacity_of(self, name: str, offering: NDArray[np.bool_]) -> int:
        table, held = self._cache.table, self._built().top.held.get(name, 0)
        resource, flavor = parts_of(name)
        there = offering & self.flavors.nodes_of(flavor) if flavor else offering
        if is_of_class(resource):
            return self.devices.supply.free(class_of(resource), there) + held
        requested = table.pods if resource == PODS else table.requested(resource)
        free = np.clip(table.allocatable(resource) - requested, 0, MAX_INT64 // max(1, table.size))
        return int(free[there].sum()) + held

    # Decisions

    def bound(self, pod: PodInfo, *, trying: bool = False) -> Bound | None:
        """What forbids the pod to start now; None if nothing does, or if the pod has no queue or has a node. `trying`:
        beside the pods that are tried again. An amount has no message then.
        """
        if not self.active or pod.uid in self._placed_in:
            return None
        tree = self._built()
        found = self._waiting_in.get(pod.uid) or self._membership.of(pod)
        name = found.removesuffix(OUTSIDE)
        if not name:
            return None
        queue = tree.get(name)
        if queue is None:
            problem = self._structure.problem(name)
            return Bound(name, f"queue {name} {'does not exist' if problem is None else f'is invalid: {problem}'}")
        if found != name:
            return Bound(name, f"namespace {pod.namespace} may not use queue {name}")
        if queue.children:
            return Bound(name, f"queue {name} has queues below it, so no pods start in it")
        if name in self._structure.shut:
            return Bound(name, self.shut_by(name))
        valid = self._structure.valid
        return (
            self._bound_of(tree, queue, pod, self._tracked(tree, pod), trying)
            or (self._user_limit(name, pod, limits, trying) if (limits := valid[name].user_limits) else None)
            or (self.places.bound(pod, trying=trying) if self.flavors.named else None)
        )

    def bound_at(self, pod: PodInfo, place: Place, *, trying: bool = False) -> Bound | None:
        """What forbids the pod, which has a queue of the tree, to start on nodes of this place. Bounds that hold on all
        nodes are not asked.
        """
        tree = self._built()
        queue = tree.get(self.queue_of(pod))
        if queue is None or pod.uid in self._placed_in:
            return None
        return self._bound_of(tree, queue, pod, self.flavors.taken(self._plain(pod), place), trying)

    def _bound_of(
        self, tree: QueueTree, queue: Queue, pod: PodInfo, amounts: Mapping[str, int], trying: bool
    ) -> Bound | None:
        """The first bound on these amounts, which the pod would take."""
        name = queue.spec.name
        return (
            self._limit(queue, pod, amounts, trying)
            or (self._kept(name, pod, amounts, trying) if tree.keeping else None)
            or (
                self._beyond_guarantee(queue, amounts, trying)
                if (pod.group or name in self._firm) and self._is_firm(name, pod)
                else None
            )
        )

    def bound_together(self, pods: Sequence[PodInfo], needed: int, *, trying: bool = False) -> Bound | None:
        """What forbids every choice of so many of these pods to start together. None if they are in several queues."""
        first = self.bound(pods[0], trying=trying)
        if first is not None and not first.resource:
            return first
        name, tree = self.queue_of(pods[0]), self._built()
        queue = tree.get(name)
        if queue is None or any(self.queue_of(pod) != name for pod in pods):
            return None
        amounts = [tree.tracked(self.sure_amounts(pod)) for pod in pods]
        for resource in sorted({resource for each in amounts for resource in each}):
            least = sum(sorted(each.get(resource, 0) for each in amounts)[:needed])
            for above in queue.path if least else ():
                limit, held = above.spec.quotas.get(resource, NO_QUOTA).limit, above.held.get(resource, 0)
                if UNBOUNDED != limit < held + least + trying * above.trying.get(resource, 0):
                    message = (
                        ""
                        if trying
                        else (
                            f"{above.spec.name} holds {amount_text(resource, held)} of {amount_text(resource, limit)} {resource},"
                            f" and the pod group requests {amount_text(resource, least)}"
                        )
                    )
                    return Bound(above.spec.name, message, resource, held=held, limit=limit, requested=least)
        return None

    def _refusal(self, pod: PodInfo) -> Status | None:
        """For PreFilter. Preemption does not resolve a bound."""
        found = self.bound(pod)
        return None if found is None else unresolvable(found.message)

    def promised(self, name: str) -> Mapping[str, int]:
        """By resource: what pods of the queue and of those below request that are nominated to nodes, but not on them
        yet.
        """
        return self._queue(name).promised

    def promised_behind(self, pods: Sequence[PodInfo]) -> Mapping[str, int]:
        """By resource: the part of `Queue.promised`, in the queue of these pods and in those above, that is promised to
        themselves, or to pods of their queue that leave room for them.
        """
        queue = self.queue_of(pods[0])
        own = self._pods.get(queue)
        behind: dict[str, int] = {}
        if own is not None and own.nominated:
            _, _, usable = self._cache.nominator.rank(pods[0])
            rank = queue, min(pod.priority for pod in pods), usable
            uids = {pod.uid for pod in self._cache.nominator.behind_rank(rank, own.nominated)}
            uids.update(pod.uid for pod in pods if pod.uid in own.nominated)
            for uid in uids:
                add_amounts(behind, self._nominated_in[uid][1])
        return behind

    def _kept(self, name: str, pod: PodInfo, amounts: Mapping[str, int], trying: bool) -> Bound | None:
        """What other queues do not lend of their guarantees, and what nominated pods have been promised of the rest."""
        nominated = bool(self._cache.nominator.node_of(pod.uid))
        behind: Mapping[str, int] | None = None
        for resource, amount in amounts.items():
            for above, kept in self._built().kept_from(name, resource):
                if not kept:
                    continue
                quota, held = above.spec.quotas.get(resource, NO_QUOTA), above.held.get(resource, 0)
                limit = self._capacity_of(resource, self._offering()) if above.parent is None else quota.limit
                if limit == UNBOUNDED:
                    continue
                tried = trying * above.trying.get(resource, 0)
                promised = 0 if nominated else above.promised.get(resource, 0)
                if promised and held + kept + tried + amount <= limit < held + kept + tried + promised + amount:
                    behind = self.promised_behind((pod,)) if behind is None else behind
                    promised -= behind.get(resource, 0)
                if limit < held + kept + tried + promised + amount:
                    if trying:
                        return Bound(above.spec.name, "", resource, requested=amount, kind="kept")
                    held_text, limit_text, kept_text = (amount_text(resource, each) for each in (held, limit, kept))
                    message = (
                        f"{above.spec.name or 'all queues'} hold{'s' * bool(above.spec.name)} {held_text} of {limit_text}"
                        f" {resource}, and {kept_text} are kept for queues that do not lend them"
                    )
                    if promised:
                        message += (
                            f", {amount_text(resource, promised)} more is promised to pods that are nominated to nodes"
                        )
                    return Bound(
                        above.spec.name, message, resource, held=held, limit=limit, requested=amount, kind="kept"
                    )
        return None

    def _is_firm(self, name: str, pod: PodInfo) -> bool:
        group = self._cache.groups.of(pod) if pod.group else None
        if group is not None and group.firm is not None:
            return group.firm
        at = self._firm.get(name)
        return at is not None and pod.priority >= at

    def _beyond_guarantee(self, queue: Queue, amounts: Mapping[str, int], trying: bool) -> Bound | None:
        """For a pod that is never evicted for others."""
        for resource, amount in amounts.items():
            for above in queue.path:
                quota = above.spec.quotas.get(resource, NO_QUOTA)
                held, limit = above.firm.get(resource, 0), quota.guarantee
                # A queue above without firm pods of its own may have no guarantees at all.
                says_so = self._valid[above.spec.name].firm_priority is not None and resource in above.spec.quotas
                bounds = limit > 0 or (limit == 0 and says_so)
                if bounds and held + trying * above.firm_trying.get(resource, 0) + amount > limit:
                    if trying:
                        return Bound(above.spec.name, "", resource, requested=amount, kind="guarantee")
                    held_text, limit_text = amount_text(resource, held), amount_text(resource, limit)
                    message = (
                        f"{above.spec.name} is guaranteed {limit_text} {resource}, of which pods that are never evicted"
                        f" hold {held_text}, and the pod, which is one of these, requests {amount_text(resource, amount)}"
                    )
                    return Bound(
                        above.spec.name, message, resource, held=held, limit=limit, requested=amount, kind="guarantee"
                    )
        return None

    def _user_limit(self, name: str, pod: PodInfo, limits: Mapping[str, int], trying: bool) -> Bound | None:
        user, pods = self._membership.user_of(pod), self._pods.get(name)
        if not user or pods is None:
            return None
        amounts, tried = self._plain(pod), self._tried_by.get((name, user), {}) if trying else {}
        for resource, limit in limits.items():
            amount, held = amounts.get(resource, 0), pods.users.get(user, {}).get(resource, 0)
            if amount and held + tried.get(resource, 0) + amount > limit:
                if trying:
                    return Bound(name, "", resource, requested=amount, kind="user")
                message = f"user {user} holds {amount_text(resource, held)} of {amount_text(resource, limit)} {resource} in {name}"
                if held < limit:
                    message += f", and the pod requests {amount_text(resource, amount)}"
                return Bound(name, message, resource, held=held, limit=limit, requested=amount, kind="user")
        return None

    def max_runtime(self, name: str) -> float:
        """For how long a pod of the queue runs before it is a victim for anybody, in seconds. Infinite without a bound."""
        queue = self._built().get(name) if self._structure.timed else None
        path = () if queue is None else queue.path
        return min((each for above in path if (each := self._valid[above.spec.name].max_runtime)), default=inf)

    def may_be_overdue(self, name: str) -> bool:
        """True if pods of the queue, or of one below it, may run for longer than their queues let them."""
        if self._overdue_at != self.changes:
            self._overdue_at = self.changes
            self._above_timed = {above for timed in self._structure.timed for above in self.path(timed)}
        return name in self._above_timed or self.max_runtime(name) < inf

    def is_firm(self, pod: PodInfo) -> bool:
        """True if the pod is never evicted for a pod of a queue."""
        return self._is_firm(self.queue_of(pod), pod)

    @property
    def lends_less(self) -> bool:
        """True if any queue does not lend all of its guarantee, so that free room is a bound, too."""
        return bool(self._built().keeping)

    def _limit(self, queue: Queue, pod: PodInfo, amounts: Mapping[str, int], trying: bool) -> Bound | None:
        nominated: bool | None = None
        behind: Mapping[str, int] | None = None
        path = queue.path
        for resource, amount in amounts.items():
            for above in path:
                limit = above.spec.quotas.get(resource, NO_QUOTA).limit
                if limit == UNBOUNDED:
                    continue
                held = above.held.get(resource, 0)
                if held + amount <= limit and not above.promised and not trying:
                    continue
                if nominated is None:
                    nominated = bool(self._cache.nominator.node_of(pod.uid))
                # Nominated pods do not wait for each other.
                promised = 0 if nominated or held + amount > limit else above.promised.get(resource, 0)
                if promised and limit < held + promised + amount:
                    behind = self.promised_behind((pod,)) if behind is None else behind
                    promised -= behind.get(resource, 0)
                tried = above.trying.get(resource, 0) if trying else 0
                if held + promised + tried + amount > limit:
                    message = "" if trying else _over_limit(queue, above, resource, amount, promised)
                    return Bound(
                        above.spec.name, message, resource, held=held, limit=limit, requested=amount, kind="limit"
                    )
        return None

    def due_claims(self) -> Sequence[str]:
        """The uids of some waiting pods, at most one of each queue, that might take back what their queue is entitled
        to.

        Shares change without an event for these pods, and so does how long others have run. Each call goes on where the
        last one stopped, so all queues get their turn, and so do the pods of each.
        """
        if not self.active:
            return ()
        tree, found = self.shared_out(), list[str]()
        names = sorted(name for name, pods in self._pods.items() if pods.waiting and name in tree)
        first = bisect_right(names, self._last_asked)
        for name in (names[first:] + names[:first])[:QUEUES_AT_ONCE]:
            self._last_asked = name
            if uid := self._due_claim(tree, name):
                found.append(uid)
                if len(found) == CLAIMS_AT_ONCE:
                    break
        return found

    def _due_claim(self, tree: QueueTree, name: str) -> str:
        pods, queue = self._pods[name], self._queue(name)
        waiting = [uid for uid, pod in pods.waiting.items() if uid not in self._placed_in and not pod.gates]
        if not waiting:
            return ""
        uid = pods.last_asked = min((uid for uid in waiting if uid > pods.last_asked), default=min(waiting))
        entitled = any(
            all(
                queue.held.get(resource, 0) - queue.going.get(resource, 0) + amount <= queue.entitled(resource)
                for resource, amount in amounts.items()
            )
            for amounts in self._choices(pods.waiting[uid])
        )
        timed = self._valid[name].preempt_min_runtime or self.max_runtime(name) < inf
        return uid if entitled or timed else ""

    def order_key(self, name: str, *, trying: bool = False) -> tuple[bool, bool, int, int]:
        """Sorts queues with the same parent: first those under their share, then those under their guarantee, then by
        priority, then by dominant share, of what they have used on average if they have a half-life. Reads the shares
        as they were last computed. What its pods ask for of a resource of which there is nothing tells queues apart
        only if they ask for nothing else. `trying`: as if the pods that are tried again had started.
        """
        tree, flavored = self._built(), self.flavors.named
        queue = tree.get(name)
        if queue is None:
            raise KeyError(name)
        if trying and queue.trying:
            held = dict(queue.held)
            add_amounts(held, queue.trying)
        else:
            held = queue.held
        share, quotas, most = queue.share, queue.spec.quotas, tree.top.share
        used: Mapping[str, float] = held
        if self._structure.valid[name].usage_half_life and (record := self.records.get(name)) is not None:
            used = record.average
        above_share = above_guarantee = False
        for resource in [each for each in queue.asked if most.get(each)] or queue.asked:
            if flavored and OF in resource:
                continue
            has = held.get(resource, 0)
            if has >= share.get(resource, 0):
                above_share = True
            if not above_guarantee:
                above_guarantee = UNBOUNDED != quotas.get(resource, NO_QUOTA).guarantee <= has
        for names in self._asked_in_flavors(queue) if flavored else ():
            above_share = above_share or all(held.get(name, 0) >= share.get(name, 0) for name in names)
            above_guarantee = above_guarantee or all(
                UNBOUNDED != quotas.get(name, NO_QUOTA).guarantee <= held.get(name, 0) for name in names
            )
        dominant = 0
        for resource, amount in used.items():
            if (part := int(amount * _PARTS) // (most.get(resource) or 1)) > dominant:
                dominant = part
        return above_share, above_guarantee, -queue.spec.priority, dominant

    def _asked_in_flavors(self, queue: Queue) -> Iterable[Sequence[str]]:
        """By resource that its pods ask for: the resource in each flavor that has any of it."""
        found: dict[str, list[str]] = {}
        for name in queue.asked if self.flavors.named else ():
            resource, flavor = parts_of(name)
            if flavor and self._built().top.share.get(name):
                found.setdefault(resource, []).append(name)
        return found.values()

    # The order of active pods

    @property
    def structure(self) -> int:
        """Rises when the queues of pods, or where they are in the tree, may have changed."""
        self._built()
        return self._structure.paths + self._regrouped

    @property
    def capacity_changes(self) -> int:
        """Rises when the capacity has changed, and with it the dominant share of every queue."""
        return self._built().capacity_changes

    def turn_path(self, pod: PodInfo) -> Sequence[str]:
        """The names of the queue in which the pod takes its turn, its parent, and so on. Empty: the pod takes its turn
        as one without a queue, because it has none, or no pod may start in it.
        """
        tree, name = self._built(), self._set_of(pod)  # of a pod that may not use its queue, the name is of none
        queue = tree.get(name) if name else None
        if queue is None or queue.children or name in self._structure.shut:
            return ()
        return queue.names()

    def take_changed(self) -> Iterable[str]:
        """The queues whose `order_key` may have changed since the last call, in no order. See also `capacity_changes`."""
        tree = self._built()
        tree.steps += 1
        self._share_out_if_worth(tree)
        found = {*tree.moved}
        for name in self._touched:
            if (queue := tree.get(name)) is not None:
                found.update([above.spec.name for above in queue.path])
        self._touched.clear()
        tree.moved.clear()
        return found

    def _share_out_if_worth(self, tree: QueueTree) -> None:
        if tree.worth_sharing_out:
            tree.set_capacity(self.capacity())
            tree.compute_shares()

    # The pods that are tried again

    @property
    def plugin(self) -> str:
        """In whose name bounds refuse pods."""
        return QUEUE_QUOTA

    def kind_of(self, pod: PodInfo) -> tuple[str, bool, str]:
        """Pods of one kind that request the same are admitted alike."""
        name = self.queue_of(pod)
        return name, self._is_firm(name, pod), self._membership.user_of(pod)

    def admits(self, pod: PodInfo) -> bool:
        """True if no bound forbids the pod to start beside those that are tried again."""
        return self.bound(pod, trying=True) is None

    def holds_room(self, pod: PodInfo) -> bool:
        """True if room is held for the pod, or its group gathers some. It therefore does not wait for others."""
        return bool(self._cache.nominator.node_of(pod.uid)) or self.gathers_room(pod)

    def gathers_room(self, pod: PodInfo) -> bool:
        """True if the pod's group gathers room."""
        group = self._cache.groups.of(pod) if pod.group and len(self._cache.reservations) else None
        return group is not None and self._cache.reservations.get(gathered_name(group.uid)) is not None

    def bound_of(self, pod: PodInfo) -> tuple[Hashable, Bound] | None:
        """The bound that holds the pod back, without what may change as long as it does, and the pod's kind."""
        found = self.bound(pod)
        return None if found is None else (self.kind_of(pod), found.lasting)

    def refuses(self, bound: tuple[Hashable, Bound] | None, pod: PodInfo) -> bool:
        """True if this bound, if it is a limit, holds the pod back, whatever is promised. Much less work than `bound`."""
        named, tree, name = None if bound is None else bound[1], self._built(), self._waiting_in.get(pod.uid, "")
        queue = tree.get(name)
        if named is None or named.kind != "limit" or queue is None or name in self._structure.shut:
            return False
        amount = self._tracked(tree, pod).get(named.resource, 0)
        for above in queue.path if amount else ():
            if above.spec.name == named.queue:
                limit = above.spec.quotas.get(named.resource, NO_QUOTA).limit
                taken = above.held.get(named.resource, 0) + above.trying.get(named.resource, 0)
                return limit != UNBOUNDED and taken + amount > limit
        return False

    def still_holds(self, bound: tuple[Hashable, Bound], pod: PodInfo) -> bool:
        """True if this bound holds the pod back beside those that are tried again, or if none does. It need not be the
        first one that does.
        """
        if self.refuses(bound, pod):
            return True
        named, now = bound[1], self.bound(pod, trying=True)
        if now is None or now.lasting == named:
            return True
        tree, name = self._built(), self.queue_of(pod)
        queue = tree.get(name)
        if queue is None or not now.resource:
            return False
        amounts = tree.tracked(self._plain(pod))
        if named.kind == "limit":
            return any(
                taken + named.requested > above.spec.quotas.get(named.resource, NO_QUOTA).limit != UNBOUNDED
                for above in queue.path
                if above.spec.name == named.queue
                for taken in [sum(e.get(named.resource, 0) for e in (above.held, above.promised, above.trying))]
            )
        others = (
            self._beyond_guarantee(queue, amounts, trying=True) if self._is_firm(name, pod) else None,
            self._user_limit(name, pod, self._valid[name].user_limits, trying=True),
        )
        return any(each.lasting == named for each in others if each is not None)

    def turn_key(self, name: str) -> Any:
        """Sorts the queues with the same parent by whose turn it is, if the pods that are tried again had started."""
        self._share_out_if_worth(self._built())
        return self.order_key(name, trying=True)

    def try_again(self, pod: PodInfo) -> None:
        """The pod is tried again because its bounds let it start. Its room is not offered to others meanwhile."""
        name = self.queue_of(pod)
        if name and pod.uid not in self._trying:
            places = self.places.of(pod) if self.flavors.named else ()
            place = next((each for each in places if self.bound_at(pod, each, trying=True) is None), NOWHERE)
            self._trying[pod.uid] = name, pod, self.amounts_at(pod, place), self._is_firm(name, pod)
            if pod.uid not in self._placed_in:
                self._count_trying(pod.uid, 1)

    def tried(self, uid: str) -> bool:
        """The attempt at the pod is over. Returns whether it was tried again and did not use its room."""
        if uid not in self._trying:
            return False
        unused = uid not in self._placed_in
        if unused:
            self._count_trying(uid, -1)
        del self._trying[uid]
        return unused

    # PlacementObserver

    def pod_added(self, pod: PodInfo, slot: int) -> None:
        self._membership.arrives(pod)
        if pod.terminating:
            self._ending_on[pod.uid] = slot
        name, uid = self._membership.of(pod), pod.uid
        if not name:
            return
        place = self.flavors.at(slot) if self.flavors.named else NOWHERE
        asking = self._waiting_in.get(uid)
        asks = asking == name and self._demands_alike(name, pod, place)
        starts = asks and not self.devices.classes
        if asking is not None and not starts:
            self._ask(asking, self._pods[asking].waiting[uid], -1, demand=not asks)
        if uid in self._trying:
            self._count_trying(uid, -1)
        self._placed_in[uid] = name
        pods = self._pods_of(name)
        pods.placed[uid] = pod.namespace
        pods.order.add(pod)
        self._hold(name, pod, place, 1, demand=not asks, starts=starts)

    def pod_removed(self, pod: PodInfo, slot: int) -> None:
        uid = pod.uid
        self._membership.leaves(pod)
        self._ending_on.pop(uid, None)
        name = self._placed_in.pop(uid, "")
        if not name:
            return
        if uid in self._trying:
            self._count_trying(uid, 1)
        place = self.flavors.at(slot) if self.flavors.named else NOWHERE
        asks = self._waiting_in.get(uid) == name and self._demands_alike(name, pod, place)
        pods = self._pods[name]
        pods.order.remove(uid)
        del pods.placed[uid]
        self._hold(name, pod, place, -1, demand=not asks)
        if uid in self._waiting_in:
            asking = self._waiting_in[uid]
            self._ask(asking, self._pods[asking].waiting[uid], 1, demand=not asks)
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
        if self._membership.label(name, labels) and self._attached:
            self.regroup(name)

    # What pods take

    def plain_amounts(self, pod: PodInfo) -> Mapping[str, int]:
        """What the pod takes wherever it is."""
        return self._plain(pod)

    def _plain(self, pod: PodInfo, seen: MutableSet[Key] | None = None) -> Mapping[str, int]:
        """The same. `seen`: see `ClaimedDevices.takes`."""
        amounts, devices = amounts_of(pod), self.devices
        if not devices.classes:
            return amounts
        placed = pod.uid in self._placed_in
        return {**amounts, **(devices.counted(pod.uid) if placed else devices.takes(self._set_of(pod), pod, seen))}

    def _tracked(self, tree: QueueTree, pod: PodInfo) -> Mapping[str, int]:
        """What the pod takes wherever it is, of what any queue names."""
        return tree.tracked(self._plain(pod)) if self.devices.classes else tree.tracked_of(pod.requests)

    def amounts_together(self, pods: Iterable[PodInfo], place: Collection[str]) -> dict[str, int]:
        """What these pods of a queue take on nodes of these flavors. A claim that they share counts once."""
        found, seen = dict[str, int](), set[Key]()
        for pod in pods:
            amounts = self._plain(pod, seen)
            add_amounts(found, {**amounts, **self.flavors.taken(amounts, place)})
        return found

    def amounts_at(self, pod: PodInfo, place: Collection[str]) -> Mapping[str, int]:
        """What the pod takes on nodes of these flavors."""
        amounts = self._plain(pod)
        return {**amounts, **self.flavors.taken(amounts, place)} if place else amounts

    def placed_amounts(self, pod: PodInfo) -> Mapping[str, int]:
        """What a placed pod takes."""
        info = self._cache.placement(pod.uid)
        return self._plain(pod) if info is None else self.amounts_at(pod, self.flavors.at(info.slot))

    def sure_amounts(self, pod: PodInfo) -> Mapping[str, int]:
        """What a waiting pod takes on any node where it may start, whoever starts beside it."""
        amounts, places = amounts_of(pod), self.places.of(pod) if self.flavors.named else ()
        if self.devices.classes:
            amounts = {**amounts, **self.devices.own(pod)}
        return {**amounts, **self.flavors.taken(amounts, places[0])} if len(places) == 1 else amounts

    def flavors_on(self, pod: PodInfo, node_name: str) -> Sequence[str]:
        """The flavors of a node in which the pod takes something."""
        self._built()
        if not self.flavors.named:
            return ()
        return [*dict.fromkeys(parts_of(name)[1] for name in self.amounts_on(pod, node_name) if OF in name)]

    def tree(self) -> QueueTree:
        return self._built()

    def amounts_on(self, pod: PodInfo, node_name: str) -> Mapping[str, int]:
        """What the pod takes on this node, which may not exist."""
        info = self._cache.present(node_name)
        return self._plain(pod) if info is None else self.amounts_at(pod, self.flavors.at(info.slot))

    def _choices(self, pod: PodInfo) -> Iterator[Mapping[str, int]]:
        """By what a waiting pod takes in each of its places it is judged what its queue is entitled to."""
        for place in (self.places.of(pod) if self.flavors.named else ()) or (NOWHERE,):
            yield judged(self._built().tracked(self.amounts_at(pod, place)))

    # Internals

    def _set_of(self, pod: PodInfo) -> str:
        """The name of the set in which the pod counts: see `Membership.of`."""
        if self._due or self._due_groups:
            self._built()
        return self._placed_in.get(pod.uid) or self._waiting_in.get(pod.uid) or self._membership.of(pod)

    def _regroup(self) -> None:
        """Counts pods in other queues that belong to these now."""
        due, self._due = self._due, set()
        members = [*map(self._cache.groups.members, self._due_groups)]
        self._due_groups.clear()
        self._regrouped += 1
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
        name = self._membership.of(pod)
        if name != self._placed_in.get(pod.uid, ""):
            return False
        return not name or self._is_firm(name, pod) == (pod.uid in self._pods[name].firm_uids)

    def _regroup_queue(self, name: str) -> None:
        """The same for the pods that name a queue, because other namespaces may use it."""
        self._regrouped += 1
        pods = [pods for each in (name, name + OUTSIDE) if (pods := self._pods.get(each)) is not None]
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

    def _changed(self) -> None:
        self.changes += 1
        for listener in self._listeners:
            listener()

    def _built(self) -> QueueTree:
        """The tree of the valid queues, with what their pods request and hold."""
        tree = self._structure.current
        if tree is None or (self.devices.classes and self.devices.stale):
            self._structure.current = None
            tree = self._structure.tree()
        if self._due or self._due_groups:
            self._regroup()
        return tree

    @property
    def _valid(self) -> Mapping[str, QueueRules]:
        return self._structure.valid

    # PodCounts

    def count_pods_of(self, tree: QueueTree, names: Collection[str]) -> None:
        self._touched.update(names)
        for name in names:
            self._count_firm(name, self._valid[name].firm_priority)
            if (pods := self._pods.get(name)) is not None:
                tree.add_firm(name, tree.tracked(pods.firm))
                tree.add_held(name, tree.tracked(pods.held))
                tree.add_going(name, tree.tracked(pods.going))
                tree.add_promised(name, tree.tracked(pods.promised))
                if self._open(tree, name):
                    tree.add_asked(name, tree.tracked(pods.asked))
        for uid, (name, *_) in self._trying.items():
            if name in names and uid not in self._placed_in:
                self._add_trying(tree, uid, 1)

    def _count_firm(self, name: str, priority: int | None) -> None:
        if priority == self._firm.get(name):
            return
        if priority is None:
            del self._firm[name]
        else:
            self._firm[name] = priority
        if (pods := self._pods.get(name)) is not None:
            pods.firm.clear()
            firm = [pod for pod in self._placed(pods) if self._is_firm(name, pod)]
            pods.firm_uids = {pod.uid for pod in firm}
            for pod in firm:
                add_amounts(pods.firm, self.placed_amounts(pod))

    def flavors_are(self, labels: Mapping[str, Labels], resources: Iterable[str]) -> None:
        resources = [*resources]
        if self.flavors.define(labels, resources) | self.devices.define(resources):
            self.flavors.off_nodes = frozenset(name for name in self.flavors.named if name == PODS or is_of_class(name))
            self._cache.place_rules = self.places if self.flavors.named else None
            self._tried_by.clear()
            trying, self._trying = self._trying, {}
            for name, pods in self._pods.items():
                self._sum_up(name, pods)
            for uid, (name, pod, _, firm) in trying.items():
                self._trying[uid] = name, pod, self._plain(pod), firm
                if uid not in self._placed_in:
                    self._count_tried_by(uid, 1)  # the new tree gets it with the pods of the queue

    def _sum_up(self, name: str, pods: _Pods) -> None:
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
            self._nominated_in[uid] = name, amounts
            add_amounts(pods.promised, amounts)
        for uid, pod in pods.waiting.items():
            if uid not in self._placed_in and not pod.gates:
                if self.devices.classes:
                    self.devices.count(name, pod, placed=False)
                add_amounts(pods.asked, self.amounts_at(pod, self.flavors.open_to(pod.node_affinity)))

    def may_use(self, queue: str, namespaces: LabelSelector) -> None:
        if self._membership.select(queue, namespaces):
            self._regroup_queue(queue)

    def restricted(self) -> AbstractSet[str]:
        return self._membership.restricted

    def _queue(self, name: str) -> Queue:
        queue = self._built().get(name)
        if queue is None:
            raise KeyError(name)
        return queue

    def _open(self, tree: QueueTree, name: str) -> bool:
        """True if pods may start in a queue of the tree."""
        return name in tree and name not in self._structure.shut

    def _demands_alike(self, name: str, pod: PodInfo, place: Place) -> bool:
        """True if the pod is the same part of its queue's demand while it waits and when it is placed."""
        waiting, tree = self._pods[name].waiting[pod.uid], self._structure.current
        alike = waiting.requests is pod.requests and not waiting.gates
        if self.devices.classes and (pod.resource_claims or self.devices.takes(name, pod)):
            return False
        if self.flavors.named and alike and not self.flavors.named.isdisjoint(self._plain(pod)):
            alike = {*self.flavors.open_to(waiting.node_affinity)} == {*place}
        return alike and tree is not None and tree.get(name) is not None and name not in self._structure.shut

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
            self._changed()  # a bound may let others start now

    def _claims_changed(self, uids: Iterable[str]) -> bool:
        """These pods, which are counted, may take other devices than they are counted with. Returns whether any does."""
        changed = False
        for uid in uids:
            name = self._placed_in.get(uid) or self._waiting_in[uid]
            info = self._cache.placement(uid) if uid in self._pods[name].placed else None
            pod = None if info is None else info.pods[uid]
            if self.devices.takes(name, pod or self._pods[name].waiting[uid]) == self.devices.counted(uid):
                continue
            changed = True
            if pod is None:
                self._ask(name, self._pods[name].waiting[uid], -1)
                self._ask(name, self._pods[name].waiting[uid], 1)
            else:
                place = NOWHERE if info is None else self.flavors.at(info.slot)
                self._add_held(name, pod, self.amounts_at(pod, place), -1, demand=True)
                self.devices.count(name, pod, placed=True)
                self._add_held(name, pod, self.amounts_at(pod, place), 1, demand=True)
        return changed

    def _add_held(
        self, name: str, pod: PodInfo, amounts: Mapping[str, int], sign: int, *, demand: bool, starts: bool = False
    ) -> None:
        tree = self._structure.current
        if sign < 0:
            amounts = {resource: -amount for resource, amount in amounts.items()}
        pods = self._pods[name]
        if sign > 0 and (pod.group or name in self._firm) and self._is_firm(name, pod):
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
            user = self._membership.user_of(pod) if self._membership.first_labels else pod.labels.get(USER_LABEL, "")
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
            self._touched.add(name)

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
        tree = self._structure.current
        add_amounts(self._pods[name].asked, amounts)
        queue = None if tree is None or name in self._structure.shut else tree.get(name)
        if tree is not None and queue is not None:
            before = len(queue.asked)
            tree.add_asked(name, tree.tracked(amounts), demand=demand)
            if len(queue.asked) != before:
                self._touched.add(name)

    def _count_trying(self, uid: str, sign: int) -> None:
        self._count_tried_by(uid, sign)
        if (tree := self._structure.current) is not None and self._trying[uid][0] in tree:
            self._add_trying(tree, uid, sign)

    def _count_tried_by(self, uid: str, sign: int) -> None:
        name, pod, amounts, _ = self._trying[uid]
        if user := self._membership.user_of(pod):
            sums = self._tried_by.setdefault((name, user), {})
            add_amounts(sums, {r: sign * amount for r, amount in amounts.items()})
            if not sums:
                del self._tried_by[name, user]

    def _add_trying(self, tree: QueueTree, uid: str, sign: int) -> None:
        name, _, taken, firm = self._trying[uid]
        amounts = {r: sign * amount for r, amount in tree.tracked(taken).items()}
        tree.add_trying(name, amounts, firm=firm)

    def _nominated(self, pod: PodInfo, sign: int) -> None:
        """The pod is nominated to a node (1), or no longer (-1)."""
        name, taken = self._nominated_in.pop(pod.uid, ("", _NOTHING)) if sign < 0 else (self.queue_of(pod), _NOTHING)
        # Finding the queue may have grouped all pods again, and this one with them.
        if not name or (sign > 0 and pod.uid in self._nominated_in):
            return
        pods = self._pods_of(name)
        if sign > 0:
            taken = self.amounts_on(pod, self._cache.nominator.node_of(pod.uid))
            self._nominated_in[pod.uid] = name, taken
            pods.nominated[pod.uid] = pod
        else:
            del pods.nominated[pod.uid]
        amounts, tree = {r: sign * amount for r, amount in taken.items()}, self._structure.current
        add_amounts(pods.promised, amounts)
        if tree is not None and name in tree:
            tree.add_promised(name, tree.tracked(amounts))
        self._drop_if_empty(name)

    def _pods_of(self, name: str) -> _Pods:
        pods = self._pods.get(name)
        if pods is None:
            pods = self._pods[name] = _Pods()
        return pods

    def _drop_if_empty(self, name: str) -> None:
        pods = self._pods[name]
        if not pods.placed and not pods.waiting and not pods.nominated:
            del self._pods[name]


def _add_parts(pods: _Pods, pod: PodInfo, amounts: Mapping[str, int], *, firm: bool) -> None:
    if firm:
        add_amounts(pods.firm, amounts)
    if pod.terminating:
        add_amounts(pods.going, amounts)


def queues_of(cache: Cache) -> Queues:
    """The queues of this cache."""
    return cache.extension(Queues, lambda: Queues(cache))


def _alike(before: QueueRules, after: QueueRules) -> bool:
    """True if two versions of a queue say the same, flavors in the same order. Selectors are compared by what they
    require.
    """
    return (
        same_selector(before.namespaces, after.namespaces)
        and [*before.flavors] == [*after.flavors]
        and before == replace(after, namespaces=before.namespaces)
    )


def amount_text(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it. `name`: of a resource, or of one in a flavor."""
    resource, _ = parts_of(name)
    if resource == CPU and amount % 1000:
        return f"{amount}m"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES_PREFIX):
        return canonical(amount * NANO, "Ki")
    return str(amount // 1000 if resource == CPU else amount)


def amounts_of(pod: PodInfo) -> Mapping[str, int]:
    """What the pod takes of each resource, itself included."""
    return {**pod.requests.amounts, PODS: 1}


def _over_limit(queue: Queue, bound: Queue, resource: str, amount: int, promised: int) -> str:
    """What holds the pod, then what the queues above have free."""

    def text(amount: int) -> str:
        return amount_text(resource, amount)

    held, limit = bound.held.get(resource, 0), bound.spec.quotas[resource].limit
    found = f"{bound.spec.name} holds {text(held)} of {text(limit)} {resource}"
    if promised:
        found += f", {text(promised)} more is promised to pods that are nominated to nodes"
    if held < limit:
        found += f", and the pod requests {text(amount)}"
    for above in queue.path:
        quota = above.spec.quotas.get(resource, NO_QUOTA)
        if above is not bound and quota.limit != UNBOUNDED:
            free = max(0, quota.limit - above.held.get(resource, 0))
            found += f"; {above.spec.name} has {text(free)} free of {text(quota.limit)}"
    return found
