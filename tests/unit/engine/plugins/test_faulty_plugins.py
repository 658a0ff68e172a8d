"""A faulty plugin affects one pod or one policy, and nothing else."""

import asyncio

import pytest

from podwright.api.permissions import PolicySettings
from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint
from podwright.core.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
)
from podwright.core.framework.status import unschedulable
from podwright.engine.ports import Verdict
from podwright.engine.records.metrics import PLUGIN_EXCEPTIONS
from support.engine.kit import Rig, custom_policy, deciding, settle


class Gate(Plugin, PreEnqueuePlugin):
    name = "Gate"

    def pre_enqueue(self, pod):
        return False if pod.name == "web" else None


class Hinting(Plugin, FilterPlugin, EnqueueExtensions):
    name = "Hinting"

    def filter(self, _state, _pod, _node):
        return None

    def hints(self):
        return [ClusterEvent(NODE, Action.ADD)]


class Reserving(Plugin, ReservePlugin, PermitPlugin):
    name = "Reserving"
    reserved: list[str] = []  # noqa: RUF012 -- shared with the test

    def reserve(self, _state, pod, _node_name):
        self.reserved.append(pod.name)

    def unreserve(self, _state, pod, _node_name):
        if pod.name in self.reserved:
            self.reserved.remove(pod.name)

    def permit(self, _state, pod, _node_name):
        return None if pod.name == "web" else (None, 0)


async def test_a_broken_gate_holds_its_own_pod_only():
    rig = Rig({"Gate": Gate})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("preEnqueue", "Gate"))
    rig.pod("web")
    rig.pod("other")
    async with deciding(rig):
        assert rig.cluster.bound == [("other", "a")]
        assert rig.engine.queue.counts()["gated"] == 1
        problem = 'running PreEnqueue plugin "Gate": returned bool False, expected a Status or None'
        assert rig.recorder.notes("FailedScheduling") == [problem]
        assert ("web", Verdict("SchedulerError", problem), None) in rig.status.written
        rig.engine.policies.remove("custom")
        rig.engine.activate_all()
        await settle()
        assert ("web", "a") in rig.cluster.bound


async def test_a_policy_is_not_accepted_if_a_plugin_returns_invalid_hints():
    rig = Rig({"Hinting": Hinting}, policies=PolicySettings(waits_for_bad_policies=False))
    outcome = rig.engine.policies.apply(custom_policy("filter", "Hinting"))
    assert not outcome.accepted
    assert "Hinting" in outcome.message
    rig.node("a", allocatable={"cpu": "1"})
    rig.pod("big", requests={"cpu": "2"})
    async with deciding(rig):
        assert rig.cluster.bound == []
        rig.node("b", allocatable={"cpu": "4"})
        await settle()
        assert rig.cluster.bound == [("big", "b")]


async def test_a_pod_is_unreserved_when_permit_is_broken():
    Reserving.reserved.clear()
    rig = Rig({"Reserving": Reserving})
    rig.node("a", allocatable={"cpu": "2"})
    policy = custom_policy("permit", "Reserving")
    policy["spec"]["plugins"]["reserve"] = {"enabled": [{"name": "Reserving"}]}
    rig.engine.policies.apply(policy)
    rig.pod("web", requests={"cpu": "2"})
    async with deciding(rig):
        assert rig.placed_on("web") == ""
        assert Reserving.reserved == []
        (_, reason, note) = rig.recorder.events[0]
        assert (reason, 'running Permit plugin "Reserving"' in note) == ("FailedScheduling", True)
        rig.pod("other", requests={"cpu": "2"})
        await settle()
        assert rig.cluster.bound == [("other", "a")]


@pytest.mark.parametrize("message", ["no nodes available to schedule pods"])
async def test_without_any_node_a_pod_is_unschedulable_as_autoscalers_expect(message):
    rig = Rig()
    rig.pod("web")
    async with deciding(rig):
        verdicts = [(verdict.reason, verdict.message) for _, verdict, _ in rig.status.written]
        assert verdicts == [("Unschedulable", message)]


class BrokenHint(Plugin, FilterPlugin, EnqueueExtensions):
    """Rejects the pod named web, and has a hint that raises."""

    name = "BrokenHint"
    rejects = True

    def filter(self, _state, pod, _node):
        return unschedulable("not today") if self.rejects and pod.name == "web" else None

    def hints(self):
        return [EventHint(ClusterEvent(NODE, Action.ADD), lambda *_: 1 / 0)]


async def test_a_hint_that_raises_loses_neither_its_pod_nor_the_event_for_other_pods():
    rig = Rig({"BrokenHint": BrokenHint})
    rig.node("a", allocatable={"cpu": "1"})
    assert rig.engine.policies.apply(custom_policy("filter", "BrokenHint")).accepted
    rig.pod("web")
    rig.pod("big", requests={"cpu": "2"})
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 2}
        BrokenHint.rejects = False
        rig.node("b", allocatable={"cpu": "4"})
        await settle()
        assert sorted(name for name, _ in rig.cluster.bound) == ["big", "web"]
        assert rig.engine.cache.present("b") is not None


