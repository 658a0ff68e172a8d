"""Runs one plugin on a small cluster, per node and vectorised, and checks that both agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from podwright.core.framework import contract
from podwright.core.framework.args import decode_args
from podwright.core.framework.features import Features
from podwright.core.framework.interface import CycleState, Feasible, PreFilterPlugin, PreFilterResult, PreScorePlugin
from podwright.core.framework.observer import NO_OBSERVER
from podwright.core.framework.status import Code, Status
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.state.cache import Cache
from support.objects.builders import make_pod

NOW = 1_700_000_000.0


class NoCluster:
    """A cluster port that fails the test if the plugin uses it."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the plugin asked the cluster for {name}")


class KitHandle:
    """A Handle without an API server. Tests may replace `cluster`."""

    def __init__(self, cache: Cache, gates: Mapping[str, bool] | None = None) -> None:
        self.cache = cache
        self.features = Features(gates)
        self.cluster: Any = NoCluster()
        self.observer = NO_OBSERVER
        self.events: list[tuple[str, str, str]] = []
        """(pod, reason, note)"""

    def now(self) -> float:
        return NOW

    def waiting_pods(self) -> tuple[()]:
        return ()

    def record(self, pod: PodInfo, _kind: str, reason: str, note: str) -> None:
        self.events.append((pod.name, reason, note))


def make_cache(nodes: Iterable[Mapping[str, Any]] = (), pods: Iterable[Mapping[str, Any]] = ()) -> Cache:
    """A cache of raw nodes and raw assigned pods."""
    cache = Cache()
    for node in nodes:
        cache.set_node(parse_node(node))
    for pod in pods:
        cache.set_pod(parse_pod(pod))
    return cache


def build(
    plugin: type[Any], cache: Cache, args: Mapping[str, Any] | None = None, gates: Mapping[str, bool] | None = None
) -> Any:
    """The plugin, with args as in pluginConfig."""
    decoded = decode_args(plugin.args_type, args, "args") if plugin.args_type is not None else None
    return plugin(decoded, KitHandle(cache, gates))


def pending(**parts: Any) -> PodInfo:
    """A pending pod that keeps its raw object. `parts`: see `make_pod`."""
    return parse_pod(make_pod(**parts), keep_raw=True)


def pre_filter(plugin: Any, pod: PodInfo, state: CycleState | None = None) -> PreFilterResult | Status | None:
    return plugin.pre_filter(state or CycleState(), pod) if isinstance(plugin, PreFilterPlugin) else None


def verdicts(plugin: Any, pod: PodInfo) -> dict[str, str]:
    """By node name: "" if the node passes, else the reasons. PreFilter must not reject the pod.

    Asserts that the vectorised filter returns the same statuses.
    """
    cache, state = plugin.handle.cache, CycleState()
    answer = pre_filter(plugin, pod, state)
    assert not isinstance(answer, Status) or answer.code in (Code.SUCCESS, Code.SKIP), answer
    found: dict[str, str] = {}
    result = plugin.filter_all(state, pod, cache.table)
    contract.filter_result(plugin, result, cache.table.size)  # raises PluginError for other shapes and types
    for slot, node in enumerate(cache.table.nodes):
        if node is None:
            continue
        status = plugin.filter(state, pod, cache.node_at(slot))
        if result is None or result.ok[slot]:
            assert status is None, f"{node.name}: per node {status}, vectorised it passes"
        else:
            codes, statuses = result.explain()
            assert statuses[codes[slot]] == status
        found[node.name] = "" if status is None else status.message
    return found


def checked(plugin: Any, answer: Any, feasible: Feasible) -> Any:
    """The answer of `score_all` or `normalize`: an array or a number as the framework expects it. It does not look."""
    assert contract.scores_of(plugin, answer, len(feasible)) is answer
    return answer


def raw_scores(plugin: Any, pod: PodInfo) -> dict[str, int]:
    """Raw scores by node name. Asserts that the vectorised score is the same, for all nodes and for some."""
    cache, state = plugin.handle.cache, CycleState()
    rows = np.flatnonzero(cache.table.valid)
    for slots in (rows, rows[::2]):
        feasible = Feasible(cache.table, slots)
        if isinstance(plugin, PreScorePlugin):
            plugin.pre_score(state, pod, feasible)
        each = [plugin.score(state, pod, cache.node_at(int(slot))) for slot in slots]
        if plugin.score_all is not None:
            together = checked(plugin, plugin.score_all(state, pod, feasible), feasible)
            assert np.broadcast_to(together, len(slots)).tolist() == each
    return {cache.table.names[slot]: plugin.score(state, pod, cache.node_at(int(slot))) for slot in rows}


def scores(plugin: Any, pod: PodInfo) -> dict[str, int] | None:
    """Normalised scores by node name; None if PreScore returns Skip."""
    cache, state = plugin.handle.cache, CycleState()
    slots = np.flatnonzero(cache.table.valid)
    feasible = Feasible(cache.table, slots)
    if isinstance(plugin, PreScorePlugin):
        status = plugin.pre_score(state, pod, feasible)
        if status is not None and status.code is Code.SKIP:
            return None
    values: Any = np.array([*raw_scores(plugin, pod).values()], np.int64)
    if plugin.score_all is not None:
        values = checked(plugin, plugin.score_all(state, pod, feasible), feasible)
    if plugin.normalize is not None:
        values = checked(plugin, plugin.normalize(state, pod, values, feasible), feasible)
    contract.check_range(plugin, values)
    spread = np.broadcast_to(values, len(slots)).tolist()
    return {cache.table.names[slot]: score for slot, score in zip(slots, spread, strict=True)}
