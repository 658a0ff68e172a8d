"""QueueTree: queues, what their pods request and hold, and the share of each queue.

Invariants: a queue's request is its demand, or the sum of its children's requests, and at most its limit. A queue holds
what its pods and its children hold. A change of either costs the depth of the queue. Shares are computed when they are
read, and only where a request or a share above has changed.

Source of the rule: `shares`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from podwright.core.framework.validation import describe
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.resources import PODS, Requests
from podwright.core.queues.shares import UNBOUNDED, Claim, share_out

DEFAULT_PRIORITY: Final = 100
CLAIMS_PER_STEP: Final = 2
"""How many claims of queues the order of pods has shared out for each change of demand and attempt at a pod."""

MOST_REQUESTS: Final = 256
"""For how many different requests of pods the counted amounts are cached."""
_LEAST_COST: Final = 64
"""The cost of finding the capacity, in claims. Each resource costs one more."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a queue for one resource, in whole units (milli-CPU, bytes, devices)."""

    guarantee: int = field(
        default=0, metadata=describe("What the queue gets first. -1: all that it requests.", minimum=-1)
    )
    limit: int = field(
        default=UNBOUNDED, metadata=describe("The most that the queue may have. -1: no limit.", minimum=-1)
    )
    weight: float = field(
        default=1,
        metadata=describe(
            "Its part of what the guarantees leave. 0 or -1: nothing of it.", minimum=-1, maximum=MAX_INT64
        ),
    )


NO_QUOTA: Final = Quota()


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """`parent`: the name of another queue, empty for a queue at the top. `quotas`: by resource."""

    name: str
    parent: str = ""
    priority: int = DEFAULT_PRIORITY
    quotas: Mapping[str, Quota] = field(
        default_factory=dict, metadata=describe("What the queue may have, by resource.") | {"name": "resources"}
    )


class Queue:
    """One queue of a tree. Do not change it."""

    __slots__ = (
        "asked",
        "children",
        "firm",
        "firm_trying",
        "going",
        "guaranteed",
        "held",
        "keeps",
        "kept",
        "kept_below",
        "parent",
        "path",
        "promised",
        "request",
        "rounding",
        "share",
        "spec",
        "stale",
        "trying",
        "up",
        "wanted",
    )

    def __init__(self, spec: QueueSpec) -> None:
        self.spec = spec
        self.parent: Queue | None = None
        self.path: tuple[Queue, ...] = ()
        """The queue, its parent, and so on, up to a queue at the top."""
        self.up: tuple[Queue, ...] = (self,)
        """The same, and the cluster."""
        self.children: list[Queue] = []
        self.held: dict[str, int] = {}
        """By resource: what its pods, and those of the queues below, have on nodes."""
        self.going: dict[str, int] = {}
        """The part of it that terminating pods have."""
        self.firm: dict[str, int] = {}
        """The part of it that pods have that are never evicted for a pod of a queue."""
        self.firm_trying: dict[str, int] = {}
        """The part of `trying` of pods that are never evicted for a pod of a queue."""
        self.promised: dict[str, int] = {}
        """By resource: what its pods request that are nominated to a node, but not on it yet."""
        self.trying: dict[str, int] = {}
        """By resource: what its pods request that are tried again because a bound lets them start, but have no node
        yet.
        """
        self.asked: dict[str, int] = {}
        """By resource: what its pods request that wait for a node."""
        self.guaranteed: dict[str, int] = {}
        """By resource: the sum of the guarantees of the queues right below."""
        self.keeps: Mapping[str, int] = {}
        """By resource: the part of its guarantee that it does not lend."""
        self.kept: dict[str, int] = {}
        """By resource: the amount that others must leave free for it and the queues below."""
        self.kept_below: dict[str, int] = {}
        """The sum of it over the queues right below."""
        self.wanted: dict[str, int] = {}
        """By resource: the demand, or the sum of the children's requests."""
        self.request: dict[str, int] = {}
        """The same, at most the limit."""
        self.share: dict[str, int] = {}
        self.rounding: dict[str, int] = {}
        """By resource: 1 if the share was rounded up, -1 if it was rounded down, 0 if it is exact."""
        self.stale: set[str] = set()
        """The resources of which a request below has changed since the shares below were computed."""

    def entitled(self, resource: str, rounding: int = 0) -> int:
        """The larger of guarantee and share, with the share as it was rounded (0), rounded down (-1) or up (1)."""
        share, rounded = self.share.get(resource, 0), self.rounding.get(resource, 0)
        if rounded == -rounding:
            share += rounding
        return max(self.guarantee(resource), share)

    def guarantee(self, resource: str) -> int:
        guarantee = self.spec.quotas.get(resource, NO_QUOTA).guarantee
        return MAX_INT64 if guarantee == UNBOUNDED else guarantee

    def names(self) -> Sequence[str]:
        """Returns the names of the queues of `path`."""
        return [queue.spec.name for queue in self.path]

    def put_below(self, parent: Queue) -> None:
        """Gives a queue another parent. All below have other paths then."""
        self.parent = parent
        parent.children.append(self)
        self.path, self.up = (self, *parent.path), (self, *parent.up)
        self.find_paths()

    def find_paths(self) -> None:
        """Finds the paths of all queues below."""
        left = [self]
        while left:
            queue = left.pop()
            for child in queue.children:
                child.path, child.up = (child, *queue.path), (child, *queue.up)
            left += queue.children


