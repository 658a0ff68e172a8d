"""Profiles of a KubeSchedulerConfiguration: conversion, defaults and what is rejected."""

from __future__ import annotations

import pytest

from podwright.api.compile import compile_policy
from podwright.api.kube_scheduler_configuration import POINTS, convert_profile, default_profile
from podwright.api.scheduler_policy import parse_policy
from podwright.core.framework.features import Features
from podwright.core.framework.profile import MULTI_POINT, Point, ProfileError, expand
from support.engine.stand_ins import STAND_INS

FEATURES = Features()


def test_every_extension_point_is_described():
    assert list(POINTS) == [MULTI_POINT, *(point.key for point in Point)]


@pytest.mark.parametrize(("weight", "expected"), [(0, 1), (101, 101), (2**31 - 1, 2**31 - 1)])
def test_a_weight_counts_as_much_as_in_a_policy(weight, expected):
    plugins = {"score": {"enabled": [{"name": "ImageLocality", "weight": weight}]}}
    configured = convert_profile({"plugins": plugins}, "", STAND_INS, FEATURES)
    spec = {"strategy": {"type": "Custom"}, "plugins": plugins}
    policy = compile_policy(parse_policy({"metadata": {"name": "p"}, "spec": spec}), STAND_INS, FEATURES)
    for profile in (configured, policy.profile):
        assert expand(profile.plugins, STAND_INS).weights["ImageLocality"] == expected


@pytest.mark.parametrize(
    ("gate", "plugin"),
    [
        pytest.param("DynamicResourceAllocation", "DynamicResources", id="DynamicResourceAllocation"),
        pytest.param("NodeDeclaredFeatures", "NodeDeclaredFeatures", id="NodeDeclaredFeatures"),
    ],
)
def test_a_default_plugin_needs_its_feature_gate(gate, plugin):
    off = Features({gate: False})
    found = expand(default_profile("podwright", STAND_INS, off).plugins, STAND_INS)
    assert plugin not in found.names
    assert plugin in expand(default_profile("podwright", STAND_INS, FEATURES).plugins, STAND_INS).names


def test_a_profile_is_converted():
    raw = {
        "schedulerName": "custom-scheduler",
        "plugins": {
            "score": {"enabled": [{"name": "ImageLocality", "weight": 1000}, {"name": "NodeNameScore", "weight": 0}]},
            "multiPoint": {"disabled": [{"name": "InterPodAffinity"}, {"name": "NotHere"}]},
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "NodeResourcesFitArgs",
                    "ignoredResources": ["example.com/a"],
                },
            }
        ],
    }
    profile = convert_profile(raw, "profiles[0]", STAND_INS, FEATURES)
    found = expand(profile.plugins, STAND_INS)
    assert profile.scheduler_name == "custom-scheduler"
    assert found.points[Point.SCORE][0] == "ImageLocality"
    assert "InterPodAffinity" not in found.names
    assert (found.weights["ImageLocality"], found.weights["NodeNameScore"]) == (1000, 1)
    assert profile.args["NodeResourcesFit"].ignored_resources == ("example.com/a",)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param({"plugins": {"score": {"enabled": [{"weight": 1}]}}}, "profiles[0].plugins.score.enabled[0].name: a value is required", id="a plugin without a name"),
        pytest.param({"plugins": {"priorities": {}}}, "profiles[0].plugins.priorities: unknown extension point", id="an extension point that does not exist"),
        pytest.param({"plugins": {"score": {"enabled": [{"name": "Nope"}]}}}, "profiles[0].plugins.score.enabled: plugin 'Nope' does not exist", id="an unknown plugin"),
        pytest.param({"pluginConfig": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesFit"}]}, "profiles[0].pluginConfig[1].name: 'NodeResourcesFit' is listed twice", id="args listed twice"),
        pytest.param({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"kind": "InterPodAffinityArgs"}}]}, "profiles[0].pluginConfig[0].args.kind: 'InterPodAffinityArgs' should be 'NodeResourcesFitArgs'", id="args of another plugin"),
    ],
)  # fmt: skip
def test_an_invalid_profile_is_rejected_with_its_field(raw, message):
    with pytest.raises(ProfileError) as caught:
        convert_profile(raw, "profiles[0]", STAND_INS, FEATURES)
    assert str(caught.value).startswith(message)
