"""Merging custom plugin sets into the defaults, and expanding multiPoint, by the rules of KubeSchedulerConfiguration
v1.
"""

from __future__ import annotations

import pytest

from podwright.core.framework.profile import (
    DEFAULT_PLUGINS,
    Enabled,
    NotSupportedError,
    PluginSet,
    Point,
    ProfileError,
    expand,
    merge,
)
from support.engine.stand_ins import STAND_INS, stand_in


def sets(**points: PluginSet) -> dict[str, PluginSet]:
    return dict(points)


def on(*names: str, off: tuple[str, ...] = ()) -> PluginSet:
    """`A` or `A=3` with a weight."""
    pairs = (name.partition("=") for name in names)
    return PluginSet(tuple(Enabled(name, int(weight or 0)) for name, _, weight in pairs), off)


@pytest.mark.parametrize(
    ("default", "custom", "expected"),
    [
        pytest.param(on("A", "B"), on(), on("A", "B"), id="without a custom set the defaults remain"),
        pytest.param(on("A", "B"), on("C"), on("A", "B", "C"), id="a custom plugin is appended"),
        pytest.param(on("A", "B"), on(off=("A",)), on("B", off=("A",)), id="a default can be disabled by name"),
        pytest.param(on("A", "B"), on(off=("*",)), on(off=("*",)), id="a star disables all defaults"),
        pytest.param(on("A", "B"), on("C", off=("*",)), on("C", off=("*",)), id="a star keeps custom plugins"),
        pytest.param(on("A", "B", "C"), on("C", "A", off=("A", "B", "C")), on("C", "A", off=("A", "B", "C")), id="disabling and enabling a default moves it to the end"),
        pytest.param(on("A=1", "B=2", "C=3"), on("B=7"), on("A=1", "B=7", "C=3"), id="a default that is enabled again keeps its place and gets the new weight"),
        pytest.param(on("A=1", "B=2"), on("C=5", "B=7", "D=6"), on("A=1", "B=7", "C=5", "D=6"), id="overriding and appending together"),
        pytest.param(on("A=1"), on("A"), on("A"), id="a default that is enabled again without a weight loses the default weight"),
        pytest.param(on("A"), on("B", "B"), on("A", "B", "B"), id="a custom plugin that is listed twice is kept twice, and refused later"),
        pytest.param(on("A"), on("A=1", "A=2"), on("A=2", "A=1"), id="a default that is listed twice is kept twice"),
        pytest.param(on("A", "B", off=("C",)), on(off=("B",)), on("A", off=("B", "C")), id="plugins that either set disables are disabled"),
        pytest.param(on("A"), on(off=("Unknown",)), on("A", off=("Unknown",)), id="disabling an unknown plugin has no effect"),
    ],
)  # fmt: skip
def test_a_custom_set_is_merged_into_the_default_one(default, custom, expected):
    assert merge({"score": default}, {"score": custom}) == {"score": expected}


def test_each_point_is_merged_separately():
    merged = merge(sets(multiPoint=on("A"), score=on("B")), sets(score=on(off=("*",)), filter=on("C")))
    assert merged == sets(multiPoint=on("A"), score=on(off=("*",)), filter=on("C"))


CLASSES = {
    plugin.name: plugin
    for plugin in (
        stand_in("Sort", "queueSort"),
        stand_in("Binder", "bind"),
        stand_in("FS1", "filter", "score"),
        stand_in("FS2", "filter", "score"),
        stand_in("S1", "score"),
        stand_in("S2", "score"),
        stand_in("F1", "filter"),
        stand_in("Sort2", "queueSort"),
        stand_in("Later", "filter", not_supported="that comes later"),
    )
}


def expanded(multi: PluginSet, **points: PluginSet):
    return expand({"multiPoint": multi, "queueSort": on("Sort"), "bind": on("Binder"), **points}, CLASSES)


