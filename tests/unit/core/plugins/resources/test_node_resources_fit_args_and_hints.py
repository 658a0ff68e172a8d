"""The args of NodeResourcesFit, and its queueing hints."""

from types import MappingProxyType

import pytest

from podwright.core.framework.args import ArgsError, decode_args
from podwright.core.framework.cluster_events import ASSIGNED_POD, NODE, POD, Action, Hint
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from podwright.core.state.cache import Cache
from support.objects.builders import make_node, make_pod
from support.plugins.kit import build, pending

GPU = "example.com/gpu"
ROOM = MappingProxyType(
    {"cpu": "10", "memory": "10Gi", "pods": "3", "ephemeral-storage": "10Gi", GPU: "4", "hugepages-2Mi": "64Mi"}
)


def small_node(**allocatable):
    return make_node(allocatable={**ROOM, **allocatable})


def strategy(kind, *resources, shape=None):
    made = {"type": kind, "resources": [{"name": name, "weight": weight} for name, weight in resources]}
    if shape:
        points = [{"utilization": u, "score": s} for u, s in shape]
        made["requestedToCapacityRatio"] = {"shape": points}
    return {"scoringStrategy": made}


# Args


@pytest.mark.parametrize(
    "args, kind, resources",
    [
        pytest.param(None, "LeastAllocated", [("cpu", 1), ("memory", 1)], id="no args"),
        pytest.param({"scoringStrategy": None}, "LeastAllocated", [("cpu", 1), ("memory", 1)], id="no strategy"),
        pytest.param(strategy("MostAllocated"), "MostAllocated", [("cpu", 1), ("memory", 1)], id="no resources"),
        pytest.param(strategy("MostAllocated", (GPU, 0)), "MostAllocated", [(GPU, 1)], id="a weight of 0"),
    ],
)
def test_missing_args_have_defaults(args, kind, resources):
    found = decode_args(NodeResourcesFitArgs, args, "args").scoring_strategy
    assert found.type == kind
    assert [(r.name, r.weight) for r in found.resources] == resources


_STRATEGY = "args.scoringStrategy"


