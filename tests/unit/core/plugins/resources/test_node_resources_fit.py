"""NodeResourcesFit: rejects nodes without room for the pod, and scores nodes by their utilisation."""

from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.framework.interface import CycleState
from podwright.core.framework.shape import UtilizationShapePoint, curve_of
from podwright.core.framework.status import Code
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.resources import row_cache
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from support.objects.builders import make_node, make_pod
from support.plugins.kit import build, make_cache, pending, pre_filter, raw_scores, scores, verdicts
from support.properties import examples
from support.state.resource_histories import histories, play

GPU = "example.com/gpu"
FPGA = "other.example.com/fpga"
ROOM = MappingProxyType(
    {"cpu": "10", "memory": "10Gi", "pods": "3", "ephemeral-storage": "10Gi", GPU: "4", "hugepages-2Mi": "64Mi"}
)


def small_node(**allocatable):
    return make_node(allocatable={**ROOM, **allocatable})


def running(*requests):
    return [make_pod(f"p{i}", node="node", requests=r) for i, r in enumerate(requests)]


def strategy(kind, *resources, shape=None):
    made = {"type": kind, "resources": [{"name": name, "weight": weight} for name, weight in resources]}
    if shape:
        points = [{"utilization": u, "score": s} for u, s in shape]
        made["requestedToCapacityRatio"] = {"shape": points}
    return {"scoringStrategy": made}


# Filtering


@pytest.mark.parametrize(
    "pod, pods, reasons",
    [
        pytest.param({"cpu": "10", "memory": "10Gi"}, [], "", id="just enough"),
        pytest.param({"cpu": "6"}, [{"cpu": "4", "memory": "10Gi"}], "", id="only requested resources are compared"),
        pytest.param({"cpu": "6001m"}, [{"cpu": "4"}], "Insufficient cpu", id="too little CPU left"),
        pytest.param({"memory": "10Gi"}, [{"memory": "1"}], "Insufficient memory", id="a byte of memory too little"),
        pytest.param(
            {"ephemeral-storage": "1"},
            [{"ephemeral-storage": "10Gi"}],
            "Insufficient ephemeral-storage",
            id="no ephemeral storage left",
        ),
        pytest.param({GPU: "2"}, [{GPU: "3"}], f"Insufficient {GPU}", id="too few devices left"),
        pytest.param(
            {"hugepages-2Mi": "62Mi"}, [{"hugepages-2Mi": "4Mi"}], "Insufficient hugepages-2Mi", id="huge pages"
        ),
        pytest.param({}, [{}, {}, {}], "Too many pods", id="the number of pods is limited"),
        pytest.param({"cpu": "9007199254741"}, [], "Insufficient cpu", id="more CPU than the node has"),
        pytest.param({}, [{"cpu": "99"}], "", id="a pod without requests passes on an overcommitted node"),
        pytest.param(
            {"cpu": "0", "memory": "1"}, [{"cpu": "99"}], "", id="a resource with a request of 0 is not compared"
        ),
        pytest.param(
            {"cpu": "1", "memory": "1", GPU: "1"},
            [{"cpu": "10"}, {"memory": "10Gi"}, {GPU: "4"}],
            f"Too many pods, Insufficient cpu, Insufficient memory, Insufficient {GPU}",
            id="all missing resources are reported",
        ),
    ],
)
def test_a_node_must_have_the_requested_resources_free(pod, pods, reasons):
    plugin = build(NodeResourcesFit, make_cache([small_node()], running(*pods)))
    assert verdicts(plugin, pending(requests=pod)) == {"node": reasons}


@pytest.mark.parametrize(
    "pod, pods, code",
    [
        pytest.param({"cpu": "10"}, [{"cpu": "1"}], Code.UNSCHEDULABLE, id="evicting pods would help"),
        pytest.param({}, [{}, {}, {}], Code.UNSCHEDULABLE, id="too many pods"),
        pytest.param({"cpu": "11"}, [], Code.UNSCHEDULABLE_AND_UNRESOLVABLE, id="more than the capacity of the node"),
        pytest.param(
            {"cpu": "10", FPGA: "1"},
            [{"cpu": "1"}],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            id="one resource beyond the node's capacity is enough",
        ),
    ],
)
def test_a_rejection_is_resolvable_while_the_node_could_hold_the_pod(pod, pods, code):
    plugin = build(NodeResourcesFit, make_cache([small_node()], running(*pods)))
    waiting = pending(requests=pod)
    verdicts(plugin, waiting)
    assert plugin.filter(CycleState(), waiting, plugin.handle.cache.present("node")).code is code


