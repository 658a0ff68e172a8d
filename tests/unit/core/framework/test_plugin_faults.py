"""A plugin that raises or returns a wrong answer fails its own attempt only, and the error names it."""

import asyncio
import signal

import numpy as np
import pytest

from podwright.api.kube_scheduler_configuration import convert_profile
from podwright.core.cycle import Fault, Placement, Rejection, schedule
from podwright.core.framework import interface as fw
from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.errors import PluginError, failure_message
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.framework.status import Code, Status, unschedulable
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.hostile.objects import host_ports
from support.objects.builders import make_node, make_pod

POD = parse_pod(make_pod("p"))
BASES = {
    "preEnqueue": fw.PreEnqueuePlugin,
    "preFilter": fw.PreFilterPlugin,
    "filter": fw.FilterPlugin,
    "postFilter": fw.PostFilterPlugin,
    "preScore": fw.PreScorePlugin,
    "score": fw.ScorePlugin,
    "reserve": fw.ReservePlugin,
    "permit": fw.PermitPlugin,
    "preBind": fw.PreBindPlugin,
    "bind": fw.BindPlugin,
    "postBind": fw.PostBindPlugin,
}


def boom(*_args):
    raise ZeroDivisionError("a bug")


class Quit(BaseException):
    pass


def quit_all(*_args):
    raise Quit("no Exception")


def interrupt(*_args):
    raise KeyboardInterrupt


def close(*_args):
    raise GeneratorExit


def leave(*_args):
    raise SystemExit(3)


class WordlessError(Exception):
    def __str__(self):
        raise SystemExit(4)


def without_words(*_args):
    raise WordlessError


def giving(value):
    return lambda *_args: value


def world():
    made = World()
    made.fill({"nodes": [make_node("a"), make_node("b")]})
    return made


def framework(point, in_world=None, *, alone=False, **methods):
    """The default profile and a plugin named Bad at one point. `alone`: without the default plugins of that point."""
    own = {"unreserve": lambda *_args: None} if point == "reserve" else {}
    bad = type("Bad", (fw.Plugin, BASES[point]), {"name": "Bad", **own, **methods})
    classes = {**PLUGINS, "Bad": bad}
    disabled = [{"name": "*"}] if alone else []
    plugins = {point: {"enabled": [{"name": "Bad"}], "disabled": disabled}}
    profile = convert_profile({"plugins": plugins}, "", classes, Features())
    return Framework(profile, classes, in_world or world())


def decide(fwk, pod=POD):
    return schedule(fwk, fwk.handle.cache, pod, lambda _n: 0)


NO_STATUS = [pytest.param(giving(False), id="False"), pytest.param(giving("no"), id="a string")]
RAISES = [
    pytest.param(boom, id="an exception"),
    pytest.param(leave, id="SystemExit"),
    pytest.param(quit_all, id="no Exception"),
    pytest.param(close, id="GeneratorExit"),
    pytest.param(interrupt, id="KeyboardInterrupt"),
    pytest.param(without_words, id="an exception whose text raises"),
]


def test_the_users_own_interrupt_passes_through_a_plugin():
    with pytest.raises(KeyboardInterrupt):
        decide(framework("filter", filter=lambda *_args: signal.raise_signal(signal.SIGINT)))


@pytest.mark.parametrize("method", NO_STATUS + RAISES)
@pytest.mark.parametrize("point, name", [("preFilter", "pre_filter"), ("filter", "filter"), ("preScore", "pre_score")])
def test_a_fault_before_scoring_fails_the_attempt_and_names_the_plugin(point, name, method):
    decision = decide(framework(point, **{name: method}))
    assert isinstance(decision, Fault)
    assert decision.plugin == "Bad"
    assert failure_message("Bad", point, "")[:-2] in decision.message


@pytest.mark.parametrize(
    "answer", [np.ones(2, bool), [True, True], np.array(True), fw.FilterResult(np.ones(3, bool), tuple)]
)
def test_filter_all_must_return_one_verdict_per_node(answer):
    decision = decide(framework("filter", filter=giving(None), filter_all=giving(answer)))
    assert isinstance(decision, Fault)
    assert 'running "Bad" filter plugin: filter_all returned' in decision.message


