"""One SchedulerPolicy: parsing, validation and what its strategy makes of the default profile."""

from __future__ import annotations

import pytest

from podwright.api.compile import compile_policy
from podwright.api.kube_scheduler_configuration import convert_profile, default_profile
from podwright.api.scheduler_policy import PolicyError, parse_policy
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Point, ProfileError, expand
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


def refusal(spec) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        compiled(spec)
    return caught.value


def test_an_empty_spec_has_all_defaults():
    found = compiled({})
    spec = found.spec
    assert (found.name, spec.scheduler_name, spec.precedence, spec.strategy.type) == ("p", "podwright", 0, "Default")
    assert found.matches_all
    assert found.profile == default_profile("podwright", STAND_INS, FEATURES)


def test_every_field_is_read():
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
    raw["metadata"] |= {"uid": "u", "generation": 3}
    found = compile_policy(parse_policy(raw), STAND_INS, FEATURES)
    assert (found.source.uid, found.generation, found.spec.scheduler_name, found.spec.precedence) == ("u", 3, "ml", 10)
    assert found.profile.scheduler_name == "ml"
    assert found.profile.args["InterPodAffinity"].hard_pod_affinity_weight == 7
    assert found.matches({"gpu": "a100"}, {"team": "ml"})
    assert not found.matches({}, {"team": "ml"})
    assert not found.matches({"gpu": "a100"}, {"team": "web"})