@pytest.mark.parametrize(
    "args, places",
    [
        pytest.param(
            {"ignoredResources": ["a b", GPU]},
            ["args.ignoredResources[0]"],
            id="an ignored resource with an invalid name",
        ),
        pytest.param(
            {"ignoredResourceGroups": ["example.com", GPU, "a b"]},
            ["args.ignoredResourceGroups[1]", "args.ignoredResourceGroups[2]"],
            id="ignored groups with a slash or a blank",
        ),
        pytest.param({"scoringStrategy": {}}, [f"{_STRATEGY}.type"], id="a strategy without type"),
        pytest.param(strategy("Sideways"), [f"{_STRATEGY}.type"], id="an unknown type"),
        pytest.param(
            strategy("MostAllocated", ("cpu", 101), ("memory", -1), (GPU, 100)),
            [f"{_STRATEGY}.resources[0].weight", f"{_STRATEGY}.resources[1].weight"],
            id="weights out of range",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio"), [f"{_STRATEGY}.requestedToCapacityRatio"], id="a missing curve"
        ),
        pytest.param(
            strategy("LeastAllocated", shape=[(0, 0)]),
            [f"{_STRATEGY}.requestedToCapacityRatio"],
            id="a curve for another strategy",
        ),
        pytest.param(
            {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": []}}},
            [f"{_STRATEGY}.requestedToCapacityRatio.shape"],
            id="a curve without points",
        ),
        pytest.param(
            strategy("RequestedToCapacityRatio", shape=[(50, 11), (50, -1), (101, 10)]),
            [
                f"{_STRATEGY}.requestedToCapacityRatio.shape[1].utilization",
                f"{_STRATEGY}.requestedToCapacityRatio.shape[0].score",
                f"{_STRATEGY}.requestedToCapacityRatio.shape[1].score",
                f"{_STRATEGY}.requestedToCapacityRatio.shape[2].utilization",
            ],
            id="points out of order and out of range",
        ),
    ],
)
def test_args_that_kube_scheduler_refuses_are_invalid(args, places):
    with pytest.raises(ArgsError) as caught:
        decode_args(NodeResourcesFitArgs, args, "args")
    assert [where for where, _ in caught.value.problems] == places


# Hints


def hint_of(resource, action, gates=None):
    hints = build(NodeResourcesFit, Cache(), gates=gates).hints()
    return next((h for h in hints if h.event.resource == resource and h.event.action & action), None)


def node_with(**allocatable):
    return parse_node(small_node(**allocatable))


@pytest.mark.parametrize(
    "before, after, hint",
    [
        pytest.param(None, node_with(), Hint.QUEUE, id="a new node with room"),
        pytest.param(None, node_with(cpu="1"), Hint.SKIP, id="a new node that is too small"),
        pytest.param(None, node_with(pods="0"), Hint.SKIP, id="a new node that allows no pods"),
        pytest.param(node_with(cpu="1"), node_with(), Hint.QUEUE, id="more CPU"),
        pytest.param(node_with(cpu="1"), node_with(cpu="2"), Hint.SKIP, id="more CPU, but not enough"),
        pytest.param(
            node_with(), node_with(memory="20Gi"), Hint.SKIP, id="more of a resource that the pod does not request"
        ),
        pytest.param(node_with(cpu="20"), node_with(), Hint.SKIP, id="less CPU"),
        pytest.param(node_with(), node_with(pods="4"), Hint.QUEUE, id="more pods allowed"),
        pytest.param(node_with(**{GPU: "0"}), node_with(), Hint.QUEUE, id="devices appear"),
    ],
)
def test_a_node_helps_if_it_could_hold_the_pod_and_has_more_than_before(before, after, hint):
    found = hint_of(NODE, Action.UPDATE_NODE_ALLOCATABLE)
    assert found.function(pending(requests={"cpu": "3", GPU: "1"}), before, after) is hint


def test_a_deleted_pod_helps_if_it_had_a_node_or_a_nomination():
    function = hint_of(ASSIGNED_POD, Action.DELETE).function
    waiting = pending(requests={"cpu": "1"})
    assert function(waiting, parse_pod(make_pod(node="node")), None) is Hint.QUEUE
    assert function(waiting, parse_pod(make_pod(status={"nominatedNodeName": "node"})), None) is Hint.QUEUE
    assert function(waiting, parse_pod(make_pod()), None) is Hint.SKIP


@pytest.mark.parametrize(
    "after, hint",
    [
        pytest.param({"cpu": "1", "memory": "2Gi"}, Hint.QUEUE, id="less of a requested resource"),
        pytest.param({"cpu": "2", "memory": "1Gi"}, Hint.SKIP, id="less of something else"),
        pytest.param({"memory": "2Gi"}, Hint.QUEUE, id="all of a requested resource"),
        pytest.param({"cpu": "3", "memory": "2Gi"}, Hint.SKIP, id="more"),
    ],
)
def test_a_placed_pod_that_scales_down_helps_if_it_frees_a_requested_resource(after, hint):
    before = parse_pod(make_pod(node="node", requests={"cpu": "2", "memory": "2Gi"}))
    function = hint_of(ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN).function
    waiting = pending(requests={"cpu": "1", "memory": "0"})
    assert function(waiting, before, parse_pod(make_pod(node="node", requests=after))) is hint
    assert function(waiting, before, parse_pod(make_pod(requests=after))) is Hint.SKIP


def test_a_waiting_pod_that_scales_down_is_requeued():
    assert hint_of(POD, Action.UPDATE_POD_SCALE_DOWN).function is None


@pytest.mark.parametrize("resource", [ASSIGNED_POD, POD])
def test_without_in_place_resize_there_are_no_scale_down_hints(resource):
    gates = {"InPlacePodVerticalScaling": False}
    assert hint_of(resource, Action.UPDATE_POD_SCALE_DOWN, gates) is None
