"""Changes that would lift the bound of a queue: other limits, states and labels, and pods whose end frees enough. The
caller tries each: for a pod `search`, for a pod group `groups`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Final

from podwright.api.scheduling_queue import QUEUE_KIND
from podwright.core.framework.explaining import CLOSE, editable
from podwright.core.gangs.run_times import run_times_of
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.durations import format_duration
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.wording import listed, quantity
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.flavors import OF, parts_of
from podwright.core.queues.membership import USER_LABEL
from podwright.core.queues.queues import QUEUE_LABEL, Queues
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.tree import NO_QUOTA
from podwright.simulator.explain.changes.patches import merged
from podwright.simulator.explain.changes.pod_edits import OPTIONS
from podwright.simulator.explain.changes.trials import ClusterChange, with_objects, without_pods
from podwright.simulator.explain.results import Edit
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.queue_objects import with_quota
from podwright.simulator.trial import Trial

SINGLES: Final = 4
"""How many pods are tried alone."""
_FAR_ABOVE: Final = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Short:
    """A limit that is too low: `queue` holds, or has promised, `held` of `limit`, and `wanted` are to be added."""

    queue: str
    resource: str
    limit: int
    held: int
    wanted: int

    @property
    def over(self) -> int:
        """By how much the limit is too low."""
        return self.held + self.wanted - self.limit

    @property
    def free(self) -> int:
        """The amount below the limit."""
        return max(0, self.limit - self.held)


def shorts(queues: Queues, pods: Sequence[PodInfo], needed: int, nominated: bool) -> Sequence[Short]:
    """The limits that are too low for so many of these pods, which are in one queue; the queue's own first.

    `nominated`: what is promised to other nominated pods does not count.
    """
    wanted, bound = least([queues.plain_amounts(pod) for pod in pods], needed), queues.bounds.of(pods[0])
    found = _too_low(queues, pods, wanted, nominated=nominated)
    for place in queues.places.of(pods[0]) if not found and bound is not None and OF in bound.resource else ():
        if found := _too_low(queues, pods, queues.flavors.taken(wanted, place), nominated=nominated):
            break
    return found


def _too_low(queues: Queues, pods: Sequence[PodInfo], wanted: Mapping[str, int], *, nominated: bool) -> list[Short]:
    found = []
    behind = {} if nominated else queues.bounds.promised_behind(pods)
    for name in queues.path(queues.queue_of(pods[0])):
        rules = queues.get(name)
        held, promised = queues.usage(name), {} if nominated else queues.queue(name).promised
        for resource, amount in wanted.items():
            limit = UNBOUNDED if rules is None else rules.quotas.get(resource, NO_QUOTA).limit
            taken = held.get(resource, 0) + max(0, promised.get(resource, 0) - behind.get(resource, 0))
            if amount and UNBOUNDED != limit < taken + amount:
                found.append(Short(name, resource, limit, taken, amount))
    return found


def other_short(queues: Queues, pod: PodInfo) -> Sequence[Short]:
    """The bound that holds the pod back if it is an amount other than a limit of a queue: what a user may have, what is
    kept for queues that do not lend, or what pods that are never evicted may have.
    """
    found = queues.bounds.of(pod)
    if found is None or not found.resource:
        return ()
    return (Short(found.queue, found.resource, found.limit, found.held, found.requested),)


def least(amounts: Sequence[Mapping[str, int]], needed: int) -> Mapping[str, int]:
    """By resource: the least that so many of these pods request together. `amounts`: what each requests."""
    resources = dict.fromkeys(resource for each in amounts for resource in each)
    return {resource: sum(sorted(each.get(resource, 0) for each in amounts)[:needed]) for resource in resources}


def priorities_above(cluster: LoadedCluster, pod: PodInfo) -> Sequence[int]:
    """Priorities with which the pod would be above others of its queue, the lowest first."""
    placed = cluster.queues.placed_pods(cluster.queues.queue_of(pod))
    return sorted({other.priority + 1 for other in placed if pod.priority <= other.priority < _FAR_ABOVE})[:2]


def lifts(cluster: LoadedCluster, pods: Sequence[PodInfo], found: Sequence[Short]) -> Iterator[ClusterChange]:
    """`found`: the limits that are too low for the pods; none: another bound holds the first pod back."""
    if found:
        yield from _raised(cluster, found)
        yield from _ended(cluster, found[0])
    elif others := other_short(cluster.queues, pods[0]):
        yield from _ended(cluster, others[0], like=pods[0])
    else:
        yield from _opened(cluster, pods[0])
        yield from _admitted(cluster, pods[0])


def _raised(cluster: LoadedCluster, found: Sequence[Short]) -> Iterator[ClusterChange]:
    """Higher limits, which are just enough."""
    patches: dict[str, dict[str, Any]] = {}
    for each in found:
        if each.queue not in cluster.queue_objects:
            return  # its newest version is invalid
        patch, (resource, flavor) = patches.setdefault(each.queue, {}), parts_of(each.resource)
        limit = {"limit": quantity(resource, each.held + each.wanted)}
        if flavor:
            spec = {**cluster.queue_objects[each.queue]["spec"], **patch}
            patch["flavors"] = with_quota(spec, each.resource, partial(_with_limit, limit))["flavors"]
        else:
            patch.setdefault("resources", {})[resource] = limit
    texts = [
        f"raise the limit of queue {each.queue} by {amount_text(each.resource, each.over)} {each.resource},"
        f" from {amount_text(each.resource, each.limit)} to {amount_text(each.resource, each.held + each.wanted)}"
        for each in found
    ]
    yield _of_queues(cluster, " and ".join(texts), patches)


def _with_limit(limit: Mapping[str, Any], quota: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**quota, **limit}


def _of_queues(cluster: LoadedCluster, text: str, patches: Mapping[str, Mapping[str, Any]]) -> ClusterChange:
    """`patches`: of the specs, by queue; `resources` merges with what is there."""
    known = cluster.queue_objects
    raws = [{**known[name], "spec": merged(known[name]["spec"], patch)} for name, patch in patches.items()]
    edits = tuple(
        Edit(verb="patch", kind=QUEUE_KIND, name=name, object={"spec": patch}) for name, patch in patches.items()
    )
    return ClusterChange(text, edits, partial(_set_queues, raws))


def _set_queues(raws: Sequence[Mapping[str, Any]], trial: Trial) -> None:
    for raw in raws:
        trial.set_queue(raw)


def _ended(cluster: LoadedCluster, short: Short, like: PodInfo | None = None) -> Iterator[ClusterChange]:
    """Pods of the queue whose end frees enough: some that are enough alone, those that are ending first, then the
    smallest; then the greatest together. `like`: the bound is not a limit of the queue, but may be one of this pod's
    user: the greatest pods of that user come first.
    """
    queues = cluster.queues

    def amount(pod: PodInfo) -> int:
        return queues.placed_amounts(pod).get(short.resource, 0)

    holding = [pod for name in _names_below(queues, short.queue) for pod in queues.placed_pods(name) if amount(pod)]
    enough = [pod for pod in holding if amount(pod) >= short.over]
    if like is None:
        enough.sort(key=lambda pod: (not pod.terminating, amount(pod), pod.priority, pod.key))
    else:
        user = like.labels.get(USER_LABEL)
        enough.sort(key=lambda pod: (pod.labels.get(USER_LABEL) != user, not pod.terminating, -amount(pod), pod.key))
    for pod in enough[:SINGLES]:
        yield _end_of(cluster, short, [pod])
    holding.sort(key=lambda pod: (not pod.terminating, -amount(pod), pod.key))
    some, freed = list[PodInfo](), 0
    for pod in () if enough else holding[:OPTIONS]:
        some.append(pod)
        freed += amount(pod)
        if freed >= short.over:
            yield _end_of(cluster, short, some)
            return


def _end_of(cluster: LoadedCluster, short: Short, pods: Sequence[PodInfo]) -> ClusterChange:
    now = cluster.clock()
    last = max(run_times_of(cluster.cache).end_of(pod, now) for pod in pods) - now
    expected = "" if last == inf else f" (expected in {format_duration(round(last))})"
    held = amount_text(short.resource, sum(cluster.queues.placed_amounts(pod)[short.resource] for pod in pods))
    end, hold = ("ends", "holds") if len(pods) == 1 else ("end", "hold")
    text = (
        f"wait until {listed([pod.key for pod in pods], OPTIONS)} {end}{expected}, which {hold} {held} {short.resource} of "
        f"{f'queue {short.queue}' if short.queue else 'all queues'}"
    )
    return without_pods(text, pods)


def _opened(cluster: LoadedCluster, pod: PodInfo) -> Iterator[ClusterChange]:
    """The queues on the way to the top are open."""
    queues = cluster.queues
    shut = [
        name
        for name in queues.path(queues.queue_of(pod))
        if (rules := queues.get(name)) is not None and rules.state != "Open"
    ]
    if shut and all(name in cluster.queue_objects for name in shut):
        text = f"open {'queue' if len(shut) == 1 else 'queues'} {listed(shut)}"
        yield _of_queues(cluster, text, {name: {"state": "Open"} for name in shut})


def _admitted(cluster: LoadedCluster, pod: PodInfo) -> Iterator[ClusterChange]:
    """The namespace has the labels that the queue, and those above it, ask for."""
    found = cluster.queues.bounds.of(pod)
    above = () if found is None else cluster.queues.path(found.queue)
    specs = [cluster.queue_objects.get(name, {}).get("spec") or {} for name in above]
    wanted = {
        key: value
        for spec in specs
        for key, value in ((spec.get("namespaceSelector") or {}).get("matchLabels") or {}).items()
    }
    namespace = cluster.cache.store.get("Namespace", pod.namespace)
    if not wanted or namespace is None:
        return
    metadata = namespace["metadata"]
    lacking = {key: value for key, value in wanted.items() if (metadata.get("labels") or {}).get(key) != value}
    changed = {**namespace, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **lacking}}}
    text = (
        f"label namespace {pod.namespace} with {listed([f'{key}={value}' for key, value in lacking.items()], OPTIONS)}"
    )
    edit = Edit(verb="patch", kind="Namespace", name=pod.namespace, object={"metadata": {"labels": lacking}})
    yield with_objects(text, [edit], [("Namespace", changed)])


def other_queues(cluster: LoadedCluster, pod: PodInfo) -> Iterator[tuple[str, dict[str, Any]]]:
    """The pod in another queue: one of a similar name if its own does not exist, or one below it. Under another uid,
    since a waiting pod stays in its queue until its object changes.
    """
    queues, found = cluster.queues, cluster.queues.bounds.of(pod)
    if found is None:
        return
    leaves = [name for name in queues.names() if not queues.children(name)]
    below = {*_names_below(queues, found.queue)}
    if queues.get(found.queue) is None:
        names = difflib.get_close_matches(found.queue, leaves, n=OPTIONS, cutoff=CLOSE)
    else:
        names = [name for name in leaves if name in below and name != found.queue]
    for name in islice(names, OPTIONS):
        raw = editable(pod)
        labels = {**(raw["metadata"].get("labels") or {}), QUEUE_LABEL: name}
        raw["metadata"] = {**raw["metadata"], "labels": labels}
        yield f"be in queue {name} instead of {found.queue}", raw


def _names_below(queues: Queues, name: str) -> Iterator[str]:
    waiting = [name]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += queues.children(each)
