"""What the bounds of capacity promise to those that wait meanwhile."""

from __future__ import annotations

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.capacity_bounds import CapacityBounds
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod

MEMBERS = 20


def test_an_attempt_may_pause_at_each_member_in_each_pass_over_members_that_differ():
    world = World()
    world.cache.set_node(parse_node(make_node("n", allocatable={"cpu": "4"})))
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    pods = [parse_pod(make_pod(f"p{i}", requests={"cpu": "1", "memory": f"{i + 1}Mi"})) for i in range(MEMBERS)]
    bounds = CapacityBounds(framework, world.cache, pods)
    points = []
    world.cache.deadline.check = lambda: points.append(1)
    assert bounds.total() == 4
    assert len(points) == 3 * MEMBERS, "the bounds, their sums by domain, and the sum of all"
