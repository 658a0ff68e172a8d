"""How often each plugin was asked, as kube-scheduler counts it."""

from __future__ import annotations

import pytest

from podwright.core.framework.interface import Plugin, PreFilterPlugin
from podwright.core.framework.status import Code, Status
from support.engine.kit import PerNode, Rig, custom_policy, deciding, settle, values

EVALUATED = "scheduler_plugin_evaluation_total"


def asked(rig, plugin):
    """How often the plugin was asked, by extension point."""
    return {point: count for (name, point, _), count in values(rig, EVALUATED).items() if name == plugin and count}


async def test_plugins_are_asked_about_the_nodes_that_those_before_left():
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
        # Of four nodes one has another label, and one is too small.
        assert asked(rig, "NodeUnschedulable") == {"PreFilter": 1, "Filter": 4}
        assert asked(rig, "NodeAffinity") == {"PreFilter": 1, "Filter": 4}
        assert asked(rig, "NodeResourcesFit") == {"PreFilter": 1, "Filter": 3, "PreScore": 1, "Score": 2}
        assert asked(rig, "PerNode") == {"Filter": 2, "Score": 2}
        # These said Skip; that they are there is told.
        assert values(rig, EVALUATED)["NodePorts", "Filter", "podwright"] == 0
        assert asked(rig, "NodePorts") == asked(rig, "InterPodAffinity") == {}
        assert {profile for _, _, profile in values(rig, EVALUATED)} == {"podwright"}


async def test_a_pod_without_a_choice_is_not_scored():
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    rig.pod("big", requests={"cpu": "100"})
    async with deciding(rig):
        assert rig.cluster.bound == [("web", "a")]
        assert asked(rig, "NodeResourcesFit") == {"PreFilter": 2, "Filter": 2}


@pytest.mark.parametrize(
    ("code", "after"),
    [
        pytest.param(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, {}, id="for good: nobody else is asked"),
        pytest.param(Code.UNSCHEDULABLE, {"PreFilter": 1}, id="for now: the others are asked, but about no node"),
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
        assert asked(rig, "Never") == {"PreFilter": 1}
        assert asked(rig, "After") == after
        assert asked(rig, "NodeResourcesFit") == {"PreFilter": 1}


async def test_what_plugins_of_a_policy_were_asked_stays_when_it_goes():
    rig = Rig({"PerNode": PerNode})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("filter", "PerNode"))
    rig.pod("web")
    async with deciding(rig):
        rig.engine.policies.remove("custom")
        assert asked(rig, "PerNode") == {"Filter": 1}
        rig.pod("api")
        await settle()
        assert asked(rig, "PerNode") == {"Filter": 1}
        assert asked(rig, "NodeUnschedulable") == {"PreFilter": 2, "Filter": 2}
