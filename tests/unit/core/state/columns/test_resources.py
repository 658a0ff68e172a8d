import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.objects.compaction import compact_all
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.core.state.columns import NodeTable
from podwright.core.state.columns.resources import ResourceColumns, few
from support.objects.builders import make_node, make_pod
from support.properties import examples
from support.state.allocations import bytes_left_by

NODES = 1_000
NAMES = 2_000
COLUMN = 8 * NODES


def table_of(nodes, **allocatable):
    table = NodeTable()
    for number in range(nodes):
        table.add(parse_node(make_node(f"n{number}", allocatable=allocatable)))
    return table


def own_names(node, count=NAMES):
    return {f"example.com/{node}-{number}": "1" for number in range(count)}


def test_a_resource_that_no_node_offers_has_amounts_of_zero():
    table = table_of(2, gpu="2")
    assert not table.offers("example.com/none")
    assert list(table.allocatable("example.com/none")) == list(table.requested("example.com/none")) == [0, 0]
    assert list(table.few_offering("example.com/none")) == []


@pytest.mark.parametrize(
    "nodes", [pytest.param(3, id="few nodes offer it"), pytest.param(few(64) + 1, id="many nodes offer it")]
)
def test_a_resource_is_offered_by_the_nodes_that_have_some_of_it(nodes):
    table = table_of(nodes, **{"example.com/gpu": "2"})
    table.add(parse_node(make_node("none", allocatable={"example.com/gpu": "0"})))
    assert table.offers("example.com/gpu")
    assert list(table.allocatable("example.com/gpu")) == [2] * nodes + [0]
    slots = table.few_offering("example.com/gpu")
    assert (slots is None) if nodes > few(64) else (list(slots) == list(range(nodes)))


@pytest.mark.parametrize("offering", [1, 40], ids=["alone", "with forty others"])
def test_a_node_that_begins_to_offer_a_resource_counts_the_pods_it_has(offering):
    cache = Cache()
    for number in range(offering):
        cache.set_node(parse_node(make_node(f"n{number}", allocatable={"example.com/gpu": "4"} if number else {})))
    for name in ("p", "q"):
        cache.set_pod(parse_pod(make_pod(name, node="n0", requests={"example.com/gpu": "1"})))
    cache.remove_pod("default/q")
    assert cache.nodes["n0"].requested["example.com/gpu"] == 1
    cache.set_node(parse_node(make_node("n0", allocatable={"example.com/gpu": "3"})))
    slot = cache.nodes["n0"].slot
    assert (cache.table.allocatable("example.com/gpu")[slot], cache.table.requested("example.com/gpu")[slot]) == (3, 1)
    cache.set_pod(parse_pod(make_pod("r", node="n0", requests={"example.com/gpu": "2"})))
    assert cache.table.requested("example.com/gpu")[slot] == 3


def test_what_pods_request_and_no_node_offers_takes_no_columns_and_goes_with_the_pods():
    cache = Cache()
    for number in range(NODES):
        cache.set_node(parse_node(make_node(f"n{number}")))
    pods = [parse_pod(make_pod(f"p{number}", node=f"n{number}", requests=own_names(number))) for number in range(3)]

    def come():
        for pod in pods:
            cache.set_pod(pod)

    def come_and_go():
        come()
        for pod in pods:
            cache.remove_pod(pod.uid)
        compact_all()

    come_and_go()
    assert bytes_left_by(come_and_go) < 2 * COLUMN
    assert bytes_left_by(come) < 3 * NAMES * 256
    assert {name for info in cache.nodes.values() for name in info.requested if "/" in name} == {
        name for number in range(3) for name in own_names(number)
    }


def test_resources_of_few_nodes_take_memory_for_these_nodes_only_until_they_go():
    table = table_of(NODES)
    loaded = [parse_node(make_node(f"n{number}", allocatable=own_names("shared"))) for number in range(3)]
    plain = [parse_node(make_node(f"n{number}")) for number in range(3)]

    def come():
        for slot, node in enumerate(loaded):
            table.update(slot, node)

    def go():
        for slot, node in enumerate(plain):
            table.update(slot, node)

    assert bytes_left_by(come) < NAMES * (3 * 128 + 256) < NAMES * COLUMN / 10
    # Less than a reference for each name: other threads of the process allocate some bytes, too.
    assert bytes_left_by(lambda: (go(), come(), go(), compact_all())) < NAMES * 8
    assert table.few_offering("example.com/shared-7") == set()


def test_columns_of_a_resource_go_when_few_nodes_offer_it():
    columns = ResourceColumns(64)
    for slot in range(64):
        columns.add_row(64)
        columns.set_node(slot, {"gpu": slot + 1}, {})
    assert columns.few_offering("gpu") is None
    for slot in range(63, few(64) // 2 - 1, -1):
        columns.clear_node(slot)
    assert set(columns.few_offering("gpu")) == set(range(few(64) // 2))
    assert list(columns.allocatable("gpu"))[:5] == [1, 2, 3, 4, 0]


_NAMES = ["cpu", "example.com/a", "example.com/b", "hugepages-2Mi"]
_amounts = st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(["0", "1", "2", "7"]))
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.integers(0, 29), _amounts),
        st.tuples(st.just("nodes"), st.integers(0, 80), _amounts),
        st.tuples(st.just("no node"), st.integers(0, 29), st.none()),
        st.tuples(st.just("pod"), st.integers(0, 29), _amounts),
        st.tuples(st.just("no pod"), st.integers(0, 29), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=examples(100), deadline=None)
@given(_steps)
def test_columns_equal_the_sums_over_nodes_and_pods(steps):
    cache = Cache()
    for what, number, amounts in steps:
        if what == "node":
            cache.set_node(parse_node(make_node(f"n{number}", allocatable=amounts)))
        elif what == "nodes":
            for i in range(number):
                cache.set_node(parse_node(make_node(f"n{i}", allocatable=amounts)))
        elif what == "no node":
            cache.remove_node(f"n{number}")
        elif what == "pod":
            cache.set_pod(parse_pod(make_pod(f"p{number}", node=f"n{number % 7}", requests=amounts)))
        else:
            cache.remove_pod(f"default/p{number}")
    table = cache.table
    for name in _NAMES:
        offered = [0 if node is None else node.allocatable.get(name, 0) for node in table.nodes]
        assert list(table.allocatable(name)) == offered
        assert table.offers(name) == any(offered)
        requested = table.requested(name)
        for slot, node in enumerate(table.nodes):
            if node is None:
                assert requested[slot] == 0
            elif offered[slot] or requested[slot]:
                pods = cache.node_at(slot).pods.values()
                assert requested[slot] == sum(pod.requests.amounts.get(name, 0) for pod in pods)
