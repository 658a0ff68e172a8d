"""Bounds: what forbids a pod of a queue to start now, or to start on nodes of some flavors.

They are, in this order: the limits of the pod's queue and of those above; what other queues do not lend of their
guarantees; the guarantee itself, for pods that are never evicted; the limits of the pod's user. Pods that are nominated
to nodes count as if they were there, except for the pods for which they leave room. Read next: `places`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from podwright.core.framework.interface import FilterResult
from podwright.core.framework.status import Code, Status, unresolvable
from podwright.core.objects.pod import PodInfo
from podwright.core.queues.accounts import Accounts
from podwright.core.queues.amounts import amount_text, amounts_of
from podwright.core.queues.bound import Bound
from podwright.core.queues.flavors import Place
from podwright.core.queues.membership import OUTSIDE
from podwright.core.queues.places import Places
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import NO_QUOTA, Queue, QueueTree, add_amounts
from podwright.core.state.cache import Cache

QUEUE_QUOTA: Final = "QueueQuota"
"""The plugin in whose name bounds refuse pods."""
MOST_TOLD: Final = 4
"""The most places whose bounds a message names."""


class Bounds:
    """See the module. While queues name flavors, these are the cache's `place_rules`."""

    plugin: Final = QUEUE_QUOTA

    def __init__(self, cache: Cache, accounts: Accounts, places: Places) -> None:
        self._cache = cache
        self._accounts = accounts
        self._places = places
        self.preferred = places.preferred

    def of(self, pod: PodInfo, *, trying: bool = False, amounts: Mapping[str, int] | None = None) -> Bound | None:
        """Returns the bound that forbids the pod to start now; None if it may, has no queue, or has a node. `trying`:
        count the pods that are tried again, too; a bound on an amount then has no message. `amounts`: what several pods
        like this one would take, wherever they are.
        """
        accounts = self._accounts
        if not accounts.active or pod.uid in accounts.placed_in:
            return None
        tree = accounts.tree()
        found = accounts.waiting_in.get(pod.uid) or accounts.membership.of(pod)
        name = found.removesuffix(OUTSIDE)
        if not name:
            return None
        queue = tree.get(name)
        if queue is None:
            problem = accounts.problem(name) or accounts.refused.get(name)
            why = f"does not exist{self._named(pod)}" if problem is None else f"is invalid: {problem}"
            return Bound(name, f"queue {name} {why}")
        if found != name:
            return Bound(name, f"namespace {pod.namespace} may not use queue {self._refusing(queue, pod)}")
        if queue.children:
            return Bound(name, f"queue {name} has queues below it, so no pods start in it{self._named(pod)}")
        if name in accounts.structure.shut:
            return Bound(name, accounts.shut_by(name))
        return (
            self._bound_of(
                tree, queue, pod, accounts.tracked(tree, pod) if amounts is None else tree.tracked(amounts), trying
            )
            or (self.user_limit(tree, queue, pod, trying, amounts) if accounts.structure.limiting else None)
            or (self._in_all_places(pod, trying, amounts) if accounts.flavors.named else None)
        )

    def at(
        self, pod: PodInfo, place: Place, *, trying: bool = False, amounts: Mapping[str, int] | None = None
    ) -> Bound | None:
        """Returns the bound that forbids the pod, which has a queue of the tree, to start on nodes of this place.
        Ignores bounds that hold on all nodes. `amounts`: see `of`.
        """
        accounts = self._accounts
        tree = accounts.tree()
        queue = tree.get(accounts.queue_of(pod))
        if queue is None or pod.uid in accounts.placed_in:
            return None
        amounts = accounts.plain_amounts(pod) if amounts is None else amounts
        return self._bound_of(tree, queue, pod, accounts.flavors.taken(amounts, place), trying)

    def together(
        self, pods: Sequence[PodInfo], needed: int, *, trying: bool = False, promised: bool = False
    ) -> Bound | None:
        """The bound that keeps any `needed` of these pods from starting together. None if they are in several queues.
        `promised`: beside the pods of other queues that are nominated.
        """
        first = self.of(pods[0], trying=trying)
        if first is not None and not first.resource:
            return first
        name, tree = self._accounts.queue_of(pods[0]), self._accounts.tree()
        queue = tree.get(name)
        if queue is None:
            return None
        limits = (quota.limit for above in queue.path for quota in above.spec.quotas.values())
        if all(limit == UNBOUNDED for limit in limits) or {*map(self._accounts.queue_of, pods)} != {name}:
            return None
        counted = self._sure_amounts(tree, pods)
        for resource in sorted({resource for amounts, _ in counted for resource in amounts}):
            least, left = 0, needed
            for amount, count in sorted((amounts.get(resource, 0), count) for amounts, count in counted):
                least += amount * min(count, left)
                left = max(0, left - count)
            for above in queue.path if least else ():
                limit, held = above.spec.quotas.get(resource, NO_QUOTA).limit, above.held.get(resource, 0)
                others = above.promised.get(resource, 0) - queue.promised.get(resource, 0) if promised else 0
                if UNBOUNDED != limit < held + least + others + trying * above.trying.get(resource, 0):
                    message = ""
                    if not trying:
                        held_text, limit_text, least_text = (amount_text(resource, e) for e in (held, limit, least))
                        message = f"{above.spec.name} holds {held_text} of {limit_text} {resource}"
                        message += f", and the pod group requests {least_text}"
                    return Bound(
                        above.spec.name, message, resource, held=held, limit=limit, requested=least, kind="gang"
                    )
        return None

    def of_gang(self, pod: PodInfo) -> Bound | None:
        """Returns the bound that keeps the pod's gang from starting as a whole. None if there is no such bound, if the
        pod has no gang, or if too few of the gang's pods wait.
        """
        groups = self._cache.groups
        key = groups.key_of(pod)
        needed, count = self._accounts.lacking(key)
        return self.together(groups.members(key).unplaced(), needed) if 0 < needed <= count else None

    def refusal(self, pod: PodInfo) -> Status | None:
        """For PreFilter. Preemption does not resolve a bound."""
        found = self.of(pod)
        return None if found is None else unresolvable(found.message)

    def promised_behind(self, pods: Sequence[PodInfo]) -> Mapping[str, int]:
        """By resource: the part of `Queue.promised`, in the queue of these pods and in those above, that is promised to
        themselves, or to pods of their queue that leave room for them.
        """
        queue = self._accounts.queue_of(pods[0])
        own = self._accounts.pods.get(queue)
        behind: dict[str, int] = {}
        if own is not None and own.nominated:
            _, _, usable = self._cache.nominator.rank(pods[0])
            rank = queue, min(pod.priority for pod in pods), usable
            uids = {pod.uid for pod in self._cache.nominator.behind_rank(rank, own.nominated)}
            uids.update(pod.uid for pod in pods if pod.uid in own.nominated)
            for uid in uids:
                add_amounts(behind, self._accounts.nominated_in[uid][1])
        return behind

    @property
    def lends_less(self) -> bool:
        """True if any queue does not lend all of its guarantee, so that free room is a bound, too."""
        return bool(self._accounts.tree().keeping)

    # As the cache's `place_rules`

    def refuse_all(self, pod: PodInfo) -> FilterResult | None:
        """The verdict on all nodes; None: all pass."""
        if self._places.request(pod) is None:
            return None
        column, places = self._accounts.flavors.column()
        statuses = [self._verdict(pod, place) for place in places]
        if not any(statuses):
            return None
        passing = np.array([status is None for status in statuses], np.bool_)
        told = [status or Status(Code.SUCCESS) for status in statuses]
        return FilterResult(passing[column], lambda: (column, told))

    def refuse(self, pod: PodInfo, slot: int) -> Status | None:
        """The verdict on the node in this row."""
        place = self._accounts.flavors.at(slot)
        return self._verdict(pod, place) if place and self._places.request(pod) is not None else None

    def _verdict(self, pod: PodInfo, place: Place) -> Status | None:
        bound = self.at(pod, place) if place else None
        if bound is None:
            return None
        return unresolvable(f"node(s) of flavor {', '.join(place)}: {bound.message}").by(self.plugin)

    # Internals

    def _named(self, pod: PodInfo) -> str:
        return f" (named by {self._accounts.membership.naming(pod)})"

    def _refusing(self, queue: Queue, pod: PodInfo) -> str:
        """Names the queue, or the one above it, that does not admit the namespace."""
        name, labels = queue.spec.name, self._accounts.membership.labels_of(pod.namespace)
        valid = self._accounts.structure.valid
        by = next((each for each in queue.names() if not valid[each].namespaces.matches(labels)), name)
        which = name if by == name else f"{by}, which is above queue {name}"
        return f"{which}{self._named(pod)}: spec.namespaceSelector of queue {by} does not match the namespace's labels"

    def _bound_of(
        self, tree: QueueTree, queue: Queue, pod: PodInfo, amounts: Mapping[str, int], trying: bool
    ) -> Bound | None:
        """The first bound on these amounts, which the pod would take."""
        name, accounts = queue.spec.name, self._accounts
        may_be_firm = pod.group or name in accounts.firm_priorities or accounts.preemptible_by_policy
        return (
            self._limit(queue, pod, amounts, trying)
            or (self._kept(name, pod, amounts, trying) if tree.keeping else None)
            or (
                self.beyond_guarantee(queue, pod, amounts, trying)
                if may_be_firm and accounts.is_firm_in(name, pod)
                else None
            )
        )

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
                        above.spec.name,
                        message,
                        resource,
                        held=held,
                        limit=limit,
                        requested=amount,
                        others=promised,
                        kind="limit",
                    )
        return None

    def _kept(self, name: str, pod: PodInfo, amounts: Mapping[str, int], trying: bool) -> Bound | None:
        """Returns the bound from guarantees that other queues do not lend, and from promises to nominated pods."""
        nominated = bool(self._cache.nominator.node_of(pod.uid))
        behind: Mapping[str, int] | None = None
        for resource, amount in amounts.items():
            for above, kept in self._accounts.tree().kept_from(name, resource):
                if not kept:
                    continue
                quota, held = above.spec.quotas.get(resource, NO_QUOTA), above.held.get(resource, 0)
                limit = self._accounts.capacity_of(resource) if above.parent is None else quota.limit
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
                        above.spec.name,
                        message,
                        resource,
                        held=held,
                        limit=limit,
                        requested=amount,
                        others=kept + promised,
                        kind="kept",
                    )
        return None

    def beyond_guarantee(self, queue: Queue, pod: PodInfo, amounts: Mapping[str, int], trying: bool) -> Bound | None:
        """For a pod that is never evicted for others."""
        valid = self._accounts.structure.valid
        for resource, amount in amounts.items():
            for above in queue.path:
                quota = above.spec.quotas.get(resource, NO_QUOTA)
                held, limit = above.firm.get(resource, 0), quota.guarantee
                # A queue above without firm pods of its own may have no guarantees at all.
                own = above is queue or valid[above.spec.name].firm_priority is not None
                says_so = own and resource in above.spec.quotas
                bounds = limit > 0 or (limit == 0 and says_so)
                if bounds and held + trying * above.firm_trying.get(resource, 0) + amount > limit:
                    if trying:
                        return Bound(above.spec.name, "", resource, requested=amount, kind="guarantee")
                    held_text, limit_text = amount_text(resource, held), amount_text(resource, limit)
                    by_policy = " by its policy" if self._accounts.preemptible(pod) is False else ""
                    message = (
                        f"{above.spec.name} is guaranteed {limit_text} {resource}, of which pods that are never evicted"
                        f" hold {held_text}, and the pod, which is one of these{by_policy}, requests"
                        f" {amount_text(resource, amount)}"
                    )
                    return Bound(
                        above.spec.name, message, resource, held=held, limit=limit, requested=amount, kind="guarantee"
                    )
        return None

    def user_limit(
        self, tree: QueueTree, queue: Queue, pod: PodInfo, trying: bool, amounts: Mapping[str, int] | None = None
    ) -> Bound | None:
        """The limits of the pod's user in its queue, and in those above, where the pods of all queues below count."""
        accounts, user = self._accounts, self._accounts.membership.user_of(pod)
        amounts = accounts.plain_amounts(pod) if amounts is None and user else amounts or {}
        for name in queue.names() if user else ():
            if name not in accounts.structure.limiting:
                continue
            for resource, limit in accounts.structure.valid[name].user_limits.items():
                if not (amount := amounts.get(resource, 0)):
                    continue
                below = tree.below([name])
                held, tried = accounts.held_by(user, below, resource), 0
                if trying:
                    tried = sum(accounts.tried_by.get((each, user), {}).get(resource, 0) for each in below)
                if held + tried + amount <= limit:
                    continue
                if trying:
                    return Bound(name, "", resource, requested=amount, kind="user")
                message = f"user {user} holds {amount_text(resource, held)} of {amount_text(resource, limit)} {resource} in {name}"
                if held < limit:
                    message += f", and the pod requests {amount_text(resource, amount)}"
                return Bound(name, message, resource, held=held, limit=limit, requested=amount, kind="user")
        return None

    def _in_all_places(self, pod: PodInfo, trying: bool, amounts: Mapping[str, int] | None) -> Bound | None:
        """Returns the bound that forbids the pod to start in all its places; None if it may start in one of them."""
        found: list[Bound] = []
        for place in self._places.of(pod):
            bound = self.at(pod, place, trying=trying, amounts=amounts)
            if bound is None:
                return None
            found.append(bound)
        messages = [*dict.fromkeys(bound.message for bound in found)][:MOST_TOLD]
        return replace(found[0], message="; ".join(messages)) if found else None

    def _sure_amounts(self, tree: QueueTree, pods: Sequence[PodInfo]) -> Sequence[tuple[Mapping[str, int], int]]:
        """Returns the amounts that waiting pods are sure to take, wherever and beside whomever they start, each with
        the number of such pods. Computed once for pods that cannot differ.
        """
        devices, flavored = self._accounts.devices, self._accounts.flavors.named
        kinds = [
            (
                pod.requests,
                id(pod.node_affinity) if flavored else 0,
                pod.uid if devices.classes and pod.resource_claims else "",
            )
            for pod in pods
        ]
        one_of, found = dict(zip(kinds, pods, strict=True)), []
        for kind, count in Counter(kinds).items():
            pod = one_of[kind]
            amounts, places = amounts_of(pod), self._places.of(pod)
            if devices.classes:
                amounts = {**amounts, **devices.own(pod)}
            if len(places) == 1:
                amounts = {**amounts, **self._accounts.flavors.taken(amounts, places[0])}
            found.append((tree.tracked(amounts), count))
        return found


def _over_limit(queue: Queue, bound: Queue, resource: str, amount: int, promised: int) -> str:
    """Returns the message: the limit that holds the pod back, then what the queues above have free."""

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
