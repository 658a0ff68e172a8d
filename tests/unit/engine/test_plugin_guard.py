"""Third-party plugins that take too long: they are named, stopped, and switched off as their policy says."""

from __future__ import annotations

import asyncio
import bisect
import inspect
import logging
import traceback
from typing import Final

import numpy as np
import pytest

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.errors import StoppedError
from podwright.core.framework.interface import (
    BindPlugin,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    FilterResult,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
)
from podwright.core.framework.status import unresolvable
from podwright.engine.metrics.metrics import PLUGIN_OVERRUNS, PLUGIN_STOPS
from podwright.engine.plugin_guard import is_in_plugin
from podwright.engine.plugin_switches import PluginSwitches
from podwright.engine.policy_events import PolicyEvents
from support.engine.kit import Rig, custom_policy, deciding, settle, values


class Acting(Plugin):
    """Does `act` wherever it is called."""

    name = "Acting"
    act = staticmethod(lambda: None)
    calls: list[str]


class Filtering(Acting, FilterPlugin):
    def filter(self, _state, _pod, _node):
        return self.act()


class FilteringAll(Filtering):
    def filter_all(self, _state, _pod, _table):
        return self.act()


class Explaining(Filtering):
    def filter(self, _state, _pod, _node):
        return unresolvable("never")

    def filter_all(self, _state, _pod, table):
        return FilterResult(np.zeros(table.size, np.bool_), self.act)


class FilteringFirst(Acting, PreFilterPlugin):
    def pre_filter(self, _state, _pod):
        return self.act()


class Gating(Acting, PreEnqueuePlugin):
    def pre_enqueue(self, _pod):
        return self.act()


class Scoring(Acting, ScorePlugin):
    def score(self, _state, _pod, _node):
        return self.act() or 0


class Reserving(Acting, ReservePlugin):
    def reserve(self, _state, _pod, _node_name):
        return self.act()

    def unreserve(self, _state, _pod, _node_name):
        pass


class Permitting(Acting, PermitPlugin):
    def permit(self, _state, _pod, _node_name):
        self.act()
        return None, 0.0


class BeforeBinding(Acting, PreBindPlugin):
    async def pre_bind(self, _state, _pod, _node_name):
        await asyncio.sleep(0)
        return self.act()


class Binding(Acting, BindPlugin):
    async def bind(self, _state, _pod, _node_name, _annotations):
        return self.act()


class AfterBinding(Acting, PostBindPlugin):
    async def post_bind(self, _state, _pod, _node_name):
        self.act()


class Awaiting(Acting, PreBindPlugin):
    async def pre_bind(self, _state, _pod, _node_name):
        asyncio.get_running_loop().call_soon(self.act)
        await asyncio.sleep(0)


class ReservingAndBinding(Reserving, BeforeBinding):
    async def pre_bind(self, _state, _pod, _node_name):
        self.act()
        await asyncio.sleep(0)
        self.act()


class Hinting(Acting, FilterPlugin, EnqueueExtensions):
    def filter(self, _state, _pod, _node):
        return unresolvable("never")

    def hints(self):
        def hint(*_):
            self.act()
            return Hint.QUEUE

        return [EventHint(ClusterEvent(NODE, Action.ADD), hint)]


class FilteringLast(Acting, PostFilterPlugin):
    def post_filter(self, _state, _pod, _diagnosis):
        return None, unresolvable("never")


POINTS = {
    FilteringLast: "postFilter",
    Gating: "preEnqueue",
    Filtering: "filter",
    FilteringAll: "filter",
    FilteringFirst: "preFilter",
    Scoring: "score",
    Reserving: "reserve",
    Permitting: "permit",
    BeforeBinding: "preBind",
    Awaiting: "preBind",
    Binding: "bind",
    AfterBinding: "postBind",
    ReservingAndBinding: "preBind",
}


def each(*classes):
    return pytest.mark.parametrize("kind", classes, ids=lambda kind: kind.__name__)


class Turns(Acting, FilterPlugin):
    """Does what each call says."""

    __module__ = "team_plugins"

    def __init__(self):
        pass

    def filter(self, _state, act):
        act()


class Together:
    """As much of a Framework as is needed to watch its plugins."""

    def __init__(self, **plugins):
        self.plugins, self.hints = plugins, {}
        for name, plugin in plugins.items():
            plugin.name = name


