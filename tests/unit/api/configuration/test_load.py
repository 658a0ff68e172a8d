"""Configuration files of all versions: their profiles, their settings and their warnings."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from podwright.api.configuration import load
from podwright.api.configuration.load import load_configuration
from podwright.api.kube_scheduler_configuration import merged_plugins
from podwright.core.framework.features import Features
from podwright.core.framework.interface import FilterPlugin, PreBindPlugin, PreFilterPlugin
from podwright.core.framework.profile import ProfileError, expand
from podwright.core.plugins import PLUGINS
from support.configuration.second_schedulers import (
    COMPILED_SCHEDULER,
    CUSTOM_SCHEDULER,
    SAMPLE_SCHEDULER,
    WITH_EXTENDER,
)
from support.costs.call_counts import calls_of

FEATURES = Features()
GROUP = "kubescheduler.config.k8s.io"


def _file(version="v1", **fields):
    document = {"apiVersion": f"{GROUP}/{version}", "kind": "KubeSchedulerConfiguration", **fields}
    return yaml.safe_dump(document).encode()


def _profiles(content, classes=PLUGINS):
    return load_configuration(content).profiles(classes, FEATURES)


def _problem(content):
    with pytest.raises(ProfileError) as caught:
        _profiles(content)
    return str(caught.value)


def test_the_smallest_file_is_the_default_scheduler():
    configuration = load_configuration(_file())
    (profile,) = configuration.profiles(PLUGINS, FEATURES)
    assert configuration.scheduler_names == ["default-scheduler"]
    assert profile.args == {}
    assert expand(profile.plugins, PLUGINS).weights["TaintToleration"] == 3
    assert configuration.warnings == ()
    election = configuration.settings.leader_election
    assert election.leader_elect
    assert (
        election.seconds("lease_duration"),
        election.seconds("renew_deadline"),
        election.seconds("retry_period"),
    ) == (15, 10, 2)
    assert (election.resource_namespace, election.resource_name) == ("", "")


def test_profiles_with_the_same_plugins_are_merged_once(monkeypatch):
    merged = []
    monkeypatch.setattr(load, "merged_plugins", lambda *given: merged.append(given) or merged_plugins(*given))
    plugins = {"score": {"enabled": [{"name": "ImageLocality", "weight": 7}]}}
    profiles = [{"schedulerName": f"a{i}", **({"plugins": plugins} if i % 2 else {})} for i in range(100)]
    found = _profiles(_file(profiles=profiles))
    assert len(merged) == 2
    assert [expand(each.plugins, PLUGINS).weights["ImageLocality"] for each in found[:4]] == [1, 7, 1, 7]


def test_reading_a_file_costs_the_same_for_each_profile():
    def cost(count):
        content = _file(profiles=[{"schedulerName": f"a{i}"} for i in range(count)])
        return calls_of(lambda: _profiles(content))

    cost(1)
    few, more, most = cost(100), cost(200), cost(400)
    assert most - more < 2.2 * (more - few)


def test_each_profile_has_its_own_plugins_weights_and_args():
    first, second = _profiles(
        _file(
            profiles=[
                {"schedulerName": "a", "plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 7}]}}},
                {
                    "schedulerName": "b",
                    "plugins": {"multiPoint": {"disabled": [{"name": "InterPodAffinity"}]}},
                    "pluginConfig": [
                        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}
                    ],
                },
            ]
        )
    )
    assert (first.scheduler_name, second.scheduler_name) == ("a", "b")
    assert expand(first.plugins, PLUGINS).weights["ImageLocality"] == 7
    assert "InterPodAffinity" in expand(first.plugins, PLUGINS).names
    assert "InterPodAffinity" not in expand(second.plugins, PLUGINS).names
    assert second.args["NodeResourcesFit"].scoring_strategy.type == "MostAllocated"


SHARED_FIELDS = {
    "leaderElection": {"leaderElect": True, "resourceName": "mine", "leaseDuration": "30s"},
    "clientConnection": {"kubeconfig": "/etc/kubeconfig", "qps": 50},
    "podInitialBackoffSeconds": 2,
    "podMaxBackoffSeconds": 20,
    "profiles": [
        {
            "schedulerName": "mine",
            "plugins": {
                "filter": {"disabled": [{"name": "NodePorts"}]},
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 3}]},
            },
            "pluginConfig": [
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}},
            ],
        }
    ],
}


@pytest.mark.parametrize("version", ["v1beta3", "v1beta2"])
def test_the_same_file_in_an_older_version_gives_the_same_profile(version):
    latest, older = load_configuration(_file(**SHARED_FIELDS)), load_configuration(_file(version, **SHARED_FIELDS))
    assert older.settings == latest.settings
    assert older.profiles(PLUGINS, FEATURES) == latest.profiles(PLUGINS, FEATURES)


def test_the_single_profile_of_v1alpha1_gives_the_same_profile():
    (profile,) = SHARED_FIELDS["profiles"]
    shared = {key: value for key, value in SHARED_FIELDS.items() if key != "profiles"}
    election = {"leaderElect": True, "lockObjectName": "mine", "leaseDuration": "30s", "resourceLock": "endpoints"}
    older = load_configuration(
        _file(
            "v1alpha1",
            **shared | {"leaderElection": election},
            schedulerName="mine",
            plugins=profile["plugins"],
            hardPodAffinitySymmetricWeight=5,
        )
    )
    latest = load_configuration(_file(**SHARED_FIELDS))
    assert older.profiles(PLUGINS, FEATURES) == latest.profiles(PLUGINS, FEATURES)
    assert older.settings.leader_election == latest.settings.leader_election
    assert older.warnings == ("leaderElection.resourceLock: a Lease is used instead of 'endpoints'",)


def test_args_may_name_the_version_of_the_file():
    config = {"name": "InterPodAffinity", "args": {"apiVersion": f"{GROUP}/v1beta3", "kind": "InterPodAffinityArgs"}}
    profiles = [{"schedulerName": "x", "pluginConfig": [config]}]
    assert _profiles(_file("v1beta3", profiles=profiles))
    assert "should be" in _problem(_file(profiles=profiles))


def test_v1alpha1_fields_become_plugins_and_args():
    (profile,) = _profiles(
        _file(
            "v1alpha1",
            algorithmSource={"provider": "ClusterAutoscalerProvider"},
            disablePreemption=True,
            bindTimeoutSeconds=30,
            plugins={
                "unreserve": {"enabled": [{"name": "VolumeBinding"}]},
                "postFilter": {"disabled": [{"name": "NodeAffinity"}]},
            },
        )
    )
    points = {point.key: names for point, names in expand(profile.plugins, PLUGINS).points.items()}
    assert points["postFilter"] == ("DynamicResources",)
    assert "NodeAffinity" not in points["preScore"]
    assert "NodeAffinity" in points["score"]
    assert profile.args["VolumeBinding"].bind_timeout_seconds == 30
    assert profile.args["NodeResourcesFit"].scoring_strategy.type == "MostAllocated"


@pytest.mark.parametrize(
    ("version", "fields", "problem"),
    [
        pytest.param("v2", {}, "apiVersion: 'kubescheduler.config.k8s.io/v2' is not one of", id="a version to come"),
        pytest.param(
            "v1beta3", {"delayCacheUntilActive": True}, "delayCacheUntilActive: unknown field", id="a newer field"
        ),
        pytest.param(
            "v1beta2",
            {"profiles": [{"percentageOfNodesToScore": 5}]},
            "profiles[0].percentageOfNodesToScore: unknown field",
            id="a newer field of a profile",
        ),
        pytest.param(
            "v1beta3",
            {"profiles": [{"plugins": {"placementScore": {}}}]},
            "profiles[0].plugins.placementScore: unknown field",
            id="a newer extension point",
        ),
        pytest.param(
            "v1beta2",
            {"healthzBindAddress": "0.0.0.0:10251"},
            "healthzBindAddress: only an empty address or port 0 is possible; --bind-address and --secure-port say",
            id="an insecure port",
        ),
        pytest.param("v1beta3", {"healthzBindAddress": ""}, "healthzBindAddress: unknown field", id="an older field"),
        pytest.param(
            "v1alpha1",
            {"algorithmSource": {"policy": {"file": {"path": "x"}}}},
            "algorithmSource.policy: scheduling policies were removed",
            id="a scheduling policy",
        ),
        pytest.param("v1alpha1", {"profiles": []}, "profiles: unknown field", id="profiles in v1alpha1"),
        pytest.param(
            "v1alpha1", {"plugins": []}, "profiles[0].plugins: expected an object", id="plugins of another type"
        ),
        pytest.param(
            "v1alpha1",
            {"schedulerName": 5},
            "profiles[0].schedulerName: expected a string",
            id="a name of another type",
        ),
        pytest.param("v1alpha1", {"leaderElection": []}, "leaderElection: expected an object", id="no leader election"),
        pytest.param("v1beta2", {"profiles": {}}, "profiles: expected a list", id="profiles of another type"),
        pytest.param(
            "v1",
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}], "parallelism": 0},
            'parallelism: Invalid value: 0: should be an integer value greater than zero; profiles[1].schedulerName: Duplicate value: "profiles[0].schedulerName"',
            id="two problems",
        ),
        pytest.param(
            "v1",
            {
                "profiles": [
                    {
                        "plugins": {"score": {"enabled": [{"name": "Nope"}]}},
                        "pluginConfig": [{"name": "NodeAffinity", "args": {"x": 1}}],
                    }
                ]
            },
            "profiles[0].pluginConfig[0].args.x: unknown field; there are addedAffinity; profiles[0].plugins.score.enabled: plugin 'Nope' does not exist",
            id="problems of plugins and args",
        ),
    ],
)
def test_a_problem_names_its_field(version, fields, problem):
    assert problem in _problem(_file(version, **fields))


def test_fields_without_effect_are_named_once():
    configuration = load_configuration(
        _file(
            parallelism=4,
            percentageOfNodesToScore=50,
            clientConnection={"qps": 5, "contentType": "application/json"},
            delayCacheUntilActive=True,
            profiles=[
                {
                    "percentageOfNodesToScore": 10,
                    "pluginConfig": [{"name": "NodeName", "args": {"x": 1}}, {"name": "NodeResourceFit", "args": {}}],
                }
            ],
        )
    )
    assert [warning.partition(":")[0] for warning in configuration.warnings] == [
        "parallelism",
        "percentageOfNodesToScore",
        "profiles[0].percentageOfNodesToScore",
        "clientConnection.qps and burst",
        "clientConnection.contentType and acceptContentTypes",
        "delayCacheUntilActive",
    ]
    assert configuration.unused_args(PLUGINS) == [
        "profiles[0].pluginConfig[0]: plugin 'NodeName' takes no args; its args are ignored",
        "profiles[0].pluginConfig[1]: plugin 'NodeResourceFit' does not exist (did you mean 'NodeResourcesFit'?); its args are ignored",
    ]


@dataclasses.dataclass(frozen=True)
class _SampleArgs:
    favorite_color: str = dataclasses.field(default="", metadata={"name": "favorite_color"})
    favorite_number: int = dataclasses.field(default=0, metadata={"name": "favorite_number"})
    thanks_to: str = dataclasses.field(default="", metadata={"name": "thanks_to"})


class _Sample(PreFilterPlugin, FilterPlugin, PreBindPlugin):
    name = "sample-plugin"
    args_type = _SampleArgs


@pytest.mark.parametrize(
    ("text", "name", "elects", "extenders"),
    [
        pytest.param(CUSTOM_SCHEDULER, "custom-scheduler", False, 0, id="a second scheduler"),
        pytest.param(COMPILED_SCHEDULER, "compiled-scheduler", False, 0, id="a compiled scheduler"),
        pytest.param(WITH_EXTENDER, "scheduler-with-extender", False, 1, id="a scheduler with an extender"),
        pytest.param(SAMPLE_SCHEDULER, "sample-scheduler", True, 0, id="a scheduler with a plugin of its own"),
    ],
)
def test_files_of_second_schedulers_are_accepted_as_they_are(text, name, elects, extenders):
    configuration = load_configuration(text.encode())
    (profile,) = configuration.profiles({**PLUGINS, "sample-plugin": _Sample}, FEATURES)
    assert profile.scheduler_name == name
    assert configuration.settings.leader_election.leader_elect == elects
    assert len(configuration.settings.extenders) == extenders


def test_extension_points_for_pod_groups_may_be_written_without_plugins():
    """As kube-scheduler writes its configuration."""
    empty = {key: {} for key in ("placementGenerate", "placementScore", "podGroupPostFilter")}
    (profile,) = _profiles(_file(profiles=[{"plugins": empty}]))
    assert expand(profile.plugins, PLUGINS) == expand(_profiles(_file())[0].plugins, PLUGINS)
    used = {"placementScore": {"enabled": [{"name": "NodeResourcesFit"}]}}
    assert "extension points for pod groups are not supported" in _problem(_file(profiles=[{"plugins": used}]))
