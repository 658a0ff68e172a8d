"""TopologyPlacementGenerator: the events that requeue a group that fits into no domain."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.framework import Framework
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KIND, VOLCANO_KIND
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import in_group, make_node, make_pod, make_pod_group

RACK = "rack"
POD = parse_pod(make_pod("p", spec=in_group()))


def hints() -> list[EventHint]:
    """The hints in a profile that does not enable the plugin."""
    world = World()
    world.cache.set_object(KIND, make_pod_group(schedulingConstraints={"topology": [{"key": RACK}]}))
    spec = {"minMember": 1, "networkTopology": {"highestTierAllowed": 1}}
    world.cache.set_object(VOLCANO_KIND, {"metadata": {"name": "group", "namespace": "default"}, "spec": spec})
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
        pytest.param(Action.ADD, None, node(rack="r"), True, id="a node is added to a domain"),
        pytest.param(Action.ADD, None, node(), False, id="a node is added outside all domains"),
        pytest.param(Action.UPDATE_NODE_LABEL, node(), node(rack="r"), True, id="a node joins a domain"),
        pytest.param(Action.UPDATE_NODE_LABEL, node(rack="r"), node(rack="s"), True, id="a node changes its domain"),
        pytest.param(Action.UPDATE_NODE_LABEL, node(rack="r"), node(), False, id="a node leaves a domain"),
        pytest.param(Action.UPDATE_NODE_LABEL, node(rack="r"), node(rack="r", a="b"), False, id="another label"),
        pytest.param(Action.UPDATE_NODE_ALLOCATABLE, node("1", rack="r"), node("2", rack="r"), True, id="more room"),
        pytest.param(Action.UPDATE_NODE_ALLOCATABLE, node("2", rack="r"), node("1", rack="r"), False, id="less room"),
        pytest.param(Action.UPDATE_NODE_ALLOCATABLE, node("1"), node("2"), False, id="more room outside all domains"),
        pytest.param(Action.DELETE, node(rack="r"), None, False, id="a node is removed"),
    ],
)
def test_nodes(action, before, after, wakes):
    assert answer(ClusterEvent(NODE, action), before, after) is (Hint.QUEUE if wakes else Hint.SKIP)


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        pytest.param(None, node(), True, id="a node is added, which a HyperNode may pick by its name"),
        pytest.param(node(), node(a="b"), True, id="labels by which one may pick it"),
        pytest.param(node("1"), node("2"), True, id="more room"),
        pytest.param(node("2"), node("1"), False, id="less room"),
    ],
)
def test_nodes_help_a_group_in_a_hyper_node_whatever_their_labels(before, after, wakes):
    raw = make_pod("v")
    raw["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "group"}
    event = ClusterEvent(NODE, Action.ADD if before is None else Action.UPDATE_NODE_LABEL)
    assert answer(event, before, after, parse_pod(raw)) is (Hint.QUEUE if wakes else Hint.SKIP)


@pytest.mark.parametrize(
    ("action", "wakes"),
    [
        pytest.param(Action.DELETE, True, id="a pod that leaves"),
        pytest.param(Action.UPDATE_POD_SCALE_DOWN, True, id="a pod that scales down"),
        pytest.param(Action.ADD, False, id="a pod that comes"),
        pytest.param(Action.UPDATE_POD_SCALE_UP, False, id="a pod that scales up"),
    ],
)
def test_placed_pods(action, wakes):
    there = parse_pod(make_pod("there", node="n"))
    assert answer(ClusterEvent(ASSIGNED_POD, action), there, there) is (Hint.QUEUE if wakes else Hint.SKIP)


def test_a_pod_without_a_group_is_not_requeued():
    assert answer(ClusterEvent(NODE, Action.ADD), None, node(rack="r"), parse_pod(make_pod("q"))) is Hint.SKIP
