"""NodeResourcesBalancedAllocation: prefers nodes where the pod balances the use of resources."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.framework.args import ArgsError, decode_args
from podwright.core.plugins.resources.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from support.objects.builders import make_node, make_pod
from support.plugins.kit import build, make_cache, pending, scores
from support.properties import examples
from support.state.resource_histories import histories, play

GPU = "example.com/gpu"
FPGA = "example.com/fpga"


def score_of(pod, *, node=None, pods=(), resources=()):
    """The score of one node of 10 CPUs and 10Gi, or None if the plugin skips the pod."""
    made = make_node(allocatable={"cpu": "10", "memory": "10Gi", **(node or {})})
    cache = make_cache([made], [make_pod(f"p{i}", node="node", requests=r) for i, r in enumerate(pods)])
    args = {"resources": [{"name": name} for name in resources]}
    found = scores(build(NodeResourcesBalancedAllocation, cache, args), pending(requests=pod))
    return None if found is None else found["node"]


@pytest.mark.parametrize(
    "pod, kwargs, score",
    [
        pytest.param({"cpu": "1", "memory": "1Gi"}, {}, 75, id="an empty node that the pod uses evenly"),
        pytest.param({"cpu": "10"}, {}, 50, id="an empty node where the pod takes all CPUs and no memory"),
        pytest.param(
            {"memory": "4Gi"},
            {"pods": [{"cpu": "4"}]},
            85,
            id="a node that the pod balances",  # 80 before, 100 after
        ),
        pytest.param(
            {"cpu": "4"},
            {"pods": [{"cpu": "2"}]},
            65,
            id="a node that the pod unbalances",  # 90 before, 70 after
        ),
        pytest.param(
            {"cpu": "3"},
            {"pods": [{"cpu": "2"}]},
            67,
            id="half points are truncated",  # 90 before, 75 after
        ),
        pytest.param(
            {"cpu": "1", "memory": "1Gi"},
            {"pods": [{"cpu": "12", "memory": "5Gi"}]},
            77,
            id="an overcommitted resource counts as full",  # 75 before, 80 after
        ),
        pytest.param(
            {"cpu": "5"},
            {"node": {GPU: "4"}, "pods": [{GPU: "2"}], "resources": ["cpu", GPU]},
            75,
            id="an extended resource that the pod does not request does not count",
        ),
        pytest.param(
            {"cpu": "5", GPU: "1"},
            {"resources": ["cpu", GPU]},
            75,
            id="a resource that the node lacks does not count, and a single resource is balanced",
        ),
        pytest.param(
            {"cpu": "5", "memory": "5Gi", GPU: "4"},
            {"node": {GPU: "8"}, "resources": ["cpu", "memory", GPU]},
            75,
            id="three resources used evenly",
        ),
        pytest.param(
            {"cpu": "10", GPU: "1"},
            {"node": {GPU: "4"}, "resources": ["cpu", "memory", GPU]},
            53,
            id="three resources used unevenly",  # fractions 1, 0, 0.25: deviation 0.4249
        ),
        pytest.param(
            {"cpu": "10", GPU: "1"},
            {"resources": ["cpu", "memory", GPU]},
            50,
            id="three resources, of which the node lacks one, count as two",
        ),
        pytest.param(
            {"cpu": "8", "memory": "1Gi", GPU: "1"},
            {"resources": ["cpu", "memory", GPU]},
            57,
            id="two of three resources by the formula for two",  # 64 after; the formula for three would give 65
        ),
        pytest.param(
            {"cpu": "10", GPU: "1", FPGA: "1"},
            {"node": {"cpu": "0"}, "resources": ["cpu", GPU, FPGA]},
            75,
            id="a node that has none of the resources",
        ),
        pytest.param(
            {"memory": "50Ti"},
            {"node": {"memory": "100Ti"}},
            62,
            id="a node of 100 Ti",  # 100 before, 75 after
        ),
        pytest.param({}, {}, None, id="a pod without requests is skipped"),
        pytest.param({GPU: "1"}, {}, None, id="a pod that requests only other resources is skipped"),
        pytest.param({"cpu": "0"}, {}, None, id="a pod that requests 0 of the resource is skipped"),
    ],
)
def test_a_node_scores_by_the_change_of_its_balance(pod, kwargs, score):
    assert score_of(pod, **kwargs) == score


def test_requests_count_without_defaults():
    assert score_of({"cpu": "10"}, pods=[{"memory": "10Gi"}, {}, {}]) == 100


@pytest.mark.parametrize(
    "args, resources",
    [
        pytest.param(None, [("cpu", 1), ("memory", 1)], id="no args"),
        pytest.param({"resources": []}, [("cpu", 1), ("memory", 1)], id="an empty list"),
        pytest.param({"resources": [{"name": GPU}]}, [(GPU, 1)], id="no weight"),
        pytest.param({"resources": [{"name": GPU, "weight": 0}]}, [(GPU, 1)], id="a weight of 0"),
    ],
)
def test_missing_args_have_defaults(args, resources):
    found = decode_args(NodeResourcesBalancedAllocationArgs, args, "args")
    assert [(r.name, r.weight) for r in found.resources] == resources


@pytest.mark.parametrize(
    "resources, problems",
    [
        pytest.param(
            [{"name": "cpu"}, {"name": "memory"}, {"name": "cpu"}],
            [("args.resources[2].name", 'Duplicate value: "cpu"')],
            id="a resource twice",
        ),
        pytest.param(
            [{"name": "cpu", "weight": 2}, {"name": "memory", "weight": -1}],
            [
                ("args.resources[0].weight", "Invalid value: 2: must be 1"),
                ("args.resources[1].weight", "Invalid value: -1: must be 1"),
            ],
            id="weights",
        ),
    ],
)
def test_args_that_kube_scheduler_refuses_are_invalid(resources, problems):
    with pytest.raises(ArgsError) as caught:
        decode_args(NodeResourcesBalancedAllocationArgs, {"resources": resources}, "args")
    assert list(caught.value.problems) == problems


ARGS = st.sampled_from([None, ["cpu"], ["cpu", GPU], [GPU, "memory", "cpu"], ["cpu", "memory", GPU, FPGA], ["pods"]])


@settings(max_examples=examples(30), deadline=None)
@given(resources=ARGS, history=histories())
def test_vectorised_scores_equal_per_node_scores_after_any_history(resources, history):
    args = {"resources": [{"name": name} for name in resources]} if resources else None
    play(lambda cache: build(NodeResourcesBalancedAllocation, cache, args), history, scores)
