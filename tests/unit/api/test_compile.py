"""Compiling a SchedulerPolicy: what its strategy and plugins change about the default profile, and what is rejected."""

from __future__ import annotations

import pytest

import podwright.api.compile as compile_module
from podwright.api.compile import compile_policy, queue_sort_of
from podwright.api.kube_scheduler_configuration import default_profile
from podwright.api.scheduler_policy import PolicyError, parse_policy
from podwright.api.spec.match import Subject
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Point, expand
from support.engine.stand_ins import STAND_INS

FEATURES = Features()
SCORES = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "VolumeBinding",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)


def policy(spec, name="p"):
    return {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulerPolicy", "metadata": {"name": name}, "spec": spec}


def compiled(spec):
    return compile_policy(parse_policy(policy(spec)), STAND_INS, FEATURES)


def expanded(spec):
    return expand(compiled(spec).profile.plugins, STAND_INS)


def test_an_empty_spec_compiles_to_the_default_profile():
    found = compiled({})
    assert found.matches_all
    assert found.profile == default_profile("podwright", STAND_INS, FEATURES)


def test_every_field_takes_effect():
    raw = policy(
        {
            "schedulerName": "ml",
            "match": {
                "namespaceSelector": {"matchLabels": {"team": "ml"}},
                "podSelector": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
            },
            "precedence": 10,
            "strategy": {"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 5}]},
            "plugins": {},
            "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}}],
        }
    )
    raw["metadata"]["generation"] = 3
    found = compile_policy(parse_policy(raw), STAND_INS, FEATURES)
    assert (found.generation, found.spec.scheduler_name, found.spec.precedence) == (3, "ml", 10)
    assert found.profile.scheduler_name == "ml"
    assert found.profile.args["InterPodAffinity"].hard_pod_affinity_weight == 7
    assert found.matches(Subject({"gpu": "a100"}, {"team": "ml"}))
    assert not found.matches(Subject({}, {"team": "ml"}))
    assert not found.matches(Subject({"gpu": "a100"}, {"team": "web"}))


def test_empty_selectors_match_everything():
    found = compiled({"match": {"namespaceSelector": {}, "podSelector": {"matchLabels": {}}}})
    assert found.matches_all
    assert found.matches(Subject({}, {}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("app", "", id="an empty value"),
        pytest.param("app.kubernetes.io/name", "web-1.2_x", id="a prefix and punctuation"),
        pytest.param("A_b.c-d", "X" * 63, id="capitals, and the longest value"),
        pytest.param("a" * 253 + "/" + "b" * 63, "1", id="the longest key"),
    ],
)
def test_every_valid_label_can_be_selected(key, value):
    assert compiled({"match": {"podSelector": {"matchLabels": {key: value}}}}).matches(Subject({key: value}, {}))


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "forbidden"}]}}, "Invalid", "spec.strategy.resources[0].name: is forbidden here", id="a resource that the plugin rejects"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"filter": {"enabled": [{"name": "ImageLocality"}]}}}, "Invalid", "spec.plugins.filter.enabled: plugin 'ImageLocality' does not have the extension point filter", id="a plugin at a point that it does not have"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"bind": {"disabled": [{"name": "*"}]}}}, "Invalid", "spec.plugins.bind: at least one plugin is needed", id="no bind plugin left"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "NodeResourceFit"}]}}}, "UnknownPlugin", "spec.plugins.score.enabled[0].name: plugin 'NodeResourceFit' does not exist; did you mean 'NodeResourcesFit'?", id="a misspelt plugin"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"disabled": [{"name": "Imagelocality"}]}}}, "UnknownPlugin", "spec.plugins.score.disabled[0].name: plugin 'Imagelocality' does not exist; did you mean 'ImageLocality'?", id="a misspelt plugin to disable"),
        pytest.param({"pluginConfig": [{"name": "Nope"}]}, "UnknownPlugin", "spec.pluginConfig[0].name: plugin 'Nope' does not exist", id="args of a plugin that does not exist"),
        pytest.param({"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": "x"}}]}, "Invalid", "spec.pluginConfig[0].args.hardPodAffinityWeight: expected a whole number, got string 'x'", id="args that do not decode"),
        pytest.param({"pluginConfig": [{"name": "NodeName", "args": {"a": 1}}]}, "Invalid", "spec.pluginConfig[0].args: plugin 'NodeName' takes no args", id="args of a plugin that takes none"),
        pytest.param({"strategy": {"type": "MostAllocated"}, "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "LeastAllocated"}}}]}, "Invalid", "spec.pluginConfig[0].args.scoringStrategy: is already set by strategy type MostAllocated", id="args that the strategy sets too"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"multiPoint": {"enabled": [{"name": "DeferredPodScheduling"}]}}}, "NotSupported", "spec.plugins.multiPoint.enabled: plugin 'DeferredPodScheduling' is not supported: resizes come later", id="a plugin that is not supported"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"queueSort": {"enabled": [{"name": "OtherSort"}], "disabled": [{"name": "*"}]}}}, "NotSupported", "spec.plugins.queueSort: must be PrioritySort as in all policies, not OtherSort: there is one queue", id="a different queue sort plugin"),
    ],
)  # fmt: skip
def test_a_policy_that_does_not_compile_is_rejected_with_its_field(spec, reason, message):
    with pytest.raises(PolicyError) as caught:
        compiled(spec)
    assert caught.value.message.startswith(message)
    assert caught.value.reason == reason
    assert len(caught.value.problems) == 1