class Watching:
    """An engine with a plugin that a policy uses."""

    def __init__(self, kind, on_failure=None, **options):
        self.kind = type(kind.__name__, (kind,), {"__module__": "team_plugins"})
        self.rig = Rig(plugins={"Acting": self.kind}, **options)
        self.guard = self.rig.engine.plugin_guard
        events = PolicyEvents(self.rig.engine.policies, self.rig.recorder, scheduler_name="podwright", own=lambda: None)
        self.switches = PluginSwitches(self.rig.engine, metrics=self.rig.ports.metrics, events=events)
        for name in "ab":
            self.rig.node(name)
        self.apply(POINTS.get(kind, "filter"), on_failure)

    def apply(self, point, on_failure=None, generation=1):
        raw = custom_policy(point, "Acting", generation)
        if point == "bind":
            raw["spec"]["plugins"]["bind"]["disabled"] = [{"name": "*"}]
        if on_failure:
            raw["spec"]["onPluginFailure"] = on_failure
        result = self.rig.engine.policies.apply(raw)
        assert result.accepted, result.message
        self.rig.engine.policies_changed()

    def take(self, seconds, answer=None, *, waiting=False, stalled=False):
        """Has the plugin take so long for each pod. `waiting`: it sleeps. `stalled`: others have the CPU."""
        calls = 2 if self.kind.__base__ in (Filtering, Scoring) else 1

        def act():
            self.rig.now += seconds / calls
            self.rig.waits += waiting
            self.rig.stalled += seconds / calls if waiting or stalled else 0.0
            return answer

        self.kind.act = staticmethod(act)

    def hang(self, code=None):
        """Has the plugin run until it is stopped."""

        def act():
            for _ in range(100):
                self.rig.now += 0.3
                self.guard.stop(inspect.currentframe())
            pytest.fail("it was not stopped")

        self.kind.act = staticmethod(code or act)

    async def schedule(self, *names):
        async with deciding(self.rig):
            for name in names:
                self.rig.pod(name)
                await settle()

    def count(self, counter, plugin="Acting"):
        return self.rig.ports.metrics.counter(counter).of(plugin)[0]

    def message(self, name):
        """What the pod's status says."""
        return [verdict.message for pod, verdict, _ in self.rig.status.written if pod == name and verdict][-1]

    @property
    def off(self):
        return self.rig.engine.policies.work_of("custom").switched_off


