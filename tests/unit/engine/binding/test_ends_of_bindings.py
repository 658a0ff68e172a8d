"""Whatever becomes of a Binding, nothing stays reserved for nobody, and who waits for the room hears of it."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import ClusterError, Plugin, ReservePlugin
from support.engine.kit import Rig, custom_policy, deciding, on_node, settle


class Reserver(Plugin, ReservePlugin):
    """Notes what is taken back."""

    name = "Reserver"
    taken_back: list[tuple[str, str]]

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, _state, pod, node_name):
        self.taken_back.append((pod.name, node_name))


TAKEN = ClusterError("already assigned", 409)


@pytest.mark.parametrize(
    ("error", "place", "taken_back"),
    [
        pytest.param(TAKEN, "b", True, id="somebody else has bound it elsewhere"),
        pytest.param(TAKEN, "a", True, id="somebody else has bound it there"),
        pytest.param(TAKEN, None, True, id="it is gone"),
        pytest.param(TAKEN, "", True, id="it is pending"),
        pytest.param(ClusterError("timeout"), "a", False, id="it is bound after all"),
    ],
)
async def test_what_was_reserved_is_given_back_unless_we_have_bound_the_pod(error, place, taken_back):
    Reserver.taken_back = []
    rig = Rig({"Reserver": Reserver})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("reserve", "Reserver"))
    rig.cluster.outcomes = [error]
    raw = rig.pod("web")
    rig.cluster.objects["Pod", "web"] = None if place is None else on_node(raw, place) if place else raw
    async with deciding(rig):
        assert Reserver.taken_back == ([("web", "a")] if taken_back else [])


async def test_who_waits_for_its_room_hears_that_a_pod_was_bound_elsewhere():
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
        answer.set_exception(TAKEN)
        await settle()
        assert rig.cluster.bound == [("web", "a"), ("next", "a")]


async def test_a_bound_pod_has_nothing_left_to_say_of_its_wait():
    rig = Rig()
    rig.node("a")
    rig.pod("web")
    async with deciding(rig):
        assert rig.status.forgotten == ["default/web"]


class TestNeverConfirmed:
    """A Binding that went through, and of which no watch tells."""

    async def test_the_pod_is_gone_and_who_waits_for_its_room_hears_of_it(self):
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

    async def test_the_pod_is_pending_again_and_is_tried_again(self):
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
