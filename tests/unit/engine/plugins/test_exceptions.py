"""A plugin that raises: its traceback is logged once for each policy, counted, and shown in short."""

import inspect
import logging

import numpy as np
import pytest

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import (
    ClusterError,
    EnqueueExtensions,
    FilterPlugin,
    FilterResult,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from podwright.core.framework.status import unresolvable
from podwright.engine.plugins.exceptions import PluginExceptions
from podwright.engine.records.metrics import Metrics
from support.engine.kit import Rig, custom_policy, deciding, on_node, ours, settle, values

FILE = "test_exceptions.py"
THIRD = "rejects every node"


def ratio(pod):
    return len(pod.name) / 0


class Filtering(Plugin, FilterPlugin):
    name = "Raising"

    def filter(self, _state, pod, _node):
        return ratio(pod)


class FilteringAll(Plugin, FilterPlugin):
    name = "Raising"

    def filter(self, _state, pod, _node):
        return None

    def filter_all(self, _state, pod, _table):
        return ratio(pod)


class Explaining(FilteringAll):
    def filter_all(self, _state, pod, table):
        return FilterResult(np.zeros(table.size, np.bool_), lambda: ratio(pod))


class FilteringFirst(Plugin, PreFilterPlugin):
    name = "Raising"

    def pre_filter(self, _state, pod):
        return ratio(pod)


class Gating(Plugin, PreEnqueuePlugin):
    name = "Raising"

    def pre_enqueue(self, pod):
        return ratio(pod)


class Scoring(Plugin, ScorePlugin):
    name = "Raising"

    def score(self, _state, pod, _node):
        return ratio(pod)


class Reserving(Plugin, ReservePlugin):
    name = "Raising"

    def reserve(self, _state, pod, _node_name):
        return ratio(pod)

    def unreserve(self, _state, _pod, _node_name):
        pass


class Unreserving(Reserving):
    def reserve(self, _state, _pod, _node_name):
        return unresolvable(THIRD)

    def unreserve(self, _state, pod, _node_name):
        ratio(pod)


class Permitting(Plugin, PermitPlugin):
    name = "Raising"

    def permit(self, _state, pod, _node_name):
        return ratio(pod)


class Preparing(Plugin, PreBindPlugin):
    name = "Raising"

    async def pre_bind(self, _state, pod, _node_name):
        return ratio(pod)


class Finishing(Plugin, PostBindPlugin):
    name = "Raising"

    async def post_bind(self, _state, pod, _node_name):
        return ratio(pod)


def tracebacks(caplog):
    """The messages of the logged exceptions, and the innermost lines of their tracebacks."""
    found = []
    for record in caplog.records:
        if record.exc_info:
            trace = record.exc_info[2]
            while trace.tb_next is not None:
                trace = trace.tb_next
            found.append((record.getMessage(), trace.tb_frame.f_code.co_name))
    return found


def raised(rig):
    return {labels: count for labels, count in values(rig, "podwright_plugin_exceptions_total").items() if count}


@pytest.mark.parametrize(
    "plugin, point",
    [
        pytest.param(Filtering, "filter", id="one node is filtered"),
        pytest.param(FilteringAll, "filter", id="all nodes are filtered"),
        pytest.param(Explaining, "filter", id="rejections are explained"),
        pytest.param(FilteringFirst, "preFilter", id="PreFilter"),
        pytest.param(Gating, "preEnqueue", id="PreEnqueue"),
        pytest.param(Scoring, "score", id="Score"),
        pytest.param(Reserving, "reserve", id="Reserve"),
        pytest.param(Unreserving, "reserve", id="Unreserve"),
        pytest.param(Permitting, "permit", id="Permit"),
        pytest.param(Preparing, "preBind", id="PreBind"),
        pytest.param(Finishing, "postBind", id="PostBind"),
    ],
)
async def test_an_exception_at_any_point_is_logged_with_its_traceback_and_counted(plugin, point, caplog):
    rig = Rig({"Raising": plugin})
    for name in ("a", "b"):
        rig.node(name)
    assert rig.engine.policies.apply(custom_policy(point, "Raising")).accepted
    rig.pod("web")
    async with deciding(rig):
        (found,) = tracebacks(caplog)
    title = f"policy custom: plugin Raising raised an exception at {point}"
    assert found == (f"{title} (logged once; later ones are counted)", "ratio")
    assert set(raised(rig)) == {("Raising", point[0].upper() + point[1:])}
    line = inspect.getsourcelines(ratio)[1] + 1
    assert f"{FILE}, line {line}, in ratio) at {point}" in rig.engine.policies.plugin_exceptions_of("custom")


class RaisingHint(Plugin, FilterPlugin, EnqueueExtensions):
    name = "Raising"

    def filter(self, _state, _pod, _node):
        return unresolvable(THIRD)

    def hints(self):
        return [EventHint(ClusterEvent(NODE, Action.ADD), lambda pod, *_: ratio(pod))]


async def test_an_exception_of_a_queueing_hint_is_logged(caplog):
    rig = Rig({"Raising": RaisingHint})
    rig.node("a")
    assert rig.engine.policies.apply(custom_policy("filter", "Raising")).accepted
    rig.pod("web")
    async with deciding(rig):
        rig.node("b")
        await settle()
    assert [message for message, _ in tracebacks(caplog)] == [
        "policy custom: plugin Raising raised an exception at hints (logged once; later ones are counted)"
    ]


class RaisingInDryRuns(Plugin, FilterPlugin):
    name = "Raising"

    def filter(self, _state, pod, node):
        return ratio(pod) if node.name == "bad" and not node.pods else None

    def filter_all(self, _state, _pod, _table):
        return None


async def test_an_exception_in_a_dry_run_of_preemption_is_logged_although_the_pod_preempts_elsewhere(caplog):
    rig = Rig({"Raising": RaisingInDryRuns})
    for name in ("good", "bad"):
        rig.node(name, allocatable={"cpu": "2"})
        rig.engine.assigned.put(on_node(ours(f"low-{name}", requests={"cpu": "2"}, priority=0), name))
    rig.engine.policies.apply(custom_policy("filter", "Raising"))
    rig.pod("high", requests={"cpu": "2"}, priority=10)
    async with deciding(rig):
        assert rig.evictor.evicted == [("low-good", "high", "good")]
    assert len(tracebacks(caplog)) == 1


async def test_the_same_traceback_is_logged_once_for_each_policy_and_then_counted(caplog):
    rig = Rig({"Raising": Filtering})
    rig.node("a")
    for name in ("first", "second"):
        policy = custom_policy("filter", "Raising")
        policy["metadata"].update(name=name, uid=name)
        policy["spec"]["schedulerName"] = name
        rig.engine.policies.apply(policy)
        for number in range(12):
            rig.pod(f"{name}-{number}", spec={"schedulerName": name})
    async with deciding(rig):
        found = [message for message, _ in tracebacks(caplog)]
    assert [message.split(":")[0] for message in found] == ["policy first", "policy second"]
    assert raised(rig) == {("Raising", "Filter"): 24}
    again = [record.getMessage() for record in caplog.records if "same exception" in record.getMessage()]
    assert [message.partition(": plugin")[0] for message in again] == ["policy first", "policy second"]
    assert all("raised the same exception 10 times: plugin Raising raised ZeroDivisionError" in each for each in again)


async def test_a_new_generation_of_the_policy_starts_without_exceptions():
    rig = Rig({"Raising": Filtering})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("filter", "Raising"))
    rig.pod("web")
    async with deciding(rig):
        assert rig.engine.policies.plugin_exceptions_of("custom")
        rig.engine.policies.apply(custom_policy("postBind", "DefaultBinder", generation=2))
        assert rig.engine.policies.plugin_exceptions_of("custom"), "the generation is invalid, so the old one decides"
        policy = custom_policy("filter", "Raising", generation=3)
        policy["spec"]["precedence"] = 1
        assert rig.engine.policies.apply(policy).accepted
        assert rig.engine.policies.plugin_exceptions_of("custom") == ""


