"""Pods of a policy with packing Optimal are gathered, and decided together in a child."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from podwright.core.gangs.decisions import Packed
from podwright.core.objects.compaction import compact_all
from podwright.core.queue.queued_pod import Place
from podwright.engine.attempts import batches, pod_attempts
from podwright.engine.attempts.batches import Batches
from podwright.engine.planning.messages import Later, Messages
from podwright.engine.planning.planning import CONFLICTS
from podwright.engine.process import steps
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.engine.long_work import FakeChildren
from support.gangs.by_trial import by_trial
from support.gangs.highs import by_highs
from support.objects.builders import make_policy
from support.waiting import until

TIMES = {"batch": "20ms", "budget": "1s"}


def rig_with(solve=by_trial, *, may_preempt=False, bindings_at_once=32, **options) -> Rig:
    rig = Rig(solve=solve, children=FakeChildren(**options), bindings_at_once=bindings_at_once)
    policy = make_policy("packed", 1, match={"podSelector": {"matchLabels": {"pack": "yes"}}}, packing="Optimal")
    policy["spec"] |= {"packingTimes": TIMES, "packingMayPreempt": may_preempt}
    assert rig.engine.policies.apply(policy).accepted
    return rig


def packed(rig: Rig, name: str, cpu: str) -> None:
    rig.pod(name, requests={"cpu": cpu}, labels={"pack": "yes"})


def gathering_in(rig: Rig) -> Batches:
    """Batches of their own, which wake nobody."""
    state = SimpleNamespace(queue=rig.engine.queue, sources=SimpleNamespace(clock=time.monotonic))
    return Batches(state, wake=lambda: None)


async def ended(rig: Rig, holds) -> None:
    def has_come() -> bool:
        rig.now += 0.1
        rig.engine.wake()
        return holds()

    async with deciding(rig):
        await until(has_come)
        await settle()


async def test_they_are_placed_together():
    rig = rig_with()
    rig.node("large", allocatable={"cpu": "8"})
    rig.node("small", allocatable={"cpu": "3"})
    packed(rig, "s", "3")
    packed(rig, "l", "8")
    await ended(rig, lambda: len(rig.cluster.bound) == 2)
    assert sorted(rig.cluster.bound) == [("l", "large"), ("s", "small")]
    assert rig.children.started == 1
    work = rig.engine.policies.work_of("packed").packing
    assert (work.pods, work.placed, work.certificate) == (2, 2, "Optimal")


async def test_others_are_evicted_for_them_where_their_policy_lets_them():
    rig = rig_with(by_highs, may_preempt=True)
    rig.node("n", allocatable={"cpu": "2"})
    rig.engine.assigned.put(on_node(ours("low", requests={"cpu": "2"}, priority=0), "n"))
    for name in ("p", "q"):
        rig.pod(name, requests={"cpu": "1"}, labels={"pack": "yes"}, priority=10)

    def nominated():
        return {(name, node) for name, _, node in rig.status.written if node}

    await ended(rig, lambda: nominated() == {("p", "n"), ("q", "n")})
    assert rig.evictor.evicted == [("low", "p", "n")]
    assert rig.engine.policies.work_of("packed").packing.placed == 2
    (note,) = {note for note in rig.recorder.notes("FailedScheduling") if "evicts 1" in note}
    assert note.endswith("Packing evicts 1 pods for it on n.")
    rig.engine.assigned.drop("default/low", None)
    await ended(rig, lambda: len(rig.cluster.bound) == 2)


async def test_pods_of_other_policies_do_not_wait():
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    packed(rig, "p", "3")
    rig.pod("other", requests={"cpu": "2"})
    await ended(rig, lambda: rig.cluster.bound and rig.recorder.notes("FailedScheduling"))
    assert rig.cluster.bound == [("other", "n")]


async def test_a_pod_that_is_gone_meanwhile_is_left_out():
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    packed(rig, "p", "2")
    packed(rig, "q", "2")

    def meanwhile(_child: int) -> None:
        queued = rig.engine.queue.get("default/p")
        rig.engine.pending.drop("default/p", dict(queued.pod.raw))

    rig.children.meanwhile = meanwhile
    await ended(rig, lambda: rig.cluster.bound)
    assert rig.cluster.bound == [("q", "n")]


@pytest.mark.parametrize(("taken", "in_child"), [("a", 0), ("ab", 2), ("abc", 3)])
async def test_pods_whose_nodes_are_taken_meanwhile_are_decided_again(monkeypatch, taken, in_child):
    rig = rig_with()
    planning, added = rig.engine.planning, []
    add = planning.add
    monkeypatch.setattr(planning, "add", lambda job: (added.append(job), add(job)))
    for name in "abcd":
        rig.node(name, allocatable={"cpu": "4"})
        packed(rig, f"on-{name}", "3")

    def meanwhile(child: int) -> None:
        for name in taken if child == 1 else ():
            rig.node(name, allocatable={"cpu": "1"})
            rig.node(f"other-{name}", allocatable={"cpu": "4"})

    rig.children.meanwhile = meanwhile
    await ended(rig, lambda: len(rig.cluster.bound) == 4)
    left = {*"abcd"} - {*taken}
    assert {node for _, node in rig.cluster.bound} == left | {f"other-{name}" for name in taken}
    assert len(added) == in_child, "one that is alone needs no child"


async def test_a_pod_that_is_alone_needs_no_child():
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    packed(rig, "p", "3")
    await ended(rig, lambda: rig.cluster.bound)
    packed(rig, "q", "2")
    await ended(rig, lambda: rig.recorder.notes("FailedScheduling"))
    assert rig.children.started == 0
    work = rig.engine.policies.work_of("packed").packing
    assert (work.pods, work.placed, work.certificate) == (1, 0, "Optimal")


async def test_a_pod_that_is_alone_and_takes_long_is_decided_by_a_child(monkeypatch):
    monkeypatch.setattr(pod_attempts, "LONG_SECONDS", 1e6)
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    attempts, queue, charged, decided = rig.engine.pod_attempts, rig.engine.queue, [], []
    decide, charge = attempts.decide, queue.charge_lane
    monkeypatch.setattr(queue, "charge_lane", lambda seconds: (charged.append(seconds), charge(seconds)))

    def slowly(queued, *rest):
        decided.append(queued.pod.name)
        if len(decided) == 1:
            rig.now += 5.0
        rig.engine.cache.deadline.expect(60.0)
        return decide(queued, *rest)

    monkeypatch.setattr(attempts, "decide", slowly)
    packed(rig, "p", "3")
    await ended(rig, lambda: rig.cluster.bound)
    assert rig.children.started == 1
    assert charged[0] == pytest.approx(5.0)
    packed(rig, "q", "1")
    await ended(rig, lambda: len(rig.cluster.bound) == 2)
    assert rig.children.started == 2
    assert decided == ["p", "p", "q"], "no further one is attempted in the loop first"


async def test_pods_on_the_way_to_the_lane_are_decided_with_the_first_one(monkeypatch):
    rig = rig_with()
    monkeypatch.setattr(batches, "beside", lambda moving, _clock: next(moving))
    gathering, queue = gathering_in(rig), rig.engine.queue
    for name in ("p", "q", "r"):
        packed(rig, name, "1")
        queued = queue.pop()
        policy = rig.engine.policies.of(queued.pod)
        gathering.gather(queued, policy)
    await until(lambda: queue.get("default/p").place is Place.ACTIVE)
    assert [queue.get(f"default/{name}").place for name in "qr"] == [Place.IN_FLIGHT] * 2
    first = queue.pop()
    assert not gathering.take_alone(first, policy)
    taken = [first]
    steps.at_once(gathering.take(taken, policy))
    assert [each.pod.name for each in taken] == ["p", "q", "r"]


async def test_a_quiet_time_ends_while_their_bindings_are_not_answered():
    rig = rig_with(bindings_at_once=1)
    rig.node("n", allocatable={"cpu": "4"})
    quiet, answered = [], asyncio.Event()

    async def bind(_pod, _node, _annotations):
        await answered.wait()

    rig.cluster.bind = bind
    rig.children.meanwhile = lambda _child: quiet.append(bool(rig.engine.planning.quiet))
    for name in ("p", "q"):
        packed(rig, name, "2")
        rig.engine.queue.get(f"default/{name}").conflicts = CONFLICTS

    def decided() -> bool:
        rig.now += 0.1
        rig.engine.wake()
        return bool(quiet)

    async with deciding(rig):
        await until(decided)
        assert quiet == [True]
        await until(lambda: not rig.engine.planning.quiet)
        answered.set()


async def test_pods_stay_together_when_their_policy_changes_meanwhile():
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    packed(rig, "p", "2")
    packed(rig, "q", "2")
    changed = make_policy("packed", 2, match={"podSelector": {"matchLabels": {"pack": "yes"}}}, packing="Optimal")
    async with deciding(rig):
        await until(lambda: rig.engine.queue.get("default/q").place is Place.IN_FLIGHT)
        assert rig.engine.policies.apply(changed).accepted
        await until(lambda: len(rig.cluster.bound) == 2)
    assert rig.children.started == 1
    assert rig.engine.policies.work_of("packed").packing.pods == 2


async def test_a_child_that_ends_fails_them_with_an_event():
    rig = rig_with()
    rig.node("n")
    rig.children.end = "it crashed"
    packed(rig, "p", "1")
    packed(rig, "q", "1")
    await ended(rig, lambda: len(rig.recorder.notes("FailedScheduling")) == 2)
    assert rig.recorder.notes("FailedScheduling") == ["the process that decides ended: it crashed"] * 2


@pytest.mark.parametrize("fails", [True, False])
async def test_other_work_is_done_between_pods_that_fail_or_return_to_the_lane(monkeypatch, fails):
    monkeypatch.setattr(steps, "SLICE_SECONDS", 0.0)
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    rig.children.end = "it crashed" if fails else ""
    attempts, order = rig.engine.pod_attempts, []

    def recorded(call):
        def record(queued, *rest):
            order.append(queued.pod.name)
            asyncio.get_running_loop().call_soon(order.append, "other")
            call(queued, *rest)

        return record

    for name in ("fail", "give_back"):
        monkeypatch.setattr(attempts, name, recorded(getattr(attempts, name)))
    rig.children.meanwhile = lambda _child: rig.node("n", allocatable={"cpu": "1"})
    for name in ("p", "q"):
        packed(rig, name, "2")
    await ended(rig, lambda: len(order) == 4)
    assert order == ["p", "other", "q", "other"]


async def test_decisions_of_a_child_are_read_one_by_one():
    rig = rig_with()
    messages = Messages(rig.engine.cache, rig.engine.queue, shared=())
    packed(rig, "p", "1")
    read = messages.decode(messages.encode(Packed([rig.engine.queue.get("default/p").pod, "next"], 1, "Optimal")))
    rig.engine.pending.drop("default/p", dict(read.decisions[0].raw))
    assert [*read.decisions] == [None, "next"]


async def test_pods_that_go_while_they_wait_for_each_other_are_forgotten():
    rig = rig_with()
    gathering = gathering_in(rig)
    for name in ("p", "q"):
        packed(rig, name, "1")
        queued = rig.engine.queue.pop()
        gathering.gather(queued, rig.engine.policies.of(queued.pod))
    await until(lambda: queued.place is Place.ACTIVE)
    rig.engine.pending.drop("default/p", dict(rig.engine.queue.get("default/p").pod.raw))
    assert "default/p" in str(vars(gathering))
    compact_all()
    assert "default/p" not in str(vars(gathering))
    assert "default/q" in str(vars(gathering))


async def test_pods_of_others_are_bound_between_them():
    rig = rig_with(bindings_at_once=2)
    rig.node("n", allocatable={"cpu": "8"})
    begun, answers = [], asyncio.Semaphore(0)

    async def bind(pod, _node, _annotations):
        begun.append(pod.name)
        if len(begun) == 2:
            rig.pod("other", requests={"cpu": "1"})
        await answers.acquire()

    rig.cluster.bind = bind
    for number in range(6):
        packed(rig, f"p{number}", "1")

    def has_begun() -> bool:
        rig.engine.wake()
        return len(begun) >= 2

    async with deciding(rig):
        await until(has_begun)
        await settle()
        assert sorted(begun) == ["other", "p0", "p1"]
        for _ in range(7):
            answers.release()
        await until(lambda: len(begun) == 7)


def test_what_a_child_has_packed_is_read_without_the_modules_that_pack():
    message = pickle.dumps(Packed((), 0, "Optimal"))
    text = (
        "import pickle, sys; import podwright.engine.engine; before = {*sys.modules}; "
        f"pickle.loads({message!r}); sys.exit({{*sys.modules}} != before)"
    )
    assert subprocess.run((sys.executable, "-c", text), check=False).returncode == 0


async def test_pods_whose_decision_cannot_be_read_say_so_and_are_then_decided_one_by_one(monkeypatch):
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "3"})
    read, failed = Later.__getitem__, []

    def read_but_one(self, index):
        if index == 2:
            failed.append(self)
            raise ValueError("it cannot be read")
        return read(self, index)

    monkeypatch.setattr(Later, "__getitem__", read_but_one)
    for name, cpu in (("p", "1"), ("q", "1"), ("r", "1"), ("s", "4")):
        packed(rig, name, cpu)
    await ended(rig, lambda: len(rig.cluster.bound) == 3)
    why = "what was decided cannot be carried out: ValueError: it cannot be read"
    notes = rig.recorder.notes("FailedScheduling")
    assert notes[:2] == [why] * 2
    assert why not in notes[2:]
    assert len(failed) == 1


async def test_pods_that_were_rejected_before_one_cannot_be_read_keep_their_reason(monkeypatch):
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "3"})
    read = Later.__getitem__
    monkeypatch.setattr(Later, "__getitem__", lambda self, index: read(self, index) if index < 2 else 1 / 0)
    for name in "pqr":
        packed(rig, name, "2")
    await ended(rig, lambda: len(rig.recorder.notes("FailedScheduling")) == 2)
    rejected, failed = rig.recorder.notes("FailedScheduling")
    assert rejected.startswith("0/1 nodes are available")
    assert failed.startswith("what was decided cannot be carried out: ZeroDivisionError")


@pytest.mark.parametrize("slice_seconds", [0.0, 60.0], ids=["while they are taken", "before the child starts"])
async def test_pods_are_decided_again_if_their_decision_is_cancelled(monkeypatch, slice_seconds):
    monkeypatch.setattr(steps, "SLICE_SECONDS", slice_seconds)
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    take = rig.engine.queue.take

    def cancel_once(uid):
        monkeypatch.setattr(rig.engine.queue, "take", take)
        rig.engine.planning.cancel()
        return take(uid)

    monkeypatch.setattr(rig.engine.queue, "take", cancel_once)
    for name in "pqrs":
        packed(rig, name, "1")
    await ended(rig, lambda: len(rig.cluster.bound) == 4)
    assert rig.engine.queue.take == take
