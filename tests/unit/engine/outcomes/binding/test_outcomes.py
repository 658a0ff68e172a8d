"""Each row of the table of outcomes, played by an engine: what the row says happens to the pod, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from podwright.core.framework.interface import ClusterError, PermitPlugin, Plugin, PreBindPlugin, ReservePlugin
from podwright.core.framework.status import Code, Status
from podwright.core.queue.queued_pod import Place
from podwright.engine.outcomes.binding.states import EFFECTS, BindingOutcome, BindingReport, BindingState, Queueing
from podwright.engine.ports import SCHEDULER_ERROR, UNSCHEDULABLE
from support.engine.kit import Rig, deciding, on_node, settle

UID = "default/web"
BIG = {"cpu": "2"}
ALREADY_ASSIGNED = ClusterError("already assigned", 409)
TIMEOUT = ClusterError("timeout")


class Holder(Plugin, ReservePlugin, PermitPlugin, PreBindPlugin):
    """Makes the pod `web` wait in Permit, and then in PreBind. Records what is unreserved."""

    name = "Holder"
    gate: asyncio.Future[None]
    unreserved: list[str]

    def reserve(self, _state, _pod, _node_name):
        return None

    def unreserve(self, _state, pod, _node_name):
        self.unreserved.append(pod.name)

    def permit(self, _state, pod, _node_name):
        return (Status(Code.WAIT), 60.0) if pod.name == "web" else (None, 0.0)

    async def pre_bind(self, _state, pod, _node_name):
        if pod.name == "web":
            await self.gate


@dataclass
class Stage:
    """The pod `web` waits in Permit, and is assumed on node a, the only node with room for it. `next` waits for that
    room.
    """

    rig: Rig
    raw: dict[str, Any]
    answer: asyncio.Future[None]
    monkeypatch: pytest.MonkeyPatch

    def allow(self) -> None:
        """Permit lets the pod go on to PreBind."""
        (waiting,) = self.rig.engine.binding_cycles.waiting()
        waiting.allow("Holder")

    async def post(self) -> None:
        """The Binding is with the API server."""
        self.allow()
        Holder.gate.set_result(None)
        await settle()
        assert self.rig.cluster.bound == [("web", "a")]

    async def fail_bind(self, error: Exception, node: str | None) -> None:
        """Bind fails; read back, the pod is on this node, pending for "", or gone for None."""
        self.rig.cluster.objects["Pod", "web"] = None if node is None else on_node(self.raw, node) if node else self.raw
        await self.post()
        self.answer.set_exception(error)

    def fail_once(self, part: str, method: str) -> None:
        """The next call of this method raises an exception."""
        target = getattr(self.rig.engine, part)
        original = getattr(target, method)

        def failing(*_arguments: Any, **_options: Any) -> None:
            self.monkeypatch.setattr(target, method, original)
            raise ZeroDivisionError("a bug")

        self.monkeypatch.setattr(target, method, failing)


async def bound(stage: Stage) -> None:
    await stage.post()
    stage.answer.set_result(None)


async def rejected(stage: Stage) -> None:
    (waiting,) = stage.rig.engine.binding_cycles.waiting()
    waiting.reject("Holder", "not today")


async def failed(stage: Stage) -> None:
    stage.allow()
    Holder.gate.set_exception(ZeroDivisionError("a bug"))


async def cancelled(stage: Stage) -> None:
    assert stage.rig.engine.binding_cycles.cancel(UID, "the gang is not placed")


async def preempted(stage: Stage) -> None:
    assert stage.rig.engine.binding_cycles.preempt(UID, "DefaultPreemption")


async def deleted(stage: Stage) -> None:
    stage.raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stage.rig.engine.pending.put(stage.raw)


async def unknown(stage: Stage) -> None:
    stage.rig.cluster.unreachable = 1_000
    await stage.fail_bind(TIMEOUT, "a")


async def bound_by_another(stage: Stage) -> None:
    await stage.fail_bind(ALREADY_ASSIGNED, "a")


async def bound_elsewhere(stage: Stage) -> None:
    await stage.fail_bind(ALREADY_ASSIGNED, "b")


async def gone(stage: Stage) -> None:
    await stage.fail_bind(ClusterError("not found", 404), None)


async def shutdown(stage: Stage) -> None:
    await stage.rig.engine.stop(0)


async def interrupted(stage: Stage) -> None:
    await stage.post()
    await stage.rig.engine.stop(0)


async def lost(stage: Stage) -> None:
    stage.fail_once("queue", "fault")
    await failed(stage)


async def ended(stage: Stage) -> None:
    stage.fail_once("queue", "move")
    await failed(stage)


SCENARIOS: dict[BindingOutcome, Callable[[Stage], Coroutine[Any, Any, None]]] = {
    BindingOutcome.BOUND: bound,
    BindingOutcome.REJECTED: rejected,
    BindingOutcome.FAILED: failed,
    BindingOutcome.CANCELLED: cancelled,
    BindingOutcome.PREEMPTED: preempted,
    BindingOutcome.DELETED: deleted,
    BindingOutcome.UNKNOWN: unknown,
    BindingOutcome.BOUND_BY_ANOTHER: bound_by_another,
    BindingOutcome.BOUND_ELSEWHERE: bound_elsewhere,
    BindingOutcome.GONE: gone,
    BindingOutcome.SHUTDOWN: shutdown,
    BindingOutcome.INTERRUPTED: interrupted,
    BindingOutcome.LOST: lost,
    BindingOutcome.ENDED: ended,
}
HALF_DONE = {BindingOutcome.LOST: BindingOutcome.FAILED, BindingOutcome.ENDED: BindingOutcome.FAILED}
"""Outcomes of a recovery, and the outcome whose effects raised an exception half-way."""
REASONS = {Queueing.REJECT: UNSCHEDULABLE, Queueing.FAIL: SCHEDULER_ERROR}


def test_each_outcome_has_a_scenario():
    assert SCENARIOS.keys() == EFFECTS.keys()


@pytest.mark.parametrize("outcome", SCENARIOS, ids=lambda outcome: outcome.name)
async def test_an_outcome_has_the_effects_of_its_row(outcome, monkeypatch):
    row, loop = EFFECTS[outcome], asyncio.get_running_loop()
    Holder.gate, Holder.unreserved = loop.create_future(), []
    rig = Rig({"Holder": Holder})
    rig.node("a", allocatable=BIG)
    rig.node("b", allocatable={"cpu": "1"})
    enabled = {point: {"enabled": [{"name": "Holder"}]} for point in ("reserve", "permit", "preBind")}
    body = {"strategy": {"type": "Custom"}, "plugins": enabled}
    policy = {"metadata": {"name": "custom", "uid": "custom", "generation": 1}, "spec": body}
    assert rig.engine.policies.apply(policy).accepted
    answer = loop.create_future()
    rig.cluster.outcomes = [answer]
    raw = rig.pod("web", requests=BIG)
    async with deciding(rig):
        rig.pod("next", requests=BIG)
        await settle()
        cycle = rig.engine.binding_cycles.get(UID)
        assert cycle is not None
        assert (cycle.state, rig.counts) == (BindingState.WAITING, {"unschedulable": 1})
        await SCENARIOS[outcome](Stage(rig, raw, answer, monkeypatch))
        await settle()
        assert (cycle.outcome, cycle.state) == (outcome, row.state)
        check(rig, cycle.queued, outcome)


def check(rig: Rig, queued: Any, outcome: BindingOutcome) -> None:
    """The pod and its surroundings are as the row says."""
    row, engine = EFFECTS[outcome], rig.engine
    unreserve = row.unreserve or (outcome in HALF_DONE and EFFECTS[HALF_DONE[outcome]].unreserve)
    assert Holder.unreserved == (["web"] if unreserve else [])
    assert not (row.forget and engine.cache.is_assumed(UID))
    reasons = [verdict.reason for name, verdict, _ in rig.status.written if name == "web" and verdict is not None]
    if row.queue is Queueing.DONE:
        assert engine.queue.get(UID) is None
    elif row.queue is not Queueing.KEEP:
        assert engine.queue.get(UID) is queued
        assert queued.place in (Place.BACKOFF, Place.UNSCHEDULABLE)
    if outcome not in HALF_DONE:
        assert reasons == ([REASONS[row.queue]] if row.queue in REASONS else [])
        waiting = engine.queue.get("default/next")
        assert (waiting is None or waiting.attempts > 1) == row.free_room
    scheduled = "Successfully assigned default/web to a" in rig.recorder.notes("Scheduled")
    assert scheduled == (row.report is BindingReport.BOUND)
    assert (UID in rig.status.forgotten) == (row.report in (BindingReport.BOUND, BindingReport.GONE) or row.confirm)
    assert (("web", None, "") in rig.status.written) == (row.report is BindingReport.RESET)
    if row.confirm and outcome is not BindingOutcome.BOUND:
        assert rig.placed_on("web") != ""
        assert not engine.cache.is_assumed(UID)
