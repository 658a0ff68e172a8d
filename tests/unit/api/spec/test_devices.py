import pytest

from podwright.api.compile import compile_policy
from podwright.api.scheduler_policy import PolicyError, parse_policy
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Point, expand
from podwright.core.plugins import PLUGINS

FEATURES = Features({})


def compiled(**spec):
    return compile_policy(parse_policy({"metadata": {"name": "p"}, "spec": spec}), PLUGINS, FEATURES)


def weight_of(found):
    """Of the score of DynamicResources; None if it does not run."""
    return expand(found.profile.plugins, PLUGINS).weights.get("DynamicResources")


def test_a_policy_that_says_nothing_chooses_as_kube_scheduler():
    assert "DynamicResources" not in compiled(devices={}).profile.args
    assert weight_of(compiled()) == 2


def test_the_choice_becomes_args_of_the_plugin():
    chosen = {"allocation": "BestFit", "scoring": "MostAllocated", "preemption": "FreeDevices"}
    args = compiled(devices=chosen).profile.args["DynamicResources"]
    assert {key: getattr(args, key) for key in chosen} == chosen
    assert args.filter_timeout == "10s"


def test_other_args_stay():
    config = [{"name": "DynamicResources", "args": {"filterTimeout": "1s"}}]
    args = compiled(devices={"allocation": "Spread"}, pluginConfig=config).profile.args["DynamicResources"]
    assert (args.allocation, args.filter_timeout) == ("Spread", "1s")


@pytest.mark.parametrize(
    ("strategy", "plugins", "expected"),
    [
        ("MostAllocated", {}, 20),
        ("Custom", {"score": {"disabled": [{"name": "ImageLocality"}]}}, 20),
        ("Custom", {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality"}]}}, None),
        ("Custom", {"score": {"disabled": [{"name": "DynamicResources"}]}}, None),
    ],
)
def test_the_weight_is_set_unless_the_score_is_disabled(strategy, plugins, expected):
    spec = {"devices": {"weight": 20}, "strategy": {"type": strategy}, **({"plugins": plugins} if plugins else {})}
    found = compiled(**spec)
    runs = "DynamicResources" in expand(found.profile.plugins, PLUGINS).points[Point.SCORE]
    assert (weight_of(found) if runs else None) == expected


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param({"devices": {"allocation": "WorstFit"}}, "spec.devices.allocation: 'WorstFit' is not one of FirstFit, BestFit, Spread", id="an order that does not exist"),
        pytest.param({"devices": {"weight": 0}}, "spec.devices.weight: 0 is less than 1", id="no weight"),
        pytest.param({"devices": {"scoring": "BestFit"}, "strategy": {"type": "Random"}}, "spec.devices: scoring and weight are not used by strategy type Random", id="a score beside the only one"),
        pytest.param({"devices": {"weight": 3}, "strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "DynamicResources", "weight": 5}]}}}, "spec.plugins.score.enabled[0]: devices.weight already sets the weight", id="two weights"),
        pytest.param({"devices": {"allocation": "BestFit"}, "pluginConfig": [{"name": "DynamicResources", "args": {"allocation": "Spread"}}]}, "spec.pluginConfig[0].args.allocation: is already set by spec.devices.allocation", id="the args, too"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_field(spec, problem):
    with pytest.raises(PolicyError) as caught:
        compiled(**spec)
    assert caught.value.message == problem