def test_selectors_that_are_empty_match_everything():
    found = compiled({"match": {"namespaceSelector": {}, "podSelector": {"matchLabels": {}}}})
    assert found.matches_all
    assert found.matches({}, {})


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param({"strategy": {"type": "Best"}}, "Invalid", "spec.strategy.type: 'Best' is not one of Default, LeastAllocated", id="a strategy that does not exist"),
        pytest.param({"strategy": {"type": "Custom"}}, "Invalid", "spec.plugins: is required with strategy type Custom", id="Custom without plugins"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {}}}, "Invalid", "spec.plugins: is required with strategy type Custom", id="Custom with plugins that say nothing"),
        pytest.param({"plugins": {"score": {"disabled": [{"name": "*"}]}}}, "Invalid", "spec.plugins: is only for strategy type Custom, not Default", id="plugins without Custom"),
        pytest.param({"strategy": {"type": "Random", "resources": [{"name": "cpu"}]}}, "Invalid", "spec.strategy.resources: is not used by strategy type Random", id="resources where none are used"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 0}]}}, "Invalid", "spec.strategy.resources[0].weight: 0 is less than 1", id="a resource weight of 0"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}}, "Invalid", "spec.strategy.resources[0].weight: 101 is greater than 100", id="a resource weight over 100"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}, {"name": "cpu"}]}}, "Invalid", "spec.strategy.resources[1].name: 'cpu' is listed twice", id="a resource twice"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "a b"}]}}, "Invalid", "spec.strategy.resources[0].name: 'a b' does not have the form", id="a resource name with a blank"),
        pytest.param({"strategy": {"type": "MostAllocated", "resources": [{"name": "forbidden"}]}}, "Invalid", "spec.strategy.resources[0].name: is forbidden here", id="a resource that the plugin itself refuses"),
        pytest.param({"strategy": {"type": "BalancedAllocation", "resources": [{"name": "cpu", "weight": 2}]}}, "Invalid", "spec.strategy.resources[0].weight: strategy type BalancedAllocation accepts only weight 1", id="a weight for BalancedAllocation"),
        pytest.param({"strategy": {"type": "RequestedToCapacityRatio"}}, "Invalid", "spec.strategy.requestedToCapacityRatio: is required with strategy type RequestedToCapacityRatio", id="no shape"),
        pytest.param({"strategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": []}}}, "Invalid", "spec.strategy.requestedToCapacityRatio.shape: too few: 0 entries, the minimum is 1", id="an empty shape"),
        pytest.param({"strategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 5, "score": 0}, {"utilization": 5, "score": 9}]}}}, "Invalid", "spec.strategy.requestedToCapacityRatio.shape[1].utilization: utilization must rise", id="a shape that does not rise"),
        pytest.param({"strategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 5, "score": 11}]}}}, "Invalid", "spec.strategy.requestedToCapacityRatio.shape[0].score: 11 is greater than 10", id="a score over 10 in a shape"),
        pytest.param({"strategy": {"type": "Random", "requestedToCapacityRatio": {"shape": [{"utilization": 5, "score": 1}]}}}, "Invalid", "spec.strategy.requestedToCapacityRatio: is not used by strategy type Random", id="a shape where none is used"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}}}, "Invalid", "spec.plugins.score.enabled[0].weight: -1 is less than 0", id="a plugin weight below 0"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 2**31}]}}}, "Invalid", "spec.plugins.score.enabled[0].weight: 2147483648 is greater than 2147483647", id="a plugin weight that is no int32"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "ImageLocality"}, {"name": "ImageLocality"}]}}}, "Invalid", "spec.plugins.score.enabled[1].name: 'ImageLocality' is listed twice", id="a plugin twice"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"scores": {"enabled": [{"name": "ImageLocality"}]}}}, "Invalid", "spec.plugins.scores: unknown extension point; there are multiPoint, preEnqueue", id="an extension point that does not exist"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"filter": {"enabled": [{"name": "ImageLocality"}]}}}, "Invalid", "spec.plugins.filter.enabled: plugin 'ImageLocality' does not have the extension point filter", id="a plugin at a point that it does not have"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"bind": {"disabled": [{"name": "*"}]}}}, "Invalid", "spec.plugins.bind: at least one plugin is needed", id="nothing left that binds"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "NodeResourceFit"}]}}}, "UnknownPlugin", "spec.plugins.score.enabled[0].name: plugin 'NodeResourceFit' does not exist; did you mean 'NodeResourcesFit'?", id="a misspelt plugin"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"score": {"disabled": [{"name": "Imagelocality"}]}}}, "UnknownPlugin", "spec.plugins.score.disabled[0].name: plugin 'Imagelocality' does not exist; did you mean 'ImageLocality'?", id="a misspelt plugin to disable"),
        pytest.param({"pluginConfig": [{"name": "Nope"}]}, "UnknownPlugin", "spec.pluginConfig[0].name: plugin 'Nope' does not exist", id="args of a plugin that does not exist"),
        pytest.param({"pluginConfig": [{"name": "InterPodAffinity"}, {"name": "InterPodAffinity"}]}, "Invalid", "spec.pluginConfig[1].name: 'InterPodAffinity' is listed twice", id="args of a plugin twice"),
        pytest.param({"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": "x"}}]}, "Invalid", "spec.pluginConfig[0].args.hardPodAffinityWeight: expected a whole number, got string 'x'", id="args that do not decode"),
        pytest.param({"pluginConfig": [{"name": "NodeName", "args": {"a": 1}}]}, "Invalid", "spec.pluginConfig[0].args: plugin 'NodeName' takes no args", id="args of a plugin without any"),
        pytest.param({"strategy": {"type": "MostAllocated"}, "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "LeastAllocated"}}}]}, "Invalid", "spec.pluginConfig[0].args.scoringStrategy: is already set by strategy type MostAllocated", id="args that contradict the strategy"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"multiPoint": {"enabled": [{"name": "DeferredPodScheduling"}]}}}, "NotSupported", "spec.plugins.multiPoint.enabled: plugin 'DeferredPodScheduling' is not supported: resizes come later", id="a plugin known by name only"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"queueSort": {"enabled": [{"name": "OtherSort"}], "disabled": [{"name": "*"}]}}}, "NotSupported", "spec.plugins.queueSort: must be PrioritySort as in all policies, not OtherSort: there is one queue", id="another order of the queue"),
        pytest.param({"strategy": {"type": "Custom"}, "plugins": {"placementScore": {}}}, "NotSupported", "spec.plugins.placementScore: extension points for pod groups are not supported by this version", id="an extension point for pod groups"),
        pytest.param({"rules": {"filters": [{}]}}, "NotSupported", "spec.rules: is not supported by this version", id="rules"),
        pytest.param({"extenders": [{}]}, "NotSupported", "spec.extenders: is not supported by this version", id="extenders"),
        pytest.param({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}, "Invalid", "spec.match.podSelector.matchExpressions[0].operator: 'Near' is not one of In", id="a selector operator that does not exist"),
        pytest.param({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}, "Invalid", "spec.match.podSelector.matchExpressions[0].values: values are required for In and NotIn", id="In without values"),
        pytest.param({"match": {"namespaceSelector": {"matchLabels": {"a": 1}}}}, "Invalid", "spec.match.namespaceSelector.matchLabels.a: expected a string, got whole number 1", id="a label value that is a number"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"!!bad": "x"}}}}, "Invalid", "spec.match.podSelector.matchLabels[!!bad]: is not a label key: expected a name of at most 63 letters", id="a label key that no label can have"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"a": "x y z"}}}}, "Invalid", "spec.match.podSelector.matchLabels.a: 'x y z' does not have the form", id="a label value that no label can have"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"a": "x" * 64}}}}, "Invalid", "spec.match.podSelector.matchLabels.a: too long: 64 characters, the maximum is 63", id="a label value that is too long"),
        pytest.param({"match": {"podSelector": {"matchLabels": {"x" * 64: "a"}}}}, "Invalid", f"spec.match.podSelector.matchLabels.{'x' * 64}: is not a label key", id="a label key that is too long"),
        pytest.param({"match": {"namespaceSelector": {"matchLabels": {"Example.com/a": "b"}}}}, "Invalid", "spec.match.namespaceSelector.matchLabels[Example.com/a]: is not a label key", id="a label key whose prefix is in capitals"),
        pytest.param({"match": {"podSelector": {"matchExpressions": [{"key": "a/" + "x" * 64, "operator": "Exists"}]}}}, "Invalid", "spec.match.podSelector.matchExpressions[0].key: is not a label key", id="a key too long in an expression"),
        pytest.param({"match": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["ok", "x y"]}]}}}, "Invalid", "spec.match.podSelector.matchExpressions[0].values[1]: 'x y' does not have the form", id="a malformed value in an expression"),
        pytest.param({"precedence": "high"}, "Invalid", "spec.precedence: expected a whole number, got string 'high'", id="a precedence in words"),
        pytest.param({"precedence": 2_000_000_000}, "Invalid", "spec.precedence: 2000000000 is greater than 1000000000", id="a precedence that is too great"),
        pytest.param({"schedulerName": ""}, "Invalid", "spec.schedulerName: too short", id="an empty scheduler name"),
        pytest.param({"stratgy": {}}, "Invalid", "spec.stratgy: unknown field; there are schedulerName", id="a misspelt field"),
        pytest.param([], "Invalid", "spec: expected an object, got a list", id="a spec that is a list"),
        pytest.param("x", "Invalid", "spec: expected an object, got string 'x'", id="a spec that is a string"),
    ],
)  # fmt: skip
def test_bad_policies_are_refused_naming_the_policy_and_the_field(spec, reason, message):
    error = refusal(spec)
    assert error.message.startswith(message)
    assert error.reason == reason
    assert str(error).startswith("SchedulerPolicy p: ")
    assert len(error.problems) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("app", "", id="an empty value"),
        pytest.param("app.kubernetes.io/name", "web-1.2_x", id="a prefix, and signs inside"),
        pytest.param("A_b.c-d", "X" * 63, id="capitals, and the longest value"),
        pytest.param("a" * 253 + "/" + "b" * 63, "1", id="the longest key"),
    ],
)
def test_every_label_that_an_object_can_have_can_be_selected(key, value):
    assert compiled({"match": {"podSelector": {"matchLabels": {key: value}}}}).matches({key: value}, {})