class TestBudgets:
    @each(Filtering, FilteringAll, FilteringFirst, Scoring, Reserving, Permitting)
    async def test_three_overruns_within_a_minute_switch_a_plugin_off(self, kind, caplog):
        it = Watching(kind)
        it.take(0.06)
        await it.schedule("one", "two")
        assert not it.off
        await it.schedule("three", "four")
        assert it.count(PLUGIN_OVERRUNS) == 3
        assert [it.rig.placed_on(name) != "" for name in ("one", "two", "three", "four")] == [True, True, True, False]
        what = "plugin Acting is switched off, and onPluginFailure is Reject, so the pods of the policy wait: it took "
        assert it.off.startswith(what)
        assert " ms for one pod, the third time within 60 s that this was more than its budget of 50 ms" in it.off
        assert what in caplog.text
        (note,) = it.rig.recorder.notes("PluginSwitchedOff")
        assert what in note
        assert values(it.rig, "podwright_plugins_switched_off") == {(): 1.0}
        assert "policy custom needs plugin Acting, switched off" in it.message("four")

    async def test_with_ignore_pods_are_scheduled_without_the_plugin(self):
        it = Watching(Filtering, "Ignore")
        it.take(0.06, unresolvable("no"))
        await it.schedule("one", "two", "three")
        assert "onPluginFailure is Ignore, so the policy decides without it" in it.off
        await it.schedule("four")
        assert all(it.rig.placed_on(name) for name in ("one", "two", "three", "four")), "those that waited, too"

    async def test_calls_for_one_pod_are_added_up(self):
        it = Watching(Filtering)
        it.take(0.06)
        await it.schedule("one", "two", "three")
        assert it.off, "30 ms on each of two nodes"

    async def test_a_plugin_within_its_budget_stays(self):
        it = Watching(Filtering)
        it.take(0.04)
        await it.schedule(*"abcde")
        assert not it.count(PLUGIN_OVERRUNS)

    async def test_the_budget_is_an_option(self):
        it = Watching(Filtering, plugin_budget=0.1)
        it.take(0.09)
        await it.schedule(*"abcde")
        assert not it.count(PLUGIN_OVERRUNS)

    async def test_overruns_that_are_long_ago_do_not_count(self):
        it = Watching(Filtering)
        it.take(0.06)
        for name in "abcde":
            await it.schedule(name)
            it.rig.now += 31.0
        assert it.count(PLUGIN_OVERRUNS) == 5
        assert not it.off

    async def test_time_that_other_processes_took_does_not_count(self):
        it = Watching(Filtering)
        it.take(0.09, stalled=True)
        await it.schedule(*"abcde")
        assert not it.count(PLUGIN_OVERRUNS)

    async def test_time_in_which_the_plugin_waits_counts(self):
        it = Watching(Filtering)
        it.take(0.09, waiting=True)
        await it.schedule(*"abcde")
        assert it.count(PLUGIN_OVERRUNS) == 3
        assert it.off

    @each(BeforeBinding, Binding, AfterBinding)
    async def test_steps_of_a_binding_cycle_that_block_the_loop_count(self, kind):
        it = Watching(kind)
        it.take(0.06)
        await it.schedule(*"abc")
        assert it.count(PLUGIN_OVERRUNS) == 3
        assert it.off

    async def test_steps_of_a_binding_cycle_are_added_up_apart_from_its_decision(self):
        it = Watching(ReservingAndBinding)
        it.take(0.02)
        await it.schedule(*"abc")
        assert not it.count(PLUGIN_OVERRUNS), "20 ms before, and 40 ms in two steps"
        it.take(0.03)
        await it.schedule(*"def")
        assert it.count(PLUGIN_OVERRUNS) == 3

    async def test_what_pre_bind_waits_for_does_not_count(self):
        it = Watching(Awaiting)
        it.take(0.5)
        before = it.rig.now
        await it.schedule(*"abcd")
        assert it.rig.now == before + 2.0
        assert not it.count(PLUGIN_OVERRUNS)

    @each(Gating, BeforeBinding)
    async def test_time_that_other_processes_took_does_not_count_outside_of_decisions(self, kind):
        it = Watching(kind)
        it.take(0.09, stalled=True)
        await it.schedule(*"abcde")
        assert not it.count(PLUGIN_OVERRUNS)

    @each(Gating, BeforeBinding)
    async def test_time_in_which_the_plugin_waits_counts_outside_of_decisions(self, kind):
        it = Watching(kind)
        it.take(0.09, waiting=True)
        await it.schedule(*"abc")
        assert it.count(PLUGIN_OVERRUNS) == 3
        assert it.off

    async def test_what_a_plugin_uses_for_a_pod_is_known_though_plugins_take_turns(self):
        it = Watching(Filtering)
        it.take(0.06)
        first, second = Turns(), Turns()
        it.guard.protect(Together(first=first, second=second), it.rig.engine.policies.named("custom").compiled)
        for _ in range(3):
            state = CycleState()
            for plugin in (first, second, first):
                plugin.filter(state, (lambda: None) if plugin is second else it.kind.act)
        assert [it.count(PLUGIN_OVERRUNS, name) for name in ("first", "second")] == [3, 0]

    @pytest.mark.parametrize("stalled", [True, False])
    async def test_what_others_use_in_a_pause_is_not_used_by_the_plugin(self, stalled):
        it = Watching(Filtering)
        it.take(0.08, stalled=stalled)
        plugin = Turns()
        it.guard.protect(Together(first=plugin), it.rig.engine.policies.named("custom").compiled)
        state = CycleState()
        plugin.filter(state, it.kind.act)
        left = it.guard.leave()
        it.rig.now += 5.0
        it.rig.waits += 1
        it.guard.enter_again(left)
        plugin.filter(state, it.kind.act)
        assert it.count(PLUGIN_OVERRUNS, "first") == (not stalled)

    async def test_a_new_generation_of_the_policy_tries_the_plugin_again(self):
        it = Watching(Filtering)
        it.take(0.06)
        await it.schedule("one", "two", "three", "four")
        assert it.off
        it.take(0.0)
        it.apply("filter", generation=2)
        await it.schedule("five")
        assert not it.off
        assert it.rig.placed_on("four")
        assert it.rig.placed_on("five")

    async def test_another_policy_with_the_same_plugin_is_not_concerned(self):
        it = Watching(Filtering)
        it.take(0.06)
        await it.schedule("one", "two", "three")
        other = custom_policy("filter", "Acting")
        other["metadata"] |= {"name": "other", "uid": "other"}
        assert it.rig.engine.policies.apply(other).accepted
        assert it.off
        assert not it.rig.engine.policies.work_of("other").switched_off

    async def test_podwrights_own_plugins_have_no_budget(self):
        it = Watching(Filtering)
        plugins = it.rig.engine.policies.named("custom").framework.plugins
        assert "filter" in vars(plugins["Acting"])
        assert not [name for name, plugin in plugins.items() if name != "Acting" and "filter" in vars(plugin)]


