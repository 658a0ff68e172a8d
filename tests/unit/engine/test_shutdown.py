"""Shutdown: started work is finished, pods waiting in Permit are rejected at once, and no nomination is left behind."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import PermitPlugin, Plugin, ReservePlugin
from podwright.core.framework.status import Code, Status
from support.engine.kit import Rig, Slow, custom_policy, settle
from support.objects.builders import make_policy

LONG = 60.0


class Waiter(Plugin, ReservePlugin, PermitPlugin):
    """Permit that waits; records the unreserved pods."""

    name = "Waiter"
    unreserved: list[str]

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, _state, pod, _node_name):
        self.unreserved.append(pod.name)

    def permit(self, _state, _pod, _node_name):
        return Status(Code.WAIT), LONG


class Patient(Slow, ReservePlugin):
    """PreBind that waits for a gate; records the unreserved pods."""

    name = "Patient"
    unreserved: list[str]

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, _state, pod, _node_name):
        self.unreserved.append(pod.name)


class Provisioning(Patient):
    """PreBind that waits for a gate, and then for a volume that nobody provisions."""

    name = "Provisioning"

    async def pre_bind(self, state, pod, node_name):
        await super().pre_bind(state, pod, node_name)
        await self.handle.cluster.wait_for(
            "PersistentVolumeClaim", "data", "default", lambda claim: claim is not None, LONG
        )


class Undoing(Provisioning):
    """Unreserve that asks for a request, which waits for another gate."""

    name = "Undoing"
    undone: asyncio.Future[None]

    def unreserve(self, state, pod, _node_name):
        super().unreserve(state, pod, _node_name)
        state.follow_ups.append(lambda: asyncio.shield(self.undone))


@pytest.fixture(autouse=True)
def _fresh():
    Waiter.unreserved, Patient.unreserved = [], []


def policy(plugin: type[Plugin], *points: str):
    enabled = {point: {"enabled": [{"name": plugin.name}]} for point in points}
    return make_policy("custom", 1, "custom", strategy={"type": "Custom"}, plugins=enabled)


async def decide(rig: Rig) -> None:
    """Runs the loop until it is idle, then stops it."""
    task = asyncio.create_task(rig.engine.run())
    await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("nominated", ["", "a"], ids=["not nominated before", "nominated to that node before"])
async def test_pods_waiting_in_permit_are_rejected_at_once(nominated):
    rig = Rig({"Waiter": Waiter})
    rig.node("a")
    rig.engine.policies.apply(policy(Waiter, "reserve", "permit"))
    rig.pod("web", status={"nominatedNodeName": nominated} if nominated else {})
    await decide(rig)
    expected = [] if nominated else [("web", None, "a")]
    assert rig.status.written == expected
    async with asyncio.timeout(LONG / 4):
        await rig.engine.stop(LONG / 2)
    assert Waiter.unreserved == ["web"]
    assert rig.placed_on("web") == ""
    assert rig.status.written == [*expected, *([] if nominated else [("web", None, "")])]
    assert (rig.cluster.bound, rig.recorder.events) == ([], [])


async def test_pods_that_permit_has_allowed_are_bound():
    rig = Rig({"Waiter": Waiter})
    rig.node("a")
    rig.engine.policies.apply(policy(Waiter, "reserve", "permit"))
    rig.pod("web")
    await decide(rig)
    (waiting,) = rig.engine.binding_cycles.waiting()
    waiting.allow("Waiter")
    await rig.engine.stop(LONG)
    assert rig.cluster.bound == [("web", "a")]
    assert Waiter.unreserved == []


async def test_shutdown_waits_for_pre_bind():
    rig = Rig({"Slow": Slow})
    rig.node("a")
    rig.engine.policies.apply(custom_policy("preBind", "Slow"))
    Slow.gate = asyncio.get_running_loop().create_future()
    rig.pod("web")
    await decide(rig)
    stopping = asyncio.create_task(rig.engine.stop(LONG))
    await settle()
    assert not stopping.done()
    Slow.gate.set_result(None)
    await stopping
    assert rig.cluster.bound == [("web", "a")]


@pytest.mark.parametrize("waits", [True, False], ids=["already", "only after a request"])
async def test_shutdown_does_not_wait_for_others_in_pre_bind(waits):
    rig = Rig({"Provisioning": Provisioning})
    rig.node("a")
    rig.engine.policies.apply(policy(Provisioning, "reserve", "preBind"))
    Slow.gate = asyncio.get_running_loop().create_future()
    if waits:
        Slow.gate.set_result(None)
    rig.pod("web")
    await decide(rig)
    async with asyncio.timeout(LONG / 4):
        stopping = asyncio.create_task(rig.engine.stop(LONG / 2))
        await settle()
        if not waits:
            assert not stopping.done()
            Slow.gate.set_result(None)
        assert await stopping, "nothing had to be broken off, so the Lease can be released"
    assert Patient.unreserved == ["web"]
    assert rig.placed_on("web") == ""
    assert (rig.cluster.bound, rig.recorder.events) == ([], [])


@pytest.mark.parametrize("ends", [True, False], ids=["in time", "too late"])
async def test_shutdown_waits_for_what_follows_unreserve(ends):
    rig = Rig({"Undoing": Undoing})
    rig.node("a")
    rig.engine.policies.apply(policy(Undoing, "reserve", "preBind"))
    Slow.gate, Undoing.undone = (asyncio.get_running_loop().create_future() for _ in range(2))
    Slow.gate.set_result(None)
    rig.pod("web")
    await decide(rig)
    stopping = asyncio.create_task(rig.engine.stop(LONG if ends else 0.1))
    if ends:
        await settle()
        assert not stopping.done()
        Undoing.undone.set_result(None)
    assert await stopping is ends
    assert Patient.unreserved == ["web"]
    if not ends:
        Undoing.undone.set_result(None)
        await settle()


async def test_pods_still_in_pre_bind_after_the_grace_period_are_unreserved():
    rig = Rig({"Patient": Patient})
    rig.node("a")
    rig.engine.policies.apply(policy(Patient, "reserve", "preBind"))
    Slow.gate = asyncio.get_running_loop().create_future()
    rig.pod("web")
    await decide(rig)
    await rig.engine.stop(0)
    assert Patient.unreserved == ["web"]
    assert rig.placed_on("web") == ""
    assert rig.status.written == [("web", None, "a"), ("web", None, "")]
    assert (rig.cluster.bound, rig.recorder.events) == ([], [])


async def test_a_pod_whose_binding_was_posted_is_not_unreserved():
    rig = Rig({"Patient": Patient})
    rig.node("a")
    rig.engine.policies.apply(policy(Patient, "reserve"))
    rig.cluster.outcomes = [asyncio.get_running_loop().create_future()]
    rig.pod("web")
    await decide(rig)
    await rig.engine.stop(0)
    assert Patient.unreserved == []
    assert rig.placed_on("web") == "a"
