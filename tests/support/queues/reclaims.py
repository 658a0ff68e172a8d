"""A cluster in memory whose pods belong to queues: who is evicted for a pod or a gang, and what the queues have
then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Decision, schedule
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangDecision
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, group_key
from podwright.core.plugins import PLUGINS
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.simulator.world import World
from support.gangs.kit import ZONE, budget
from support.objects.builders import in_group, make_node, make_pod, make_pod_group

NOW = 1_700_000_000.0
GPU = "nvidia.com/gpu"


def queue(name: str, parent: str = "", *, gpu: Mapping[str, int] | None = None, **options: Any) -> QueueRules:
    """A queue that names GPUs. `gpu`: its quota of them."""
    return QueueRules(name, parent, quotas={GPU: Quota(**(gpu or {}))}, **options)


class QueuedCluster:
    """See the module. `nodes`: how many GPUs each has. They are in so many zones in turn."""

    def __init__(self, nodes: Iterable[int], queues: Iterable[QueueRules], zones: int = 2) -> None:
        self.now = NOW
        self.world = World(clock=lambda: self.now)
        rooms = [
            make_node(f"n{i}", labels={ZONE: f"z{i % zones}"}, allocatable={"cpu": "64", GPU: str(gpus), "pods": "110"})
            for i, gpus in enumerate(nodes)
        ]
        self.world.fill({"nodes": rooms, "pods": []})
        self.cache = self.world.cache
        self.framework = Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)
        self.queues = queues_of(self.cache)
        for rules in queues:
            self.queues.set(rules)

    def pod(self, name: str, queue: str, gpus: int = 1, **options: Any) -> PodInfo:
        labels = {**options.pop("labels", {}), **({QUEUE_LABEL: queue} if queue else {})}
        requests = {**options.pop("requests", {}), GPU: str(gpus)}
        return parse_pod(make_pod(name, requests=requests, labels=labels, **options), keep_raw=True)

    def runs(self, name: str, queue: str, node: str, gpus: int = 1, *, since: float = 3600, **options: Any) -> PodInfo:
        """Adds a running pod that started `since` seconds ago."""
        pod = self.pod(name, queue, gpus, node=node, **options)
        pod = replace(pod, start_time=self.now - since)
        self.cache.set_pod(pod)
        return pod

    def waits(self, name: str, queue: str, gpus: int = 1, **options: Any) -> PodInfo:
        """Adds a pending pod."""
        pod = self.pod(name, queue, gpus, **options)
        self.queues.add_waiting(pod)
        return pod

    def group(self, name: str, min_count: int, *, whole: bool = True, **spec: Any) -> str:
        """Adds a pod group. `whole`: its pods are evicted together."""
        mode = {"all" if whole else "single": {}}
        self.cache.set_object(KIND, make_pod_group(name, min_count, disruptionMode=mode, **spec))
        return name

    def gang(self, name: str, queue: str, members: int, gpus: int = 1, *, min_count: int = 0, **options: Any) -> str:
        """Adds a gang of which all members wait."""
        self.group(name, min_count or members)
        for i in range(members):
            self.cache.groups.add_waiting(self.waits(f"{name}-{i}", queue, gpus, spec=in_group(name), **options))
        return name

    def decide_gang(self, name: str) -> GangDecision:
        group = self.cache.groups.get(group_key(WORKLOAD_API, "default", name))
        assert group is not None
        pods = self.cache.groups.members(group.key).unplaced()
        return decide(GangPlanner(self.framework, self.cache, group, lambda _n: 0), pods, self.now)

    def gang_victims(self, name: str) -> list[str]:
        preemption = getattr(self.decide_gang(name), "preemption", None)
        return sorted(victim.name for victim in preemption.victims) if preemption else []

    def decide(self, pod: PodInfo) -> Decision:
        return schedule(self.framework, self.cache, pod, lambda _n: 0)

    def victims(self, pod: PodInfo) -> list[str]:
        """The names of the pods that are evicted for this one."""
        return sorted(victim.name for victim in getattr(self.decide(pod), "victims", ()))

    def allow(self, app: str, disruptions: int) -> None:
        """Adds a budget for the pods with this label `app`."""
        self.cache.set_object("PodDisruptionBudget", budget(app, disruptions, {"app": app}))

    def terminates(self, pod: PodInfo) -> None:
        """The pod was evicted, but has not ended."""
        self.cache.set_pod(replace(pod, terminating=True, preempted=True))
