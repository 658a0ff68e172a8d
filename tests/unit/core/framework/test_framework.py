"""The framework runs the plugins of a profile: order, Skip, failures, and checks of their answers."""

import asyncio
import re

import numpy as np
import pytest

from podwright.core.cycle import Fault, Placement, Rejection, schedule
from podwright.core.framework import interface as fw
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.helpers import normalize_by_greatest
from podwright.core.framework.profile import Enabled, PluginSet, Profile
from podwright.core.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.simulator.world import World
from support.objects.builders import make_node, make_pod

POD = parse_pod(make_pod("p"))


def framework(*classes, nodes="abc", args=None, besides=("PrioritySort", "DefaultBinder")):
    """A framework with only these plugins and those `besides`."""
    world = World()
    world.fill({"nodes": [make_node(name) for name in nodes]})
    everything = {**{name: PLUGINS[name] for name in besides}, **{c.name: c for c in classes}}
    entries = tuple(Enabled(name, getattr(c, "weight", 0)) for name, c in everything.items())
    profile = Profile("podwright", {"multiPoint": PluginSet(entries)}, args or {})
    return Framework(profile, everything, world)


def decide(fwk, pod=POD):
    return schedule(fwk, fwk.handle.cache, pod, lambda _n: 0)


def plugin(plugin_name, *bases, **methods):
    return type(plugin_name, (fw.Plugin, *bases), {"name": plugin_name, **methods})


def filtering(name, verdict, **more):
    return plugin(name, fw.FilterPlugin, filter=lambda _self, _state, _pod, node: verdict(node.name), **more)


def scoring(name, score, **more):
    return plugin(name, fw.ScorePlugin, score=lambda _self, _state, _pod, node: score(node.name), **more)


def test_the_first_filter_that_rejects_a_node_gives_the_reason():
    first = filtering("First", lambda name: unschedulable("first") if name == "a" else None)
    second = filtering("Second", lambda name: unresolvable("second") if name in "ab" else None)
    third = filtering("Third", lambda _name: unschedulable("third"))
    decision = decide(framework(first, second, third))
    assert isinstance(decision, Rejection)
    assert decision.message == "0/3 nodes are available: 1 first, 1 second, 1 third."
    assert decision.status_plugins == {"First", "Second", "Third"}
    assert decision.diagnosis.plugins() == {"First": 1, "Second": 1, "Third": 1}


def test_filter_all_is_preferred_and_explains_only_when_the_pod_is_rejected():
    explained = []

    def filter_all(_self, _state, _pod, table):
        codes = np.array([0, 1, 0])
        return fw.FilterResult(codes == 0, lambda: (codes, explained.append(1) or [None, unschedulable("even")]))

    fwk = framework(filtering("Fast", lambda _name: unschedulable("slow"), filter_all=filter_all))
    decision = decide(fwk)
    assert isinstance(decision, Placement)
    assert (decision.feasible, decision.evaluated, decision.rejected) == (2, 3, {"Fast": 1})
    assert not explained


def test_scores_are_multiplied_by_weights_and_summed():
    heavy = scoring("Heavy", lambda name: {"a": 10, "b": 0, "c": 0}[name], weight=3)
    light = scoring("Light", lambda name: {"a": 0, "b": 20, "c": 31}[name])
    decision = decide(framework(heavy, light))
    assert (decision.node_name, decision.score, decision.runner_up) == ("c", 31, ("a", 30))


@pytest.mark.parametrize("weight", [327, 328, 10**9])
def test_great_weights_do_not_overflow(weight):
    """Totals are int16 up to a weight of 327."""
    best = decide(framework(scoring("S", lambda name: {"a": 100, "b": 99, "c": 0}[name], weight=weight)))
    assert (best.node_name, best.score, best.runner_up) == ("a", 100 * weight, ("b", 99 * weight))


def test_normalize_gets_all_scores_and_replaces_them():
    seen = []

    def normalize(_self, _state, _pod, scores, _feasible):
        seen.append(list(scores))
        return scores * 100 // scores.max()

    decision = decide(framework(scoring("S", lambda name: {"a": 7, "b": 14, "c": 0}[name], normalize=normalize)))
    assert seen == [[7, 14, 0]]
    assert (decision.node_name, decision.score, decision.runner_up) == ("b", 100, ("a", 50))


@pytest.mark.parametrize(("width", "unit"), [(np.int8, 1), (np.int16, 100), (np.int32, 10**7)])
def test_narrow_scores_are_normalized_without_overflow(width, unit):
    scores = np.array([60 * unit, 120 * unit, 30 * unit], width)
    ranks = scoring(
        "S",
        lambda _name: 0,
        score_all=lambda *_: scores,
        normalize=lambda _self, _state, _pod, scores, _feasible: normalize_by_greatest(scores),
    )
    decision = decide(framework(ranks))
    assert (decision.node_name, decision.score, decision.runner_up) == ("b", 100, ("a", 50))


