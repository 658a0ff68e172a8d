"""LoadAware: the measured load of nodes and what was placed since decide, so that a burst spreads."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from podwright.api.compile import OperatorDefinitions, compile_policy
from podwright.api.scheduler_policy import parse_policy
from podwright.core.cycle import Placement, schedule
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Scope
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.signals import SignalDefinition
from podwright.simulator.loaded import Clock
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod
from support.plugins.kit import raw_scores
from support.signals.worlds import samples

CPU = SignalDefinition(name="cpu", resource="cpu", default=50.0, staleness=60.0, lag=30.0)
MEMORY = SignalDefinition(name="memory", resource="memory", unit="Fraction", staleness=60.0)
CORES = SignalDefinition(name="cores", resource="cpu", unit="Amount", staleness=60.0)
RANK = SignalDefinition(name="rank")
MEAN = SignalDefinition(name="mean", resource="cpu", unit="Amount", staleness=60.0, lag=30.0, mean_if_unknown=True)
DEFINED = {each.name: each for each in (CPU, MEMORY, CORES, RANK, MEAN)}


def world(*names, cpu="10", memory="10Gi"):
    made = World(clock=(clock := Clock(1_800_000_000.0)), signals=DEFINED)
    made.clock = clock
    made.fill({"nodes": [make_node(name, allocatable={"cpu": cpu, "memory": memory, "pods": "500"}) for name in names]})
    return made


def pod(name="p", **requests):
    return parse_pod(make_pod(name, requests=requests or {"cpu": "1", "memory": "1Gi"}))


def framework(made, named=("cpu",), **strategy):
    spec = {"strategy": {"type": "LoadAware", **strategy}, "signals": list(named)}
    raw = {"metadata": {"name": "p"}, "spec": spec}
    return Framework(
        compile_policy(parse_policy(raw), PLUGINS, Features(), defined=OperatorDefinitions(signals=DEFINED)).profile,
        PLUGINS,
        made,
    )


def plugin(made, *signals, **strategy):
    return framework(made, signals or ("cpu",), **strategy).plugins["LoadAware"]


def test_the_score_is_what_is_left_of_the_node_after_the_pod():
    made = world("a", "b", "c")
    made.cache.signals.take("cpu", samples({"a": 20.0, "b": 99.0}))
    assert raw_scores(plugin(made), pod()) == {"a": 70, "b": 0, "c": 40}


def test_each_unit_is_understood():
    made = world("a")
    made.cache.signals.take("memory", samples({"a": 0.25}))
    made.cache.signals.take("cores", samples({"a": 2.5}))
    assert raw_scores(plugin(made, "memory"), pod(memory="1Gi")) == {"a": 65}
    assert raw_scores(plugin(made, "cores"), pod(cpu="1")) == {"a": 65}


def test_several_signals_count_by_their_weights():
    made = world("a")
    made.cache.signals.take("cpu", samples({"a": 10.0}))
    made.cache.signals.take("memory", samples({"a": 0.5}))
    assert raw_scores(plugin(made, "cpu", "memory"), pod()) == {"a": 60}
    weighted = [{"name": "cpu", "weight": 3}, {"name": "memory"}]
    assert raw_scores(plugin(made, "cpu", "memory", signals=weighted), pod()) == {"a": 70}


def test_what_was_placed_since_counts_until_a_sample_shows_it():
    made = world("a", "b")
    found = plugin(made)
    made.cache.signals.take("cpu", samples({"a": 10.0, "b": 30.0}))
    made.cache.assume(pod("q", cpu="4"), "a")
    assert raw_scores(found, pod()) == {"a": 40, "b": 60}
    made.clock.now += 31.0
    made.cache.signals.take("cpu", samples({"a": 45.0, "b": 30.0}))
    assert raw_scores(found, pod()) == {"a": 45, "b": 60}


def test_a_node_whose_measurement_fails_counts_as_the_mean_of_the_others():
    made = world("a", "b", "dead", "half")
    made.cache.set_node(parse_node(make_node("half", allocatable={"cpu": "5", "memory": "1Gi", "pods": "500"})))
    found = plugin(made, "mean")
    assert raw_scores(found, pod()) == {"a": 90, "b": 90, "dead": 90, "half": 80}, "nothing is known"
    made.cache.signals.take("mean", samples({"a": 6.0, "b": 8.0, "dead": 1.0}))
    assert raw_scores(found, pod()) == {"a": 30, "b": 10, "dead": 80, "half": 30}
    made.clock.now += 61.0
    made.cache.signals.take("mean", samples({"a": 6.0, "b": 8.0}))
    made.cache.signals.tick()
    assert raw_scores(found, pod()) == {"a": 30, "b": 10, "dead": 20, "half": 10}, "70 % are in use"
    made.cache.remove_node("b")
    assert raw_scores(found, pod()) == {"a": 30, "dead": 30, "half": 20}


def test_a_decision_that_depends_on_the_mean_is_made_anew_when_it_changes():
    """Also by a number that equals the default."""
    made = world("a", "b")
    found = plugin(made, "mean")
    made.cache.signals.take("mean", samples({"a": 6.0}))
    before = made.cache.version
    assert raw_scores(found, pod()) == {"a": 30, "b": 30}
    made.cache.signals.take("mean", samples({"b": 0.0}))
    assert made.cache.version != before
    assert raw_scores(found, pod()) == {"a": 30, "b": 90}


def test_a_node_without_the_resource_scores_nothing():
    assert raw_scores(plugin(world("a", cpu="0")), pod()) == {"a": 0}


@pytest.mark.parametrize("value", [-5.0, 0.0, 250.0, 1e300])
def test_any_value_gives_a_score_from_0_to_100(value):
    made = World(signals={"cpu": SignalDefinition(name="cpu", resource="cpu", least=-10.0)})
    made.fill({"nodes": [make_node("a", allocatable={"cpu": "10"})]})
    made.cache.signals.take("cpu", samples({"a": value}))
    raw = {"metadata": {"name": "p"}, "spec": {"strategy": {"type": "LoadAware"}, "signals": ["cpu"]}}
    compiled = compile_policy(
        parse_policy(raw), PLUGINS, Features(), defined=OperatorDefinitions(signals=made.cache.signals.definitions)
    )
    found = Framework(compiled.profile, PLUGINS, made).plugins["LoadAware"]
    (score,) = raw_scores(found, pod(cpu="1")).values()
    assert score == (90 if value <= 0 else 0)


@pytest.mark.parametrize("seed", range(5))
def test_nodes_one_by_one_have_the_scores_of_the_columns(seed):
    source = random.Random(seed)
    made = World(signals=DEFINED)
    names = [f"n{number}" for number in range(40)]
    sizes = [{"cpu": str(source.randrange(9)), "memory": f"{source.randrange(9)}Gi", "pods": "110"} for _ in names]
    made.fill({"nodes": [make_node(name, allocatable=size) for name, size in zip(names, sizes, strict=True)]})
    found = plugin(made, "cpu", "memory", "cores", "mean")
    for number in range(60):
        made.cache.assume(pod(f"q{number}", cpu=f"{source.randrange(1500)}m", memory="300Mi"), source.choice(names))
        name = source.choice(("cpu", "memory", "cores", "mean"))
        made.cache.signals.take(name, samples({source.choice(names): source.random() * 100}))
        if number % 10 == 0:
            made.cache.remove_node(source.choice(names))
        raw_scores(found, pod(cpu=f"{source.randrange(2000)}m"))


def burst(made, running, pods):
    landed = Counter()
    for number in range(pods):
        each = pod(f"p{number}", cpu="500m", memory="64Mi")
        decision = schedule(running, made.cache, each, lambda n: 0)
        assert isinstance(decision, Placement)
        made.cache.assume(each, decision.node_name)
        landed[decision.node_name] += 1
    return landed


def test_a_burst_does_not_pile_onto_the_idle_node():
    names = [f"n{number}" for number in range(10)]
    made = world(*names)
    made.cache.signals.take("cpu", samples({"n0": 0.0} | dict.fromkeys(names[1:], 30.0)))
    landed = burst(made, framework(made), 60)
    assert landed["n0"] == 12, "until it has 30 % more than at first, and then its share"
    assert all(5 <= landed[name] <= 6 for name in names[1:])


def test_a_burst_goes_around_nodes_that_are_busy_though_little_is_requested():
    made = world("busy", "idle-1", "idle-2")
    made.cache.signals.take("cpu", samples({"busy": 95.0, "idle-1": 10.0, "idle-2": 10.0}))
    assert burst(made, framework(made), 20) == {"idle-1": 10, "idle-2": 10}


def test_all_other_scores_are_those_of_the_default_profile():
    made = world("a")
    found = framework(made)
    default = compile_policy(parse_policy({"metadata": {"name": "p"}, "spec": {}}), PLUGINS, Features()).profile
    names = {each.name for each in Framework(default, PLUGINS, made).score_plugins}
    without = {"NodeResourcesFit", "NodeResourcesBalancedAllocation"}
    assert {each.name for each in found.score_plugins} == names - without | {"LoadAware"}
    assert found.plugins["LoadAware"].scope is Scope.NODE_PODS
    assert "NodeResourcesFit" in {each.name for each in found.filter_plugins}


# What is wrong with its arguments


def custom(*signals, defined=DEFINED, named=("cpu",)):
    spec = {
        "strategy": {"type": "Custom"},
        "plugins": {"score": {"enabled": [{"name": "LoadAware"}]}},
        "pluginConfig": [{"name": "LoadAware", "args": {"signals": [*signals]}}],
        "signals": list(named),
    }
    raw = {"metadata": {"name": "p"}, "spec": spec}
    return compile_policy(parse_policy(raw), PLUGINS, Features(), defined=OperatorDefinitions(signals=defined))


def test_without_signals_it_cannot_be_built():
    raw = {"metadata": {"name": "p"}, "spec": {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "LoadAware"}]}}}}  # fmt: skip
    profile = compile_policy(parse_policy(raw), PLUGINS, Features()).profile
    with pytest.raises((PluginError, ProfileError), match="at least one signal is required"):
        Framework(profile, PLUGINS, world("a"))


def test_a_signal_that_the_cluster_does_not_have_is_an_error_of_the_plugin():
    profile = custom({"name": "cpu"}).profile
    with pytest.raises(PluginError, match="signal 'cpu' is not defined"):
        Framework(profile, PLUGINS, World())