def test_nodes_that_lack_the_same_resource_may_differ_in_resolvability():
    cache = make_cache([small_node(), make_node("small", allocatable={"cpu": "2"})], running({"cpu": "8"}))
    plugin, waiting = build(NodeResourcesFit, cache), pending(requests={"cpu": "3"})
    assert verdicts(plugin, waiting) == {"node": "Insufficient cpu", "small": "Insufficient cpu"}
    codes, statuses = plugin.filter_all(CycleState(), waiting, cache.table).explain()
    assert [statuses[code].code for code in codes] == [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE]


@pytest.mark.parametrize(
    "memory, reasons",
    [
        pytest.param("9007199254740992", "Insufficient memory", id="a byte too little"),
        pytest.param("9007199254740993", "", id="just enough"),
    ],
)
def test_amounts_beyond_the_precision_of_float64_are_compared_exactly(memory, reasons):
    plugin = build(NodeResourcesFit, make_cache([make_node(allocatable={"memory": memory})]))
    assert verdicts(plugin, pending(requests={"memory": "9007199254740993"})) == {"node": reasons}


def test_many_nodes_that_changed_at_once_are_filtered_again():
    cache = make_cache([make_node(f"n{i}", allocatable={GPU: "4"}) for i in range(200)])
    plugin, waiting = build(NodeResourcesFit, cache), pending(requests={GPU: "2", "cpu": "1"})
    assert set(verdicts(plugin, waiting).values()) == {""}
    for i in range(20):
        cache.set_pod(parse_pod(make_pod(f"p{i}", node=f"n{i}", requests={GPU: "3"})))
    found = verdicts(plugin, waiting)
    assert [name for name, reasons in found.items() if reasons] == [f"n{i}" for i in range(20)]


def test_many_oversized_nodes_that_changed_at_once_are_filtered_again():
    cache = make_cache([make_node(f"n{i}", allocatable={"memory": "9007199254740993"}) for i in range(200)])
    plugin = build(NodeResourcesFit, cache, strategy("LeastAllocated", ("memory", 1)))
    waiting = pending(requests={"memory": "5134103575202367"})
    small = pending(requests={"memory": "1"})
    assert set(scores(plugin, small).values()) == {99}
    assert set(verdicts(plugin, waiting).values()) == {""}
    for i in range(20):
        requests = {"memory": "3873095679538626" if i < 10 else "3873095679538627"}
        cache.set_pod(parse_pod(make_pod(f"p{i}", node=f"n{i}", requests=requests)))
    assert [name for name, reasons in verdicts(plugin, waiting).items() if reasons] == [f"n{i}" for i in range(10, 20)]
    assert scores(plugin, small)["n0"] == 56


def test_filtering_compares_spec_requests_with_the_requests_of_placed_pods():
    shrinking = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "6"}}]}
    pods = [make_pod("p", node="node", requests={"cpu": "1"}, status=shrinking)]
    plugin = build(NodeResourcesFit, make_cache([small_node()], pods))
    assert verdicts(plugin, pending(requests={"cpu": "4"}, status=shrinking)) == {"node": ""}
    assert verdicts(plugin, pending(requests={"cpu": "5"})) == {"node": "Insufficient cpu"}


@pytest.mark.parametrize(
    "args, pod, reasons",
    [
        pytest.param({"ignoredResources": [GPU]}, {GPU: "9"}, "", id="an ignored resource"),
        pytest.param({"ignoredResources": [GPU]}, {FPGA: "9"}, f"Insufficient {FPGA}", id="another resource"),
        pytest.param({"ignoredResourceGroups": ["example.com"]}, {GPU: "9"}, "", id="an ignored group"),
        pytest.param(
            {"ignoredResourceGroups": ["example.com"]},
            {FPGA: "9"},
            f"Insufficient {FPGA}",
            id="a group is everything before the slash",
        ),
        pytest.param(
            {"ignoredResources": ["cpu"]}, {"cpu": "99"}, "Insufficient cpu", id="only extended resources are ignored"
        ),
        pytest.param(
            {"ignoredResources": ["hugepages-2Mi"]},
            {"hugepages-2Mi": "1Gi"},
            "Insufficient hugepages-2Mi",
            id="huge pages are not an extended resource",
        ),
    ],
)
def test_ignored_resources_are_not_compared(args, pod, reasons):
    plugin = build(NodeResourcesFit, make_cache([small_node()]), args)
    assert verdicts(plugin, pending(requests=pod)) == {"node": reasons}


