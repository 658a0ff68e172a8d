import pytest

from podwright.core.objects.node import parse_node
from support.objects.builders import make_node
from support.objects.devices import make_device, make_slice
from support.plugins.kit import make_cache

ZONE_A = {
    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
}


def cluster(*slices):
    cache = make_cache([make_node("n1", labels={"zone": "a"}), make_node("n2", labels={"zone": "b"})])
    for raw in slices:
        cache.set_object("ResourceSlice", raw)
    return cache


def seen(cache, node):
    """The pools that the node reaches: device names, or what is wrong."""
    cache.devices.index.refresh()
    pools = cache.devices.index.pools_of(cache.table.slot_of(node))
    return {
        pool.pool_id[1]: "incomplete" if pool.incomplete else pool.invalid or [i.device.name for i in pool.devices]
        for pool in pools
    }


def devices(*names, **fields):
    return [make_device(name, **fields) for name in names]


def test_a_node_reaches_its_own_slices_and_those_whose_selector_matches():
    cache = cluster(
        make_slice("own", devices("x"), node="n1"),
        make_slice("zonal", devices("y"), pool="fabric", **ZONE_A),
        make_slice("global", devices("z"), pool="all", allNodes=True),
    )
    assert seen(cache, "n1") == {"n1": ["x"], "fabric": ["y"], "all": ["z"]}
    assert seen(cache, "n2") == {"all": ["z"]}
    cache.set_node(parse_node(make_node("n2", labels={"zone": "a"})))
    assert seen(cache, "n2") == {"all": ["z"], "fabric": ["y"]}


def test_slices_of_a_pool_are_ordered_by_name_and_pools_with_binding_conditions_come_last():
    cache = cluster(
        make_slice("b", devices("second"), node="n1", count=2),
        make_slice("a", devices("first"), node="n1", count=2),
        make_slice("c", devices("waits", bindingConditions=["ready"]), node="n1", pool="aaa"),
    )
    cache.devices.index.refresh()
    pools = cache.devices.index.pools_of(cache.table.slot_of("n1"))
    assert [[item.device.name for item in pool.devices] for pool in pools] == [["first", "second"], ["waits"]]


@pytest.mark.parametrize(
    "slices, pool",
    [
        pytest.param([make_slice("a", devices("x"), node="n1", count=2)], "incomplete", id="a slice is missing"),
        pytest.param([make_slice("a", devices("x", "x"), node="n1")], "duplicate device name x", id="a name twice"),
        pytest.param(
            [make_slice("a", devices("x", consumesCounters=[{"counterSet": "s", "counters": {}}]), node="n1")],
            "counter set s not found",
            id="a set that does not exist",
        ),
        pytest.param(
            [
                make_slice("a", devices("old"), node="n1"),
                make_slice("b", devices("new"), node="n1", generation=2),
            ],
            ["new"],
            id="an older generation is ignored",
        ),
        pytest.param(
            [make_slice("a", devices("x"), node="n1", driver="")], None, id="a slice that cannot be understood"
        ),
    ],
)
def test_what_is_wrong_with_a_pool(slices, pool):
    found = seen(cluster(*slices), "n1")
    assert found.get("n1") == pool


def test_a_newer_generation_elsewhere_hides_a_pool_that_is_not_complete():
    cache = cluster(
        make_slice("a", devices("x"), pool="p", node="n1", count=2),
        make_slice("b", devices("y"), pool="p", node="n2", generation=2, count=1),
    )
    assert seen(cache, "n1") == {}
    assert seen(cache, "n2") == {"p": ["y"]}


def test_versions_rise_only_for_nodes_whose_devices_change():
    cache = cluster(make_slice("one", devices("x"), node="n1"), make_slice("two", devices("y"), node="n2"))
    index, table = cache.devices.index, cache.table
    index.refresh()
    before = index.versions.copy()
    cache.set_object("ResourceSlice", make_slice("two", devices("y", "z"), node="n2"))
    index.refresh()
    changed = {table.names[slot] for slot in range(table.size) if index.versions[slot] != before[slot]}
    assert changed == {"n2"}


def test_an_unreadable_device_is_left_out_and_named():
    raw = make_slice("a", [{"name": "good"}, {"name": "bad", "capacity": {"memory": {"value": "much"}}}], node="n1")
    cache = cluster(raw)
    assert seen(cache, "n1") == {"n1": ["good"]}


def test_everything_of_slices_that_are_gone_is_dropped():
    cache = cluster()
    index = cache.devices.index
    for i in range(300):
        cache.set_object(
            "ResourceSlice", make_slice(f"s{i}", devices("x", attributes={"i": i}), node="n1", pool=f"p{i}")
        )
    index.refresh()
    assert index.numbers.size >= 300
    for i in range(300):
        cache.remove_object("ResourceSlice", f"s{i}")
    assert seen(cache, "n1") == {}
    assert index.empty
    for i in range(300):
        cache.set_object(
            "ResourceSlice", make_slice(f"t{i}", devices("x", attributes={"i": -i}), node="n1", pool=f"p{i}")
        )
    index.refresh()
    assert index.numbers.size <= 301, "numbers are used again"
