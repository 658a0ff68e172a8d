"""Turns: whose turn it is among the queues, and which waiting pods are tried again once their bounds let them start.

The `QueueOrder` of core/queue. Reads shares as they were last computed, and has them computed when enough has changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final

from podwright.core.objects.pod import LabelSet, PodInfo
from podwright.core.queues.accounts import UNKNOWN, Accounts
from podwright.core.queues.bound import Bound
from podwright.core.queues.bounds import Bounds
from podwright.core.queues.claimed_devices import is_of_class
from podwright.core.queues.flavors import NOWHERE, OF, parts_of
from podwright.core.queues.membership import LABEL
from podwright.core.queues.places import Places
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import NO_QUOTA, Queue, QueueTree, add_amounts
from podwright.core.state.cache import Cache
from podwright.core.state.reservations import gathered_name

CLAIMS_AT_ONCE: Final = 32
"""The most pods that `due_claims` returns."""
QUEUES_AT_ONCE: Final = 1000
"""The most queues whose pods `due_claims` looks at."""

_PARTS: Final = 2**20
"""Dominant shares are compared in these parts of the capacity."""


class Turns:
    """See the module."""

    def __init__(self, cache: Cache, accounts: Accounts, bounds: Bounds, places: Places) -> None:
        self._cache = cache
        self._accounts = accounts
        self._bounds = bounds
        self._places = places
        self._last_asked = ""
        """The queue that `due_claims` has looked at last."""
        self.plugin = bounds.plugin
        self.queue_of = accounts.queue_of
        self.top_of = accounts.top_of
        self.tried = accounts.end_try
        self.ended_promises = accounts.ended_promises

    # The order of active pods

    @property
    def structure(self) -> int:
        """Rises when the queues of pods, or where they are in the tree, may have changed."""
        self._accounts.tree()
        return self._accounts.structure.paths + self._accounts.regrouped

    @property
    def capacity_changes(self) -> int:
        """Rises when the capacity has changed, and with it the dominant share of every queue."""
        return self._accounts.tree().capacity_changes

    def turn_path(self, pod: PodInfo) -> Sequence[str]:
        """The names of the queue in which the pod takes its turn, its parent, and so on. Empty: the pod takes its turn
        as one without a queue, because it has none, or no pod may start in it.
        """
        tree = self._accounts.tree()
        name = self._accounts.set_of(pod)  # of a pod that may not use its queue, the name is of none
        queue = tree.get(name) if name else None
        if queue is None or queue.children or name in self._accounts.structure.shut:
            return ()
        return queue.names()

    def take_changed(self) -> Iterable[str]:
        """The queues whose `order_key` may have changed since the last call, in no order. See also
        `capacity_changes`.
        """
        tree = self._accounts.tree()
        tree.steps += 1
        self._share_out_if_worth(tree)
        found = {*tree.moved}
        for name in self._accounts.touched:
            if (queue := tree.get(name)) is not None:
                found.update([above.spec.name for above in queue.path])
        self._accounts.touched.clear()
        tree.moved.clear()
        return found

    def _share_out_if_worth(self, tree: QueueTree) -> None:
        if tree.worth_sharing_out:
            tree.set_capacity(self._accounts.capacity())
            tree.compute_shares()

    def order_key(self, name: str, *, trying: bool = False) -> tuple[bool, bool, int, int]:
        """Sorts queues with the same parent: first those under their share, then those under their guarantee, then by
        priority, then by dominant share, of what they have used on average if they have a half-life. Reads the shares
        as they were last computed. What its pods ask for of a resource of which there is nothing tells queues apart
        only if they ask for nothing else. `trying`: as if the pods that are tried again had started.
        """
        tree, flavored = self._accounts.tree(), self._accounts.flavors.named
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
        if (
            self._accounts.structure.valid[name].usage_half_life
            and (record := self._accounts.records.get(name)) is not None
        ):
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
        for name in queue.asked if self._accounts.flavors.named else ():
            resource, flavor = parts_of(name)
            if flavor and self._accounts.tree().top.share.get(name):
                found.setdefault(resource, []).append(name)
        return found.values()

    def turn_key(self, name: str) -> Any:
        """Sorts the queues with the same parent by whose turn it is, if the pods that are tried again had started."""
        self._share_out_if_worth(self._accounts.tree())
        return self.order_key(name, trying=True)

    # The pods that are tried again

    def kind_of(self, pod: PodInfo) -> tuple[str, bool, str]:
        """Pods of one kind that request the same are admitted alike."""
        name = self._accounts.queue_of(pod)
        return name, self._accounts.is_firm_in(name, pod), self._accounts.membership.user_of(pod)

    def admits(self, pod: PodInfo) -> bool:
        """True if no bound forbids the pod to start beside those that are tried again."""
        return self._bounds.of(pod, trying=True) is None

    def holds_room(self, pod: PodInfo) -> bool:
        """True if room is held for the pod, or its group gathers some. It therefore does not wait for others."""
        return bool(self._cache.nominator.node_of(pod.uid)) or self.gathers_room(pod)

    def gathers_room(self, pod: PodInfo) -> bool:
        """True if the pod's group gathers room."""
        group = self._cache.groups.of(pod) if pod.group and len(self._cache.reservations) else None
        return group is not None and self._cache.reservations.get(gathered_name(group.uid)) is not None

    def bound_of(self, pod: PodInfo) -> tuple[Hashable, Bound] | None:
        """The bound that holds the pod back, or its gang as a whole, without what may change as long as it does, and
        the pod's kind.
        """
        self._accounts.changed_bounds.discard(pod.uid)
        found = self._bound_of_gang(pod) if pod.group else self._bounds.of(pod)
        if found is None:
            return None
        alone = pod.uid if is_of_class(found.resource) else ""  # what it takes of devices may change
        return (self.kind_of(pod), alone), found.lasting

    def _bound_of_gang(self, pod: PodInfo) -> Bound | None:
        """Computed once, until a member is tried again or the members change."""
        groups, bounds = self._cache.groups, self._accounts.bounds_of_gangs
        key = groups.key_of(pod)
        if key in bounds and bounds[key][0] is not UNKNOWN:
            return bounds[key][0]
        waiting, lacking = groups.members(key).unplaced(), self._accounts.lacking(key)
        nominated = any(self._cache.nominator.node_of(each.uid) or each.nominated_node_name for each in waiting)
        together = 1 < lacking[0] <= lacking[1] and not nominated
        found = self._bounds.together(waiting, lacking[0], promised=True) if together else None
        if waiting:
            bounds[key] = found, lacking
        return found

    def take_changed_bounds(self) -> Collection[str]:
        """The uids of waiting pods whose `bound_of` may have changed, other than because others hold more or less. Each
        is returned once.
        """
        if self._accounts.active:
            self._accounts.tree()
        changed, self._accounts.changed_bounds = self._accounts.changed_bounds, set()
        return changed

    def take_ended_promises(self) -> Sequence[PodInfo]:
        """See `RoomWaiters`. A pod that is in another queue now is returned as one of the queue that had the
        nomination.
        """
        placed, nominated, found = self._accounts.placed_in, self._accounts.nominated_in, list[PodInfo]()
        for (uid, name), pod in self.ended_promises.items():
            if name not in (placed.get(uid), nominated.get(uid, ("",))[0]):
                there = self.queue_of(pod) == name
                found.append(pod if there else replace(pod, uid="", labels=LabelSet({LABEL: name})))
        self.ended_promises.clear()
        return found

    def refuses(self, bound: tuple[Hashable, Bound] | None, pod: PodInfo) -> bool:
        """True if this bound, if it is a limit, holds the pod or its gang back, whatever is promised to pods of its own
        queue. Much less work than `Bounds.of`.
        """
        accounts, named = self._accounts, None if bound is None else bound[1]
        tree, name = accounts.tree(), accounts.waiting_in.get(pod.uid, "")
        queue = tree.get(name)
        if named is None or named.kind not in ("limit", "gang") or queue is None or name in accounts.structure.shut:
            return False
        if named.kind == "limit":
            amount = accounts.tracked(tree, pod).get(named.resource, 0)
        else:
            # What members take of flavors and devices may change.
            amount = 0 if OF in named.resource or is_of_class(named.resource) else named.requested
        for above in queue.path if amount else ():
            if above.spec.name == named.queue:
                limit = above.spec.quotas.get(named.resource, NO_QUOTA).limit
                taken = above.held.get(named.resource, 0) + above.trying.get(named.resource, 0)
                promised = above.promised.get(named.resource, 0) - queue.promised.get(named.resource, 0)
                return limit != UNBOUNDED and taken + promised + amount > limit
        return False

    def still_holds(self, bound: tuple[Hashable, Bound], pod: PodInfo) -> bool:
        """True if this bound holds the pod back beside those that are tried again, or if none does. It need not be the
        first one that does.
        """
        if self.refuses(bound, pod):
            return True
        named, now = bound[1], self._bounds.of(pod, trying=True)
        if now is None or now.lasting == named:
            return True
        tree, name = self._accounts.tree(), self._accounts.queue_of(pod)
        queue = tree.get(name)
        if queue is None or not now.resource:
            return False
        amounts = tree.tracked(self._accounts.plain_amounts(pod))
        if named.kind == "limit":
            return any(
                taken + named.requested > above.spec.quotas.get(named.resource, NO_QUOTA).limit != UNBOUNDED
                for above in queue.path
                if above.spec.name == named.queue
                for taken in [sum(e.get(named.resource, 0) for e in (above.held, above.promised, above.trying))]
            )
        others = (
            self._bounds.beyond_guarantee(queue, pod, amounts, trying=True)
            if self._accounts.is_firm_in(name, pod)
            else None,
            self._bounds.user_limit(tree, queue, pod, trying=True),
        )
        return any(each.lasting == named for each in others if each is not None)

    def try_again(self, pod: PodInfo) -> None:
        """The pod is tried again because its bounds let it start. Its room is not offered to others meanwhile."""
        bounds = self._accounts.bounds_of_gangs
        if pod.group and (key := self._cache.groups.key_of(pod)) in bounds:
            bounds[key] = UNKNOWN, bounds[key][1]
        if self._accounts.queue_of(pod) and pod.uid not in self._accounts.trying:
            places = self._places.of(pod)
            place = next((each for each in places if self._bounds.at(pod, each, trying=True) is None), NOWHERE)
            self._accounts.start_try(pod, place)

    # Claims

    def due_claims(self) -> Sequence[str]:
        """The uids of some waiting pods, at most one of each queue, that might take back what their queue is entitled
        to.

        Shares change without an event for these pods, and so does how long others have run. Each call goes on where the
        last one stopped, so all queues get their turn, and so do the pods of each.
        """
        if not self._accounts.active:
            return ()
        tree, found = self._accounts.shared_out(), list[str]()
        names = sorted(name for name, pods in self._accounts.pods.items() if pods.waiting and name in tree)
        first = bisect_right(names, self._last_asked)
        for name in (names[first:] + names[:first])[:QUEUES_AT_ONCE]:
            self._last_asked = name
            if uid := self._due_claim(tree, name):
                found.append(uid)
                if len(found) == CLAIMS_AT_ONCE:
                    break
        return found

    def _due_claim(self, tree: QueueTree, name: str) -> str:
        pods, queue = self._accounts.pods[name], self._accounts.queue(name)
        waiting = [uid for uid, pod in pods.waiting.items() if uid not in self._accounts.placed_in and not pod.gates]
        if not waiting:
            return ""
        uid = pods.last_asked = min((uid for uid in waiting if uid > pods.last_asked), default=min(waiting))
        entitled = any(
            all(
                queue.held.get(resource, 0) - queue.going.get(resource, 0) + amount <= queue.entitled(resource)
                for resource, amount in amounts.items()
            )
            for amounts in self._places.choices(pods.waiting[uid])
        )
        timed = self._accounts.structure.valid[name].preempt_min_runtime or self._accounts.max_runtime(name) < inf
        return uid if entitled or timed else ""
