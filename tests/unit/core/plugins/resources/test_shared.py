"""Plugins of several policies share the columns and arrays of all nodes if their args are equal."""

from __future__ import annotations

import gc
from collections import Counter

import numpy as np
import pytest

from podwright.core.framework.interface import CycleState
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.resources import row_cache
from podwright.core.plugins.resources.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from podwright.core.plugins.resources.node_resources_fit import (
    NodeResourcesFit,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from podwright.core.plugins.resources.row_cache import RowCache
from podwright.core.plugins.resources.rows import ResourceRows
from podwright.core.plugins.resources.shared import Shared, shared
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.plugins.kit import raw_scores, verdicts

MOST = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated"))


@pytest.fixture
def world() -> World:
    found = World()
    found.fill(
        {
            "nodes": [
                make_node(f"n{i}", allocatable={"cpu": str(i + 1), "memory": "4Gi", "pods": "9"}) for i in range(50)
            ]
        }
    )
    return found


@pytest.fixture
def rebuilt(monkeypatch) -> Counter:
    """How often the columns of all nodes were built."""
    counts: Counter = Counter()
    all_rows = ResourceRows.all_rows

    def counting(self):
        counts[id(self)] += 1
        return all_rows(self)

    monkeypatch.setattr(ResourceRows, "all_rows", counting)
    return counts


def pod(cpu: str = "2"):
    return parse_pod(make_pod("p", requests={"cpu": cpu, "memory": "1Gi"}))


@pytest.mark.parametrize("kind", [NodeResourcesFit, NodeResourcesBalancedAllocation])
def test_a_thousand_plugins_with_equal_args_compute_as_much_as_one(world, rebuilt, kind):
    plugins = [kind(None, world) for _ in range(1_000)]
    first = raw_scores(plugins[0], pod())
    rebuilt.clear()
    assert raw_scores(plugins[999], pod()) == first
    world.set_pod(make_pod("placed", node="n3", requests={"memory": "3Gi"}, status={"phase": "Running"}))
    assert all(raw_scores(plugin, pod()) != first for plugin in plugins[::100])
    assert not rebuilt


def test_plugins_with_other_args_have_scores_of_their_own(world):
    least, most = NodeResourcesFit(None, world), NodeResourcesFit(MOST, world)
    assert raw_scores(least, pod())["n1"] < raw_scores(least, pod())["n40"]
    assert raw_scores(most, pod())["n1"] > raw_scores(most, pod())["n40"]
    ignoring = NodeResourcesFit(NodeResourcesFitArgs(ignored_resources=("example.com/x",)), world)
    asked = parse_pod(make_pod("p", requests={"example.com/x": "1"}))
    assert set(verdicts(ignoring, asked).values()) == {""}
    assert set(verdicts(least, asked).values()) == {"Insufficient example.com/x"}


def test_other_caches_share_nothing(world):
    other = World()
    other.fill({"nodes": [make_node("n0", allocatable={"cpu": "64", "memory": "64Gi", "pods": "9"})]})
    assert len(raw_scores(NodeResourcesFit(None, world), pod())) == 50
    assert len(raw_scores(NodeResourcesFit(None, other), pod())) == 1


class Kept(Shared):
    made = 0


class User:
    """Stands for a plugin."""


def test_what_is_shared_goes_with_the_last_user(world):
    def make():
        Kept.made += 1
        return Kept()

    before = Kept.made
    users = [User(), User()]
    assert shared(world.cache, users[0], "a", make) is shared(world.cache, users[1], "a", make)
    assert Kept.made == before + 1
    gc.collect()
    shared(world.cache, users[0], "a", make)
    assert Kept.made == before + 2


def test_several_users_may_keep_more_arrays(world, monkeypatch):
    monkeypatch.setattr(row_cache, "MAX_ARRAYS", 2)
    kept = Kept()
    arrays = RowCache(world.cache, np.int64, kept.users)

    def made(keys) -> int:
        found = []
        for key in keys:
            arrays.get(key, lambda: found.append(1) or Zeros())
        return len(found)

    users = [User() for _ in range(10)]
    kept.users.add(users[0])
    made(range(20))
    assert made(range(10, 20)) == 10
    for user in users:
        kept.users.add(user)
    made(range(20))
    assert made(range(12, 20)) == 0
    assert made([3]) == 1


class Zeros:
    def all(self, out):
        out[:] = 0


def test_a_filter_of_one_plugin_finds_what_another_has_kept(world):
    plugins = [NodeResourcesFit(None, world) for _ in range(2)]
    results = [plugin.filter_all(CycleState(), pod(), world.cache.table).ok for plugin in plugins]
    assert results[0] is results[1]
