"""The warnings, bounds and waiting pods of a queue that its status, the page and reports show."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import PODS
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.bound import Bound, at_share
from podwright.core.queues.claimed_devices import class_of, is_of_class
from podwright.core.queues.flavors import field_of, labels_text, parts_of
from podwright.core.queues.queues import Queues
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.validity import uncovered

OVER_LIMIT: Final = "OverLimit"
NO_NODES: Final = "FlavorWithoutNodes"
UNKNOWN_CAPACITY: Final = "CapacityUnknown"
UNCOVERED: Final = "GuaranteesNotCovered"

FIRST_PODS: Final = 16
"""How many waiting pods of a queue `is_owed` looks at."""
MOST_PODS: Final = 512
"""How many waiting pods of a queue are checked for bounds, which takes a millisecond."""
MOST_BELOW: Final = 512
"""Over how many queues `held_by` sums up what no queue names: milliseconds of work."""


def warnings(queues: Queues, name: str) -> Mapping[str, InvalidObjectError]:
    """Returns the warnings about a queue of the tree, by kind: OVER_LIMIT, NO_NODES, UNKNOWN_CAPACITY; UNCOVERED: the
    queues right below may lack a part of their guarantees.
    """
    queue, found = queues.queue(name), dict[str, InvalidObjectError]()

    def warn(kind: str, where: str, text: str) -> None:
        found.setdefault(kind, InvalidObjectError(where, text).in_object("SchedulingQueue", name))

    for resource, quota in queue.spec.quotas.items():
        if UNBOUNDED != quota.limit < (held := queue.held.get(resource, 0)):
            limit = amount_text(resource, quota.limit)
            text = f"pods of the queue hold {amount_text(resource, held)}, more than this limit of {limit}"
            warn(OVER_LIMIT, f"{field_of(resource)}.limit", text)
    for resource in queue.spec.quotas:
        plain = parts_of(resource)[0]
        if is_of_class(plain) and (reason := queues.devices.supply.uncounted(class_of(plain))):
            warn(UNKNOWN_CAPACITY, field_of(resource), f"not all free devices are counted: {reason}")
    for flavor in queues.structure.valid[name].flavors:
        if flavor in queues.flavors.labels and not queues.flavors.has_nodes(flavor):
            where = f"spec.flavors[{flavor}].nodeSelector"
            warn(NO_NODES, where, f"no node has the labels {labels_text(queues.flavors.labels[flavor])}")
    if (problem := uncovered(queue)) is not None:
        found[UNCOVERED] = problem
    return found


def waiting_below(queues: Queues, name: str) -> int:
    """How many pods of the queue and of those below wait for a node, without those that a gate holds back."""
    names = queues.tree().below([name])
    return sum(queues.pods[each].asked.get(PODS, 0) for each in names if each in queues.pods)


def held_by(queues: Queues, name: str) -> Mapping[str, int]:
    """Returns the amounts that the pods of the queue and of those below have on nodes, of resources that any queue
    names. Adds all other resources if the queue has no quotas and at most MOST_BELOW queues below it.
    """
    queue, sums = queues.queue(name), Counter[str]()
    below = () if queue.spec.quotas else queues.tree().below([name])
    for each in below if len(below) <= MOST_BELOW else ():
        if (pods := queues.pods.get(each)) is not None:
            for resource, amount in pods.held.items():
                sums[resource] += amount
    del sums[PODS]
    return {**sums, **queue.held}


def lent_between(siblings: Mapping[str, tuple[int, int, int | None]]) -> Mapping[str, Mapping[str, int]]:
    """Returns by name of a queue how much of a resource it lends to which siblings, or borrows from them.

    What a queue has above its guarantee counts as taken from those that have less than theirs, the largest amounts
    first. `siblings`: by name what a queue has, its guarantee, and its lending limit, if any.
    """
    over = {
        name: held - guarantee if limit is None else max(held - guarantee, -limit)
        for name, (held, guarantee, limit) in siblings.items()
        if held != guarantee
    }
    order = deque(sorted(over, key=lambda name: (over[name], name)))
    found: dict[str, dict[str, int]] = {name: {} for name in siblings}
    while order and over[lender := order[0]] < 0 < over[borrower := order[-1]]:
        amount = min(-over[lender], over[borrower])
        found[lender][borrower] = found[borrower][lender] = amount
        over[lender] += amount
        over[borrower] -= amount
        if not over[lender]:
            order.popleft()
        if not over[borrower]:
            order.pop()
    return found


def is_owed(queues: Queues, name: str) -> bool:
    """True if one of the first pods that wait could start, and the queue and those above it would still have no
    more than they are entitled to, by the shares as in `last_shared_out`.
    """
    pods, queue = queues.pods.get(name), queues.last_shared_out().get(name)
    if pods is None or queue is None or queues.shut_by(name):
        return False
    first = islice(pods.waiting.items(), FIRST_PODS)
    waiting = [pod for uid, pod in first if uid not in queues.placed_in and not pod.gates]
    return any(
        all(
            above.held.get(resource, 0) + amount <= above.entitled(resource)
            for resource, amount in amounts.items()
            for above in queue.path
        )
        for pod in waiting
        for amounts in queues.places.choices(pod)
    )


def first_bound(queues: Queues, name: str) -> tuple[PodInfo, Bound] | None:
    """The first waiting pod of the queue that a bound holds back, alone or with its gang, and the bound. If none of the
    first MOST_PODS is held back: the first pod, and that its queue, or one above, is at its share. None if that is not
    so.
    """
    found = next(_held_back(queues, _waiting(queues, name)), None)
    if found is None and (first := next(_waiting(queues, name), None)) is not None:
        bound = share_bound(queues, first)
        return None if bound is None else (first, bound)
    return found


def namespaces_of(queues: Queues, name: str) -> Mapping[str, PodInfo | None]:
    """The namespaces of the queue's pods, each with its first waiting pod that is held back, as in `first_bound`."""
    pods = queues.pods.get(name)
    if pods is None:
        return {}
    found: dict[str, PodInfo | None] = dict.fromkeys(pods.placed.values())
    found.update(dict.fromkeys(pod.namespace for pod in pods.waiting.values()))
    for pod, _ in _held_back(queues, (pod for pod in _waiting(queues, name) if found[pod.namespace] is None)):
        found[pod.namespace] = pod
    first = {pod.namespace: pod for pod in reversed([*islice(_waiting(queues, name), MOST_PODS)])}
    for namespace, pod in first.items():
        if found[namespace] is None and share_bound(queues, pod) is not None:
            found[namespace] = pod
    return found


