"""Third-party plugins that take too long for a pod: they are named, and switched off as their policy says."""

from __future__ import annotations

import inspect
import logging
from typing import Final

import pytest

from podwright.core.framework.interface import (
    BindPlugin,
    CycleState,
    Plugin,
)
from podwright.core.framework.status import unresolvable
from podwright.engine.records.metrics import PLUGIN_OVERRUNS
from support.engine.kit import Rig, custom_policy, deciding, settle, values
from support.plugins.guarded import (
    Acting,
    AfterBinding,
    Awaiting,
    BeforeBinding,
    Binding,
    Filtering,
    FilteringAll,
    FilteringFirst,
    FilteringLast,
    Gating,
    Permitting,
    Reserving,
    ReservingAndBinding,
    Scoring,
    Together,
    Turns,
    Watching,
    each,
)


@pytest.fixture(autouse=True)
def _errors(caplog):
    caplog.set_level(logging.WARNING)


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

    WHY: Final = {"Acting": "/plugins/a.py did not return from line 7, in filter, until the process was restarted"}

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