@pytest.mark.parametrize(("weight", "counts"), [(0, 1), (101, 101), (2**31 - 1, 2**31 - 1)])
def test_weights_are_as_in_a_kube_scheduler_configuration(weight, counts):
    plugins = {"score": {"enabled": [{"name": "ImageLocality", "weight": weight}]}}
    found = expanded({"strategy": {"type": "Custom"}, "plugins": plugins})
    assert found.weights["ImageLocality"] == counts
    configured = convert_profile({"plugins": plugins}, "", STAND_INS, FEATURES)
    assert expand(configured.plugins, STAND_INS).weights == found.weights


def test_all_problems_of_a_policy_are_told_at_once():
    error = refusal({"precedence": "x", "strategy": {"type": "Best"}})
    assert [where for where, _ in error.problems] == ["spec.precedence", "spec.strategy.type"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="no metadata"),
        pytest.param({"metadata": {"name": 3}}, id="a name that is a number"),
        pytest.param({"metadata": {"name": "p"}, "kind": "Pod"}, id="another kind"),
        pytest.param({"metadata": {"name": "p"}, "apiVersion": "podwright.dev/v2"}, id="another version"),
    ],
)
def test_what_is_no_policy_is_refused(raw):
    with pytest.raises(PolicyError):
        parse_policy(raw)


