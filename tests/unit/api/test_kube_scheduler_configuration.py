"""Profiles of a KubeSchedulerConfiguration: conversion, defaults and what is rejected."""

from __future__ import annotations

import re
from dataclasses import make_dataclass

import pytest

from podwright.api.compile import compile_policy
from podwright.api.kube_scheduler_configuration import POINTS, convert_profile, default_profile
from podwright.api.scheduler_policy import parse_policy
from podwright.core.framework.args import ArgsError
from podwright.core.framework.features import Features
from podwright.core.framework.interface import FilterPlugin, Plugin
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


class WordlessError(Exception):
    def __str__(self):
        raise SystemExit(4)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(SystemExit(3), "SystemExit: 3", id="SystemExit"),
        pytest.param(KeyError("color"), "KeyError: 'color'", id="an exception"),
        pytest.param(
            WordlessError(), "WordlessError (its text raises SystemExit)", id="an exception whose text raises"
        ),
    ],
)
@pytest.mark.parametrize("method", ["__post_init__", "validate"])
def test_args_that_a_plugin_cannot_check_are_refused_with_their_path(method, error, words):
    def fail(*_args):
        raise error

    args_type = make_dataclass("PaintedArgs", [("color", str, "blue")], namespace={method: fail})
    painted = type("Painted", (Plugin, FilterPlugin), {"name": "Painted", "args_type": args_type, "filter": fail})
    classes = {**STAND_INS, "Painted": painted}
    raw = {"pluginConfig": [{"name": "Painted", "args": {"color": "red"}}]}
    with pytest.raises(ArgsError) as raised:
        convert_profile(raw, "spec", classes, FEATURES)
    (where, problem), *others = raised.value.problems
    assert (where, others) == ("spec.pluginConfig[0].args", [])
    assert re.search(r"test_kube_scheduler_configuration.py, line \d+, in fail\)$", problem)
    assert "args.py" not in problem
    assert problem.startswith(f"cannot be checked: {words} (")