def test_the_rejection_of_a_pod_with_very_many_resources_is_explained():
    names = [f"example.com/r{i:02}" for i in range(70)]
    nodes = [
        make_node(f"n{i}", allocatable={name: "1" for j, name in enumerate(names) if j % 7 != i}) for i in range(7)
    ]
    found = verdicts(build(NodeResourcesFit, make_cache(nodes)), pending(requests=dict.fromkeys(names, "1")))
    assert found["n3"] == ", ".join(f"Insufficient example.com/r{i:02}" for i in range(3, 70, 7))
    assert len(set(found.values())) == 7


def test_sums_that_overflow_leave_no_room():
    cache = make_cache([small_node(), make_node("other")], running({"cpu": "9E", GPU: "9E"}, {"cpu": "9E", GPU: "9E"}))
    plugin = build(NodeResourcesFit, cache)
    assert verdicts(plugin, pending(requests={"cpu": "1", GPU: "1"})) == {
        "node": f"Insufficient cpu, Insufficient {GPU}",
        "other": f"Insufficient {GPU}",
    }
    assert raw_scores(plugin, pending(requests={"memory": "1Gi"}))["node"] == 43


def test_pre_filter_rejects_no_pod():
    assert pre_filter(build(NodeResourcesFit, make_cache()), pending(requests={"cpu": "99"})) is None


# Scoring


@pytest.mark.parametrize(
    "pod, pods, args, score",
    [
        pytest.param({"cpu": "1", "memory": "1Gi"}, [], None, 90, id="least allocated is the default"),
        pytest.param(
            {"cpu": "1", "memory": "2Gi"}, [{"cpu": "3", "memory": "1Gi"}], None, 65, id="the mean of CPU and memory"
        ),
        pytest.param({}, [], None, 98, id="a pod without requests counts 100m and 200Mi"),
        pytest.param({"cpu": "3333m", "memory": "0"}, [], None, 83, id="each resource is truncated, then the mean"),
        pytest.param(
            {"cpu": "1", "memory": "0"},
            [{"cpu": "12"}, {"memory": "0", "cpu": "0"}],
            None,
            49,
            id="a full resource scores 0",
        ),
        pytest.param(
            {"cpu": "5", "memory": "0"},
            [],
            strategy("LeastAllocated", ("cpu", 3), ("memory", 1)),
            62,
            id="weights",
        ),
        pytest.param(
            {"cpu": "5", "memory": "1Gi"},
            [],
            strategy("MostAllocated", ("cpu", 1), ("memory", 1)),
            30,
            id="most allocated",
        ),
        pytest.param(
            {"cpu": "20", "memory": "0"},
            [],
            strategy("MostAllocated", ("cpu", 1), ("memory", 1)),
            50,
            id="overcommitted resources count as full",
        ),
        pytest.param(
            {"cpu": "5", GPU: "3"},
            [{GPU: "1"}],
            strategy("MostAllocated", ("cpu", 1), (GPU, 4)),
            90,
            id="extended resources",
        ),
        pytest.param(
            {"cpu": "5"},
            [{GPU: "4", "cpu": "0"}],
            strategy("MostAllocated", ("cpu", 1), (GPU, 4)),
            50,
            id="an extended resource that the pod does not request is left out with its weight",
        ),
        pytest.param(
            {"cpu": "5", FPGA: "1"},
            [],
            strategy("MostAllocated", ("cpu", 1), (FPGA, 4)),
            50,
            id="a resource that the node lacks is left out with its weight",
        ),
        pytest.param(
            {FPGA: "1"}, [], strategy("MostAllocated", (FPGA, 4)), 0, id="without scored resources the score is 0"
        ),
        pytest.param({}, [], strategy("LeastAllocated", ("pods", 1)), 0, id="the number of pods is not scored"),
        pytest.param(
            {"ephemeral-storage": "5Gi"},
            [{"ephemeral-storage": "1Gi"}],
            strategy("MostAllocated", ("ephemeral-storage", 1)),
            60,
            id="ephemeral storage",
        ),
        pytest.param(
            {"cpu": "5", "memory": "1Gi"},
            [],
            strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), shape=[(0, 0), (100, 10)]),
            30,
            id="a rising curve",
        ),
        pytest.param(
            {"cpu": "5", "memory": "0"},
            [],
            strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 3), shape=[(0, 0), (100, 10)]),
            50,
            id="a resource that scores 0 on the curve is left out with its weight",
        ),
        pytest.param(
            {"cpu": "5", "memory": "2560Mi"},
            [],
            strategy("RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), shape=[(0, 0), (100, 10)]),
            38,
            id="the mean on the curve is rounded",
        ),
        pytest.param(
            {"cpu": "20", "memory": "0"},
            [],
            strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(0, 10), (90, 4)]),
            40,
            id="overcommitted resources score the end of the curve",
        ),
        pytest.param(
            {"cpu": "1", "memory": "0"},
            [],
            strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(0, 0)]),
            0,
            id="a curve of zeros",
        ),
    ],
)
def test_a_node_scores_by_its_utilisation_with_the_pod(pod, pods, args, score):
    plugin = build(NodeResourcesFit, make_cache([small_node()], running(*pods)), args)
    assert scores(plugin, pending(requests=pod)) == {"node": score}


