"""Measures gangs in one domain of a topology, in process: the shapes of scheduler_perf's `podgroup/tas` and of KAI's
scale test.

    python -m benchmarks.core.topology

5,000 nodes in 50 racks take gangs of 4 and of 1,000, each in one rack. 512 nodes in 4 zones of 8 blocks of 8 racks,
with 8 GPUs each, take a gang of 512 pods with 2 GPUs each, in one zone, or with racks preferred. Prints pods per second
of CPU, plans and assumed pods included.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any, Final

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, group_key
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from podwright.testing.objects import node, pod

LEVELS: Final = ("zone", "block", "rack")
GPU: Final = "nvidia.com/gpu"


def racks() -> Iterator[dict[str, Any]]:
    for index in range(5_000):
        yield node(f"n{index}", cpu="32", memory="128Gi", labels={"rack": f"r{index % 50}"})


def blocks() -> Iterator[dict[str, Any]]:
    for index in range(512):
        zone, block, rack = index // 128, index // 16, index // 2
        raw = node(
            f"n{index}", cpu="64", memory="256Gi", labels=dict(zip(LEVELS, map(str, (zone, block, rack)), strict=True))
        )
        raw["status"]["allocatable"][GPU] = "8"
        yield raw


class Cluster:
    """The default profile on these nodes."""

    def __init__(self, nodes: Iterator[dict[str, Any]]) -> None:
        self.world = World()
        self.world.cache.topologies.set("podwright.dev/default", LEVELS)
        for raw in nodes:
            self.world.cache.set_node(parse_node(raw))
        self.framework = Framework(default_profile("podwright", PLUGINS, self.world.features), PLUGINS, self.world)

    def seconds(self, name: str, members: int, *, required: str = "", preferred: str = "", gpus: int = 0) -> float:
        """The CPU time to plan one gang and to assume its pods."""
        cache, constraints = self.world.cache, {"topology": [{"key": required}]} if required else {}
        spec = {"schedulingPolicy": {"gang": {"minCount": members}}, "schedulingConstraints": constraints}
        cache.set_object(KIND, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        pods = []
        for index in range(members):
            raw = pod(f"{name}-{index}", cpu="1", memory="2Gi", schedulingGroup={"podGroupName": name})
            if gpus:
                raw["spec"]["containers"][0]["resources"]["requests"][GPU] = str(gpus)
            pods.append(
                parse_pod({**raw, "metadata": {**raw["metadata"], "uid": raw["metadata"]["name"]}}, keep_raw=True)
            )
            cache.groups.add_waiting(pods[-1])
        group = cache.groups.get(group_key(WORKLOAD_API, "default", name))
        assert group is not None
        started = time.process_time()
        decision = decide(GangPlanner(self.framework, cache, group, random.Random(1).randrange, preferred), pods, 0.0)
        assert isinstance(decision, GangPlacement), decision
        for placement in decision.placements:
            cache.assume(placement.pod, placement.node_name)
        return time.process_time() - started


def main() -> None:
    for members, gangs in ((4, 200), (1_000, 5)):
        cluster = Cluster(racks())
        cluster.seconds("first", members, required="rack")
        took = sum(cluster.seconds(f"g{index}", members, required="rack") for index in range(gangs))
        print(f"gangs of {members:,} in one rack each: {members * gangs / took:,.0f} pods/s of CPU")
    for options in ({"required": "zone"}, {"preferred": "rack"}):
        took = Cluster(blocks()).seconds("gang", 512, gpus=2, **options)
        print(f"a gang of 512 with 2 GPUs each, {options}: {took:.3f} s of CPU")


if __name__ == "__main__":
    main()
