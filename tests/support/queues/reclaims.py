"""A cluster in memory whose pods belong to queues: who is evicted for a pod or a gang, and what the queues have then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Decision, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.simulator.world import World
from support.gangs.kit import budget
from support.objects.builders import make_node, make_pod

NOW = 1_700_000_000.0
GPU = "nvidia.com/gpu"


def queue(name: str, parent: str = "", *, gpu: Mapping[str, int] | None = None, **options: Any) -> QueueRules:
    """A queue that names GPUs. `gpu`: its quota of them."""
    return QueueRules(name, parent, quotas={GPU: Quota(**(gpu or {}))}, **options)


class QueuedCluster:
    """See the module. `nodes`: how many GPUs each has."""

    def __init__(self, nodes: Iterable[int], queues: Iterable[QueueRules]) -> None:
        self.now = NOW
        self.world = World(clock=lambda: self.now)
        rooms = [
            make_node(f"n{i}", allocatable={"cpu": "64", GPU: str(gpus), "pods": "110"}) for i, gpus in enumerate(nodes)
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
