"""Changes that would lift the bound of a queue: other limits, states and labels, and pods whose end frees enough. The
caller tries each: for a pod `search`, for a pod group `groups`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf
from typing import Any, Final

from podwright.api.scheduling_queue import QUEUE_KIND
from podwright.core.framework.explaining import CLOSE, editable
from podwright.core.gangs.run_times import run_times_of
from podwright.core.objects.durations import format_duration
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.wording import listed
from podwright.core.preemption.budgets import BudgetRules
from podwright.core.preemption.queue_claims import QueueClaim, claim_of
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.bound import Bound
from podwright.core.queues.membership import USER_LABEL
from podwright.core.queues.queues import QUEUE_LABEL, Queues
from podwright.core.queues.tree import NO_QUOTA
from podwright.kube.queues.kinds import SCHEDULING_QUEUES
from podwright.simulator.explain.changes.patches import difference
from podwright.simulator.explain.changes.pod_edits import OPTIONS
from podwright.simulator.explain.changes.trials import ClusterChange, least_that_helps, with_objects, without_pods
from podwright.simulator.explain.results import Change, Edit
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.queue_objects import with_amount
from podwright.simulator.trial import Trial

SINGLES: Final = 4
"""How many pods are tried alone."""
_MOST_BOUNDS: Final = 8
"""How many amounts are raised together."""
_MOST_LEVELS: Final = 3
"""Of how many queues, one above the other, guarantees are raised together."""
_PARTS: Final = 64
"""The steps in which greater guarantees are tried."""
_FIELDS: Final = {"limit": "limit", "guarantee": "guarantee", "user": "userLimits"}
"""By kind of a bound: the field that says it."""
_FAR_ABOVE: Final = 2_000_000_000


def held_back(
    cluster: LoadedCluster, pods: Sequence[PodInfo], needed: int
) -> tuple[Sequence[Bound], ClusterChange | None]:
    """The amounts that forbid so many of these pods, which are in one queue, to start, in the order in which they are
    met; and the change that raises each just enough. None if no change does.
    """
    queues, found = cluster.queues, list[Bound]()
    amounts = least([queues.plain_amounts(pod) for pod in pods], needed)
    with Trial(cluster) as trial:
        raised = _Raised(cluster, trial)
        while (bound := queues.bounds.of(pods[0], amounts=amounts)) is not None and bound.resource:
            found.append(bound)
            if len(found) > _MOST_BOUNDS or not raised.lift(bound, queues.queue_of(pods[0])):
                return found, None
    return found, raised.change() if found and bound is None else None


class _Raised:
    """Amounts of queues that are raised one after the other in a trial."""

    def __init__(self, cluster: LoadedCluster, trial: Trial) -> None:
        self._cluster = cluster
        self._trial = trial
        self._texts: list[str] = []
        self._raws: dict[str, Mapping[str, Any]] = {}

    def lift(self, bound: Bound, queue: str) -> bool:
        """Raises what this bound of a pod of the queue is about. Returns whether that is possible."""
        if bound.kind != "kept":
            return self.set(bound.queue, _FIELDS[bound.kind], bound.resource, bound.limit, bound.limit + bound.over)
        tree, resource, own = self._cluster.queues.tree(), bound.resource, self._cluster.queues.path(queue)
        below = tree.below([bound.queue]) if bound.queue else tree.keeping
        spare = {
            name: each.keeps.get(resource, 0) - each.held.get(resource, 0)
            for name in below & tree.keeping - {*own}
            for each in [self._cluster.queues.queue(name)]
        }
        name = max(spare, key=lambda each: (spare[each], each), default="")
        rules = self._cluster.queues.get(name)
        if rules is None or spare[name] <= 0:
            return False
        lent = rules.lending[resource]
        return self.set(name, "lendingLimit", resource, lent, lent + min(bound.over, spare[name]))

    def set(self, name: str, field: str, resource: str, before: int, after: int) -> bool:
        """If that is a guarantee, those of the queues above follow where they would contradict it."""
        found = self._cluster.queue_object(name)
        made = None if found is None else with_amount(*found, field, resource, after)
        if made is None:
            return False
        raw, own_words = made
        try:
            self._trial.set_queue(raw)
        except InvalidObjectError:
            return False
        self._raws[name] = raw
        amounts = [amount_text(resource, each) for each in (after - before, before, after)]
        words = "raise the {} of queue {} by {} {}, from {} to {}".format(
            field, name, amounts[0], resource, *amounts[1:]
        )
        self._texts.append(f"set {own_words} in queue {name}" if own_words else words)
        above = self._cluster.queues.queue(name).parent
        own = NO_QUOTA if above is None else above.spec.quotas.get(resource, NO_QUOTA)
        if field != "guarantee" or above is None or not 0 < own.guarantee < above.guaranteed.get(resource, 0):
            return True
        return self.set(above.spec.name, field, resource, own.guarantee, above.guaranteed[resource])

    def change(self) -> ClusterChange:
        return _of_queues(self._cluster, " and ".join(self._texts), self._raws)


def least_guarantees(
    cluster: LoadedCluster, pods: Sequence[PodInfo], priority: int, lifted: Callable[[ClusterChange], Change | None]
) -> Iterator[Change]:
    """For each place whose queues share: the least guarantees with which these pods of a queue, which have this
    priority, get what they need. `lifted`: what a change of the cluster leads to.
    """
    for place, _ in cluster.queues.places.shared_by(pods):
        claim = claim_of(cluster.cache, pods, priority, BudgetRules(()), cluster.clock(), place)
        if claim is not None and (found := _least_guarantee(cluster, claim, lifted)) is not None:
            yield found


def _least_guarantee(
    cluster: LoadedCluster, claim: QueueClaim, lifted: Callable[[ClusterChange], Change | None]
) -> Change | None:
    """The least guarantees with which a claim may take what it needs from queues that are above theirs: of its own
    queue, or of those above that are at their shares, or of both.
    """
    over = [bound for _, bound in claim.above_share()]
    names = [*dict.fromkeys(bound.queue for bound in over)][:_MOST_LEVELS]
    options = (tuple(names[first:last]) for last in range(1, len(names) + 1) for first in (last - 1, 0))
    for raised in dict.fromkeys(options):
        some = [bound for bound in over if bound.queue in raised]
        if (found := least_that_helps(_PARTS, partial(_guaranteed, cluster, some, lifted))) is not None:
            return found
    return None


def _guaranteed(
    cluster: LoadedCluster, bounds: Sequence[Bound], lifted: Callable[[ClusterChange], Change | None], parts: int
) -> Change | None:
    """What comes of guarantees that are raised by `parts` of the _PARTS of the way to what the bounds ask for."""
    with Trial(cluster) as trial:
        raised = _Raised(cluster, trial)
        for each in bounds:
            before = cluster.queues.queue(each.queue).guarantee(each.resource)
            after = before + -(-(each.limit + each.over - before) * parts // _PARTS)
            if after > before and not raised.set(each.queue, "guarantee", each.resource, before, after):
                return None
    return lifted(raised.change())


def least(amounts: Sequence[Mapping[str, int]], needed: int) -> Mapping[str, int]:
    """By resource: the least that so many of these pods request together. `amounts`: what each requests."""
    resources = dict.fromkeys(resource for each in amounts for resource in each)
    return {resource: sum(sorted(each.get(resource, 0) for each in amounts)[:needed]) for resource in resources}


def priorities_above(cluster: LoadedCluster, pod: PodInfo) -> Sequence[int]:
    """Priorities with which the pod would be above others of its queue, the lowest first."""
    placed = cluster.queues.placed_pods(cluster.queues.queue_of(pod))
    return sorted({other.priority + 1 for other in placed if pod.priority <= other.priority < _FAR_ABOVE})[:2]


def lifts(
    cluster: LoadedCluster, pods: Sequence[PodInfo], needed: int, bounds: Sequence[Bound], raised: ClusterChange | None
) -> Iterator[ClusterChange]:
    """Changes that would lift the bounds of the pods, which `held_back` found; empty: another bound holds them back."""
    if raised is not None:
        yield raised
    if bounds:
        yield from _ended(cluster, bounds[0], pods[0])
    else:
        for lift in (*_opened(cluster, pods[0]), *_admitted(cluster, pods[0])):
            yield _with_amounts(cluster, lift, pods, needed)


def _with_amounts(cluster: LoadedCluster, lift: ClusterChange, pods: Sequence[PodInfo], needed: int) -> ClusterChange:
    """The change, and that of the amounts that forbid the pods then."""
    with Trial(cluster) as trial:
        lift.apply(trial)
        _, raised = held_back(cluster, pods, needed)
    if raised is None:
        return lift

    def both(trial: Trial) -> None:
        lift.apply(trial)
        raised.apply(trial)

    return ClusterChange(f"{lift.text} and {raised.text}", (*lift.edits, *raised.edits), both)


def _of_queues(cluster: LoadedCluster, text: str, raws: Mapping[str, Mapping[str, Any]]) -> ClusterChange:
    """These queues in place of those of the same names."""
    edits = []
    for name, raw in raws.items():
        found = cluster.queue_object(name)
        assert found is not None, "it was changed"
        kind, before = found
        kind_name = QUEUE_KIND if kind is SCHEDULING_QUEUES else kind.key
        edits.append(Edit(verb="patch", kind=kind_name, name=name, object=difference(before, raw)))
    return ClusterChange(text, tuple(edits), partial(_set_queues, [*raws.values()]))


def _set_queues(raws: Sequence[Mapping[str, Any]], trial: Trial) -> None:
    for raw in raws:
        trial.set_queue(raw)


def _ended(cluster: LoadedCluster, short: Bound, like: PodInfo) -> Iterator[ClusterChange]:
    """Pods of the queue whose end frees enough: some that are enough alone, those that are ending first, then the
    smallest; then the greatest together. If the bound is no limit of the queue, it may be one of the user of `like`:
    the greatest pods of that user come first.
    """
    queues = cluster.queues

    def amount(pod: PodInfo) -> int:
        return queues.placed_amounts(pod).get(short.resource, 0)

    holding = [pod for name in _names_below(queues, short.queue) for pod in queues.placed_pods(name) if amount(pod)]
    enough = [pod for pod in holding if amount(pod) >= short.over]
    if short.kind == "limit":
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


def _end_of(cluster: LoadedCluster, short: Bound, pods: Sequence[PodInfo]) -> ClusterChange:
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
    known = cluster.queue_objects[SCHEDULING_QUEUES]
    if shut and all(name in known for name in shut):
        text = f"open {'queue' if len(shut) == 1 else 'queues'} {listed(shut)}"
        yield _of_queues(
            cluster, text, {name: {**known[name], "spec": {**known[name]["spec"], "state": "Open"}} for name in shut}
        )


def _admitted(cluster: LoadedCluster, pod: PodInfo) -> Iterator[ClusterChange]:
    """The namespace has the labels that the queue, and those above it, ask for."""
    found = cluster.queues.bounds.of(pod)
    above = () if found is None else cluster.queues.path(found.queue)
    specs = [cluster.queue_objects[SCHEDULING_QUEUES].get(name, {}).get("spec") or {} for name in above]
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