@pytest.mark.parametrize(
    "explain",
    [
        pytest.param(boom, id="it raises"),
        pytest.param(quit_all, id="it raises what is no Exception"),
        pytest.param(without_words, id="it raises an exception whose text raises"),
        pytest.param(lambda: (np.array([7, 7]), [unschedulable("x")]), id="a code out of range"),
        pytest.param(lambda: (np.array([0]), [unschedulable("x")]), id="too few codes"),
        pytest.param(lambda: (np.array([0, 0]), [Status(Code.SUCCESS)]), id="a status that is not a rejection"),
    ],
)
def test_a_wrong_explanation_names_the_plugin(explain):
    answer = fw.FilterResult(np.zeros(2, bool), explain)
    decision = decide(framework("filter", filter=giving(None), filter_all=giving(answer)))
    assert isinstance(decision, Fault)
    assert decision.plugin == "Bad"


@pytest.mark.parametrize("score", [None, "5", 50.7, float("nan"), True, 2**70])
def test_a_score_must_be_a_whole_number(score):
    decision = decide(framework("score", score=giving(score)))
    assert isinstance(decision, Fault)
    assert 'running Score plugins: plugin "Bad" failed with: score returned' in decision.message


@pytest.mark.parametrize("answer", [None, unschedulable("x"), (None, "x"), ("result", unschedulable("x"))])
def test_a_wrong_answer_of_post_filter_fails_the_attempt(answer):
    only_small = parse_pod(make_pod("big", requests={"cpu": "99"}))
    decision = decide(framework("postFilter", post_filter=giving(answer)), only_small)
    assert isinstance(decision, Fault)
    assert decision.plugin == "Bad"


@pytest.mark.parametrize("method", NO_STATUS + RAISES)
def test_a_broken_pre_enqueue_does_not_let_the_pod_through(method):
    with pytest.raises(PluginError, match='running PreEnqueue plugin "Bad"'):
        framework("preEnqueue", pre_enqueue=method).pre_enqueue(POD)


@pytest.mark.parametrize("method", RAISES)
def test_a_cache_that_cannot_be_cleared_is_reported_and_the_others_are_cleared(method):
    cleared, reported = [], []
    bad = type("Bad", (fw.Plugin, fw.PostFilterPlugin), {"name": "Bad", "clear_cache": method, "post_filter": boom})
    good = type("Good", (bad,), {"name": "Good", "clear_cache": lambda plugin: cleared.append(plugin.name)})
    classes = {**PLUGINS, "Bad": bad, "Good": good}
    plugins = {"postFilter": {"enabled": [{"name": "Bad"}, {"name": "Good"}]}}
    profile = convert_profile({"plugins": plugins}, "", classes, Features())
    fwk = Framework(profile, classes, world(), report_exception=lambda *report: reported.append(report[:2]))
    fwk.clear_cached_verdicts()
    assert cleared == ["Good"]
    assert reported == [("Bad", "postFilter")]


@pytest.mark.parametrize("method", NO_STATUS + RAISES)
def test_a_broken_reserve_is_unreserved(method):
    undone = []
    fwk = framework("reserve", reserve=method, unreserve=lambda *args: undone.append(args[-1]))
    with pytest.raises(PluginError, match='running Reserve plugin "Bad"'):
        fwk.reserve(fw.CycleState(), POD, "a")
    assert undone == ["a"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="None"),
        pytest.param(unschedulable("x"), id="a bare status"),
        pytest.param((Status(Code.WAIT), None), id="a wait without a timeout"),
        pytest.param((Status(Code.WAIT), float("nan")), id="a timeout that is not a number"),
        pytest.param((Status(Code.WAIT), -1), id="a negative timeout"),
    ],
)
def test_a_wrong_answer_of_permit_names_the_plugin(answer):
    with pytest.raises(PluginError, match='running Permit plugin "Bad"'):
        framework("permit", permit=giving(answer)).permit(fw.CycleState(), POD, "a")


def test_permit_waits_for_at_most_fifteen_minutes():
    fwk = framework("permit", permit=giving((Status(Code.WAIT), 1e9)))
    assert fwk.permit(fw.CycleState(), POD, "a")[1] == {"Bad": 900.0}


