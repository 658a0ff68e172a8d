"""The end of the engine: what is under way is finished, what only waits is let go at once, and nothing is left promised."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import PermitPlugin, Plugin, ReservePlugin
from podwright.core.framework.status import Code, Status
from support.engine.kit import Rig, Slow, custom_policy, settle

LONG = 60.0


class Waiter(Plugin, ReservePlugin, PermitPlugin):
    """Permit that waits; notes what is taken back."""

    name = "Waiter"
    taken_back: list[str]

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, _state, pod, _node_name):
        self.taken_back.append(pod.name)

    def permit(self, _state, _pod, _node_name):
        return Status(Code.WAIT), LONG


class Patient(Slow, ReservePlugin):
    """PreBind that waits for a gate; notes what is taken back."""

    name = "Patient"
    taken_back: list[str]

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, _state, pod, _node_name):
        self.taken_back.append(pod.name)


@pytest.fixture(autouse=True)
def _fresh():
    Waiter.taken_back, Patient.taken_back = [], []


def policy(plugin: type[Plugin], *points: str):
    enabled = {point: {"enabled": [{"name": plugin.name}]} for point in points}
    body = {"strategy": {"type": "Custom"}, "plugins": enabled}
    return {"metadata": {"name": "custom", "uid": "custom", "generation": 1}, "spec": body}


async def decided(rig: Rig) -> None:
    """Decides what is to be decided, and then nothing more."""
    task = asyncio.create_task(rig.engine.run())
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("nominated", ["", "a"], ids=["expected there", "nominated there before"])
async def test_who_waits_in_permit_is_let_go_at_once(nominated):
    rig = Rig({"Waiter": Waiter})
    rig.node("a")
    rig.engine.policies.apply(policy(Waiter, "reserve", "permit"))
    rig.pod("web", status={"nominatedNodeName": nominated} if nominated else {})
    await decided(rig)
    expected = [] if nominated else [("web", None, "a")]
    assert rig.status.written == expected
    async with asyncio.timeout(LONG / 4):
        await rig.engine.stop(LONG / 2)
    assert Waiter.taken_back == ["web"]
    assert rig.placed_on("web") == ""
    assert rig.status.written == [*expected, *([] if nominated else [("web", None, "")])]
    assert (rig.cluster.bound, rig.recorder.events) == ([], [])


async def test_who_has_been_let_pass_is_bound():
    rig = Rig({"Waiter": Waiter})
    rig.node("a")
    rig.engine.policies.apply(policy(Waiter, "reserve", "permit"))
    rig.pod("web")
    await decided(rig)
    (waiting,) = rig.engine.binding_cycles.waiting()
    waiting.allow("Waiter")
    await rig.engine.stop(LONG)
    assert rig.cluster.bound == [("web", "a")]
    assert Waiter.taken_back == []


async def test_work_in_pre_bind_is_waited_for():
    rig = Rig({"Slow": Slow})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("preBind", "Slow"))
    Slow.gate = asyncio.get_running_loop().create_future()
    rig.pod("web")
    await decided(rig)
    stopping = asyncio.create_task(rig.engine.stop(LONG))
    await settle()
    assert not stopping.done()
    Slow.gate.set_result(None)
    await stopping
    assert rig.cluster.bound == [("web", "a")]


async def test_what_is_not_done_in_time_is_taken_back():
    rig = Rig({"Patient": Patient})
    rig.node("a")
    rig.engine.policies.apply(policy(Patient, "reserve", "preBind"))
    Slow.gate = asyncio.get_running_loop().create_future()
    rig.pod("web")
    await decided(rig)
    await rig.engine.stop(0)
    assert Patient.taken_back == ["web"]
    assert rig.placed_on("web") == ""
    assert rig.status.written == [("web", None, "a"), ("web", None, "")]
    assert (rig.cluster.bound, rig.recorder.events) == ([], [])


async def test_a_binding_that_is_posted_is_not_taken_back():
    rig = Rig({"Patient": Patient})
    rig.node("a")
    rig.engine.policies.apply(policy(Patient, "reserve"))
    rig.cluster.outcomes = [asyncio.get_running_loop().create_future()]
    rig.pod("web")
    await decided(rig)
    await rig.engine.stop(0)
    assert Patient.taken_back == []
    assert rig.placed_on("web") == "a"