def without_default_plugins(**points):
    """A Custom policy that disables all default plugins and enables NodeName and a bind plugin."""
    enabled = [{"name": "NodeName"}, {"name": "DefaultBinder"}]
    multi = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    return {"strategy": {"type": "Custom"}, "plugins": {**multi, **points}}


@pytest.mark.parametrize("queue_sort", ["PrioritySort", "OtherSort"])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(without_default_plugins(), id="all default plugins"),
        pytest.param(without_default_plugins(queueSort={"enabled": []}), id="all default plugins, with an empty queueSort"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}, id="the queue sort"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"multiPoint": {"disabled": [{"name": "PrioritySort"}]}}}, id="its plugin by name"),
    ],
)  # fmt: skip
def test_a_policy_that_disables_default_plugins_need_not_name_the_queue_sort(spec, queue_sort):
    found = compile_policy(parse_policy(policy(spec)), STAND_INS, FEATURES, queue_sort)
    assert queue_sort_of(found.profile, STAND_INS) == queue_sort


def test_the_queue_sort_of_another_policy_cannot_be_enabled_at_multi_point():
    spec = without_default_plugins()
    spec["plugins"]["multiPoint"]["enabled"].append({"name": "OtherSort"})
    with pytest.raises(PolicyError, match="queueSort: must be PrioritySort as in all policies, not OtherSort"):
        compiled(spec)


def test_only_the_names_that_a_message_shows_are_compared_with_the_names_of_plugins(monkeypatch):
    compared = []
    monkeypatch.setattr(compile_module, "did_you_mean", lambda name, _classes: compared.append(name) or "")
    plugins = {"score": {"enabled": [{"name": f"Nope{index}"} for index in range(64)]}}
    with pytest.raises(PolicyError, match="and 54 more"):
        compiled({"strategy": {"type": "Custom"}, "plugins": plugins})
    assert len(compared) == 10


@pytest.mark.parametrize(
    ("strategy", "args"),
    [
        pytest.param({"type": "LeastAllocated"}, ("LeastAllocated", {"cpu": 1, "memory": 1}, None), id="LeastAllocated"),
        pytest.param({"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 5}, {"name": "cpu"}]}, ("MostAllocated", {"nvidia.com/gpu": 5, "cpu": 1}, None), id="MostAllocated with resources"),
        pytest.param({"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}, ("RequestedToCapacityRatio", {"cpu": 1, "memory": 1}, [(0, 0), (100, 10)]), id="RequestedToCapacityRatio with its shape"),
    ],
)  # fmt: skip
def test_strategies_by_allocation_set_the_scoring_strategy_of_node_resources_fit(strategy, args):
    found = compiled({"strategy": strategy}).profile
    assert found.plugins == default_profile("podwright", STAND_INS, FEATURES).plugins
    scoring = found.args["NodeResourcesFit"].scoring_strategy
    ratio = scoring.requested_to_capacity_ratio
    shape = None if ratio is None else [(point.utilization, point.score) for point in ratio.shape]
    assert (scoring.type, {r.name: r.weight for r in scoring.resources}, shape) == args


def test_other_args_of_node_resources_fit_are_kept_beside_the_strategy():
    spec = {
        "strategy": {"type": "MostAllocated"},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/a"]}}],
    }
    args = compiled(spec).profile.args["NodeResourcesFit"]
    assert args.ignored_resources == ("example.com/a",)
    assert args.scoring_strategy.type == "MostAllocated"


def test_balanced_allocation_removes_the_scores_of_node_resources_fit():
    spec = {"strategy": {"type": "BalancedAllocation", "resources": [{"name": "cpu"}, {"name": "nvidia.com/gpu"}]}}
    points = expanded(spec).points
    assert points[Point.SCORE] == tuple(name for name in SCORES if name != "NodeResourcesFit")
    assert "NodeResourcesFit" not in points[Point.PRE_SCORE]
    args = compiled(spec).profile.args["NodeResourcesBalancedAllocation"]
    assert [resource.name for resource in args.resources] == ["cpu", "nvidia.com/gpu"]


@pytest.mark.parametrize(
    ("strategy", "plugin"),
    [
        pytest.param("Random", "RandomScore", id="Random"),
        pytest.param("NodeName", "NodeNameScore", id="NodeName"),
    ],
)
def test_random_and_node_name_replace_all_score_plugins(strategy, plugin):
    found = expanded({"strategy": {"type": strategy}})
    assert found.points[Point.SCORE] == (plugin,)
    assert found.points[Point.PRE_SCORE] == ()
    assert found.weights == {plugin: 1}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"strategy": {"type": "LeastAllocated"}}, id="LeastAllocated"),
        pytest.param({"strategy": {"type": "BalancedAllocation"}}, id="BalancedAllocation"),
        pytest.param({"strategy": {"type": "Random"}}, id="Random"),
        pytest.param({"strategy": {"type": "NodeName"}}, id="NodeName"),
    ],
)
def test_a_strategy_changes_scoring_only(spec):
    default, found = expanded({}).points, expanded(spec).points
    for point in Point:
        if point not in (Point.SCORE, Point.PRE_SCORE):
            assert found[point] == default[point]


def test_custom_plugins_are_merged_into_the_default_plugins():
    spec = {
        "strategy": {"type": "Custom"},
        "plugins": {
            "multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 50}]},
            "score": {
                "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
                "enabled": [{"name": "NodeNameScore"}],
            },
        },
    }
    found = expanded(spec)
    kept = [name for name in SCORES if name != "NodeResourcesBalancedAllocation"]
    assert found.points[Point.SCORE] == (*kept, "NodeNameScore")
    assert (found.weights["ImageLocality"], found.weights["NodeNameScore"]) == (50, 1)
