"""After a Binding, reservations are kept only for pods that we have bound, and pods that wait for freed room are
retried.
"""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import ClusterError, Plugin, ReservePlugin
from support.engine.kit import Rig, custom_policy, deciding, on_node, settle


class Reserver(Plugin, ReservePlugin):
    """Records what is unreserved."""

    name = "Reserver"
    unreserved: list[tuple[str, str]]

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, _state, pod, node_name):
        self.unreserved.append((pod.name, node_name))


ALREADY_ASSIGNED = ClusterError("already assigned", 409)


@pytest.mark.parametrize(
    ("error", "place", "unreserved"),
    [
        pytest.param(ALREADY_ASSIGNED, "b", True, id="another scheduler has bound it to another node"),
        pytest.param(ALREADY_ASSIGNED, "a", True, id="another scheduler has bound it to our node"),
        pytest.param(ALREADY_ASSIGNED, None, True, id="it is gone"),
        pytest.param(ALREADY_ASSIGNED, "", True, id="it is pending"),
        pytest.param(ClusterError("timeout"), "a", False, id="our Binding went through"),
    ],
)
async def test_a_pod_is_unreserved_unless_we_have_bound_it(error, place, unreserved):
    Reserver.unreserved = []
    rig = Rig({"Reserver": Reserver})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("reserve", "Reserver"))
    rig.cluster.outcomes = [error]
    raw = rig.pod("web")
    rig.cluster.objects["Pod", "web"] = None if place is None else on_node(raw, place) if place else raw
    async with deciding(rig):
        assert Reserver.unreserved == ([("web", "a")] if unreserved else [])


async def test_a_pod_waiting_for_room_is_retried_when_another_pod_turns_out_to_be_bound_elsewhere():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "2"})
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    raw = rig.pod("web", requests={"cpu": "2"})
    async with deciding(rig):
        rig.node("b", allocatable={"cpu": "1"})
        rig.pod("next", requests={"cpu": "2"})
        await settle()
        assert rig.counts == {"unschedulable": 1}
        rig.now += 20
        rig.cluster.objects["Pod", "web"] = on_node(raw, "b")
        answer.set_exception(ALREADY_ASSIGNED)
        await settle()
        assert rig.cluster.bound == [("web", "a"), ("next", "a")]


async def test_no_status_is_written_any_more_for_a_bound_pod():
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert rig.status.forgotten == ["default/web"]


class TestNeverConfirmed:
    """The Binding went through, but no watch event shows it."""

    async def test_the_pod_is_gone_and_a_pod_waiting_for_its_room_is_retried(self):
        rig = Rig()
        rig.node("a", allocatable={"cpu": "2"})
        rig.pod("web", requests={"cpu": "2"})
        async with deciding(rig):
            rig.pod("next", requests={"cpu": "2"})
            await settle()
            assert rig.counts == {"unschedulable": 1}
            rig.now += 60
            await rig.engine.binding_executor.read_back_overdue()
            await settle()
            assert rig.cluster.bound == [("web", "a"), ("next", "a")]
            assert rig.placed_on("web") == ""

    async def test_the_pod_is_pending_again_and_is_retried(self):
        rig = Rig()
        rig.node("a")
        raw = rig.pod("web")
        rig.cluster.objects["Pod", "web"] = raw
        async with deciding(rig):
            rig.now += 60
            await rig.engine.binding_executor.read_back_overdue()
            await settle()
            assert rig.cluster.bound == [("web", "a"), ("web", "a")]
            assert rig.engine.cache.is_assumed("default/web")
