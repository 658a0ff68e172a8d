"""Gangs whose members have resource claims: all of them get their devices, or none does, and a plan leaves no device
taken.
"""

from __future__ import annotations

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.devices import verdicts
from podwright.core.framework.framework import Framework
from podwright.core.gangs.decisions import GangFault, GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner, decide
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, group_key
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import in_group, make_node, make_pod, make_pod_group
from support.objects.devices import claiming, exactly, make_claim, make_class, make_device, make_slice, selector

GANG = group_key(WORKLOAD_API, "default", "gang")


def planned(members: int, devices: int, *, shared: bool = False):
    """The plan of a gang with a claim for each member, or one for all, on two nodes with so many devices each; and the
    cache.
    """
    world = World()
    claims = ["shared"] * members if shared else [f"claim-{i}" for i in range(members)]
    world.fill(
        {
            "nodes": [make_node(name) for name in ("a", "b")],
            "deviceClasses": [make_class("gpu")],
            "resourceSlices": [
                make_slice(f"{node}-gpus", [make_device(f"gpu-{i}") for i in range(devices)], node=node)
                for node in ("a", "b")
            ],
            "resourceClaims": [make_claim(name, exactly()) for name in dict.fromkeys(claims)],
        }
    )
    cache = world.cache
    cache.set_object(KIND, make_pod_group("gang", min_count=members))
    pods = [
        parse_pod(make_pod(f"p{i}", spec={**in_group(), **claiming(name)}), keep_raw=True)
        for i, name in enumerate(claims)
    ]
    for pod in pods:
        cache.groups.add_waiting(pod)
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    group = cache.groups.get(GANG)
    return GangPlanner(framework, cache, group, lambda _n: 0, "").plan(pods), framework, cache


@pytest.mark.parametrize(
    "devices, placed", [pytest.param(2, True, id="enough for all"), pytest.param(1, False, id="too few")]
)
def test_all_members_get_devices_or_none_does(devices, placed):
    decision, _, cache = planned(4, devices)
    assert isinstance(decision, GangPlacement if placed else GangRejection)
    assert len(cache.devices.claims.usage) == 0, "the plan is rolled back"


def test_the_members_reserve_what_was_planned():
    decision, framework, cache = planned(4, 2)
    for placement in decision.placements:
        assert framework.reserve(placement.state, placement.pod, placement.node_name) is None
    assert len(cache.devices.claims.usage) == 4
    for placement in decision.placements:
        framework.unreserve(placement.state, placement.pod, placement.node_name)
    assert len(cache.devices.claims.usage) == 0


def test_members_share_a_claim_that_the_first_of_them_allocates():
    decision, framework, cache = planned(3, 1, shared=True)
    assert isinstance(decision, GangPlacement)
    assert len({placement.node_name for placement in decision.placements}) == 1
    for placement in decision.placements:
        assert framework.reserve(placement.state, placement.pod, placement.node_name) is None
    assert len(cache.devices.claims.usage) == 1


def test_the_nodes_are_searched_before_the_plan_with_points_between_them(monkeypatch):
    monkeypatch.setattr(verdicts, "STEPS_BETWEEN_PAUSES", 1)
    _, framework, cache = planned(4, 2)
    names = [f"n{i}" for i in range(20)]
    for name in names:
        cache.set_node(parse_node(make_node(name)))
        cache.set_object("ResourceSlice", make_slice(f"{name}-gpus", [make_device("gpu-0")], node=name))
    points = []
    cache.deadline.check = lambda: points.append(True)
    pods = sorted(cache.groups.members(GANG).waiting.values(), key=lambda pod: pod.name)
    decision = decide(GangPlanner(framework, cache, cache.groups.get(GANG), lambda _n: 0, ""), pods, 0.0)
    assert isinstance(decision, GangPlacement)
    assert points.count(True) >= len(names)


def test_a_search_that_fails_before_the_plan_fails_the_plan():
    _, framework, cache = planned(4, 2)
    broken = make_claim("claim-0", exactly(selectors=[selector('device.attributes["x"].ghost == 1')]))
    cache.set_object("ResourceClaim", broken)
    pods = list(cache.groups.members(GANG).waiting.values())
    decision = decide(GangPlanner(framework, cache, cache.groups.get(GANG), lambda _n: 0, ""), pods, 0.0)
    assert isinstance(decision, GangFault)
    assert "no such key: ghost" in decision.message
