"""scheduler_plugin_evaluation_total counts the calls of each plugin as kube-scheduler does."""

from __future__ import annotations

import pytest

from podwright.core.framework.interface import Plugin, PreFilterPlugin
from podwright.core.framework.observer import PluginNames
from podwright.core.framework.status import Code, Status
from podwright.engine.records.families import Counter, CounterFamily
from podwright.engine.records.plugin_evaluations import PluginEvaluations
from support.engine.kit import PerNode, Rig, custom_policy, deciding, settle, values
from support.objects.builders import make_pod
from support.state.allocations import bytes_left_by

EVALUATED = "scheduler_plugin_evaluation_total"


def calls(rig, plugin):
    """How often the plugin was called, by extension point."""
    return {point: count for (name, point, _), count in values(rig, EVALUATED).items() if name == plugin and count}


async def test_a_filter_is_counted_for_the_nodes_that_passed_the_filters_before_it():
    rig = Rig({"PerNode": PerNode})
    policy = custom_policy("filter", "PerNode")
    policy["spec"]["plugins"]["score"] = {"enabled": [{"name": "PerNode"}]}
    assert rig.engine.policies.apply(policy).accepted
    rig.node("a", labels={"disk": "ssd"})
    rig.node("b", labels={"disk": "ssd"})
    rig.node("small", labels={"disk": "ssd"}, allocatable={"cpu": "1"})
    rig.node("other")
    rig.pod("web", requests={"cpu": "2"}, spec={"nodeSelector": {"disk": "ssd"}})
    async with deciding(rig):
        assert len(rig.cluster.bound) == 1
        # One of the four nodes has another label, and one is too small.
        assert calls(rig, "NodeUnschedulable") == {"PreFilter": 1, "Filter": 4}
        assert calls(rig, "NodeAffinity") == {"PreFilter": 1, "Filter": 4}
        assert calls(rig, "NodeResourcesFit") == {"PreFilter": 1, "Filter": 3, "PreScore": 1, "Score": 2}
        assert calls(rig, "PerNode") == {"Filter": 2, "Score": 2}
        # Plugins that returned Skip are shown with 0.
        assert values(rig, EVALUATED)["NodePorts", "Filter", "podwright"] == 0
        assert calls(rig, "NodePorts") == calls(rig, "InterPodAffinity") == {}
        assert {profile for _, _, profile in values(rig, EVALUATED)} == {"podwright"}


async def test_a_pod_with_a_single_feasible_node_is_not_scored():
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    rig.pod("big", requests={"cpu": "100"})
    async with deciding(rig):
        assert rig.cluster.bound == [("web", "a")]
        assert calls(rig, "NodeResourcesFit") == {"PreFilter": 2, "Filter": 2}


@pytest.mark.parametrize(
    ("code", "after"),
    [
        pytest.param(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, {}, id="unresolvable: no other plugin runs"),
        pytest.param(
            Code.UNSCHEDULABLE, {"PreFilter": 1}, id="unschedulable: the other PreFilter plugins run, and no filters"
        ),
    ],
)
async def test_pre_filter_can_end_an_attempt(code, after):
    class Never(Plugin, PreFilterPlugin):
        name = "Never"

        def pre_filter(self, _state, _pod):
            return Status(code, ("never",))

    class After(Plugin, PreFilterPlugin):
        name = "After"

        def pre_filter(self, _state, _pod):
            return None

    rig = Rig({"Never": Never, "After": After})
    policy = custom_policy("preFilter", "Never")
    policy["spec"]["plugins"]["preFilter"]["enabled"].append({"name": "After"})
    assert rig.engine.policies.apply(policy).accepted
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 1}
        assert calls(rig, "Never") == {"PreFilter": 1}
        assert calls(rig, "After") == after
        assert calls(rig, "NodeResourcesFit") == {"PreFilter": 1}


async def test_counts_of_a_policy_survive_its_removal():
    rig = Rig({"PerNode": PerNode})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("filter", "PerNode"))
    rig.pod("web")
    async with deciding(rig):
        rig.engine.policies.remove("custom")
        assert calls(rig, "PerNode") == {"Filter": 1}
        rig.pod("api")
        await settle()
        assert calls(rig, "PerNode") == {"Filter": 1}
        assert calls(rig, "NodeUnschedulable") == {"PreFilter": 2, "Filter": 2}


async def test_series_of_a_policy_go_with_it():
    rig = Rig()
    rig.node("a")
    spec = {"schedulerName": "team"}
    assert rig.engine.policies.apply({"metadata": {"name": "team", "uid": "u", "generation": 1}, "spec": spec}).accepted
    rig.pod("ours")
    rig.engine.pending.put(make_pod("theirs", spec=spec))
    async with deciding(rig):
        assert len(rig.cluster.bound) == 2
        rig.engine.compact()
        for name in (EVALUATED, "scheduler_schedule_attempts_total"):
            assert {labels[-1] for labels in values(rig, name)} == {"podwright", "team"}
        rig.engine.policies.remove("team")
        rig.engine.compact()
        for name in (EVALUATED, "scheduler_schedule_attempts_total"):
            assert {labels[-1] for labels in values(rig, name)} == {"podwright"}


def test_attempts_of_many_kinds_are_folded_before_the_metrics_are_scraped():
    family = CounterFamily(Counter("evaluations", "", ("plugin", "extension_point", "profile")))
    evaluations = PluginEvaluations(family)
    plugins = PluginNames("p", dict.fromkeys(("PreFilter", "Filter", "PreScore", "Score"), ("A",)))

    def attempts():
        for number in range(5_000):
            evaluations.attempt_ended(plugins, ((f"skipped-{number}",), ()), 1, {}, 0, "")

    attempts()
    assert bytes_left_by(attempts) < 5_000 * 100
    evaluations.fold()
    assert family.of("A", "PreFilter", "p")[0] == 10_000