def test_a_single_feasible_node_is_not_scored():
    calls = []
    only = filtering("Only", lambda name: None if name == "b" else unschedulable("no"))
    decision = decide(framework(only, scoring("S", lambda name: calls.append(name) or 1)))
    assert decision.node_name == "b"
    assert not calls


@pytest.mark.parametrize(
    "method, words",
    [
        pytest.param({"filter_all": lambda *_: fw.FilterResult(np.ones(2, bool), tuple)}, r"bool\[2\], expected bool\[3\]", id="a mask that is too short"),
        pytest.param({"filter_all": lambda *_: fw.FilterResult(np.ones(3), tuple)}, r"float64\[3\], expected bool\[3\]", id="a mask of numbers"),
        pytest.param({"filter_all": lambda *_: 1 / 0}, "ZeroDivisionError", id="an exception"),
        pytest.param({"filter_all": None}, "odd", id="a status that is neither success nor a rejection"),
    ],
)  # fmt: skip
def test_a_wrong_answer_of_a_filter_fails_the_attempt_and_names_the_plugin(method, words):
    bad = filtering("Bad", lambda _name: Status(Code.ERROR, ("odd",)), **method)
    decision = decide(framework(bad))
    assert isinstance(decision, Fault)
    assert decision.plugin == "Bad"
    assert re.search(words, decision.message)


@pytest.mark.parametrize(
    "scores, words",
    [
        pytest.param(np.zeros(2, np.int64), r"int64\[2\], expected int64\[3\]", id="too short"),
        pytest.param(np.zeros(3), r"float64\[3\], expected int64\[3\]", id="floats"),
        pytest.param([1, 2, 3], r"list, expected int64\[3\]", id="a list"),
        pytest.param(np.array([0, 50, 101]), "scores from 0 to 101, expected 0 to 100", id="too high"),
        pytest.param(np.array([-1, 0, 0]), "scores from -1 to 0, expected 0 to 100", id="negative"),
        pytest.param(101, "scores from 101 to 101", id="one number out of range"),
    ],
)
def test_wrong_scores_fail_the_attempt_and_name_the_plugin(scores, words):
    bad = scoring("Bad", lambda _name: 0, score_all=lambda *_: scores)
    decision = decide(framework(bad))
    assert isinstance(decision, Fault)
    assert decision.plugin == "Bad"
    assert re.search(words, decision.message)


def pre_filtering(name, answer):
    return plugin(name, fw.PreFilterPlugin, pre_filter=lambda _self, state, _pod: answer)


def test_node_names_of_several_pre_filters_are_intersected():
    decision = decide(
        framework(
            pre_filtering("One", fw.PreFilterResult(frozenset("ab"))),
            pre_filtering("Two", fw.PreFilterResult(frozenset("bc"))),
        )
    )
    assert (decision.node_name, decision.evaluated) == ("b", 1)


def test_pre_filters_with_no_node_in_common_make_the_pod_unresolvable():
    decision = decide(
        framework(
            pre_filtering("Two", fw.PreFilterResult(frozenset("a"))),
            pre_filtering("One", fw.PreFilterResult(frozenset("b"))),
        )
    )
    assert decision.message == "0/3 nodes are available: node(s) didn't satisfy plugin(s) [One Two] simultaneously."


def test_nodes_that_a_pre_filter_excludes_get_its_message():
    busy = filtering("Busy", lambda _name: unschedulable("busy"))
    decision = decide(framework(pre_filtering("One", fw.PreFilterResult(frozenset("a"))), busy))
    assert decision.message == "0/3 nodes are available: 1 busy, 2 node(s) didn't satisfy plugin(s) [One]."


def test_an_unresolvable_pre_filter_ends_the_attempt_and_after_an_unschedulable_one_the_others_run():
    ran = []
    later = plugin("Later", fw.PreFilterPlugin, pre_filter=lambda _self, _state, _pod: ran.append(1))
    for answer, expected in ((unresolvable("never"), 0), (unschedulable("later"), 1)):
        ran.clear()
        decision = decide(framework(pre_filtering("First", answer), later))
        assert isinstance(decision, Rejection)
        assert (len(ran), decision.status_plugins) == (expected, {"First"})


def test_a_pre_filter_that_skips_disables_its_filter():
    both = plugin(
        "Both",
        fw.PreFilterPlugin,
        fw.FilterPlugin,
        pre_filter=lambda *_: SKIP,
        filter=lambda *_: unschedulable("never runs"),
    )
    assert isinstance(decide(framework(both)), Placement)


def test_a_pre_score_that_skips_disables_its_score():
    both = plugin(
        "Both",
        fw.PreScorePlugin,
        fw.ScorePlugin,
        pre_score=lambda *_: SKIP,
        score=lambda *_: 1 / 0,
    )
    assert isinstance(decide(framework(both)), Placement)


