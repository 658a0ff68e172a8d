"""When a waiting pod of a queue, or a pod group, could start: after as few running pods as possible have ended, in the
order in which they are expected to. Room for large gangs is held by the same estimate (`core.gangs.start_times`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from podwright.api.policy_status import rfc3339
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.run_times import run_times_of
from podwright.core.gangs.start_times import by_end, fewest_ended
from podwright.core.objects.durations import format_duration
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.wording import counted
from podwright.simulator.explain.changes.groups import planner_for
from podwright.simulator.explain.results import Start
from podwright.simulator.loaded import LoadedCluster


def start_of(cluster: LoadedCluster, framework: Framework, pod: PodInfo) -> Start | None:
    """When the pod, or its group, could start. None if it has neither queue nor group."""
    cache, now = cluster.cache, cluster.clock()
    grouped = cache.groups.of(pod) if pod.group and cache.groups.is_member(pod) else None
    if grouped is None and not (cluster.queues.active and cluster.queues.queue_of(pod)):
        return None
    plan: Callable[[], object] = partial(_placed, framework, cluster, pod)
    if grouped is not None:
        planner = planner_for(framework, cache, grouped)
        plan = partial(_planned, planner, cache.groups.members(grouped.key).unplaced())
    running = [each for info in cache.nodes.values() for each in info.pods.values() if not belongs_to_node(each)]
    found = fewest_ended(cache, by_end(cache, running, now), plan)
    if found is None:
        return Start(text="unknown: it would not start even if all running pods had ended")
    ended, _ = found
    unknown = [each for each in ended if run_times_of(cache).end_of(each, now) == inf]
    if unknown:
        return Start(text=_unknown(unknown))
    at = run_times_of(cache).end_of(ended[-1], now) if ended else now
    sure = all(map(run_times_of(cache).is_sure, ended))
    return Start(text=_known(at - now, ended, sure=sure), at=rfc3339(at))


def _placed(framework: Framework, cluster: LoadedCluster, pod: PodInfo) -> Placement | None:
    found = schedule(framework, cluster.cache, pod, lambda _: 0, preempt=False)
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
    when = "at the latest" if sure else "if pods run for as long as is expected"
    return f"in {format_duration(round(seconds))} {when}, once {who} ended"