def bound_of(queues: Queues, pod: PodInfo) -> Bound | None:
    """Returns the bound that holds a waiting pod back, as in `first_bound`."""
    return queues.bounds.of_gang(pod) or queues.bounds.of(pod) or share_bound(queues, pod)


def share_bound(queues: Queues, pod: PodInfo) -> Bound | None:
    """Returns the bound of a waiting pod whose queue, or one above, is at its share, as in `last_shared_out`; None if
    it is not, or if the cluster has room for the pod without evictions.
    """
    tree = queues.last_shared_out()
    queue, top = tree.get(queues.queue_of(pod)), tree.top
    if queue is None:
        return None
    bounds = [
        next(
            (
                at_share(above, resource, held, amount)
                for resource, amount in amounts.items()
                if top.held.get(resource, 0) + amount > top.share.get(resource, 0)
                for above in queue.path
                if (held := above.held.get(resource, 0)) + amount > above.entitled(resource)
            ),
            None,
        )
        for amounts in queues.places.choices(pod)
    ]
    return bounds[0] if bounds and all(bounds) else None


def _waiting(queues: Queues, name: str) -> Iterator[PodInfo]:
    """The pods of the queue that wait for a node, and that no gate holds back."""
    pods = queues.pods.get(name)
    waiting = () if pods is None else pods.waiting.items()
    return (pod for uid, pod in waiting if uid not in queues.placed_in and not pod.gates)


def _held_back(queues: Queues, waiting: Iterable[PodInfo]) -> Iterator[tuple[PodInfo, Bound]]:
    """Yields those of the first MOST_PODS pods that a bound holds back, with the bound. Each gang is checked once."""
    gangs: dict[str, Bound | None] = {}
    for pod in islice(waiting, MOST_PODS):
        if pod.group and pod.group not in gangs:
            gangs[pod.group] = queues.bounds.of_gang(pod)
        if (bound := gangs.get(pod.group) or queues.bounds.of(pod)) is not None:
            yield pod, bound