def test_later_fields_that_are_empty_are_no_error():
    assert compiled({"rules": {}, "extenders": []}).spec.strategy.type == "Default"


@pytest.mark.parametrize(
    ("strategy", "args"),
    [
        pytest.param({"type": "LeastAllocated"}, ("LeastAllocated", {"cpu": 1, "memory": 1}, None), id="LeastAllocated"),
        pytest.param({"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 5}, {"name": "cpu"}]}, ("MostAllocated", {"nvidia.com/gpu": 5, "cpu": 1}, None), id="MostAllocated with resources"),
        pytest.param({"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}, ("RequestedToCapacityRatio", {"cpu": 1, "memory": 1}, [(0, 0), (100, 10)]), id="RequestedToCapacityRatio with its shape"),
    ],
)  # fmt: skip
def test_strategies_by_usage_set_the_scoring_strategy_of_the_fit_plugin(strategy, args):
    found = compiled({"strategy": strategy}).profile
    assert found.plugins == default_profile("podwright", STAND_INS, FEATURES).plugins
    scoring = found.args["NodeResourcesFit"].scoring_strategy
    ratio = scoring.requested_to_capacity_ratio
    shape = None if ratio is None else [(point.utilization, point.score) for point in ratio.shape]
    assert (scoring.type, {r.name: r.weight for r in scoring.resources}, shape) == args


def test_other_args_of_the_fit_plugin_go_with_the_strategy():
    spec = {
        "strategy": {"type": "MostAllocated"},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/a"]}}],
    }
    args = compiled(spec).profile.args["NodeResourcesFit"]
    assert args.ignored_resources == ("example.com/a",)
    assert args.scoring_strategy.type == "MostAllocated"


def test_balanced_allocation_is_the_only_score_by_resources():
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
def test_random_and_node_name_replace_all_scores(strategy, plugin):
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


def test_custom_plugins_are_merged_into_the_default_ones():
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


@pytest.mark.parametrize(
    ("gate", "plugin"),
    [
        pytest.param("DynamicResourceAllocation", "DynamicResources", id="DynamicResourceAllocation"),
        pytest.param("NodeDeclaredFeatures", "NodeDeclaredFeatures", id="NodeDeclaredFeatures"),
    ],
)
def test_a_default_plugin_goes_with_its_feature_gate(gate, plugin):
    off = Features({gate: False})
    found = expand(default_profile("podwright", STAND_INS, off).plugins, STAND_INS)
    assert plugin not in found.names
    assert plugin in expand(default_profile("podwright", STAND_INS, FEATURES).plugins, STAND_INS).names


def test_a_profile_of_a_kube_scheduler_configuration_is_converted():
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
        pytest.param({"pluginConfig": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesFit"}]}, "profiles[0].pluginConfig[1].name: 'NodeResourcesFit' is listed twice", id="args twice"),
        pytest.param({"pluginConfig": [{"name": "NodeResourcesFit", "args": {"kind": "InterPodAffinityArgs"}}]}, "profiles[0].pluginConfig[0].args.kind: 'InterPodAffinityArgs' should be 'NodeResourcesFitArgs'", id="args of another plugin"),
    ],
)  # fmt: skip
def test_bad_profiles_are_refused_naming_the_field(raw, message):
    with pytest.raises(ProfileError) as caught:
        convert_profile(raw, "profiles[0]", STAND_INS, FEATURES)
    assert str(caught.value).startswith(message)
