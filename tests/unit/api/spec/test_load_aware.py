"""Strategy LoadAware in policies: which signals it may use, and what local policies make of it."""

from __future__ import annotations

import pytest

from podwright.api.configuration.signals import load_signals
from podwright.api.permissions import PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Point, expand
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.load_aware import WeightedSignal
from support.policies.local import delegating, local_policy
from support.policies.policy_sets import pod, policy

SETTINGS = PolicySettings(
    signals=load_signals(
        b"signals: [{name: cpu, resource: cpu, values: {}}, {name: mem, resource: memory, values: {}}, {name: rank, values: {}}]"
    )
)


def applied(*raws, local=None):
    """The set with these policies, and what applying the last one has returned."""
    policies = PolicySet(PLUGINS, Features(), settings=SETTINGS)
    results = [policies.apply(raw) for raw in raws]
    if local is not None:
        results.append(policies.local.apply(local))
    return policies, results[-1]


def loads(compiled):
    return compiled.profile.args["LoadAware"].signals


def scores(compiled):
    return expand(compiled.profile.plugins, PLUGINS).points[Point.SCORE]


def test_all_signals_of_the_policy_count_unless_it_says_which():
    policies, result = applied(policy("p", {"strategy": {"type": "LoadAware"}, "signals": ["cpu", "mem"]}))
    assert result.accepted, result.message
    assert loads(policies.active_generation_of("p")) == (WeightedSignal("cpu"), WeightedSignal("mem"))
    only = {"type": "LoadAware", "signals": [{"name": "mem", "weight": 3}]}
    policies, result = applied(policy("p", {"strategy": only, "signals": ["cpu", "mem", "rank"]}))
    assert loads(policies.active_generation_of("p")) == (WeightedSignal("mem", 3),)


def custom(*signals):
    return {
        "strategy": {"type": "Custom"},
        "plugins": {"score": {"enabled": [{"name": "LoadAware"}]}},
        "pluginConfig": [{"name": "LoadAware", "args": {"signals": [{"name": name} for name in signals]}}],
    }


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"strategy": {"type": "LoadAware"}, "signals": ["cpu", "rank"]}, "spec.signals[1]: signal 'rank' measures no resource: its definition in --signals needs one"),
        ({"strategy": {"type": "LoadAware", "signals": [{"name": "rank"}]}, "signals": ["rank"]}, "spec.strategy.signals[0].name: signal 'rank' measures no resource"),
        ({"strategy": {"type": "LoadAware", "signals": [{"name": "mem"}]}, "signals": ["cpu"]}, "spec.strategy.signals[0].name: signal 'mem' is not among spec.signals"),
        ({"strategy": {"type": "LoadAware"}, "signals": ["disk"]}, "spec.signals[0]: signal 'disk' is not defined"),
        ({**custom("mem"), "signals": ["cpu"]}, "spec.pluginConfig[0].args.signals[0].name: signal 'mem' is not among spec.signals"),
        ({**custom("rank"), "signals": ["rank"]}, "spec.pluginConfig[0].args.signals[0].name: signal 'rank' measures no resource"),
        ({**custom(), "signals": ["cpu"]}, "spec.pluginConfig[0].args.signals: at least one signal is required"),
        ({**custom("cpu", "cpu"), "signals": ["cpu"]}, "spec.pluginConfig[0].args.signals[0].name: 'cpu' is given twice"),
    ],
)  # fmt: skip
def test_only_signals_that_measure_a_resource_and_that_the_policy_names_can_count(spec, problem):
    _, result = applied(policy("p", spec))
    assert not result.accepted
    assert problem in result.message


LOCAL = {"strategies": ["LoadAware", "MostAllocated"], "plugins": ["LoadAware"], "signals": ["cpu"]}


def selected(policies):
    return policies.select(pod(namespace="team-a"), {})


def test_a_local_policy_may_choose_it_with_the_signals_that_it_is_given():
    local = local_policy(strategy={"type": "LoadAware"}, signals=["cpu"])
    policies, result = applied(delegating(delegation=LOCAL), local=local)
    assert result.accepted, result.message
    assert "LoadAware" in scores(selected(policies))
    assert loads(selected(policies)) == (WeightedSignal("cpu"),)
    assert selected(policies).own_plugins == frozenset()


def test_a_local_policy_keeps_that_of_its_base_or_replaces_it():
    base = delegating(delegation=LOCAL, strategy={"type": "LoadAware"}, signals=["mem"])
    policies, result = applied(base, local=local_policy(params={"a": "b"}))
    assert result.accepted, result.message
    assert loads(selected(policies)) == (WeightedSignal("mem"),)
    policies, result = applied(base, local=local_policy(strategy={"type": "MostAllocated"}))
    assert result.accepted, result.message
    assert "LoadAware" not in scores(selected(policies))
    policies, result = applied(base, local=local_policy(strategy={"type": "LoadAware"}, signals=["cpu"]))
    assert result.accepted, result.message
    assert loads(selected(policies)) == (WeightedSignal("cpu"),)


def test_a_local_policy_does_not_get_at_the_signals_of_its_base():
    base = delegating(delegation=LOCAL, signals=["mem"])
    _, result = applied(base, local=local_policy(**custom("mem")))
    assert "spec.pluginConfig[0].args.signals[0].name: signal 'mem' is not among spec.signals" in result.message
