"""Nodes as rows: all of them, then what has changed, in bounded steps."""

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.engine.process.steps import at_once
from podwright.engine.view import nodes as view
from podwright.engine.view.nodes import CORDONED, NOT_READY, TAINTED, node_changes
from support.objects.builders import make_node, make_pod
from support.steps import run_steps


def node(*arguments, **options):
    return parse_node(make_node(*arguments, **options))


def pod(*arguments, **options):
    return parse_pod(make_pod(*arguments, **options))


def cache_of(*names, **options):
    cache = Cache()
    for name in names:
        cache.set_node(node(name, **options))
    return cache


def test_all_nodes_come_first_with_what_their_pods_request():
    cache = cache_of(
        "a",
        "b",
        labels={"topology.kubernetes.io/zone": "z", "rack": "r"},
        allocatable={"cpu": "4", "memory": "1", "pods": "10"},
    )
    cache.assume(pod("p", requests={"cpu": "1"}), "b")
    found = at_once(node_changes(cache, None))
    assert found.complete
    assert found.position.resources == ("cpu", "memory", "pods")
    assert [(row.slot, row.name, row.zone, row.rack, row.allocatable) for row in found.rows] == [
        (0, "a", "z", "r", (4000, 1, 10)),
        (1, "b", "z", "r", (4000, 1, 10)),
    ]
    assert found.usage == [(0, (0, 0, 0)), (1, (1000, 0, 1))]


def test_then_only_what_has_changed():
    cache = cache_of("a", "b", "c")
    position = at_once(node_changes(cache, None)).position
    cache.assume(pod("p", requests={"cpu": "1"}), "b")
    cache.set_node(node("c", unschedulable=True))
    found = at_once(node_changes(cache, position))
    assert not found.complete
    assert [(row.name, row.flags) for row in found.rows] == [("c", CORDONED)]
    assert [slot for slot, _ in found.usage] == [2, 1]
    assert at_once(node_changes(cache, found.position)).rows == []


def test_a_node_that_is_gone_leaves_a_hole():
    cache = cache_of("a", "b")
    position = at_once(node_changes(cache, None)).position
    cache.remove_node("a")
    found = at_once(node_changes(cache, position))
    assert [(row.slot, row.name) for row in found.rows] == [(0, "")]
    assert found.usage == []


def test_a_reader_that_has_not_read_for_long_gets_all_nodes():
    cache = cache_of("a")
    position = at_once(node_changes(cache, None)).position
    for number in range(10_000):
        cache.set_node(node("a", labels={"n": str(number)}))
    assert at_once(node_changes(cache, position)).complete


def test_each_step_reads_few_nodes(monkeypatch):
    monkeypatch.setattr(view, "NODES_A_STEP", 10)
    cache = cache_of(*(f"n{number}" for number in range(95)))
    found, steps = run_steps(node_changes(cache, None))
    assert steps == 20  # ten for the resources, and ten for the rows
    assert len(found.rows) == 95


def test_nodes_may_come_and_go_between_two_steps(monkeypatch):
    monkeypatch.setattr(view, "NODES_A_STEP", 1)
    cache = cache_of("a", "b", "c")
    steps = node_changes(cache, None)
    next(steps)
    cache.remove_node("b")
    cache.set_node(node("d"))
    cache.set_node(node("e"))
    found = at_once(steps)
    assert [row.name for row in found.rows] == ["a", "d", "c", "e"]
    assert [row.name for row in at_once(node_changes(cache, found.position)).rows] == ["d", "e"]


def test_the_resources_that_most_nodes_have_are_shown():
    cache = cache_of("a", "b", allocatable={"cpu": "1", "example.com/common": "2", "hugepages-2Mi": "0"})
    cache.set_node(node("c", allocatable={f"example.com/x{number}": "1" for number in range(20)}))
    position = at_once(node_changes(cache, None)).position
    assert position.resources[:5] == ("cpu", "memory", "pods", "example.com/common", "example.com/x0")
    assert len(position.resources) == view.MOST_RESOURCES


def test_a_node_with_thousands_of_resources_costs_no_more_than_others():
    cache = cache_of("a", allocatable={f"example.com/x{number}": "1" for number in range(5000)})
    for number in range(30):
        cache.set_node(node(f"b{number}", allocatable={f"example.com/{number}-{each}": "1" for each in range(100)}))
    found = at_once(node_changes(cache, None))
    assert all(len(row.allocatable) == view.MOST_RESOURCES for row in found.rows)


def test_a_further_resource_is_noticed():
    cache = cache_of("a")
    position = at_once(node_changes(cache, None)).position
    cache.set_node(node("a", allocatable={"cpu": "1", "example.com/gpu": "1"}))
    assert at_once(node_changes(cache, position)).further_resources


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        pytest.param({}, 0, id="ready"),
        pytest.param({"unschedulable": True}, CORDONED, id="cordoned"),
        pytest.param(
            {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
            NOT_READY,
            id="not reachable",
        ),
        pytest.param({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, TAINTED, id="tainted"),
        pytest.param(
            {"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]}, 0, id="a taint that keeps nothing off"
        ),
    ],
)
def test_flags(options, flags):
    assert at_once(node_changes(cache_of("a", **options), None)).rows[0].flags == flags


def test_a_node_that_says_that_it_is_not_ready():
    cache = Cache()
    cache.set_node(
        parse_node({"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
    )
    assert at_once(node_changes(cache, None)).rows[0].flags == NOT_READY
