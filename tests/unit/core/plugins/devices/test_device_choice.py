"""Which devices pods get, and which nodes score best, where the policy chooses."""

import builtins

import pytest

from podwright.core.devices import measures
from podwright.core.framework.args import ArgsError
from podwright.core.objects.node import parse_node
from podwright.core.plugins.devices.dynamic_resources import DynamicResources
from support.objects.builders import make_node
from support.objects.devices import (
    allocated,
    claiming,
    exactly,
    first_available,
    make_claim,
    make_device,
    make_slice,
    selector,
)
from support.plugins.devices import add, cluster, devices_of, scores_of
from support.plugins.kit import build, pending

AT_LEAST_40 = selector('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0')


def gpu(name, memory, **fields):
    return make_device(name, capacity={"memory": f"{memory}Gi"}, **fields)


def board(number, **fields):
    """The partitions of a board, and its counters: one that takes all, two halves, four quarters."""
    name, devices = f"board-{number}", []
    for memory, count in ((80, 1), (40, 2), (20, 4)):
        for i in range(count):
            taken = {"memory": {"value": f"{memory}Gi"}}
            consumes = [{"counterSet": name, "counters": taken}]
            devices.append(gpu(f"b{number}-{memory}-{i}", memory, consumesCounters=consumes, **fields))
    return devices, {"name": name, "counters": {"memory": {"value": "80Gi"}}}


def boards(node, count=2):
    found = [board(number) for number in range(count)]
    devices = [device for own, _ in found for device in own]
    yield make_slice(f"{node}-devices", devices, node=node, count=2)
    yield make_slice(f"{node}-counters", node=node, count=2, sharedCounters=[counters for _, counters in found])


def shared(node, count=2):
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    capacity = {"memory": {"value": "48Gi", "requestPolicy": policy}}
    devices = [make_device(f"s{i}", capacity=capacity, allowMultipleAllocations=True) for i in range(count)]
    return make_slice(f"{node}-shared", devices, node=node)


def share(gigabytes):
    return exactly(capacity={"requests": {"memory": f"{gigabytes}Gi"}})


def share_of(name, device, gigabytes, node="a"):
    number = f"00000000-0000-4000-8000-{len(name):012}"
    status = allocated(device, node=node, shareID=number, consumedCapacity={"memory": f"{gigabytes}Gi"})
    return make_claim(name, share(gigabytes), status=status)


def choosing(cache, allocation="FirstFit", scoring="Default"):
    return build(DynamicResources, cache, {"allocation": allocation, "scoring": scoring})


def given(cache, allocation, *claims, node="a"):
    """The devices of these claims on the node."""
    for claim in claims:
        add(cache, claim)
    pod = pending(spec=claiming(*(claim["metadata"]["name"] for claim in claims)))
    return devices_of(choosing(cache, allocation), pod, node)


MIXED = make_slice("a-gpus", [gpu("big", 80), gpu("small", 24), gpu("middle", 40), gpu("last", 40)], node="a")


@pytest.mark.parametrize(
    ("allocation", "expected"),
    [("FirstFit", ["big"]), ("BestFit", ["middle"]), ("Spread", ["middle"])],
)
def test_no_80_gb_device_is_taken_where_40_gb_do(allocation, expected):
    cache = cluster(MIXED)
    assert given(cache, allocation, make_claim("mine", exactly(selectors=[AT_LEAST_40]))) == {"mine": expected}


def test_several_devices_are_the_smallest_ones():
    assert given(cluster(MIXED), "BestFit", make_claim("mine", exactly(count=3))) == {
        "mine": ["small", "middle", "last"]
    }


def test_best_fit_backtracks_to_a_larger_device():
    """The smallest device for the first request is the only one for the second."""
    only = exactly("only", selectors=[selector('device.attributes["gpu.example.com"].index == 1')])
    devices = [gpu("large", 80, attributes={"index": 0}), gpu("small", 40, attributes={"index": 1})]
    cache = cluster(make_slice("a-gpus", devices, node="a"))
    assert given(cache, "BestFit", make_claim("mine", exactly("any"), only)) == {"mine": ["large", "small"]}


@pytest.mark.parametrize(
    ("allocation", "expected"),
    [("FirstFit", "b0-80-0"), ("BestFit", "b1-40-1"), ("Spread", "b0-40-0")],
)
def test_a_partition_is_on_the_board_that_has_least_or_most_left(allocation, expected):
    cache = cluster(*boards("a"), make_claim("other", exactly(), status=allocated("b1-40-0", node="a")))
    half = exactly(selectors=[AT_LEAST_40])
    assert given(cache, allocation, make_claim("mine", half)) == {"mine": [expected]}


