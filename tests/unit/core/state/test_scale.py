"""The cost of a change does not grow with the cluster: counted in calls of Python functions."""

from __future__ import annotations

from itertools import count

import pytest
from benchmarks.core.decisions import ZONE, node, plain

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.simulator.world import World
from support.costs.call_counts import calls_of


def placed(nodes, pods):
    """A cache that counts its pods from the start."""
    world = World()
    cache = world.cache
    cache.pods_index.follow()
    world.fill({"nodes": [node(i) for i in range(nodes)]})
    for i in range(pods):
        raw = plain(i, "placed")
        raw["spec"]["nodeName"] = f"node-{i % nodes:05}"
        cache.set_pod(parse_pod(raw))
    return cache


def test_labels_that_flap_on_all_nodes_cost_as_much_for_each_change_in_a_large_cluster():
    flaps = count()

    def flap(cache):
        for i in range(100):
            raw = node(i)
            raw["metadata"]["labels"] |= {ZONE: f"zone-{next(flaps) % 7}", f"flag-{next(flaps) % 5}": "on"}
            cache.set_node(parse_node(raw))

    few, many = placed(200, 200), placed(2000, 2000)
    for cache in (few, many):
        flap(cache)
    assert calls_of(lambda: flap(many)) == pytest.approx(calls_of(lambda: flap(few)), rel=0.05)


def test_pods_that_are_all_deleted_at_once_cost_as_much_each_as_a_few_and_leave_nothing():
    def delete(cache, pods):
        for i in range(pods):
            cache.remove_pod(f"placed-{i}")

    few, many = placed(20, 400), placed(20, 4000)
    each = calls_of(lambda: delete(few, 400)) / 400
    assert calls_of(lambda: delete(many, 4000)) / 4000 == pytest.approx(each, rel=0.05)
    assert many.pod_count == 0
    assert not many.table.requested("cpu").any()
    assert not many.table.pods.any()
    assert not any(info.pods for info in many.nodes.values())
