"""A small cluster with one gang of the Workload API, and the planner for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import GangPlanner
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, group_key
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import in_group, make_pod, make_pod_group

RACK = "rack"


def ported(cpu: str = "1") -> dict[str, Any]:
    """A container with a host port."""
    ports = [{"containerPort": 80, "hostPort": 80}]
    return {"name": "main", "image": "app", "ports": ports, "resources": {"requests": {"cpu": cpu}}}


class GangCluster:
    """A cluster with one group, `gang`, and waiting members."""

    def __init__(
        self,
        nodes,
        *,
        min_count: int | None = 1,
        members: int = 1,
        cpu: str = "2",
        ports=False,
        placed=(),
        **group: Any,
    ):
        self.world = World()
        self.world.fill({"nodes": nodes, "pods": list(placed)})
        self.cache = self.world.cache
        self.cache.set_object(KIND, make_pod_group("gang", min_count, **group))
        spec = {**in_group(), **({"containers": [ported(cpu)]} if ports else {})}
        self.pods = [
            parse_pod(make_pod(f"p{i}", requests={"cpu": cpu}, spec=spec), keep_raw=True) for i in range(members)
        ]
        for pod in self.pods:
            self.cache.groups.add_waiting(pod)
        self.framework = Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)

    def plan(self, pack_by: str = "", below=lambda _n: 0):
        group = self.cache.groups.get(group_key(WORKLOAD_API, "default", "gang"))
        assert group is not None
        return GangPlanner(self.framework, self.cache, group, below, pack_by).plan(self.pods)

    def domains(self, decision: object, label: str = RACK) -> Counter[str]:
        assert isinstance(decision, GangPlacement), decision
        nodes = self.cache.nodes
        return Counter(nodes[placement.node_name].node.labels[label] for placement in decision.placements)