def test_best_fit_takes_the_smallest_partition_and_not_the_whole_board():
    assert given(cluster(*boards("a")), "FirstFit", make_claim("mine", exactly())) == {"mine": ["b0-80-0"]}
    assert given(cluster(*boards("a")), "BestFit", make_claim("mine", exactly())) == {"mine": ["b0-20-0"]}


@pytest.mark.parametrize(("allocation", "expected"), [("FirstFit", "s0"), ("BestFit", "s1"), ("Spread", "s2")])
def test_a_share_is_of_the_device_that_has_least_or_most_left(allocation, expected):
    cache = cluster(shared("a", 3), share_of("one", "s0", 10), share_of("two", "s1", 30))
    assert given(cache, allocation, make_claim("mine", share(16))) == {"mine": [expected]}


def test_a_share_that_does_not_fit_best_goes_to_the_next_device():
    cache = cluster(shared("a", 3), share_of("one", "s0", 10), share_of("two", "s1", 40))
    assert given(cache, "BestFit", make_claim("mine", share(16))) == {"mine": ["s0"]}


def test_pools_with_binding_conditions_stay_last():
    waiting = gpu("attached", 40, bindingConditions=["c"], bindingFailureConditions=["f"])
    cache = cluster(
        make_slice("a-gpus", [gpu("big", 80)], node="a", pool="z"), make_slice("a-far", [waiting], node="a", pool="b")
    )
    assert given(cache, "BestFit", make_claim("mine", exactly())) == {"mine": ["big"]}


# Nodes


def normalised(cache, scoring, claim, allocation="BestFit"):
    add(cache, claim)
    return scores_of(choosing(cache, allocation, scoring), pending(spec=claiming(claim["metadata"]["name"])))


def two_kinds():
    large = [gpu(f"l{i}", 80) for i in range(2)]
    small = [gpu(f"s{i}", 40) for i in range(2)]
    return cluster(make_slice("a-gpus", large, node="a"), make_slice("b-gpus", small, node="b"))


def test_scores_are_kube_schedulers_by_default():
    assert normalised(two_kinds(), "Default", make_claim("mine", exactly())) == {"a": 0, "b": 0}


def test_best_fit_prefers_the_node_with_the_smallest_devices():
    found = normalised(two_kinds(), "BestFit", make_claim("mine", exactly()))
    assert found["b"] > found["a"]


def test_best_fit_prefers_smaller_devices_on_an_empty_node_to_larger_ones_on_a_full_one():
    cache = two_kinds()
    add(cache, make_claim("other", exactly(), status=allocated("l0", node="a")))
    found = normalised(cache, "BestFit", make_claim("mine", exactly()))
    assert found["b"] > found["a"]


def test_sizes_that_hardly_differ_count_as_equal():
    cache = cluster(
        make_slice("a-gpus", [gpu("a0", 80), gpu("a1", 80)], node="a"),
        make_slice("b-gpus", [make_device(f"b{i}", capacity={"memory": "81559Mi"}) for i in range(2)], node="b"),
    )
    add(cache, make_claim("other", exactly(), status=allocated("a0", node="a")))
    found = normalised(cache, "BestFit", make_claim("mine", exactly()))
    assert found["a"] > found["b"], "the fuller node"


def test_best_fit_opens_no_board_where_one_is_open():
    cache = cluster(*boards("a", 1), *boards("b", 1))
    add(cache, make_claim("other", exactly(), status=allocated("b0-20-0", node="b")))
    found = normalised(cache, "BestFit", make_claim("mine", exactly()))
    assert found["b"] > found["a"]


@pytest.mark.parametrize(("scoring", "best"), [("MostAllocated", "b"), ("LeastAllocated", "a")])
def test_nodes_are_packed_or_spread_by_devices_in_use(scoring, best):
    cache = two_kinds()
    add(cache, make_claim("other", exactly(), status=allocated("s0", node="b")))
    found = normalised(cache, scoring, make_claim("mine", exactly()))
    assert found == ({"a": 50, "b": 100} if scoring == "MostAllocated" else {"a": 50, "b": 0})
    assert max(found, key=found.get) == best


def test_shares_and_boards_count_by_what_is_consumed():
    cache = cluster(shared("a"), shared("b"), share_of("one", "s0", 24, node="b"))
    assert normalised(cache, "MostAllocated", make_claim("mine", share(24))) == {"a": 25, "b": 50}
    cache = cluster(*boards("a", 1), *boards("b", 2))
    assert normalised(cache, "MostAllocated", make_claim("mine", exactly())) == {"a": 25, "b": 12}