class NotReached(Plugin, PreBindPlugin):
    name = "Raising"

    async def pre_bind(self, _state, _pod, _node_name):
        raise ClusterError("no answer")


async def test_a_failure_of_the_api_server_is_not_the_plugins(caplog):
    rig = Rig({"Raising": NotReached})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("preBind", "Raising"))
    rig.pod("web")
    async with deciding(rig):
        assert "no answer" in rig.recorder.notes("FailedScheduling")[0]
        assert tracebacks(caplog) == []
        assert raised(rig) == {}


class Unbuildable(Filtering):
    def __init__(self, args, handle):
        super().__init__(args, handle)
        ratio(self)


def test_a_constructor_that_raises_is_logged_and_the_policy_says_where(caplog):
    rig = Rig({"Raising": Unbuildable})
    result = rig.engine.policies.apply(custom_policy("filter", "Raising"))
    assert not result.accepted
    line = inspect.getsourcelines(Unbuildable.__init__)[1] + 2
    assert f"ZeroDivisionError: division by zero ({FILE}, line {line}, in __init__; {FILE}, line " in result.message
    assert len(tracebacks(caplog)) == 1


@pytest.mark.parametrize("count, shown", [(3, 3), (5, 4)])
def test_the_summary_shows_the_first_exceptions_and_how_many_more_there_are(count, shown):
    rig = Rig()
    exceptions, policy = PluginExceptions(rig.ports.metrics, limit=10), rig.engine.policies.policy_set.default
    report = exceptions.reporter(policy)
    for number in range(count):
        report(f"P{number}", "filter", ValueError("x" * 1000))
    lines = exceptions.summary(policy).splitlines()
    assert len(lines) == shown
    assert all(len(line) < 300 for line in lines)
    assert (lines[-1] == f"and {count - 3} more, see the log") is (count > 3)


def test_a_bounded_number_of_tracebacks_is_remembered(caplog):
    rig = Rig()
    report = PluginExceptions(rig.ports.metrics, limit=2).reporter(rig.engine.policies.policy_set.default)
    for name in ("A", "B", "C", "A", "A"):
        report(name, "filter", ValueError())
    caplog.set_level(logging.ERROR)
    assert sum(bool(record.exc_info) for record in caplog.records) == 4


class Ports:
    """An index."""


def test_the_exceptions_of_an_index_are_logged_once_and_counted_whatever_policies_come_and_go(caplog):
    def raised(text):
        try:
            raise KeyError(text)
        except KeyError as error:
            return error

    metrics = Metrics(lambda: 0.0)
    exceptions = PluginExceptions(metrics)
    with caplog.at_level(logging.ERROR):
        for number in range(5):
            exceptions.index_failed(Ports, "pod_added", raised(f"pod-{number}"))
            exceptions.keep(())
        exceptions.index_failed(Ports, "pod_removed", raised("other"))
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("index Ports raised an exception at pod_added, so what it says of pods may be wrong")
    assert "at pod_removed" in second
    assert caplog.records[0].exc_info is not None
    labels = {"plugin": "Ports", "extension_point": "Index"}
    assert metrics.registry.get_sample_value("podwright_plugin_exceptions_total", labels) == 6