class TestDisabledFromTheStart:
    """The process hung in the plugin before it was restarted."""

    WHY: Final = {"Acting": "/plugins/a.py did not come back from line 7, in filter, until the process was restarted"}

    async def test_with_reject_the_pods_of_its_policies_wait(self):
        it = Watching(Filtering, disabled_plugins=self.WHY)
        it.switches.tell_of_disabled()
        await it.schedule("one")
        assert not it.rig.placed_on("one")
        assert f"policy custom needs plugin Acting, switched off: {self.WHY['Acting']}" in it.message("one")
        assert "so the pods of the policy wait" in it.off
        (note,) = it.rig.recorder.notes("PluginSwitchedOff")
        assert note == it.off

    async def test_with_ignore_it_is_not_even_built(self):
        built = []

        class Building(Filtering):
            def __init__(self, args, handle):
                super().__init__(args, handle)
                built.append(self)

        it = Watching(Building, "Ignore", disabled_plugins=self.WHY)
        await it.schedule("one")
        assert it.rig.placed_on("one")
        assert not built

    async def test_the_last_bind_plugin_is_replaced_while_pods_wait(self):
        class Binding(Acting, BindPlugin):
            async def bind(self, _state, _pod, _node_name, _annotations):
                return None

        rig = Rig(plugins={"Acting": Binding}, disabled_plugins=self.WHY)
        rig.node("a")
        raw = custom_policy("bind", "Acting")
        raw["spec"]["plugins"]["bind"]["disabled"] = [{"name": "*"}]
        assert rig.engine.policies.apply(raw).accepted
        async with deciding(rig):
            rig.pod("one")
            await settle()
        assert not rig.placed_on("one")


