"""TopologyPlacementGenerator: which events wake a group that fits into no domain."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.framework import Framework
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import in_group, make_node, make_pod, make_pod_group

RACK = "rack"
POD = parse_pod(make_pod("p", spec=in_group()))


def hints() -> list[EventHint]:
    """Of a profile that does not name the plugin: the planner does its work all the same."""
    world = World()
    world.cache.set_object(KIND, make_pod_group(schedulingConstraints={"topology": [{"key": RACK}]}))
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    assert "TopologyPlacementGenerator" not in framework.plugins
    return list(framework.hints["TopologyPlacementGenerator"])


def answer(event: ClusterEvent, before: Any, after: Any, pod=POD) -> Hint:
    asked = [hint for hint in hints() if hint.event.matches(event)]
    helps = [hint.function is None or hint.function(pod, before, after) is Hint.QUEUE for hint in asked]
    return Hint.QUEUE if any(helps) else Hint.SKIP


def node(cpu: str = "1", **labels: str):
    return parse_node(make_node("n", labels=labels, allocatable={"cpu": cpu}))


@pytest.mark.parametrize(
    ("action", "before", "after", "wakes"),
    [
        pytest.param(Action.ADD, None, node(rack="r"), True, id="a node comes into a domain"),
        pytest.param(Action.ADD, None, node(), False, id="a node comes that is in none"),
        pytest.param(Action.UPDATE_NODE_LABEL, node(), node(rack="r"), True, id="a node joins a domain"),
        pytest.param(Action.UPDATE_NODE_LABEL, node(rack="r"), node(rack="s"), True, id="a node changes its domain"),
        pytest.param(Action.UPDATE_NODE_LABEL, node(rack="r"), node(), False, id="a node leaves a domain"),
        pytest.param(Action.UPDATE_NODE_LABEL, node(rack="r"), node(rack="r", a="b"), False, id="another label"),
        pytest.param(Action.UPDATE_NODE_ALLOCATABLE, node("1", rack="r"), node("2", rack="r"), True, id="more room"),
        pytest.param(Action.UPDATE_NODE_ALLOCATABLE, node("2", rack="r"), node("1", rack="r"), False, id="less room"),
        pytest.param(Action.UPDATE_NODE_ALLOCATABLE, node("1"), node("2"), False, id="more room in no domain"),
        pytest.param(Action.DELETE, node(rack="r"), None, False, id="a node goes"),
    ],
)
def test_nodes(action, before, after, wakes):
    assert answer(ClusterEvent(NODE, action), before, after) is (Hint.QUEUE if wakes else Hint.SKIP)


@pytest.mark.parametrize(
    ("action", "wakes"),
    [
        pytest.param(Action.DELETE, True, id="one that goes"),
        pytest.param(Action.UPDATE_POD_SCALE_DOWN, True, id="one that gets smaller"),
        pytest.param(Action.ADD, False, id="one that comes"),
        pytest.param(Action.UPDATE_POD_SCALE_UP, False, id="one that gets larger"),
    ],
)
def test_placed_pods(action, wakes):
    there = parse_pod(make_pod("there", node="n"))
    assert answer(ClusterEvent(ASSIGNED_POD, action), there, there) is (Hint.QUEUE if wakes else Hint.SKIP)


def test_a_pod_of_no_group_is_not_woken():
    assert answer(ClusterEvent(NODE, Action.ADD), None, node(rack="r"), parse_pod(make_pod("q"))) is Hint.SKIP
