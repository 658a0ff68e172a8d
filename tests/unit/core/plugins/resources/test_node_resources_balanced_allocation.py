"""NodeResourcesBalancedAllocation: nodes whose use of resources becomes more even are better."""

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
from support.state.resource_histories import histories, play

GPU = "example.com/gpu"
FPGA = "example.com/fpga"


def score_of(pod, *, node=None, pods=(), resources=()):
    """The score of one node of 10 CPUs and 10Gi, or None where the pod is skipped."""
    made = make_node(allocatable={"cpu": "10", "memory": "10Gi", **(node or {})})
    cache = make_cache([made], [make_pod(f"p{i}", node="node", requests=r) for i, r in enumerate(pods)])
    args = {"resources": [{"name": name} for name in resources]}
    found = scores(build(NodeResourcesBalancedAllocation, cache, args), pending(requests=pod))
    return None if found is None else found["node"]


@pytest.mark.parametrize(
    "pod, kwargs, score",
    [
        pytest.param({"cpu": "1", "memory": "1Gi"}, {}, 75, id="an empty node that the pod uses evenly"),
        pytest.param({"cpu": "10"}, {}, 50, id="an empty node of which the pod takes all CPUs and no memory"),
        pytest.param(
            {"memory": "4Gi"},
            {"pods": [{"cpu": "4"}]},
            85,
            id="a node that the pod evens out",  # 80 before, 100 after
        ),
        pytest.param(
            {"cpu": "4"},
            {"pods": [{"cpu": "2"}]},
            65,
            id="a node that the pod makes more uneven",  # 90 before, 70 after
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
            id="what is overcommitted counts as full",  # 75 before, 80 after
        ),
        pytest.param(
            {"cpu": "5"},
            {"node": {GPU: "4"}, "pods": [{GPU: "2"}], "resources": ["cpu", GPU]},
            75,
            id="an extended resource does not count for a pod that does not ask for it",
        ),
        pytest.param(
            {"cpu": "5", GPU: "1"},
            {"resources": ["cpu", GPU]},
            75,
            id="a resource that the node lacks does not count, and one alone is balanced",
        ),
        pytest.param(
            {"cpu": "5", "memory": "5Gi", GPU: "4"},
            {"node": {GPU: "8"}, "resources": ["cpu", "memory", GPU]},
            75,
            id="three resources used alike",
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
            id="three resources of which the node lacks one are two",
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
        pytest.param({GPU: "1"}, {}, None, id="a pod that asks only for other resources is skipped"),
        pytest.param({"cpu": "0"}, {}, None, id="a pod that asks for nothing of it is skipped"),
    ],
)
def test_a_node_scores_by_what_the_pod_does_to_its_balance(pod, kwargs, score):
    assert score_of(pod, **kwargs) == score


def test_real_requests_count_without_defaults():
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
def test_what_is_not_given_has_defaults(args, resources):
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
def test_args_that_kube_scheduler_refuses_are_refused(resources, problems):
    with pytest.raises(ArgsError) as caught:
        decode_args(NodeResourcesBalancedAllocationArgs, {"resources": resources}, "args")
    assert list(caught.value.problems) == problems


ARGS = st.sampled_from([None, ["cpu"], ["cpu", GPU], [GPU, "memory", "cpu"], ["cpu", "memory", GPU, FPGA], ["pods"]])


@settings(max_examples=30, deadline=None)
@given(resources=ARGS, history=histories())
def test_all_nodes_at_once_score_as_they_do_one_by_one_whatever_happened(resources, history):
    args = {"resources": [{"name": name} for name in resources]} if resources else None
    play(lambda cache: build(NodeResourcesBalancedAllocation, cache, args), history, scores)
