"""Calls of third-party plugins that do not return: they are stopped, and nothing else is."""

from __future__ import annotations

import bisect
import inspect
import logging
import traceback

import pytest

from podwright.core.framework.errors import StoppedError
from podwright.engine.plugins.guard import is_in_plugin
from podwright.engine.records.metrics import PLUGIN_STOPS
from support.engine.kit import Rig, custom_policy
from support.plugins.guarded import (
    BeforeBinding,
    DisabledFirst,
    Explaining,
    Filtering,
    FilteringAll,
    FilteringFirst,
    Gating,
    Hinting,
    Permitting,
    Reserving,
    Scoring,
    Watching,
    each,
)


@pytest.fixture(autouse=True)
def _errors(caplog):
    caplog.set_level(logging.WARNING)


class TestCallsThatDoNotComeBack:
    @each(Filtering, FilteringAll, FilteringFirst, Scoring, Reserving, Permitting, BeforeBinding)
    async def test_they_are_stopped_and_named(self, kind, caplog):
        it = Watching(kind)
        it.hang()
        await it.schedule("web")
        assert it.count(PLUGIN_STOPS) == 1
        assert not it.rig.placed_on("web")
        (stopped,) = [
            record for record in caplog.records if record.name == "podwright.engine.plugins.guard" and record.exc_info
        ]
        assert "policy custom: plugin Acting did not return from" in stopped.getMessage()
        assert [each.name for each in traceback.extract_tb(stopped.exc_info[2])][-1] == "act"
        message = it.message("web")
        assert "PluginStoppedError: did not return from" in message
        assert "within 1 s, and was stopped" in message
        assert ", in act)" in it.rig.engine.policies.plugin_exceptions_of("custom")

    async def test_so_is_one_that_the_profile_does_not_enable(self):
        it = Watching(DisabledFirst)
        it.hang()
        await it.schedule("web")
        assert it.count(PLUGIN_STOPS) == 1
        assert not it.rig.placed_on("web")
        assert "did not return from pre_filter_disabled within 1 s, and was stopped" in it.message("web")

    async def test_what_logs_that_a_call_was_stopped_is_not_stopped(self):
        it = Watching(Filtering)
        it.hang()
        handler = logging.Handler()
        handler.emit = lambda _record: it.guard.stop(inspect.currentframe())
        logging.getLogger("podwright.engine.plugins.guard").addHandler(handler)
        try:
            await it.schedule("web")
        finally:
            logging.getLogger("podwright.engine.plugins.guard").removeHandler(handler)
        assert it.count(PLUGIN_STOPS) == 1
        assert "PluginStoppedError: did not return from" in it.message("web")

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
            "PluginStoppedError: did not return within 1 s, and was stopped (test_stopped_plugins.py, line"
            in result.message
        )