def test_scoring_ignores_pod_level_requests_of_the_pending_pod():
    plugin = build(NodeResourcesFit, make_cache([small_node()]))
    pod = pending(
        requests={"cpu": "1", "memory": "1Gi"}, spec={"resources": {"requests": {"cpu": "9", "memory": "9Gi"}}}
    )
    level_only = pending(spec={"resources": {"requests": {"cpu": "10", "memory": "10Gi"}}})
    assert scores(plugin, pod) == {"node": 90}
    assert scores(plugin, level_only) == {"node": 98}


@pytest.mark.parametrize(
    "memory, requested, score",
    [
        pytest.param("100Ti", "25Ti", 75, id="more than float64 can divide exactly"),
        pytest.param(
            "9007199254740993", "3873095679538627", 56, id="a quotient that float64 rounds up to the next whole number"
        ),
        pytest.param("8Ei", "1", 0, id="so much that 100 times it overflows int64"),
    ],
)
def test_nodes_of_any_size_score_in_whole_numbers(memory, requested, score):
    plugin = build(NodeResourcesFit, make_cache([small_node(memory=memory)]), strategy("LeastAllocated", ("memory", 1)))
    assert scores(plugin, pending(requests={"memory": requested})) == {"node": score}


@pytest.mark.parametrize(
    "shape, points",
    [
        pytest.param([(0, 0), (100, 10)], {0: 0, 33: 33, 100: 100}, id="a straight line"),
        pytest.param([(20, 2), (80, 8)], {0: 20, 20: 20, 50: 50, 81: 80, 100: 80}, id="flat before and after"),
        pytest.param([(0, 10), (70, 0)], {1: 99, 10: 86, 69: 2, 70: 0}, id="a fall is truncated towards its start"),
        pytest.param([(40, 5)], {0: 50, 100: 50}, id="one point"),
    ],
)
def test_a_curve_is_interpolated_linearly(shape, points):
    curve = curve_of([UtilizationShapePoint(u, s) for u, s in shape])
    assert len(curve) == 101
    assert {percent: curve[percent] for percent in points} == points


# All nodes at once

ARGS = st.sampled_from(
    [
        None,
        {"ignoredResources": [GPU], **strategy("MostAllocated")},
        strategy("LeastAllocated", ("cpu", 5), (GPU, 3), ("memory", 1), ("ephemeral-storage", 7)),
        strategy("MostAllocated", (GPU, 1), ("example.com/fpga", 2), ("pods", 3)),
        strategy("RequestedToCapacityRatio", ("cpu", 2), ("memory", 1), shape=[(0, 0), (100, 10)]),
        strategy("RequestedToCapacityRatio", (GPU, 2), ("cpu", 1), shape=[(10, 10), (90, 0)]),
    ]
)