class Quit(BaseException):
    pass


class Quitting(Plugin, PreEnqueuePlugin, FilterPlugin, PreBindPlugin, ReservePlugin):
    """Raises `error` once, in the method `where`."""

    name = "Quitting"
    error: type[BaseException] | None = None
    where = ""

    def act(self, where):
        error, kind = self.error, type(self)
        if error is not None and where == self.where:
            kind.error = None
            raise error("not today")

    def pre_enqueue(self, _pod):
        self.act("preEnqueue")

    def filter(self, _state, _pod, _node):
        self.act("filter")

    def reserve(self, _state, _pod, _node_name):
        self.act("reserve")

    def unreserve(self, _state, _pod, _node_name):
        pass

    async def pre_bind(self, _state, _pod, _node_name):
        await asyncio.sleep(0)
        self.act("preBind")


@pytest.mark.parametrize("error", [Quit, GeneratorExit, asyncio.CancelledError, SystemExit])
@pytest.mark.parametrize("where", ["preEnqueue", "filter", "reserve", "preBind"])
async def test_what_is_no_exception_fails_one_attempt_and_names_the_plugin(monkeypatch, caplog, where, error):
    monkeypatch.setattr(Quitting, "error", error)
    monkeypatch.setattr(Quitting, "where", where)
    rig = Rig({"Quitting": Quitting})
    rig.node("a")
    assert rig.engine.policies.apply(custom_policy(where, "Quitting")).accepted
    async with deciding(rig):
        rig.pod("first")
        await settle()
        assert rig.placed_on("first") == ""
        assert f"plugin Quitting raised an exception at {where}" in caplog.text
        assert f"{error.__name__}: not today" in caplog.text
        rig.pod("second")
        await settle()
        assert rig.cluster.bound == [("second", "a")]
        rig.engine.activate_all()
        rig.now += 20
        rig.engine.wake()
        await settle()
        assert sorted(name for name, _ in rig.cluster.bound) == ["first", "second"]


async def test_a_cancellation_that_is_one_leaves_its_pod_to_the_next_start():
    class Waiting(Plugin, PreBindPlugin):
        name = "Waiting"

        async def pre_bind(self, _state, _pod, _node_name):
            await asyncio.Event().wait()

    rig = Rig({"Waiting": Waiting})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("preBind", "Waiting"))
    rig.pod("web")
    async with deciding(rig):
        assert rig.placed_on("web") == "a"
    assert rig.recorder.notes("FailedScheduling") == []


class Telling(Plugin, PreEnqueuePlugin):
    """Keeps the pod named first out, and fails when it is asked whether an event says why."""

    name = "Telling"

    def pre_enqueue(self, pod):
        return unschedulable("not today") if pod.name == "first" else None

    def tells_gate(self, _pod):
        raise ValueError("who knows")


async def test_a_gate_that_cannot_say_whether_it_tells_holds_its_own_pod_only(caplog):
    rig = Rig({"Telling": Telling})
    rig.node("a")
    assert rig.engine.policies.apply(custom_policy("preEnqueue", "Telling")).accepted
    async with deciding(rig):
        rig.pod("first")
        rig.pod("second")
        await settle()
        assert rig.cluster.bound == [("second", "a")]
        assert rig.counts == {"gated": 1}
    assert "plugin Telling raised an exception at preEnqueue" in caplog.text


class Attaching(Plugin, FilterPlugin):
    name = "Attaching"

    def attach(self, _framework):
        raise ValueError("no")

    def filter(self, _state, _pod, _node):
        return None


def test_a_policy_is_not_accepted_if_a_plugin_cannot_be_attached():
    outcome = Rig({"Attaching": Attaching}).engine.policies.apply(custom_policy("filter", "Attaching"))
    assert not outcome.accepted
    assert 'initializing plugin "Attaching": ValueError: no' in outcome.message


class Nonsense(Plugin, FilterPlugin):
    name = "Nonsense"

    def filter(self, _state, _pod, _node):
        return 7


async def test_an_answer_that_is_nonsense_reaches_the_status_of_the_policy_and_is_counted():
    rig = Rig({"Nonsense": Nonsense})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("filter", "Nonsense"))
    async with deciding(rig):
        rig.pod("web")
        await settle()
    policy = rig.engine.policies.named("custom").compiled
    said = "plugin Nonsense returned int 7, expected a Status or None at filter"
    assert rig.engine.plugin_exceptions.summary(policy) == said
    assert rig.ports.metrics.counter(PLUGIN_EXCEPTIONS).of("Nonsense", "Filter")[0] == 1
