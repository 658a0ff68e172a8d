"""The promises of the bounds of capacity to those that wait meanwhile."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs.capacity_bounds import CapacityBounds
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.properties import examples

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
    assert len(points) == 3 * MEMBERS + 2 * 3, "the bounds, their sums by domain, and the sum of all, by resource"


@given(
    nodes=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    members=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    unit=st.sampled_from([1, (1 << 53) + 1, 1 << 60]),
)
@settings(max_examples=examples(200))
def test_a_bound_is_never_smaller_than_what_fits(nodes, members, unit):
    world = World()
    for index, free in enumerate(nodes):
        world.cache.set_node(parse_node(make_node(f"n{index}", allocatable={"memory": str(free * unit)})))
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    pods = [
        parse_pod(make_pod(f"p{index}", requests={"memory": str(amount * unit)}))
        for index, amount in enumerate(members)
    ]
    fit = max(
        sum(place >= 0 for place in places)
        for places in product(range(-1, len(nodes)), repeat=len(members))
        if all(
            sum(amount for amount, place in zip(members, places, strict=True) if place == index) <= free
            for index, free in enumerate(nodes)
        )
    )
    assert fit <= CapacityBounds(framework, world.cache, pods).total()