@pytest.mark.parametrize(
    ("multi", "score", "expected"),
    [
        pytest.param(on("FS1", "F1", "S1"), on(), ("FS1", "S1"), id="multiPoint enables a plugin at all its points, in order"),
        pytest.param(on("FS1", "S1"), on("S2"), ("FS1", "S1", "S2"), id="a plugin that only the point enables comes last"),
        pytest.param(on("FS1", "FS2", "S1"), on("S1"), ("S1", "FS1", "FS2"), id="a plugin that overrides multiPoint comes first"),
        pytest.param(on("FS1", "FS2", "S1"), on("S1", "FS2"), ("S1", "FS2", "FS1"), id="overriding plugins keep the order of the point"),
        pytest.param(on("FS1", "S1"), on("S2", "S1"), ("S1", "FS1", "S2"), id="overriding first, multiPoint next, others last"),
        pytest.param(on("FS1", "S1"), on(off=("FS1",)), ("S1",), id="a multiPoint plugin can be disabled at one point"),
        pytest.param(on("FS1", "S1"), on(off=("*",)), (), id="a star at the point disables all multiPoint plugins there"),
        pytest.param(on("FS1", "S1"), on("S2", "S1", off=("*",)), ("S2", "S1"), id="with a star at the point, the order of the point applies"),
        pytest.param(on("FS1"), on("FS1", off=("FS1",)), ("FS1",), id="a plugin that the point disables and enables is enabled"),
    ],
)  # fmt: skip
def test_multi_point_is_expanded(multi, score, expected):
    assert expanded(multi, score=score).points[Point.SCORE] == expected


def test_disabling_at_one_point_leaves_the_others():
    points = expanded(on("FS1", "F1"), score=on(off=("FS1",))).points
    assert points[Point.SCORE] == ()
    assert points[Point.FILTER] == ("FS1", "F1")


@pytest.mark.parametrize(
    ("multi", "score", "weights"),
    [
        pytest.param(on("FS1", "S1=3"), on(), {"FS1": 1, "S1": 3}, id="multiPoint's weight, or 1"),
        pytest.param(on("FS1=2", "S1=3"), on("S1=5"), {"S1": 5, "FS1": 2}, id="the point's weight overrides the one of multiPoint"),
        pytest.param(on("S1=3"), on("S1"), {"S1": 1}, id="a plugin that the point enables without a weight has weight 1"),
        pytest.param(on("F1=9", "S1"), on(), {"S1": 1}, id="only score plugins have weights"),
    ],
)  # fmt: skip
def test_weights_of_score_plugins(multi, score, weights):
    assert expanded(multi, score=score).weights == weights


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        pytest.param(sets(score=on("Nope")), "plugins.score.enabled: plugin 'Nope' does not exist", id="an unknown plugin at a point"),
        pytest.param(sets(multiPoint=on("Nope")), "plugins.multiPoint.enabled: plugin 'Nope' does not exist", id="an unknown plugin in multiPoint"),
        pytest.param(sets(score=on("F1")), "plugins.score.enabled: plugin 'F1' does not have the extension point score", id="a plugin that lacks the extension point"),
        pytest.param(sets(score=on("S1", "S1")), "plugins.score.enabled: plugin 'S1' is enabled twice", id="a plugin twice at a point"),
        pytest.param(sets(multiPoint=on("S1", "S1")), "plugins.multiPoint.enabled: plugin 'S1' is enabled twice", id="a plugin twice in multiPoint"),
        pytest.param(sets(queueSort=on()), "plugins.queueSort: exactly one plugin is needed, got 0", id="no plugin that sorts the queue"),
        pytest.param(sets(queueSort=on("Sort", "Sort2")), "plugins.queueSort: exactly one plugin is needed, got 2", id="two plugins that sort the queue"),
        pytest.param(sets(bind=on()), "plugins.bind: at least one plugin is needed", id="no plugin that binds"),
    ],
)  # fmt: skip
def test_invalid_profiles_are_refused(plugins, message):
    with pytest.raises(ProfileError) as caught:
        expanded(plugins.pop("multiPoint", on()), **plugins)
    assert str(caught.value) == message


def test_a_plugin_that_is_only_known_by_name_is_refused_as_not_supported():
    with pytest.raises(NotSupportedError, match="plugin 'Later' is not supported: that comes later"):
        expanded(on("Later"))


def test_the_default_profile_is_that_of_kube_scheduler():
    profile = expand(DEFAULT_PLUGINS, STAND_INS)
    assert profile.points[Point.QUEUE_SORT] == ("PrioritySort",)
    assert profile.points[Point.BIND] == ("DefaultBinder",)
    assert profile.points[Point.POST_FILTER] == ("DefaultPreemption",)
    assert profile.points[Point.FILTER] == (
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    )
    assert profile.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