def check_both(plugin, pod):
    verdicts(plugin, pod)
    raw_scores(plugin, pod)


@settings(max_examples=examples(30), deadline=None)
@given(args=ARGS, history=histories())
def test_vectorised_verdicts_and_scores_equal_per_node_ones_after_any_history(args, history):
    play(lambda cache: build(NodeResourcesFit, cache, args), history, check_both)


def test_verdicts_and_scores_are_correct_after_the_row_cache_evicted_arrays(monkeypatch):
    monkeypatch.setattr(row_cache, "MAX_ARRAYS", 3)
    cache = make_cache([make_node(f"n{i}") for i in range(4)])
    plugin = build(NodeResourcesFit, cache)
    pods = [pending(requests={"cpu": f"{i + 1}"}) for i in range(8)]
    for number, pod in enumerate(pods * 2):
        raw_scores(plugin, pod)
        verdicts(plugin, pod)
        cache.set_pod(parse_pod(make_pod(f"p{number}", node="n1", requests={"cpu": "100m"})))


def test_the_row_cache_is_rebuilt_after_more_changes_than_the_log_holds():
    cache = make_cache([make_node("n0"), make_node("n1")])
    plugin = build(NodeResourcesFit, cache)
    waiting = pending(requests={"cpu": "5"})
    check_both(plugin, waiting)
    cache.set_pod(parse_pod(make_pod("first", node="n1", requests={"cpu": "6"})))
    later = parse_pod(make_pod("later", node="n0", requests={"cpu": "1"}))
    for _ in range(5000):
        cache.set_pod(later)
        cache.remove_pod(later.uid)
    assert verdicts(plugin, waiting) == {"n0": "", "n1": "Insufficient cpu"}
    raw_scores(plugin, waiting)


_rare = st.dictionaries(st.sampled_from([GPU, FPGA, "cpu", "example.com/none"]), st.sampled_from(["1", "2", "3"]))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 99), _rare), max_size=6),
    st.lists(st.tuples(st.integers(0, 99), _rare), max_size=6),
    st.lists(_rare, min_size=1, max_size=4),
    st.booleans(),
)
def test_resources_that_few_nodes_offer_are_compared_as_on_one_node(offers, placed, wanted, oversized):
    """`filter_all` agrees with `filter`, in its masks and in its explanations."""
    offered = dict(offers)
    cache = make_cache(
        make_node(
            f"n{i}",
            allocatable={**ROOM, GPU: "0", **offered.get(i, {}), **({"memory": "8Ei"} if oversized and not i else {})},
        )
        for i in range(100)
    )
    plugin = build(NodeResourcesFit, cache)
    state = CycleState()
    for number, requests in enumerate(wanted):
        pod = parse_pod(make_pod(f"pending{number}", requests=requests))
        for placed_number, (node, more) in enumerate(placed[number::4]):
            cache.set_pod(parse_pod(make_pod(f"p{number}-{placed_number}", node=f"n{node}", requests=more)))
        result = plugin.filter_all(state, pod, cache.table)
        codes, statuses = result.explain()
        for slot in range(100):
            status = plugin.filter(state, pod, cache.node_at(slot))
            assert bool(result.ok[slot]) == (status is None)
            if status is not None:
                assert statuses[codes[slot]] == status


def test_a_pod_with_thousands_of_resources_of_few_nodes_needs_no_columns():
    names = [f"example.com/own-{i}" for i in range(2_000)]
    many = dict.fromkeys(names, "2")
    cache = make_cache([make_node("many", allocatable=many), *(make_node(f"n{i}") for i in range(100))])
    plugin = build(NodeResourcesFit, cache)
    fits = parse_pod(make_pod("fits", requests=dict.fromkeys(names, "2")))
    assert plugin.filter_all(CycleState(), fits, cache.table).ok.sum() == 1
    none = parse_pod(make_pod("none", requests={**dict.fromkeys(names, "1"), "example.com/unknown": "1"}))
    result = plugin.filter_all(CycleState(), none, cache.table)
    assert not result.ok.any()
    codes, statuses = result.explain()
    on_many = statuses[codes[cache.nodes["many"].slot]]
    assert on_many.reasons == ("Insufficient example.com/unknown",)
    assert len(statuses[codes[cache.nodes["n0"].slot]].reasons) == 2_001