class TestCallsThatDoNotComeBack:
    @each(Filtering, FilteringAll, FilteringFirst, Scoring, Reserving, Permitting, BeforeBinding)
    async def test_they_are_stopped_and_named(self, kind, caplog):
        it = Watching(kind)
        it.hang()
        await it.schedule("web")
        assert it.count(PLUGIN_STOPS) == 1
        assert not it.rig.placed_on("web")
        (stopped,) = [
            record for record in caplog.records if record.name == "podwright.engine.plugin_guard" and record.exc_info
        ]
        assert "policy custom: plugin Acting did not come back from" in stopped.getMessage()
        assert [each.name for each in traceback.extract_tb(stopped.exc_info[2])][-1] == "act"
        message = it.message("web")
        assert "PluginStoppedError: did not come back from" in message
        assert "within 1 s, and was stopped" in message
        assert ", in act)" in it.rig.engine.policies.plugin_exceptions_of("custom")

    async def test_what_logs_that_a_call_was_stopped_is_not_stopped(self):
        it = Watching(Filtering)
        it.hang()
        handler = logging.Handler()
        handler.emit = lambda _record: it.guard.stop(inspect.currentframe())
        logging.getLogger("podwright.engine.plugin_guard").addHandler(handler)
        try:
            await it.schedule("web")
        finally:
            logging.getLogger("podwright.engine.plugin_guard").removeHandler(handler)
        assert it.count(PLUGIN_STOPS) == 1
        assert "PluginStoppedError: did not come back from" in it.message("web")

    async def test_the_explanation_of_a_result_is_stopped(self):
        it = Watching(Explaining)
        it.hang()
        await it.schedule("web")
        assert it.count(PLUGIN_STOPS) == 1

    async def test_a_hint_is_stopped(self):
        it = Watching(Hinting)
        it.hang()
        await it.schedule("web")
        it.rig.node("new")
        assert it.count(PLUGIN_STOPS) == 1
        assert it.rig.counts.get("unschedulable") != 1, "as if it might help"

    async def test_a_gate_is_stopped(self):
        it = Watching(Gating)
        it.hang()
        it.rig.pod("web")
        assert it.count(PLUGIN_STOPS) == 1

    async def test_other_pods_go_on(self):
        it = Watching(Filtering)
        it.hang()
        await it.schedule("one")
        it.take(0.0)
        await it.schedule("two")
        assert it.rig.placed_on("two")

    async def test_one_that_catches_everything_is_stopped_again(self):
        it = Watching(Filtering)
        stops = []

        def act():
            for _ in range(5):
                try:
                    it.rig.now += 1.0
                    it.guard.stop(inspect.currentframe())
                except BaseException as error:  # noqa: BLE001 -- as a plugin may
                    stops.append(type(error))
            it.rig.now += 1.0
            it.guard.stop(inspect.currentframe())

        it.hang(act)
        await it.schedule("web")
        assert stops == [StoppedError] * 5
        assert it.count(PLUGIN_STOPS) == 1

    async def test_a_call_that_has_just_returned_is_not_stopped(self):
        """The timer may fire at any instruction: here, right after the last one of the plugin."""
        it = Watching(Filtering)
        fired = []

        def act():
            it.rig.now += 2.0

        def clock():
            frame = inspect.currentframe().f_back
            if frame.f_code.co_name == "guarded" and it.guard.overdue():
                fired.append(it.guard.current)
                it.guard.stop(frame)
            return it.rig.now

        it.guard.clock = clock
        it.apply("filter", generation=2)
        it.hang(act)
        await it.schedule("web")
        assert it.rig.placed_on("web")
        it.guard.stop(inspect.currentframe())
        assert it.guard.current is None

    async def test_a_function_of_the_core_is_not_left_half_done(self):
        it = Watching(Filtering)

        def act():
            it.rig.now += 2.0
            bisect.bisect([1, 2], 3, key=lambda value: value)

        it.hang(act)
        namespace = {"__name__": "podwright.core.state.cache"}
        exec("def half(guard, frame):\n    guard.stop(frame())\n    return 'whole'", namespace)
        done = []

        def calls_the_core():
            it.rig.now += 2.0
            done.append(namespace["half"](it.guard, lambda: inspect.currentframe().f_back))

        it.hang(calls_the_core)
        await it.schedule("web")
        assert set(done) == {"whole"}
        assert it.rig.placed_on("web")

    def test_only_code_of_plugins_is_interrupted(self):
        def at(name, *inner):
            namespace = {"__name__": name, "_getframe": inspect.currentframe}
            exec("def call(inner):\n    return inner[0](inner[1:]) if inner else _getframe()", namespace)
            return namespace["call"]

        def interrupted(*names):
            first, *inner = [at(name) for name in names]
            return is_in_plugin(first(inner))

        wrapper = "podwright.core.framework.guarded"
        assert interrupted(wrapper, "team_plugins")
        assert interrupted(wrapper, "team_plugins", "numpy.linalg")
        assert interrupted(wrapper, "json")
        assert interrupted(wrapper, "team_plugins", "podwright.core.state.columns.derived", "team_plugins")
        assert not interrupted(wrapper)
        assert not interrupted(wrapper, "team_plugins", "podwright.core.state.columns.derived")
        assert not interrupted(wrapper, "team_plugins", "podwright.core.state.columns.derived", "numpy")
        assert not interrupted("podwright.engine.engine", "heapq")

    async def test_the_constructor_of_a_plugin_is_stopped(self):
        class Slow(Filtering):
            def __init__(self, args, handle):
                super().__init__(args, handle)
                if handle.cache.table.count:
                    for _ in range(100):
                        guards[0].stop(inspect.currentframe())

        guards = []
        rig = Rig(plugins={"Acting": Slow})
        guards.append(rig.engine.plugin_guard)
        rig.node("a")
        result = rig.engine.policies.apply(custom_policy("filter", "Acting"))
        assert not result.accepted
        assert (
            "PluginStoppedError: did not come back within 1 s, and was stopped (test_plugin_guard.py, line"
            in result.message
        )

    async def test_pauses_of_an_attempt_do_not_count(self):
        it = Watching(Filtering)

        def act():
            left = it.guard.leave()
            it.rig.now += 5.0
            it.guard.stop(inspect.currentframe())
            it.guard.enter_again(left)

        it.hang(act)
        await it.schedule("one")
        assert it.rig.placed_on("one")
        assert not it.count(PLUGIN_OVERRUNS)


@pytest.fixture(autouse=True)
def _errors(caplog):
    caplog.set_level(logging.WARNING)


@each(Filtering, Gating, FilteringLast)
def test_every_method_of_a_plugin_is_watched(kind):
    it = Watching(kind)
    plugin = it.rig.engine.policies.named("custom").framework.plugins["Acting"]
    methods = {
        name
        for base in kind.__mro__
        if base.__module__ == Plugin.__module__
        for name, method in vars(base).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    assert methods
    assert methods <= vars(plugin).keys()