@pytest.mark.parametrize("method", [giving(False), boom, leave])
@pytest.mark.parametrize(
    "point, name, extra",
    [("preBind", "pre_bind", ()), ("bind", "bind", ({},)), ("postBind", "post_bind", ())],
)
def test_a_fault_in_pre_bind_bind_or_post_bind_names_the_plugin(point, name, extra, method):
    async def broken(*args):
        return method(*args)

    fwk = framework(point, alone=True, **{name: broken})
    with pytest.raises(PluginError, match=failure_message("Bad", point, "")):
        asyncio.run(getattr(fwk, name)(fw.CycleState(), POD, "a", *extra))


@pytest.mark.parametrize(
    "hints",
    [
        pytest.param(boom, id="it raises"),
        pytest.param(giving(5), id="a number"),
        pytest.param(giving([ClusterEvent(NODE, Action.ADD)]), id="an event instead of a hint"),
        pytest.param(giving([EventHint("NodeAdd")]), id="a string instead of an event"),
        pytest.param(giving([EventHint(ClusterEvent(NODE, "Add"))]), id="a string instead of an action"),
        pytest.param(giving([EventHint(ClusterEvent(None, Action.ADD))]), id="an event without a kind"),
        pytest.param(
            giving([EventHint(ClusterEvent(NODE, Action.ADD), Hint.SKIP)]), id="an answer instead of a function"
        ),
    ],
)
def test_wrong_hints_are_refused_when_the_profile_is_built(hints):
    bad = type(
        "Bad",
        (fw.Plugin, fw.FilterPlugin, fw.EnqueueExtensions),
        {"name": "Bad", "filter": giving(None), "hints": hints},
    )
    classes = {**PLUGINS, "Bad": bad}
    profile = convert_profile({"plugins": {"filter": {"enabled": [{"name": "Bad"}]}}}, "", classes, Features())
    with pytest.raises(PluginError, match='Hints plugin "Bad"'):
        Framework(profile, classes, world())


@pytest.mark.parametrize("gates", [{}, {"DynamicResourceAllocation": False}], ids=["disabled", "its gate off"])
def test_pods_with_resource_claims_are_rejected_even_if_dynamic_resources_is_disabled(gates):
    made = World(Features(gates))
    made.fill({"nodes": [make_node("a")]})
    plugins = {} if gates else {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}
    fwk = Framework(convert_profile({"plugins": plugins}, "", PLUGINS, made.features), PLUGINS, made)
    claiming = parse_pod(make_pod("p", spec={"resourceClaims": [{"name": "gpu"}]}))
    decision = decide(fwk, claiming)
    assert isinstance(decision, Rejection)
    assert "and the pod has resource claims (gpu)" in decision.message
    assert isinstance(decide(fwk), Placement)


def test_nominated_pods_of_equal_priority_count_as_present():
    made = World()
    made.fill({"nodes": [make_node("a", allocatable={"cpu": "2"})]})
    made.set_pod(make_pod("nominated", priority=5, requests={"cpu": "2"}, status={"nominatedNodeName": "a"}))
    fwk = Framework(convert_profile({}, "", PLUGINS, made.features), PLUGINS, made)
    pods = {n: parse_pod(make_pod(f"p{n}", priority=n, requests={"cpu": "1"})) for n in (4, 5, 6)}
    assert [type(decide(fwk, pods[n])) for n in (4, 5, 6)] == [Rejection, Rejection, Placement]


def test_an_attempt_may_pause_between_nodes_with_nominated_pods():
    made, names = World(), [f"n{i}" for i in range(20)]
    made.fill({"nodes": [make_node(name, allocatable={"cpu": "2"}) for name in names]})
    fwk = Framework(convert_profile({}, "", PLUGINS, made.features), PLUGINS, made)

    def pauses(name):
        made.cache.deadline.check = lambda: points.append(1)
        points = []
        decide(fwk, parse_pod(make_pod(name, requests={"cpu": "1"}, spec=host_ports(1))))
        made.cache.deadline.check = None
        return len(points)

    before = pauses("before")
    for name in names:
        made.set_pod(make_pod(f"on-{name}", priority=5, requests={"cpu": "1"}, status={"nominatedNodeName": name}))
    assert pauses("after") == before + len(names)
