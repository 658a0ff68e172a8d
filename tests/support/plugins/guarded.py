"""Third-party plugins that do what a test wants, and an engine in which one of them runs."""

from __future__ import annotations

import asyncio
import inspect

import numpy as np
import pytest

from podwright.core.framework.cluster_events import NODE, Action, ClusterEvent, EventHint, Hint
from podwright.core.framework.interface import (
    BindPlugin,
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
from podwright.engine.policies.plugin_switches import PluginSwitches
from podwright.engine.policies.policy_events import PolicyEvents
from support.engine.kit import Rig, custom_policy, deciding, settle


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


class DisabledFirst(Filtering, PreFilterPlugin):
    """Is asked where a profile enables its filter alone."""

    def filter(self, _state, _pod, _node):
        return None

    def pre_filter(self, _state, _pod):
        return None

    @classmethod
    def pre_filter_disabled(cls, _pod, _cache):
        return cls.act()


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
        self.plugins, self.hints, self.disabled_checks = plugins, {}, ()
        for name, plugin in plugins.items():
            plugin.name = name


class Watching:
    """An engine with a plugin that a policy uses."""

    def __init__(self, kind, on_failure=None, **options):
        self.kind = type(kind.__name__, (kind,), {"__module__": "team_plugins"})
        self.rig = Rig(plugins={"Acting": self.kind}, **options)
        self.guard = self.rig.engine.plugin_guard
        engine = self.rig.engine
        events = PolicyEvents(engine.policies, self.rig.recorder, scheduler_name="podwright", own=lambda: None)
        self.switches = PluginSwitches(
            engine.policies,
            engine.policies_changed,
            guard=self.guard,
            metrics=self.rig.ports.metrics,
            events=events,
        )
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
        """Returns the last message in the pod's status."""
        return [verdict.message for pod, verdict, _ in self.rig.status.written if pod == name and verdict][-1]

    @property
    def off(self):
        return self.rig.engine.policies.work_of("custom").switched_off
