"""RandomScore and NodeNameScore: per-node and vectorised scores agree, and are distributed as documented."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.node_name_score import NodeNameScore
from podwright.core.plugins.random_score import RandomScore
from podwright.core.state.cache import Cache

NAMES = st.lists(st.sampled_from([f"node-{i}" for i in range(40)] + ["a", "Z", "ä", "z"]), unique=True, max_size=20)


def cache_of(*names: str) -> Cache:
    cache = Cache()
    for name in names:
        cache.set_node(parse_node({"metadata": {"name": name}}))
    return cache


def build(plugin, cache):
    return plugin(None, SimpleNamespace(cache=cache))


def pod(uid: str = "uid-1"):
    return parse_pod({"metadata": {"name": "p", "namespace": "default", "uid": uid}, "spec": {"containers": []}})


def feasible_of(cache: Cache, *names: str) -> Feasible:
    slots = [slot for slot, name in enumerate(cache.table.names) if name in names]
    return Feasible(cache.table, np.array(slots, np.intp))


def scores_of(plugin, cache: Cache, *names: str, uid: str = "uid-1") -> dict[str, int]:
    feasible = feasible_of(cache, *names)
    scores = plugin.score_all(CycleState(), pod(uid), feasible)
    if plugin.normalize is not None:
        scores = plugin.normalize(CycleState(), pod(uid), scores, feasible)
    assert scores.dtype == np.int64
    return {cache.table.names[slot]: int(score) for slot, score in zip(feasible.slots, scores, strict=True)}


@pytest.mark.parametrize(
    ("all_names", "feasible", "expected"),
    [
        pytest.param(["b", "a", "c"], ["a", "b", "c"], {"a": 100, "b": 50, "c": 0}, id="three nodes: first, middle, last"),
        pytest.param(["b", "a", "c"], ["b", "c"], {"b": 100, "c": 0}, id="the first feasible name gets 100, whatever the names of infeasible nodes"),
        pytest.param(["b", "a", "c"], ["c"], {"c": 100}, id="a single feasible node gets 100"),
        pytest.param(["b", "a", "c"], [], {}, id="no feasible node"),
        pytest.param(["n4", "n3", "n2", "n1"], ["n1", "n2", "n3", "n4"], {"n1": 100, "n2": 66, "n3": 33, "n4": 0}, id="scores are truncated"),
        pytest.param(["node-10", "node-9"], ["node-10", "node-9"], {"node-10": 100, "node-9": 0}, id="bytes are compared, not numbers"),
        pytest.param(["a", "Z"], ["a", "Z"], {"Z": 100, "a": 0}, id="capital letters come first, as in ASCII"),
    ],
)  # fmt: skip
def test_names_are_ranked_in_byte_order(all_names, feasible, expected):
    cache = cache_of(*all_names)
    assert scores_of(build(NodeNameScore, cache), cache, *feasible) == expected


def test_names_are_ranked_again_after_nodes_are_added_and_removed():
    cache = cache_of("b", "c")
    plugin = build(NodeNameScore, cache)
    assert scores_of(plugin, cache, "b", "c") == {"b": 100, "c": 0}
    cache.remove_node("b")
    cache.set_node(parse_node({"metadata": {"name": "d"}}))
    cache.set_node(parse_node({"metadata": {"name": "a"}}))
    assert scores_of(plugin, cache, "a", "c", "d") == {"a": 100, "c": 50, "d": 0}


@given(names=NAMES, gone=st.integers(0, 5))
def test_vectorised_name_scores_equal_the_ones_per_node(names, gone):
    cache = cache_of(*names)
    for name in names[:gone]:
        cache.remove_node(name)
    plugin = build(NodeNameScore, cache)
    feasible = feasible_of(cache, *names[gone:])
    each = [plugin.score(CycleState(), pod(), cache.node_at(int(slot))) for slot in feasible.slots]
    assert plugin.score_all(CycleState(), pod(), feasible).tolist() == each


@given(names=NAMES, uid=st.text(), gone=st.integers(0, 5))
def test_vectorised_random_scores_equal_the_ones_per_node(names, uid, gone):
    cache = cache_of(*names)
    plugin = build(RandomScore, cache)
    scores_of(plugin, cache, *names)
    for name in names[:gone]:
        cache.remove_node(name)
        cache.set_node(parse_node({"metadata": {"name": f"new-{name}"}}))
    feasible = feasible_of(cache, *names[gone:], *(f"new-{name}" for name in names[:gone]))
    each = [plugin.score(CycleState(), pod(uid), cache.node_at(int(slot))) for slot in feasible.slots]
    assert plugin.score_all(CycleState(), pod(uid), feasible).tolist() == each


def test_random_scores_are_the_same_for_the_same_pod_and_node():
    names = [f"n{i}" for i in range(100)]
    first, second = cache_of(*names), cache_of(*reversed(names))
    scores = scores_of(build(RandomScore, first), first, *names)
    assert scores == scores_of(build(RandomScore, second), second, *names)
    assert scores != scores_of(build(RandomScore, first), first, *names, uid="uid-2")


def test_random_scores_spread_evenly_over_0_to_100():
    names = [f"node-{i}" for i in range(5050)]
    cache = cache_of(*names)
    counts = np.bincount(list(scores_of(build(RandomScore, cache), cache, *names).values()), minlength=101)
    assert len(counts) == 101
    assert counts.min() > 20
    assert counts.max() < 90


def test_every_node_wins_for_some_pod():
    names = [f"node-{i}" for i in range(5)]
    cache = cache_of(*names)
    plugin = build(RandomScore, cache)
    wins = dict.fromkeys(names, 0)
    for i in range(500):
        scores = scores_of(plugin, cache, *names, uid=f"uid-{i}")
        wins[max(scores, key=scores.__getitem__)] += 1
    assert min(wins.values()) > 60