class QueueTree:
    """See the module."""

    def __init__(self, specs: Iterable[QueueSpec], capacity: Mapping[str, int]) -> None:
        """`capacity`: whole units by resource; the tree shares out these resources.

        Raises InvalidObjectError for a name that two queues have, a parent that does not exist, and a cycle of parents.
        """
        self.top = Queue(QueueSpec(name=""))
        """The cluster, above all queues without a parent."""
        self._queues: dict[str, Queue] = {}
        self.get: Final = self._queues.get
        """The queue of this name, or None. Pods ask often, so it is no method."""
        for spec in specs:
            if not spec.name or spec.name in self._queues:
                problem = f"another queue has the name {spec.name!r}" if spec.name else "a value is required"
                raise InvalidObjectError("name", problem).in_object("Queue", spec.name)
            self._queues[spec.name] = Queue(spec)
        for queue in self._queues.values():
            parent = self._queues.get(queue.spec.parent) if queue.spec.parent else self.top
            if parent is None:
                problem = f"queue {queue.spec.parent!r} does not exist"
                raise InvalidObjectError("parent", problem).in_object("Queue", queue.spec.name)
            queue.parent = parent
            parent.children.append(queue)
            _guarantee(parent, spec=queue.spec, sign=1)
        self.top.find_paths()
        self._refuse_cycles()
        self._named = Counter(name for queue in self._queues.values() for name in queue.spec.quotas)
        self.resources = tuple(sorted(self._named))
        """The resources that any queue names."""
        self.keeping: set[str] = set()
        """The queues that do not lend all of their guarantee."""
        self._requested: dict[Requests, Mapping[str, int]] = {}
        self.moved: set[str] = set()
        """The queues whose shares have changed. Whoever orders queues by them clears it."""
        self.capacity_changes = 0
        """Rises when the capacity changes, of which dominant shares are parts."""
        self.steps = 0
        """How much has happened since shares were computed: changes of demand, and attempts at pods."""
        self._cost = 0
        """How many claims were shared out at the last time."""
        self.set_capacity(capacity)

    def set_capacity(self, capacity: Mapping[str, int]) -> None:
        """Shares out these amounts from now on: whole units by resource."""
        changed = [name for name, amount in capacity.items() if self.top.share.get(name) != amount]
        self.capacity_changes += bool(changed)
        self.top.stale.update(changed)
        self.top.share = dict(capacity)

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    def below(self, names: Iterable[str]) -> frozenset[str]:
        """Returns these queues and all below them."""
        found: set[str] = set()
        left = [self._queues[name] for name in names]
        while left:
            queue = left.pop()
            if queue.spec.name not in found:
                found.add(queue.spec.name)
                left += queue.children
        return frozenset(found)

    # Changes of one queue

    def names_alike(self, before: Iterable[str], after: Iterable[str]) -> bool:
        """True if any queue names the same resources as now when one that names these before names those after."""
        named, names = {*before}, {*after}
        return names <= self._named.keys() and all(self._named[name] > 1 for name in named - names)

    def height(self, name: str) -> int:
        """How many levels there are from the queue down. 1 for one that does not exist."""
        levels, level = 0, [queue] if (queue := self._queues.get(name)) is not None else []
        while level:
            levels, level = levels + 1, [child for each in level for child in each.children]
        return max(1, levels)

    def add(self, spec: QueueSpec) -> None:
        """Adds a queue without pods. The caller has checked its parent. The resources that it names are named
        already.
        """
        queue = self._queues[spec.name] = Queue(spec)
        self._named.update(spec.quotas.keys())
        self._join(queue)

    def replace(self, spec: QueueSpec) -> None:
        """Replaces a queue, which keeps its pods and the queues below it. See `add`."""
        queue = self._queues[spec.name]
        before = queue.spec
        moves = before.parent != spec.parent
        self._named.update(spec.quotas.keys())
        self._named.subtract(before.quotas.keys())
        assert queue.parent is not None, "the top is not replaced"
        if moves:
            self._part(queue)
        else:
            _guarantee(queue.parent, spec=before, sign=-1)
            _guarantee(queue.parent, spec=spec, sign=1)
        queue.spec = spec
        for resource in {**before.quotas, **spec.quotas}:
            wanted, limit = queue.wanted.get(resource, 0), spec.quotas.get(resource, NO_QUOTA).limit
            now = wanted if limit == UNBOUNDED else min(wanted, limit)
            change, queue.request[resource] = now - queue.request.get(resource, 0), now
            if not moves:
                self._pass_on(queue.parent, resource, change)
        if moves:
            self._join(queue)
        elif before.priority != spec.priority:
            for resource in queue.request:
                self._pass_on(queue.parent, resource, 0)
        self.moved.add(spec.name)

    def drop(self, name: str) -> None:
        """Removes a queue without children. Its pods are no longer pods of any queue."""
        queue = self._queues.pop(name)
        self._named.subtract(queue.spec.quotas.keys())
        self._part(queue)
        for names in (self.moved, self.keeping):
            names.discard(name)

    def _part(self, queue: Queue) -> None:
        """Takes a queue, with what its pods hold and ask for, from its parent."""
        assert queue.parent is not None, "the top has no parent"
        queue.parent.children.remove(queue)
        self._count(queue, -1)

    def _join(self, queue: Queue) -> None:
        parent = self._queues[queue.spec.parent] if queue.spec.parent else self.top
        queue.put_below(parent)
        self._count(queue, 1)

    def _count(self, queue: Queue, sign: int) -> None:
        parent = queue.parent
        assert parent is not None, "the top has no parent"
        _guarantee(parent, spec=queue.spec, sign=sign)
        for above in parent.up:
            for sums, own in (
                (above.held, queue.held),
                (above.going, queue.going),
                (above.promised, queue.promised),
                (above.trying, queue.trying),
                (above.firm, queue.firm),
                (above.firm_trying, queue.firm_trying),
            ):
                add_amounts(sums, {resource: sign * amount for resource, amount in own.items()})
            if above is not self.top:
                add_amounts(above.asked, {resource: sign * amount for resource, amount in queue.asked.items()})
        if self.keeping:
            add_amounts(parent.kept_below, {resource: sign * amount for resource, amount in queue.kept.items()})
            self._keep(parent, {*queue.kept, *queue.held})
        for resource in self.resources:
            self._pass_on(parent, resource, sign * queue.request.get(resource, 0))

    def _pass_on(self, queue: Queue, resource: str, change: int) -> None:
        """The requests of the children of a queue, or what they are guaranteed, have changed."""
        queue.stale.add(resource)
        while queue.parent is not None:
            before = queue.request.get(resource, 0)
            wanted = queue.wanted[resource] = queue.wanted.get(resource, 0) + change
            limit = queue.spec.quotas.get(resource, NO_QUOTA).limit
            now = queue.request[resource] = wanted if limit == UNBOUNDED else min(wanted, limit)
            queue, change = queue.parent, now - before
            queue.stale.add(resource)

    # What pods hold and ask for

    def is_leaf(self, name: str) -> bool:
        """True if the queue has no children. Raises KeyError if it does not exist."""
        return not self._queues[name].children

    def add_demand(self, name: str, amounts: Mapping[str, int]) -> None:
        """Adds these amounts, which may be negative, to what the pods of a queue without children request.

        Raises KeyError if the queue does not exist.
        """
        leaf = self._queues[name]
        self.steps += 1
        for resource, amount in amounts.items():
            self._pass_on(leaf, resource, amount)

    def tracked(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Returns the amounts, other than 0, of resources that any queue names."""
        return {name: amount for name, amount in amounts.items() if amount and name in self._named}

    def tracked_of(self, requests: Requests) -> Mapping[str, int]:
        """Like `tracked`, for a pod with these requests. Cached for equal requests."""
        found = self._requested.get(requests)
        if found is None:
            if len(self._requested) >= MOST_REQUESTS:
                self._requested.clear()
            found = self._requested[requests] = self.tracked({**requests.amounts, PODS: 1})
        return found

    def add_held(self, name: str, amounts: Mapping[str, int], *, demand: bool = True) -> None:
        """Adds these amounts, which may be negative, to what the pods of a queue have on nodes, and to its demand.

        Raises KeyError if the queue does not exist.
        """
        queue = self._queues[name]
        add_to_all([each.held for each in queue.up], amounts)
        if self.keeping:
            self._keep(queue, amounts)
        if demand:
            self.add_demand(name, amounts)

    def start(self, name: str, amounts: Mapping[str, int]) -> None:
        """A pod that has asked for these amounts has them from now on, so that the demand stays."""
        queue = self._queues[name]
        move([each.asked for each in queue.path], [each.held for each in queue.up], amounts)
        if self.keeping:
            self._keep(queue, amounts)

    def keep(self, name: str, amounts: Mapping[str, int]) -> None:
        """From now on, the queue does not lend these amounts of its guarantee."""
        queue = self._queues[name]
        before, queue.keeps = queue.keeps, amounts
        if amounts:
            self.keeping.add(name)
        else:
            self.keeping.discard(name)
        self._keep(queue, {*before, *amounts})

    def kept_from(self, name: str, resource: str) -> Iterator[tuple[Queue, int]]:
        """The queue, those above it, and the cluster, each with what its pods must leave free in it for other
        queues.
        """
        kept, queue = 0, self._queues[name]
        while queue.parent is not None:
            yield queue, kept
            kept += queue.parent.kept_below.get(resource, 0) - queue.kept.get(resource, 0)
            queue = queue.parent
        yield self.top, kept

    @staticmethod
    def _keep(queue: Queue, resources: Iterable[str]) -> None:
        """Brings what is kept of these resources up to date, from this queue up."""
        for resource in resources:
            each = queue
            while each.parent is not None:
                own = each.keeps.get(resource, 0) - each.held.get(resource, 0)
                change = max(0, own, each.kept_below.get(resource, 0)) - each.kept.get(resource, 0)
                add_amounts(each.kept, {resource: change})
                each = each.parent
                add_amounts(each.kept_below, {resource: change})

    def add_going(self, name: str, amounts: Mapping[str, int]) -> None:
        """The same for the terminating ones of these pods, which are part of them. Their demand counts with all."""
        add_to_all([queue.going for queue in self._queues[name].up], amounts)

    def add_firm(self, name: str, amounts: Mapping[str, int]) -> None:
        """The same for those of these pods that are never evicted for a pod of a queue."""
        add_to_all([queue.firm for queue in self._queues[name].up], amounts)

    def add_promised(self, name: str, amounts: Mapping[str, int]) -> None:
        """The same for nominated pods, whose demand counts while they wait."""
        add_to_all([queue.promised for queue in self._queues[name].up], amounts)

    def add_trying(self, name: str, amounts: Mapping[str, int], *, firm: bool) -> None:
        """The same for pods that are tried again, whose demand counts while they wait."""
        above = self._queues[name].up
        add_to_all([queue.trying for queue in above], amounts)
        if firm:
            add_to_all([queue.firm_trying for queue in above], amounts)

    def add_asked(self, name: str, amounts: Mapping[str, int], *, demand: bool = True) -> None:
        """The same for its pods that wait for a node."""
        add_to_all([queue.asked for queue in self._queues[name].path], amounts)
        if demand:
            self.add_demand(name, amounts)

    def share(self, name: str) -> Mapping[str, int]:
        """The share of a queue, by resource of the capacity. Raises KeyError if the queue does not exist."""
        self.compute_shares()
        return self.last_share(name)

    def last_share(self, name: str) -> Mapping[str, int]:
        """The same, as it was last computed."""
        return {**dict.fromkeys(self.top.share, 0), **self._queues[name].share}

    def shares(self) -> dict[str, Mapping[str, int]]:
        """The shares of all queues, by name."""
        self.compute_shares()
        return {name: self.last_share(name) for name in self._queues}

    @property
    def worth_sharing_out(self) -> bool:
        """True if so much has happened since shares were computed that computing them again adds little to it."""
        return self.steps * CLAIMS_PER_STEP >= self._cost

    def compute_shares(self) -> None:
        """Brings the shares of all queues up to date."""
        self.steps, self._cost = 0, _LEAST_COST + len(self.top.share)
        stale = [(self.top, self.top.share.keys() & self.top.stale)]
        while stale:
            parent, resources = stale.pop()
            parent.stale -= resources
            # Most children request few of the resources that queues name, and who never did has no share.
            wanting: dict[str, list[Queue]] = {}
            for child in [each for each in parent.children if each.request]:
                for resource in child.request.keys() & resources:
                    wanting.setdefault(resource, []).append(child)
            below: dict[Queue, set[str]] = {}
            for resource, children in wanting.items():
                claims, rounding = [_claim(child, resource) for child in children], dict[int, int]()
                self._cost += len(claims)
                shares = share_out(parent.share.get(resource, 0), claims, rounding)
                for index, (child, share) in enumerate(zip(children, shares, strict=True)):
                    child.rounding[resource] = rounding.get(index, 0)
                    moved = child.share.get(resource) != share
                    if moved:
                        self.moved.add(child.spec.name)
                    if (moved or resource in child.stale) and child.children:
                        below.setdefault(child, set()).add(resource)
                    child.share[resource] = share
            stale += below.items()
        self.top.stale.clear()

    def _refuse_cycles(self) -> None:
        """A queue of a cycle is not below the top."""
        for name, queue in self._queues.items():
            if not queue.path:
                problem = f"queue {queue.spec.parent!r} is below this queue, or below a cycle of parents"
                raise InvalidObjectError("parent", problem).in_object("Queue", name)


def _claim(queue: Queue, resource: str) -> Claim:
    spec = queue.spec
    quota = spec.quotas.get(resource, NO_QUOTA)
    return Claim(spec.name, spec.priority, quota.guarantee, quota.weight, queue.request.get(resource, 0))


def _guarantee(parent: Queue, spec: QueueSpec, sign: int) -> None:
    """Counts what a child is guaranteed (1), or no longer (-1)."""
    add_amounts(
        parent.guaranteed,
        {name: sign * quota.guarantee for name, quota in spec.quotas.items() if quota.guarantee != UNBOUNDED},
    )


def add_to_all(several: Iterable[dict[str, int]], amounts: Mapping[str, int]) -> None:
    """`add_amounts` for each of these sums."""
    for resource, amount in amounts.items():
        for sums in several:
            if total := sums.get(resource, 0) + amount:
                sums[resource] = total
            else:
                sums.pop(resource, None)


def move(sources: Iterable[dict[str, int]], targets: Iterable[dict[str, int]], amounts: Mapping[str, int]) -> None:
    """Moves amounts from each of the sources, to each of the targets. None has entries of 0."""
    for resource, amount in amounts.items():
        if not amount:
            continue
        for sums in sources:
            if left := sums.get(resource, 0) - amount:
                sums[resource] = left
            else:
                sums.pop(resource, None)
        for sums in targets:
            sums[resource] = sums.get(resource, 0) + amount


def add_amounts(sums: dict[str, int], amounts: Mapping[str, int]) -> None:
    """Adds amounts, which may be negative, to sums, which have no entries of 0."""
    for resource, amount in amounts.items():
        total = sums.get(resource, 0) + amount
        if total:
            sums[resource] = total
        else:
            sums.pop(resource, None)
