"""Finding out if anything has a lower priority takes no look at each pod and each group."""

from __future__ import annotations

from podwright.core.objects.pod_group import KIND
from podwright.core.preemption.placed_priorities import may_be_below
from podwright.core.state.cache import Cache
from support.costs.call_counts import calls_of
from support.objects.builders import make_pod_group


def test_groups_count_while_they_have_a_priority_and_cost_nothing_each():
    cache = Cache()
    for index in range(1_000):
        cache.set_object(KIND, make_pod_group(f"g{index}", 1, priority=100))
    assert (may_be_below(100, cache), may_be_below(101, cache)) == (False, True)
    assert calls_of(lambda: may_be_below(100, cache)) < 100
    cache.set_object(KIND, make_pod_group("g0", 1, priority=5))
    assert may_be_below(100, cache)
    cache.set_object(KIND, make_pod_group("g0", 1))
    assert not may_be_below(100, cache)
    cache.set_object(KIND, make_pod_group("g0", 1, priority=5))
    cache.remove_object(KIND, "g0", "default")
    assert not may_be_below(100, cache)
