"""The framework reports every attempt to its observer, and the plugins of those attempts whose CycleState carries
one.
"""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from podwright.core.cycle import schedule
from podwright.core.framework import interface as fw
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.measured import measured
from podwright.core.framework.observer import NO_OBSERVER, Observer
from podwright.core.framework.profile import Enabled, PluginSet, Profile
from podwright.core.framework.status import SKIP, unschedulable
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod

POD = parse_pod(make_pod("p"))


class Recorder(Observer):
    """Keeps what it learns. Its clock ticks once for each call."""

    def __init__(self):
        self.ticks = 0
        self.built = []
        self.attempts = []
        self.plugins = []
        self.points = []

    def start(self):
        self.ticks += 1
        return self.ticks

    def framework_built(self, plugins):
        self.built.append(plugins)

    def attempt_ended(self, plugins, skipped, nodes, rejected, scored, ended_by):
        self.attempts.append((plugins.profile, nodes, dict(rejected), scored, ended_by))

    def plugin_ended(self, started, plugin, point, status):
        assert started <= self.ticks
        self.plugins.append((plugin, point, status))

    def point_ended(self, started, profile, point, status):
        assert started <= self.ticks
        self.points.append((point, status))


class Chatty(
    fw.Plugin, fw.PreFilterPlugin, fw.FilterPlugin, fw.PreScorePlugin, fw.ScorePlugin, fw.ReservePlugin, fw.PermitPlugin
):
    """Has many points. Rejects node `c`, and raises in Permit for the node `b`."""

    name = "Chatty"

    def pre_filter(self, _state, _pod):
        return None

    def filter(self, _state, _pod, node):
        return unschedulable("no") if node.name == "c" else None

    def pre_score(self, _state, _pod, _feasible):
        return None

    def score(self, _state, _pod, _node):
        return 1

    def normalize(self, _state, _pod, scores, _feasible):
        return scores

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, _state, _pod, _node_name):
        return None

    def permit(self, _state, _pod, node_name):
        if node_name == "b":
            raise ZeroDivisionError("a bug")
        return None, 0.0


class Binder(fw.Plugin, fw.PreBindPlugin, fw.BindPlugin, fw.PostBindPlugin):
    name = "Binder"

    def pre_bind_pre_flight(self, _state, _pod, node_name):
        return SKIP if node_name == "b" else None

    async def pre_bind(self, _state, _pod, _node_name):
        return None

    async def bind(self, _state, _pod, node_name, _annotations):
        return unschedulable("no") if node_name == "b" else None

    async def post_bind(self, _state, _pod, _node_name):
        return None


@pytest.fixture
def recorder():
    return Recorder()


def framework(observer=NO_OBSERVER):
    world = World()
    world.fill({"nodes": [make_node(name) for name in "abc"]})
    classes = {"PrioritySort": PLUGINS["PrioritySort"], "Chatty": Chatty, "Binder": Binder}
    profile = Profile("podwright", {"multiPoint": PluginSet(tuple(Enabled(name) for name in classes))}, {})
    return Framework(profile, classes, world, observer)


def decide(fwk, observer=None):
    return schedule(fwk, fwk.handle.cache, POD, lambda _n: 0, observer=observer)


def test_an_observer_learns_of_every_attempt_and_times_only_measured_ones(recorder):
    fwk = framework(recorder)
    assert [plugins.at["Filter"] for plugins in recorder.built] == [("Chatty",)]
    decide(fwk)
    assert recorder.attempts == [("podwright", 3, {"Chatty": 1}, 2, "")]
    assert recorder.plugins == recorder.points == []
    decide(fwk, recorder)
    assert len(recorder.attempts) == 2
    assert recorder.points == [
        ("PreFilter", "Success"),
        ("Filter", "Success"),
        ("PreScore", "Success"),
        ("Score", "Success"),
    ]
    assert recorder.plugins == [
        ("Chatty", "PreFilter", "Success"),
        ("Chatty", "Filter", "Success"),
        ("Chatty", "PreScore", "Success"),
        ("Chatty", "Score", "Success"),
        ("Chatty", "ScoreExtensionNormalize", "Success"),
    ]


def test_a_measured_attempt_decides_like_any_other(recorder):
    plain, reported = decide(framework()), decide(framework(), recorder)
    assert (plain.node_name, plain.score, plain.rejected) == (reported.node_name, reported.score, reported.rejected)


def test_a_plugin_of_a_measured_framework_poses_as_itself(recorder):
    fwk = framework()
    (plugin,) = measured(fwk, recorder).filter_plugins
    assert isinstance(plugin, Chatty)
    assert plugin.__class__ is Chatty
    assert measured(fwk, recorder) is measured(fwk, recorder)
    assert measured(fwk, None) is fwk


def test_dry_runs_of_a_measured_attempt_are_not_measured(recorder):
    fwk = measured(framework(), recorder)
    fwk.filter_node(fw.CycleState(), POD, fwk.handle.cache.present("c"))
    assert recorder.plugins == recorder.points == []


def test_a_plugin_that_raises_is_measured_with_an_error(recorder):
    with pytest.raises(PluginError):
        measured(framework(), recorder).permit(fw.CycleState(), POD, "b")
    assert recorder.plugins == [("Chatty", "Permit", "Error")]
    assert recorder.points == [("Permit", "Error")]


@pytest.mark.parametrize(
    ("node_name", "plugins", "points"),
    [
        pytest.param(
            "a",
            [("PreBindPreFlight", "Success"), ("PreBind", "Success"), ("Bind", "Success"), ("PostBind", "Success")],
            [("PreBind", "Success"), ("Bind", "Success"), ("PostBind", "Success")],
            id="the pod is bound",
        ),
        pytest.param(
            "b",
            [("PreBindPreFlight", "Skip"), ("Bind", "Unschedulable"), ("PostBind", "Success")],
            [("PreBind", "Success"), ("Bind", "Unschedulable"), ("PostBind", "Success")],
            id="PreBind is skipped and Bind rejects the node",
        ),
    ],
)
def test_asynchronous_points_are_measured(recorder, node_name, plugins, points):
    fwk, state = measured(framework(), recorder), fw.CycleState()

    async def bind():
        await fwk.pre_bind(state, POD, node_name)
        await fwk.bind(state, POD, node_name, {})
        await fwk.post_bind(state, POD, node_name)

    asyncio.run(bind())
    assert recorder.plugins == [("Binder", *each) for each in plugins]
    assert recorder.points == points


def test_unreserve_is_measured_under_its_own_name(recorder):
    measured(framework(), recorder).unreserve(fw.CycleState(), POD, "a")
    assert recorder.plugins == [("Chatty", "Unreserve", "Success")]
    assert recorder.points == [("Unreserve", "Success")]


def test_an_attempt_keeps_nothing_of_the_attempts_before_it():
    policys = framework()
    earlier = weakref.ref(measured(policys, Recorder()))
    measured(policys, Recorder())
    gc.collect()
    assert earlier() is None