def reserving(name, log, status=None, error=False):
    def reserve(_self, _state, _pod, _node):
        log.append(f"reserve {name}")
        if error:
            raise RuntimeError("boom")
        return status

    def unreserve(_self, _state, _pod, _node):
        log.append(f"unreserve {name}")
        raise RuntimeError("unreserve must not stop the others")

    return plugin(name, fw.ReservePlugin, reserve=reserve, unreserve=unreserve)


def test_a_failed_reserve_unreserves_in_reverse_order():
    log = []
    fwk = framework(reserving("One", log), reserving("Two", log, unschedulable("full")), reserving("Three", log))
    status = fwk.reserve(fw.CycleState(), POD, "a")
    assert (status.plugin, status.reasons) == ("Two", ("full",))
    assert log == ["reserve One", "reserve Two", "unreserve Three", "unreserve Two", "unreserve One"]


def test_a_reserve_that_raises_unreserves_too():
    log = []
    fwk = framework(reserving("One", log), reserving("Two", log, error=True))
    with pytest.raises(PluginError, match=r'Reserve plugin "Two".*boom'):
        fwk.reserve(fw.CycleState(), POD, "a")
    assert log[-2:] == ["unreserve Two", "unreserve One"]


def permitting(name, status, timeout=0.0):
    return plugin(name, fw.PermitPlugin, permit=lambda *_: (status, timeout))


def test_permit_waits_for_every_plugin_that_waits_and_one_rejection_decides():
    waiting = permitting("Slow", Status(Code.WAIT), 5.0)
    other = permitting("Slower", Status(Code.WAIT), 9.0)
    status, timeouts = framework(waiting, permitting("Fine", None), other).permit(fw.CycleState(), POD, "a")
    assert (status.code, timeouts) == (Code.WAIT, {"Slow": 5.0, "Slower": 9.0})
    status, timeouts = framework(waiting, permitting("No", unschedulable("no"))).permit(fw.CycleState(), POD, "a")
    assert (status.plugin, timeouts) == ("No", {})


def binding(name, answer, log):
    async def bind(_self, _state, pod, node, _annotations):
        log.append(f"{name} {pod.name} {node}")
        return answer

    return plugin(name, fw.BindPlugin, bind=bind)


def test_the_first_bind_plugin_that_does_not_skip_binds_the_pod():
    log = []
    binders = binding("Skips", SKIP, log), binding("Takes", None, log), binding("Last", None, log)
    fwk = framework(*binders, besides=("PrioritySort",))
    assert asyncio.run(fwk.bind(fw.CycleState(), POD, "a", {})) is None
    assert log == ["Skips p a", "Takes p a"]


def test_pre_bind_does_not_run_if_its_pre_flight_skips():
    log = []

    def binder(name, flight):
        async def pre_bind(_self, _state, _pod, _node):
            log.append(name)

        return plugin(name, fw.PreBindPlugin, pre_bind=pre_bind, pre_bind_pre_flight=lambda *_: flight)

    fwk = framework(binder("Works", None), binder("Idle", SKIP))
    assert asyncio.run(fwk.pre_bind(fw.CycleState(), POD, "a")) is None
    assert log == ["Works"]


def test_an_error_in_a_constructor_names_the_plugin():
    def broken(_self, _args, _handle):
        raise ValueError("no such thing")

    with pytest.raises(PluginError, match=r'initializing plugin "Broken": ValueError: no such thing'):
        framework(plugin("Broken", fw.PreEnqueuePlugin, __init__=broken, pre_enqueue=lambda *_: None))


def test_without_nodes_the_pod_is_rejected_by_no_plugin():
    decision = decide(framework(nodes=""))
    assert isinstance(decision, Rejection)
    assert decision.message == "no nodes available to schedule pods"
    assert decision.status_plugins == frozenset()


def test_a_failed_post_filter_appends_its_message_to_the_filters_message():
    failing = plugin("Fails", fw.PostFilterPlugin, post_filter=lambda *_: (None, Status(Code.ERROR, ("not found",))))
    decision = decide(framework(filtering("No", lambda _name: unschedulable("no")), failing))
    assert decision.message == "0/3 nodes are available: 3 no. not found"
    assert decision.filter_message == "0/3 nodes are available: 3 no."


def test_a_nominated_node_that_pre_filter_excludes_is_rejected_with_the_filters_message():
    narrowing = plugin(
        "Narrowing", fw.PreFilterPlugin, pre_filter=lambda _self, _state, _pod: fw.PreFilterResult(frozenset("a"))
    )
    full = filtering("Full", lambda name: unschedulable(f"{name} is full"))
    nominated = parse_pod(make_pod("p", status={"nominatedNodeName": "b"}))
    decision = decide(framework(narrowing, full), nominated)
    assert isinstance(decision, Rejection)
    assert decision.message == (
        "0/3 nodes are available: 1 a is full, 1 b is full, 1 node(s) didn't satisfy plugin(s) [Narrowing]."
    )
