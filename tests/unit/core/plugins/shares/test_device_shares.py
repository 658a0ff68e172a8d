"""DeviceShares: a share lies on one device, and nodes are scored by what is left of devices."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.framework.args import ArgsError, decode_args
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.shares.device_shares import DeviceShares, DeviceSharesArgs
from podwright.core.plugins.shares.fragments import LEFT_COUNTS
from podwright.core.plugins.shares.kinds import SharedDevices
from podwright.core.state.cache import Cache
from support.objects.builders import make_node, make_pod
from support.objects.devices import allocated, claiming, exactly, make_claim, make_device, make_slice
from support.plugins.devices import add, cluster
from support.plugins.kit import build, make_cache, pending, raw_scores, scores, verdicts
from support.properties import examples

GPU = "example.com/gpu-milli"
SHARED = [{"resource": GPU, "unitsPerDevice": 1000}]
FRAGMENTS = {"devices": SHARED, "scoring": {"type": "LeastFragmentation"}}


def node(name, gpus=2, cpu=8):
    return make_node(name, allocatable={"cpu": str(cpu), "memory": "64Gi", "pods": "110", GPU: str(gpus * 1000)})


def placed(name, on, milli, cpu=1):
    return make_pod(name, node=on, requests={"cpu": str(cpu), GPU: str(milli)})


def asking(milli, cpu=1, name="p"):
    requests = {"cpu": str(cpu)} | ({GPU: str(milli)} if milli else {})
    return pending(name=name, requests=requests)


def plugin(nodes, pods=(), args=None):
    return build(DeviceShares, make_cache(nodes, pods), args or {"devices": SHARED})


# Filter


@pytest.mark.parametrize(
    ("milli", "fits"),
    [(400, True), (500, False), (800, False), (1001, False), (0, True)],
    ids=["fits on one", "only on both together", "uses both up", "needs two whole ones", "asks for nothing"],
)
def test_a_share_must_be_free_on_one_device(milli, fits):
    found = verdicts(plugin([node("a")], [placed("x", "a", 600), placed("y", "a", 600)]), asking(milli))
    assert found == {"a": "" if fits else f"Insufficient {GPU} on single devices"}


def test_shares_are_packed_on_the_fullest_device_that_has_room():
    pods = [placed(f"x{i}", "a", milli) for i, milli in enumerate((600, 300, 100))]
    assert verdicts(plugin([node("a")], pods), asking(1000)) == {"a": ""}


def test_victims_cannot_help_where_devices_are_too_few():
    made = plugin([node("a", gpus=1), node("b")], [placed("x", "b", 100)])
    state_of = {name: made.filter(None, asking(2000), made.handle.cache.nodes[name]) for name in "ab"}
    assert state_of["a"].code.name == "UNSCHEDULABLE_AND_UNRESOLVABLE"
    assert state_of["b"].code.name == "UNSCHEDULABLE"
    verdicts(made, asking(2000))


def test_a_pod_that_another_scheduler_put_beside_others_takes_what_is_left():
    pods = [placed("x", "a", 700), placed("y", "a", 700), placed("z", "a", 500)]
    made = plugin([node("a")], pods)
    assert verdicts(made, asking(100)) == {"a": ""}
    assert verdicts(made, asking(101))["a"]


def test_of_a_node_with_very_many_devices_only_the_sum_counts():
    assert verdicts(plugin([node("a", gpus=65)]), asking(500)) == {"a": ""}


# Scores


def test_best_fit_prefers_the_node_with_least_left():
    nodes = [node("large", gpus=8), node("small", gpus=2), node("cpu", gpus=2, cpu=16)]
    found = scores(plugin(nodes, args={"devices": SHARED, "scoring": {"type": "BestFit"}}), asking(500))
    assert found["small"] == 100
    assert found["cpu"] < 100 > found["large"]


def test_a_share_goes_where_it_leaves_nothing_that_typical_pods_cannot_use():
    """Half of the pods that run have 700, the others 300: a share of 300 belongs beside one of 700."""
    nodes = [node("a", gpus=1), node("b", gpus=1), node("c", gpus=1), node("d", gpus=1)]
    pods = [placed("x", "a", 700), placed("y", "b", 300), placed("z", "d", 300), placed("z2", "d", 700)]
    for milli, best in ((300, "a"), (700, "b")):
        found = scores(plugin(nodes, pods, FRAGMENTS), asking(milli))
        assert max(found, key=found.get) == best


def test_the_workload_may_be_given():
    """Both nodes have the same left. Who comes decides whether the whole GPU or the half one is spared."""
    nodes, pods = [node("half", gpus=1), node("whole", gpus=1)], [placed("x", "half", 500)]

    def best(*typical):
        workload = [{"requests": {"cpu": 1, GPU: milli}, "weight": weight} for milli, weight in typical]
        scoring = {"type": "LeastFragmentation", "workload": workload}
        found = scores(plugin(nodes, pods, {"devices": SHARED, "scoring": scoring}), asking(100))
        return max(found, key=found.get)

    assert best((1000, 9), (500, 1)) == "half"
    assert best((1000, 1), (500, 9)) == "whole"


def test_pods_that_use_up_the_cpu_make_fragments_of_the_free_devices():
    pods = [placed(f"x{i}", "other", 1000, cpu=4) for i in range(2)]
    nodes = [node("few-cpus", gpus=2, cpu=5), node("other", gpus=2, cpu=8), node("many-cpus", gpus=2, cpu=20)]
    found = scores(plugin(nodes, pods, FRAGMENTS), asking(0, cpu=3))
    assert found["many-cpus"] > found["few-cpus"]


def test_no_difference_is_lost_among_larger_ones():
    nodes = [node(f"n{i:03}", gpus=8, cpu=8 + i) for i in range(200)] + [node("huge", gpus=64, cpu=900)]
    found = scores(plugin(nodes, args={"devices": SHARED, "scoring": {"type": "BestFit"}}), asking(500))
    assert [name for name, score in found.items() if score == 100] == ["n000"]


def test_only_nodes_that_changed_are_read_again(monkeypatch):
    cache = make_cache([node(f"n{i}") for i in range(50)])
    made = build(DeviceShares, cache, FRAGMENTS)
    scores(made, asking(500))
    read, devices = [], SharedDevices.devices
    monkeypatch.setattr(SharedDevices, "devices", lambda *args: read.append(args[1].name) or devices(*args))
    cache.set_pod(parse_pod(placed("x", "n7", 500)))
    scores(made, asking(500))
    assert read == ["n7"]


def fragments_of(free, cpu, memory, workload):
    """The fragments of a node, in devices, as the paper defines them."""
    total = 0.0
    for (need_cpu, need_memory, count, share), weight in workload.items():
        room = [each for each in free if each >= share]
        fits = cpu >= need_cpu and memory >= need_memory and len(room) >= count
        total += weight * (sum(free) - sum(room) if fits else sum(free))
    return total / 1000 / sum(workload.values())


def expected(cache, pod):
    """By node: the growth of its fragments and what is left, in millionths of a device; None where it does not fit."""
    kind = SharedDevices(GPU, 1000)

    def demand(each):
        return (each.requests.amounts["cpu"], each.requests.amounts.get("memory", 0), *kind.ask(each, cache))

    workload = {}
    for info in cache.nodes.values():
        for each in info.pods.values():
            if kind.ask(each, cache).devices:
                workload[demand(each)] = workload.get(demand(each), 0) + 1
    most_cpu = max(info.allocatable("cpu") for info in cache.nodes.values())
    most_gpus = max(info.allocatable(GPU) for info in cache.nodes.values())
    cpu, memory, count, share = demand(pod)
    found = {}
    for name, info in cache.nodes.items():
        free = sorted(each.free for each in kind.devices(info, cache))
        left = [info.allocatable(each) - info.requested[each] for each in ("cpu", "memory")]
        room = [i for i, each in enumerate(free) if each >= share][:count]
        if left[0] < cpu or left[1] < memory or len(room) < count:
            found[name] = None
            continue
        after = [each - share * (i in room) for i, each in enumerate(free)]
        growth = 0.0
        if workload:
            growth = fragments_of(after, left[0] - cpu, left[1] - memory, workload)
            growth -= fragments_of(free, *left, workload)
        found[name] = growth + LEFT_COUNTS * ((left[0] - cpu) / most_cpu + sum(after) / (most_gpus or 1))
    return found


amounts = st.sampled_from([100, 250, 300, 500, 700, 1000, 2000])


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(2, 12)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), amounts, st.integers(1, 3)), max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 11)), max_size=4),
)
@settings(deadline=None, max_examples=examples(60))
def test_scores_are_those_of_the_definition_after_any_history(nodes, pods, later):
    cache = make_cache([node(f"n{i}", gpus, cpu) for i, (gpus, cpu) in enumerate(nodes)])
    made = build(DeviceShares, cache, FRAGMENTS)
    for i, (where, milli, cpu) in enumerate(pods):
        if f"n{where}" in cache.nodes:
            cache.set_pod(parse_pod(placed(f"x{i}", f"n{where}", milli, cpu)))
            verdicts(made, asking(milli))
    for where, gone in later:
        raw_scores(made, asking(300))
        cache.remove_pod(f"default/x{gone}")
        cache.set_node(parse_node(node(f"n{where}", 3)))
    fresh = build(DeviceShares, copy_of(cache), FRAGMENTS)
    for milli in (0, 100, 500, 1000, 2000):
        assert verdicts(made, asking(milli)) == verdicts(fresh, asking(milli))
        found = raw_scores(fresh, asking(milli))
        for name, growth in expected(fresh.handle.cache, asking(milli)).items():
            if growth is not None:
                assert found[name] == pytest.approx(-growth * 1e6, abs=2)
            else:
                assert found[name] < -1e9


def copy_of(cache):
    """A cache with the same nodes and pods, in the same order, that nobody has asked yet."""
    made = Cache()
    for info in cache.nodes.values():
        made.set_node(info.node)
        for pod in info.pods.values():
            made.set_pod(pod)
    return made


# Devices that claims share

CLAIMED = [{"deviceClass": "gpu", "driver": "gpu.example.com", "capacity": "memory"}]


def shared(name):
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    capacity = {"memory": {"value": "48Gi", "requestPolicy": policy}}
    return make_slice(
        f"{name}-gpus", [make_device("gpu-0", capacity=capacity, allowMultipleAllocations=True)], node=name
    )


def consuming(gigabytes):
    return exactly(capacity={"requests": {"memory": f"{gigabytes}Gi"}})


def test_shares_that_claims_have_count_on_their_devices():
    """The share of 20 GB leaves nothing beside one of 28, and much of an empty device."""
    cache = cluster(shared("a"), shared("b"), make_claim("x", consuming(28)), make_claim("p", consuming(20)))
    made = build(DeviceShares, cache, {"devices": CLAIMED, "scoring": {"type": "LeastFragmentation"}})
    pod = pending(name="p", requests={"cpu": "1"}, spec=claiming("p"))
    before = raw_scores(made, pod)
    assert before["a"] == before["b"] > -1e9
    consumed = {"shareID": "1", "consumedCapacity": {"memory": "28Gi"}}
    add(cache, make_claim("x", consuming(28), status=allocated("gpu-0", node="b", reserved_for=("x",), **consumed)))
    cache.set_pod(parse_pod(make_pod("x", node="b", requests={"cpu": "1"}, spec=claiming("x"))))
    found = raw_scores(made, pod)
    assert found["b"] > found["a"]
    large = pending(name="x", requests={"cpu": "1"}, spec=claiming("x"))
    assert raw_scores(made, large)["b"] < -1e9, "two shares of 28 GB do not fit on 48"
    assert made.pre_filter(None, pod).code.name == "SKIP", "DynamicResources filters"


def test_a_claim_for_a_whole_device_needs_one_without_shares():
    cache = cluster(shared("a"), shared("b"), make_claim("x", consuming(1)), make_claim("p", exactly()))
    consumed = {"shareID": "1", "consumedCapacity": {"memory": "1Gi"}}
    add(cache, make_claim("x", consuming(1), status=allocated("gpu-0", node="b", reserved_for=("x",), **consumed)))
    made = build(DeviceShares, cache, {"devices": CLAIMED, "scoring": {"type": "BestFit"}})
    found = raw_scores(made, pending(name="p", requests={"cpu": "1"}, spec=claiming("p")))
    assert found["b"] < -1e9 < found["a"]


# Arguments


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"devices": [{"unitsPerDevice": 2}]}, "either a resource or a device class is required"),
        ({"devices": [{"resource": GPU, "deviceClass": "gpu"}]}, "either a resource or a device class is required"),
        ({"devices": [{"deviceClass": "gpu", "driver": "d"}]}, "driver and capacity are required with a device class"),
        ({"devices": [{"resource": "cpu"}]}, "devices[0].resource: must be an extended resource"),
        ({"devices": [{"resource": GPU, "unitsPerDevice": 0}]}, "unitsPerDevice"),
        ({"scoring": {"workload": [{"requests": {"cpu": "much"}}]}}, "scoring.workload[0].requests"),
    ],
)
def test_wrong_arguments_are_named(args, problem):
    with pytest.raises(ArgsError) as raised:
        decode_args(DeviceSharesArgs, args, "args")
    assert problem in str(raised.value)
