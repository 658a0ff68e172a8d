"""When a waiting pod of a queue, or a pod group, could start: after as few running pods as possible have ended, in the
order in which they are expected to; or before, when it may preempt others. Room for large gangs is held by the same
estimate of ends (`core.gangs.start_times`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, inf

from podwright.core.cycle import Placement, Rejection, always_first, schedule
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.gangs.run_times import run_times_of
from podwright.core.gangs.start_times import by_end, fewest_ended
from podwright.core.objects.durations import format_duration
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.times import rfc3339
from podwright.core.objects.wording import counted, listed
from podwright.core.state.cache import Cache
from podwright.simulator.explain.changes.groups import planner_for
from podwright.simulator.explain.results import Start
from podwright.simulator.loaded import LoadedCluster
from podwright.simulator.trial import Trial


def start_of(cluster: LoadedCluster, framework: Framework, pod: PodInfo) -> Start | None:
    """When the pod, or its group, could start. None if it has neither queue nor group."""
    cache, now = cluster.cache, cluster.clock()
    grouped = cache.groups.of(pod) if pod.group and cache.groups.is_member(pod) else None
    if grouped is None and not (cluster.queues.active and cluster.queues.queue_of(pod)):
        return None
    plan: Callable[[], object] = partial(_placed, framework, cluster, pod)
    victims = partial(_victims, framework, cluster, pod)
    if grouped is not None:
        planner, members = planner_for(framework, cache, grouped), cache.groups.members(grouped.key).unplaced()
        plan, victims = partial(_planned, planner, members), partial(_victims_of_group, planner, cluster, members)
    running = [each for info in cache.nodes.values() for each in info.pods.values() if not belongs_to_node(each)]
    at, start = _after_ends(cache, running, now, plan)
    return _after_preemption(cluster, pod, victims, running, before=at) or start


def _after_ends(
    cache: Cache, running: Sequence[PodInfo], now: float, plan: Callable[[], object]
) -> tuple[float, Start]:
    """Returns the start after running pods have ended by themselves, and its time; infinite if it is unknown."""
    found = fewest_ended(cache, by_end(cache, running, now), plan)
    if found is None:
        return inf, Start(text="unknown: it would not start even if all running pods had ended")
    ended, _ = found
    unknown = [each for each in ended if run_times_of(cache).end_of(each, now) == inf]
    if unknown:
        return inf, Start(text=_unknown(unknown))
    at = run_times_of(cache).end_of(ended[-1], now) if ended else now
    sure = all(map(run_times_of(cache).is_sure, ended))
    return at, Start(text=_known(at - now, ended, sure=sure), at=rfc3339(at))


def _after_preemption(
    cluster: LoadedCluster,
    pod: PodInfo,
    victims: Callable[[], Sequence[PodInfo]],
    running: Sequence[PodInfo],
    before: float,
) -> Start | None:
    """Returns the start after preemption, which min runtimes of queues may forbid for some time; None if that is not
    `before` then. Makes a decision for each halving of the number of times at which a min runtime ends.
    """
    queues, now = cluster.queues, cluster.clock()
    times = {now} if now < before else set[float]()
    for each in running:
        for name in queues.path(queues.queue_of(each)) if queues.active and each.start_time is not None else ():
            rules = queues.get(name)
            for runtime in () if rules is None else (rules.preempt_min_runtime, rules.reclaim_min_runtime):
                if now < (each.start_time or now) + runtime < before:
                    times.add(ceil((each.start_time or now) + runtime))

    def evicted_at(at: float) -> Sequence[PodInfo]:
        with Trial(cluster):
            cluster.clock.now = at
            return victims()

    in_order = sorted(times)
    index = bisect_left(in_order, True, key=lambda at: bool(evicted_at(at)))
    if index == len(in_order):
        return None
    at, evicted = in_order[index], evicted_at(in_order[index])
    who = listed([each.key for each in evicted])
    if at == now:
        text = f"as soon as {who}, which it preempts, {'has' if len(evicted) == 1 else 'have'} ended"
    else:
        own = queues.queue_of(pod)
        fields = {f"{'preempt' if queues.queue_of(each) == own else 'reclaim'}MinRuntime" for each in evicted}
        text = f"in {format_duration(round(at - now))}, when {listed(sorted(fields))} no longer protects {who}, which it preempts then"
    return Start(text=text, at=rfc3339(at))


def _victims(framework: Framework, cluster: LoadedCluster, pod: PodInfo) -> Sequence[PodInfo]:
    found = schedule(framework, cluster.cache, pod, always_first)
    result = found.post_filter if isinstance(found, Rejection) else None
    return result.victims if result is not None and result.nominated_node else ()


def _victims_of_group(planner: GangPlanner, cluster: LoadedCluster, members: Sequence[PodInfo]) -> Sequence[PodInfo]:
    found = decide(planner, members, cluster.clock())
    return found.preemption.victims if isinstance(found, GangRejection) and found.preemption is not None else ()


def _placed(framework: Framework, cluster: LoadedCluster, pod: PodInfo) -> Placement | None:
    found = schedule(framework, cluster.cache, pod, always_first, preempt=False)
    return found if isinstance(found, Placement) else None


def _unknown(pods: Sequence[PodInfo]) -> str:
    more = f", nor of {counted(len(pods) - 1, 'other pod')}" if len(pods) > 1 else ""
    return (
        f"unknown: nobody knows when {pods[0].key} ends{more}, which would have to. Pods say for how long they run by "
        "activeDeadlineSeconds or the annotation podwright.dev/run-time; else earlier pods of their owner tell"
    )


def _planned(planner: GangPlanner, members: Sequence[PodInfo]) -> GangPlacement | None:
    found = planner.plan(members)
    return found if isinstance(found, GangPlacement) else None


def _known(seconds: float, ended: Sequence[PodInfo], *, sure: bool) -> str:
    if not ended:
        return "now"
    who = f"{ended[0].key} has" if len(ended) == 1 else f"{len(ended):,} pods, the last of them {ended[-1].key}, have"
    time = format_duration(round(seconds))
    when = f"within {time}" if sure else f"in {time} if pods run for as long as is expected"
    return f"{when}, once {who} ended"
