"""The cost of a decision in calls, passes over arrays and bytes. Unlike times, these do not vary between runs.

How many calls a decision makes changes with every refactoring, so they have one bound for all shapes of pods, and must
not grow with the nodes. Passes over arrays and their bytes are what costs in a large cluster: each shape has its own
bound.
"""

from dataclasses import dataclass
from functools import cache

import pytest
from benchmarks.core.decisions import ZONE, different, node, plain, preferred_affinity, required_anti_affinity, spread

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.framework import Framework
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.podindex.matches import MatchIndex
from podwright.simulator.world import World
from support.costs.operation_counts import Operations, count, count_passes

FEW, MANY = 250, 1000
MOST_CALLS, MOST_C_CALLS = 350, 280
"""Of Python and of C functions. The shapes below make 196 to 270, and 151 to 204, on Python 3.13."""


@dataclass(frozen=True)
class Bound:
    """Counts on Python 3.13. A pass more, and 3 bytes per node, are allowed: less than one more temporary array of
    int64.
    """

    passes: int
    bytes_per_node: int


def soft_spread(index, name):
    raw = spread(index, name)
    for constraint in raw["spec"]["topologySpreadConstraints"]:
        constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    return raw


SHAPES = [
    pytest.param(plain, plain, Bound(5, 2), id="plain pods of 20 templates"),
    pytest.param(plain, different, Bound(26, 27), id="plain pods that all differ"),
    pytest.param(plain, spread, Bound(6, 0), id="hard spread over zones and hosts"),
    pytest.param(plain, soft_spread, Bound(19, 34), id="soft spread over zones and hosts"),
    pytest.param(preferred_affinity, preferred_affinity, Bound(11, 25), id="preferred pod affinity"),
    pytest.param(plain, required_anti_affinity, Bound(12, 13), id="required pod anti-affinity"),
]


@cache
def counted(placed, pending, nodes) -> Operations:
    return count(placed, pending, nodes)


@pytest.mark.parametrize("placed, pending, bound", SHAPES)
def test_the_cost_of_a_decision_is_within_its_bounds(placed, pending, bound):
    found, larger = counted(placed, pending, FEW), counted(placed, pending, MANY)
    bytes_per_node = (larger.temporary_bytes - found.temporary_bytes) / (MANY - FEW)
    assert found.calls <= MOST_CALLS
    assert found.c_calls <= MOST_C_CALLS
    assert found.passes <= bound.passes + 1
    assert bytes_per_node <= bound.bytes_per_node + 3
    assert found.blocks <= 20


@pytest.mark.parametrize("placed, pending, bound", SHAPES)
def test_more_nodes_do_not_cause_more_calls(placed, pending, bound):
    few, many = counted(placed, pending, FEW), counted(placed, pending, MANY)
    assert many.calls == pytest.approx(few.calls, rel=0.03)
    assert many.c_calls == pytest.approx(few.c_calls, rel=0.03)
    assert many.passes == pytest.approx(few.passes, abs=1)


def flap(world, number):
    """A label of some node changes, and every other time also its zone."""
    raw = node(7 * number % MANY)
    raw["metadata"]["labels"] |= {"flaps": str(number)} | ({ZONE: f"zone-{number % 3}"} if number % 2 else {})
    world.cache.set_node(parse_node(raw))


@pytest.mark.parametrize("placed, pending, bound", [each for each in SHAPES if each.values[1] is not different])
def test_labels_that_change_before_each_decision_cause_no_passes(placed, pending, bound):
    assert count_passes(placed, pending, MANY, flap) <= bound.passes + 1


@pytest.mark.parametrize("pending", [spread, soft_spread, preferred_affinity, required_anti_affinity])
def test_the_first_pod_with_a_selector_takes_no_pass_over_placed_pods(pending, monkeypatch):
    """At a million placed pods that pass would take more than a second."""
    world = World()
    framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
    world.fill({"nodes": [node(i) for i in range(10)]})
    added, read = MatchIndex.pod_added, []
    monkeypatch.setattr(MatchIndex, "pod_added", lambda *args: read.append(args) or added(*args))
    for i in range(100):
        raw = plain(i, "placed")
        raw["spec"]["nodeName"] = f"node-{i % 10:05}"
        world.set_pod(raw)
    assert len(read) == 100
    assert isinstance(schedule(framework, world.cache, parse_pod(pending(0, "first")), lambda _: 0), Placement)
    assert len(read) == 100
