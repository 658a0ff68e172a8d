"""The operator's options bound policies: a policy that does more is rejected."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import yaml

from podwright.api.configuration.load import load_configuration
from podwright.api.permissions import PolicySettings
from podwright.api.policy_set import PolicySet
from podwright.core.framework.features import Features
from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.plugins import PLUGINS
from support.engine.stand_ins import STAND_INS


def policy(spec, generation=1):
    return {"metadata": {"name": "a", "generation": generation, "uid": "u"}, "spec": spec}


def applied(spec, **settings):
    return PolicySet(STAND_INS, Features(), settings=PolicySettings(**settings)).apply(policy(spec))


@pytest.mark.parametrize(
    ("name", "allowed", "expected"),
    [
        pytest.param("podwright", ("*",), True, id="the name of the built-in policy"),
        pytest.param("podwright", (), True, id="the name of the built-in policy, even if no other is allowed"),
        pytest.param("ml", ("*",), True, id="any other name, by default"),
        pytest.param("default-scheduler", ("*",), False, id="the default scheduler's name is not any other name"),
        pytest.param("default-scheduler", ("default-*", "*-scheduler"), False, id="no pattern matches the default scheduler's name"),
        pytest.param("default-scheduler", ("*", "default-scheduler"), True, id="the default scheduler's name is listed"),
        pytest.param("ml-training", ("web", "ml-*"), True, id="a pattern matches"),
        pytest.param("html-training", ("ml-*",), False, id="a pattern matches whole names only"),
        pytest.param("ml", ("ml-*",), False, id="no pattern matches"),
        pytest.param("ml", (), False, id="no name is allowed"),
    ],
)  # fmt: skip
def test_a_policy_serves_only_allowed_scheduler_names(name, allowed, expected):
    result = applied({"schedulerName": name}, allowed_scheduler_names=allowed)
    assert (result.accepted, result.reason) == (expected, "Accepted" if expected else "NotAllowed")


def test_policies_may_serve_the_default_scheduler_if_the_built_in_policy_does():
    assert applied({"schedulerName": "default-scheduler"}, scheduler_name="default-scheduler").accepted


def test_the_message_says_which_flag_allows_the_default_scheduler():
    assert applied({"schedulerName": "default-scheduler"}).message == (
        "spec.schedulerName: 'default-scheduler' is only allowed if the operator runs with --scheduler-name=default-scheduler "
        "or lists it in --allowed-scheduler-names, because two schedulers must not serve the same pods. "
        "No generation of this policy is in force."
    )


def test_the_message_says_which_flag_bounds_the_scheduler_names():
    assert applied({"schedulerName": "web"}, allowed_scheduler_names=("ml", "ml-*")).message.startswith(
        "spec.schedulerName: 'web' is not allowed by the operator's flag --allowed-scheduler-names=ml,ml-*. "
    )


def test_a_refused_scheduler_name_is_not_served():
    policies = PolicySet(STAND_INS, Features())
    policies.apply(policy({"schedulerName": "default-scheduler"}))
    assert policies.scheduler_names == {"podwright"}


def test_a_name_that_was_allowed_before_a_restart_is_not_served_after_it():
    last = {"generation": 1, "spec": {"schedulerName": "default-scheduler"}}
    policies = PolicySet(STAND_INS, Features())
    result = policies.apply(policy({"precedence": "x"}, generation=2) | {"status": {"lastAccepted": last}})
    assert result.active_generation is None
    assert (
        "the generation in status.lastAccepted is not acceptable: spec.schedulerName: 'default-scheduler'"
        in result.message
    )
    assert policies.scheduler_names == {"podwright"}


# Filters


def custom(**plugins):
    sets = {
        point: {kind: [{"name": name} for name in names] for kind, names in plugin_set.items()}
        for point, plugin_set in plugins.items()
    }
    return {"strategy": {"type": "Custom"}, "plugins": sets}


def args(**fields):
    return {"pluginConfig": [{"name": "ImageLocality"}, {"name": "NodeResourcesFit", "args": fields}]}


CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
NO_FIT = "without NodeResourcesFit at "
UNSAFE = [
    pytest.param(custom(filter={"disabled": ["*"]}), "spec.plugins.filter: without NodeName, NodeUnschedulable, TaintToleration, ", id="all filters disabled"),
    pytest.param(custom(multiPoint={"disabled": ["NodeResourcesFit"]}), f"spec.plugins.multiPoint: {NO_FIT}preFilter, ", id="a filter disabled at multiPoint"),
    pytest.param(custom(filter={"disabled": ["NodeResourcesFit"]}), f"spec.plugins.filter: {NO_FIT}filter, ", id="a filter disabled at filter"),
    pytest.param(custom(preFilter={"disabled": ["NodeResourcesFit"]}), f"spec.plugins.preFilter: {NO_FIT}preFilter, ", id="a filter disabled at preFilter"),
    pytest.param(custom(reserve={"disabled": ["*"]}), "spec.plugins.reserve: without VolumeBinding, DynamicResources at reserve, ", id="a filter disabled at reserve"),
    pytest.param(custom(preBind={"disabled": ["VolumeBinding"]}), "spec.plugins.preBind: without VolumeBinding at preBind, ", id="a filter disabled at preBind"),
    pytest.param(args(ignoredResources=["example.com/gpu"]), "spec.pluginConfig[1].args.ignoredResources: pods could be bound to nodes without room", id="ignored resources"),
    pytest.param(args(ignoredResourceGroups=["example.com"]), "spec.pluginConfig[1].args.ignoredResourceGroups: pods could be bound", id="ignored groups of resources"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), UNSAFE)
def test_what_keeps_pods_off_unsuitable_nodes_can_only_be_disabled_with_the_flag(spec, message):
    refused = PolicySet(PLUGINS, Features()).apply(policy(spec))
    assert (refused.accepted, refused.reason) == (False, "NotAllowed")
    assert refused.message.startswith(message)
    assert "only the operator's flag --allow-unsafe-policies allows that" in refused.message
    allowed = PolicySet(PLUGINS, Features(), settings=PolicySettings(allow_unsafe=True))
    assert allowed.apply(policy(spec)).accepted


def test_a_third_party_plugin_says_whether_policies_may_do_without_it_and_which_args_are_unsafe():
    @dataclass(frozen=True)
    class Args:
        ignore: tuple[str, ...] = ()

    own = {
        "filter": lambda *_: None,
        "args_type": Args,
        "unsafe_args": {"ignore": "pods could be bound to racks that burn"},
    }
    profile = {"plugins": {"filter": {"enabled": [{"name": "Racks"}, {"name": "Taste"}]}}}
    configured = load_configuration(yaml.safe_dump({**CONFIGURATION, "profiles": [profile]}).encode())
    classes = {
        **PLUGINS,
        "Racks": type("Racks", (Plugin, FilterPlugin), {"name": "Racks", **own}),
        "Taste": type("Taste", (Plugin, FilterPlugin), {"name": "Taste", "filter": lambda *_: None, "optional": True}),
    }
    policies = PolicySet(classes, Features(), settings=PolicySettings(configuration=configured))
    racks = custom(filter={"enabled": ["Racks"]})
    assert policies.apply(policy(racks)).accepted
    refused = policies.apply(policy(custom(filter={"enabled": ["Taste"]}), generation=2))
    assert refused.message.startswith("spec.plugins.filter: without Racks at filter, ")
    refused = policies.apply(policy({**racks, "pluginConfig": [{"name": "Racks", "args": {"ignore": ["a"]}}]}, 3))
    assert refused.message.startswith("spec.pluginConfig[0].args.ignore: pods could be bound to racks that burn; only")


def test_a_strategy_without_a_filter_of_the_operators_profile_is_refused_by_its_own_field():
    profile = {"plugins": {"filter": {"enabled": [{"name": "Extra"}]}}}
    configured = load_configuration(yaml.safe_dump({**CONFIGURATION, "profiles": [profile]}).encode())
    classes = {**PLUGINS, "Extra": type("Extra", (Plugin, FilterPlugin), {"name": "Extra", "filter": lambda *_: None})}
    policies = PolicySet(classes, Features(), settings=PolicySettings(configuration=configured))
    refused = policies.apply(policy({"strategy": {"type": "LeastAllocated"}}))
    assert refused.message.startswith(
        "spec.strategy.type: LeastAllocated lacks Extra, which the operator's profile has as a filter, and which Custom can enable; "
        "without it, pods could be bound to nodes where they cannot run; only the operator's flag --allow-unsafe-policies"
    )
    assert policies.apply(policy(custom(filter={"enabled": ["Extra"]}), generation=2)).accepted


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(custom(multiPoint={"disabled": ["PodTopologySpread", "InterPodAffinity"]}), id="spread and inter-pod affinity disabled"),
        pytest.param(custom(score={"disabled": ["*"]}, preScore={"disabled": ["*"]}), id="all scores disabled"),
        pytest.param(custom(preBind={"disabled": ["*"], "enabled": ["VolumeBinding", "DynamicResources"]}), id="all disabled, and the needed ones enabled again"),
        pytest.param(custom(postFilter={"disabled": ["*"]}), id="preemption disabled"),
        pytest.param(args(ignoredResources=[], scoringStrategy={"type": "MostAllocated"}), id="no resource ignored"),
        pytest.param({"strategy": {"type": "BalancedAllocation"}}, id="NodeResourcesFit without its score"),
    ],
)  # fmt: skip
def test_everything_else_can_be_disabled_by_any_policy(spec):
    assert PolicySet(PLUGINS, Features()).apply(policy(spec)).accepted
