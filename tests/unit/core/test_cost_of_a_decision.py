"""The cost of a decision in calls, passes over arrays and bytes. Unlike times, these do not vary between runs.

A bound is the count at the time when it was set. Counts may exceed it by SLACK. Lower a bound when decisions become cheaper, and give
the reason when you raise one.
"""

from dataclasses import dataclass
from functools import cache

import pytest
from benchmarks.core.decisions import different, plain, preferred_affinity, required_anti_affinity, spread

from support.costs.operation_counts import Operations, count

FEW, MANY = 250, 1000
SLACK = 1.08


@dataclass(frozen=True)
class Bound:
    """Counts on Python 3.13, without slack."""

    calls: int
    c_calls: int
    passes: int
    bytes_per_node: int


def soft_spread(index, name):
    raw = spread(index, name)
    for constraint in raw["spec"]["topologySpreadConstraints"]:
        constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    return raw


SHAPES = [
    pytest.param(plain, plain, Bound(308, 242, 9, 8), id="plain pods of 20 templates"),
    pytest.param(plain, different, Bound(321, 226, 31, 27), id="plain pods that all differ"),
    pytest.param(plain, spread, Bound(381, 293, 15, 8), id="hard spread over zones and hosts"),
    pytest.param(plain, soft_spread, Bound(385, 294, 23, 41), id="soft spread over zones and hosts"),
    pytest.param(preferred_affinity, preferred_affinity, Bound(328, 256, 22, 40), id="preferred pod affinity"),
    pytest.param(plain, required_anti_affinity, Bound(375, 297, 17, 25), id="required pod anti-affinity"),
]


@cache
def counted(placed, pending, nodes) -> Operations:
    return count(placed, pending, nodes)


@pytest.mark.parametrize("placed, pending, bound", SHAPES)
def test_the_cost_of_a_decision_is_within_its_bounds(placed, pending, bound):
    found, larger = counted(placed, pending, FEW), counted(placed, pending, MANY)
    bytes_per_node = (larger.temporary_bytes - found.temporary_bytes) / (MANY - FEW)
    assert found.calls <= bound.calls * SLACK
    assert found.c_calls <= bound.c_calls * SLACK
    assert found.passes <= bound.passes + 1
    assert bytes_per_node <= bound.bytes_per_node + 3  # less than one more temporary array of int64
    assert found.blocks <= 20


@pytest.mark.parametrize("placed, pending, bound", SHAPES)
def test_more_nodes_do_not_cause_more_calls(placed, pending, bound):
    few, many = counted(placed, pending, FEW), counted(placed, pending, MANY)
    assert many.calls == pytest.approx(few.calls, rel=0.03)
    assert many.c_calls == pytest.approx(few.c_calls, rel=0.03)
    assert many.passes == pytest.approx(few.passes, abs=1)
