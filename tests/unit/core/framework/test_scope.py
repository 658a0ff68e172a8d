"""The declared scope of plugins: preemption and gang scheduling do not hide victims that a plugin can notice."""

from __future__ import annotations

import pytest

from podwright.api.kube_scheduler_configuration import convert_profile
from podwright.core.cycle import Rejection, schedule
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import (
    CycleState,
    DomainPlugin,
    FilterPlugin,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    Scope,
)
from podwright.core.framework.status import Code, unschedulable
from podwright.core.gangs import gang_preemption
from podwright.core.gangs.decisions import GangPlacement, GangPreemption
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.gangs.kit import FullCluster, one, room
from support.objects.builders import make_node, make_pod

NOISY = unschedulable("node(s) were in a noisy cluster")


class QuietCluster(Plugin, FilterPlugin):
    """A third-party filter that looks at the pods of all nodes, and does not declare a scope."""

    name = "QuietCluster"

    def filter(self, state, pod, node):
        nodes = [node if info.name == node.name else info for info in self.handle.cache.nodes.values()]
        return NOISY if any("noisy" in other.labels for info in nodes for other in info.pods.values()) else None


class CountingQuietCluster(Plugin, PreFilterPlugin, PreFilterExtensions, FilterPlugin):
    """The same filter with a count in the cycle state, which dry runs update."""

    name = "QuietCluster"

    def pre_filter(self, state, pod):
        infos = self.handle.cache.nodes.values()
        state.data[self.name] = sum("noisy" in other.labels for info in infos for other in info.pods.values())

    def add_pod(self, state, pod, added, node):
        state.data[self.name] += "noisy" in added.labels

    def remove_pod(self, state, pod, removed, node):
        state.data[self.name] -= "noisy" in removed.labels

    def filter(self, state, pod, node):
        return NOISY if state.data[self.name] else None


class QuietClusterPreFilter(Plugin, PreFilterPlugin):
    """The same without a filter."""

    name = "QuietCluster"

    def pre_filter(self, state, pod):
        infos = self.handle.cache.nodes.values()
        return NOISY if any("noisy" in other.labels for info in infos for other in info.pods.values()) else None


class QuietDomainPreFilter(QuietClusterPreFilter, DomainPlugin):
    """The same with scope DOMAIN: a noisy pod counts on every node."""

    scope = Scope.DOMAIN

    def looks_beyond_node(self, pod):
        return True

    def influence(self, pod, other):
        return None if "noisy" in other.labels else frozenset()

    def influence_key(self, pod):
        return "noisy" in pod.labels


BOTH = pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(QuietCluster, id="a filter that reads the cache"),
        pytest.param(CountingQuietCluster, id="a filter that counts in PreFilter"),
    ],
)


def profile_with(plugin):
    classes = {**PLUGINS, plugin.name: plugin}
    return classes, {"multiPoint": {"enabled": [{"name": plugin.name}]}}


def noisy_neighbour(plugin):
    """A gang fits on "big" once "noisy" has left "small"."""
    classes, plugins = profile_with(plugin)
    nodes = [room("big", 4), make_node("small", allocatable={"cpu": "500m"})]
    placed = [
        one("quiet", "big"),
        make_pod("noisy", node="small", labels={"noisy": "yes"}, requests={"cpu": "100m"}, status={"phase": "Running"}),
    ]
    return FullCluster(nodes, placed, members=2, plugins=plugins, classes=classes)


@pytest.mark.parametrize("plugin", [QuietCluster, CountingQuietCluster, QuietClusterPreFilter, QuietDomainPreFilter])
def test_a_gang_preempts_a_pod_that_the_plugin_notices_on_a_node_too_small_for_any_member(plugin):
    decision = noisy_neighbour(plugin).preempt()
    assert isinstance(decision, GangPreemption), decision
    assert [victim.name for victim in decision.victims] == ["noisy"]


@pytest.mark.parametrize("plugin", [QuietClusterPreFilter, QuietDomainPreFilter])
def test_the_first_round_of_reprieves_finds_what_a_plugin_notices_in_pre_filter(plugin, monkeypatch):
    monkeypatch.setattr(gang_preemption, "THOROUGH", (False,))
    assert noisy_neighbour(plugin).victims() == ["noisy"]


@BOTH
def test_a_gang_evicts_no_pod_if_a_plugin_of_cluster_scope_accepts_all(plugin):
    classes, plugins = profile_with(plugin)
    siege = FullCluster(
        [room("a", 1), room("b", 2)], [one("low", "a"), one("lower", "b")], plugins=plugins, classes=classes
    )
    assert isinstance(siege.preempt(), GangPlacement)


@BOTH
def test_preemption_does_not_reuse_the_plugins_verdict_after_a_change_on_another_node(plugin):
    classes, plugins = profile_with(plugin)
    world = World()
    cache = world.cache
    for name, cpu in (("a", "1"), ("b", "100m")):
        cache.set_node(parse_node(make_node(name, allocatable={"cpu": cpu})))
    running = {"phase": "Running"}
    cache.set_pod(parse_pod(make_pod("low", node="a", requests={"cpu": "1"}, status=running)))
    noisy = parse_pod(make_pod("noisy", node="b", labels={"noisy": "yes"}, status=running))
    cache.set_pod(noisy)
    framework = Framework(convert_profile({"plugins": plugins}, "", classes, world.features), classes, world)

    def nominated(name):
        pod = parse_pod(make_pod(name, priority=100, requests={"cpu": "1"}), keep_raw=True)
        decision = schedule(framework, cache, pod, lambda _n: 0)
        assert isinstance(decision, Rejection)
        return decision.nominated_node

    assert not nominated("first")
    cache.remove_pod(noisy.uid)
    assert nominated("second") == "a"


def test_verdicts_are_cached_only_where_every_active_filter_allows_it():
    classes, plugins = profile_with(QuietCluster)
    world = World()
    pod = parse_pod(make_pod("p"))
    for config, cached in (({}, True), ({"plugins": plugins}, False)):
        framework = Framework(convert_profile(config, "", classes, world.features), classes, world)
        state = CycleState()
        framework.pre_filter(state, pod)
        assert (framework.verdict_key(state, pod) is not None) is cached


def test_a_verdict_key_that_cannot_be_hashed_is_a_fault_of_the_plugin():
    class Unhashable(Plugin, FilterPlugin):
        name = "Unhashable"
        scope = Scope.NODE

        def filter(self, state, pod, node):
            return None

        def verdict_key(self, pod):
            return dict(pod.labels)

    classes, plugins = profile_with(Unhashable)
    world = World()
    framework = Framework(convert_profile({"plugins": plugins}, "", classes, world.features), classes, world)
    state, pod = CycleState(), parse_pod(make_pod("p"))
    framework.pre_filter(state, pod)
    with pytest.raises(PluginError, match=r"Unhashable.*unhashable type"):
        framework.verdict_key(state, pod)


def test_a_node_filter_that_fails_during_an_estimate_is_reported_when_a_member_is_placed():
    class Failing(Plugin, FilterPlugin):
        name = "Failing"
        scope = Scope.NODE

        def filter(self, state, pod, node):
            raise ValueError("broken")

        def filter_all(self, state, pod, table):
            raise ValueError("broken")

        def verdict_key(self, pod):
            return ()

    classes, plugins = profile_with(Failing)
    siege = FullCluster([room("a", 1)], [one("low", "a")], plugins=plugins, classes=classes)
    status = siege.preempt()
    assert (status.code, status.plugin) == (Code.ERROR, "Failing")
