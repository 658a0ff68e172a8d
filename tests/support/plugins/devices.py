"""Caches with devices, and what DynamicResources gives to a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.devices.dynamic_resources import DynamicResources
from podwright.core.state.cache import Cache
from support.objects.builders import make_node
from support.objects.devices import make_class
from support.plugins.kit import make_cache

Raw = Mapping[str, Any]


def cluster(*objects: Raw, nodes: Iterable[str] = ("a", "b")) -> Cache:
    """A cache with nodes, the class `gpu`, and objects of resource.k8s.io, each known by its fields."""
    cache = make_cache([make_node(name) for name in nodes])
    cache.set_object("DeviceClass", make_class("gpu"))
    for raw in objects:
        add(cache, raw)
    return cache


def add(cache: Cache, raw: Raw) -> None:
    """Adds a slice, a claim, a class or a taint rule."""
    spec = raw["spec"]
    kind = "ResourceSlice" if "pool" in spec else "ResourceClaim" if "devices" in spec else "DeviceClass"
    cache.set_object("DeviceTaintRule" if "taint" in spec else kind, raw)


def devices_of(plugin: DynamicResources, pod: PodInfo, node: str) -> dict[str, list[str]]:
    """The names of the devices that the pod gets on the node, by claim."""
    state = CycleState()
    assert plugin.pre_filter(state, pod) is None
    plan = plugin.plan(state, node)
    assert plan is not None
    return {
        name: [result["device"] for result in raw["devices"].get("results", ())]
        for name, raw in plan.allocations.items()
    }


def scores_of(plugin: DynamicResources, pod: PodInfo) -> dict[str, int]:
    """The normalised scores of the feasible nodes. Asserts that each node alone has the same score before that."""
    cache, state = plugin.handle.cache, CycleState()
    assert plugin.pre_filter(state, pod) is None
    result = plugin.filter_all(state, pod, cache.table)
    assert result is not None
    slots = np.flatnonzero(result.ok & cache.table.valid)
    feasible = Feasible(cache.table, slots)
    raw = plugin.score_all(state, pod, feasible)
    together = np.broadcast_to(raw, len(slots)).tolist()
    assert together == [plugin.score(state, pod, cache.node_at(int(slot))) for slot in slots]
    found = np.broadcast_to(plugin.normalize(state, pod, raw, feasible), len(slots)).tolist()
    return {cache.table.names[slot]: score for slot, score in zip(slots.tolist(), found, strict=True)}