def test_preferred_alternatives_count_before_the_fit():
    """Node b has the smaller device, but only for the second alternative."""
    large = exactly("large", selectors=[selector('device.capacity["gpu.example.com"].memory == quantity("80Gi")')])
    cache = two_kinds()
    claim = make_claim("mine", first_available("r", large, exactly("any")))
    found = normalised(cache, "BestFit", claim)
    assert found["a"] > found["b"]
    assert normalised(cache, "BestFit", make_claim("alike", first_available("r", exactly("any"))))["b"] > 50


def test_claims_that_are_allocated_already_make_no_difference():
    cache = two_kinds()
    mine = make_claim("mine", exactly(), status=allocated("s0", node="b"))
    assert normalised(cache, "BestFit", mine) == {"b": 0}


def test_scores_follow_what_other_pods_take():
    cache = two_kinds()
    add(cache, make_claim("mine", exactly()))
    plugin, pod = choosing(cache, "BestFit", "LeastAllocated"), pending(spec=claiming("mine"))
    assert scores_of(plugin, pod) == {"a": 50, "b": 50}
    add(cache, make_claim("other", exactly(), status=allocated("s0", node="b")))
    assert scores_of(plugin, pod) == {"a": 50, "b": 0}
    cache.remove_object("ResourceClaim", "other", "default")
    assert scores_of(plugin, pod) == {"a": 50, "b": 50}


def test_two_policies_choose_for_one_template():
    cache = cluster(MIXED)
    claim = make_claim("mine", exactly(selectors=[AT_LEAST_40]))
    assert given(cache, "FirstFit", claim) == {"mine": ["big"]}
    assert given(cache, "BestFit", claim) == {"mine": ["middle"]}
    assert given(cache, "FirstFit", claim) == {"mine": ["big"]}


@pytest.mark.parametrize("scoring", ["BestFit", "MostAllocated", "LeastAllocated"])
def test_capacities_of_nothing_and_below_nothing_do_no_harm(scoring):
    odd = [
        make_device("none"),
        make_device("zero", capacity={"memory": "0"}),
        make_device("less", capacity={"m": "-1"}),
    ]
    counters = [{"name": "c", "counters": {"x": {"value": "0"}}}]
    empty = make_device("part", consumesCounters=[{"counterSet": "c", "counters": {"x": {"value": "0"}}}])
    cache = cluster(
        make_slice("a-gpus", odd, node="a"),
        make_slice("b-gpus", [empty], node="b", count=2),
        make_slice("b-counters", node="b", count=2, sharedCounters=counters),
    )
    found = normalised(cache, scoring, make_claim("mine", exactly()))
    assert all(0 <= score <= 100 for score in found.values())


def test_a_node_that_is_added_gets_a_score():
    cache = two_kinds()
    add(cache, make_claim("mine", exactly()))
    plugin, pod = choosing(cache, "BestFit", "BestFit"), pending(spec=claiming("mine"))
    scores_of(plugin, pod)
    cache.set_node(parse_node(make_node("c")))
    add(cache, make_slice("c-gpus", [gpu("tiny", 10)], node="c"))
    found = scores_of(plugin, pod)
    assert found["c"] > found["b"] > found["a"]


def far(count):
    """Devices that all nodes reach, the largest first."""
    return make_slice("far", [gpu(f"d{i:03}", 1000 - i) for i in range(count)], pool="far", allNodes=True)


def test_devices_that_many_nodes_reach_are_ordered_once(monkeypatch):
    ordered = []

    def counting(items, key=None):
        ordered.extend([True] if key else [])
        return builtins.sorted(items, key=key)

    monkeypatch.setattr(measures, "sorted", counting, raising=False)
    names = [f"n{i}" for i in range(30)]
    cache = cluster(far(40), nodes=names)
    add(cache, make_claim("mine", exactly()))
    plugin, pod = choosing(cache, "BestFit", "BestFit"), pending(spec=claiming("mine"))
    assert set(scores_of(plugin, pod)) == {*names}
    assert len(ordered) == 1
    assert devices_of(plugin, pod, "n0") == {"mine": ["d039"]}
    add(cache, make_claim("other", exactly(), status=allocated("d039", pool="far")))
    assert devices_of(plugin, pod, "n0") == {"mine": ["d038"]}


def test_more_devices_than_a_node_has_keep_their_order():
    count = measures.MAX_ORDERED + 1
    assert given(cluster(far(count)), "BestFit", make_claim("mine", exactly())) == {"mine": ["d000"]}
    assert given(cluster(far(count - 1)), "BestFit", make_claim("mine", exactly())) == {"mine": ["d511"]}


def test_a_choice_that_does_not_exist_is_refused():
    with pytest.raises(ArgsError, match=r"args.allocation: 'WorstFit' is not one of FirstFit, BestFit, Spread"):
        choosing(cluster(), "WorstFit")
