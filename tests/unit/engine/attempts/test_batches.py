"""Pods of a policy with packing Optimal are gathered, and decided together in a child."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
from types import SimpleNamespace

from podwright.core.gangs.decisions import Packed
from podwright.core.objects.compaction import compact_all
from podwright.core.queue.queued_pod import Place
from podwright.engine.attempts.batches import Batches
from podwright.engine.planning.planning import CONFLICTS, STILL_CHANGING
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


async def test_a_pod_whose_node_is_taken_meanwhile_is_decided_again():
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    rig.node("m", allocatable={"cpu": "4"})
    packed(rig, "p", "3")

    def meanwhile(child: int) -> None:
        if child == 1:
            rig.node("n", allocatable={"cpu": "1"})

    rig.children.meanwhile = meanwhile
    await ended(rig, lambda: rig.cluster.bound)
    assert rig.cluster.bound == [("p", "m")]


async def test_a_pod_whose_node_is_taken_again_and_again_is_decided_in_a_quiet_time_in_the_end():
    rig = rig_with()
    rig.node("n", allocatable={"cpu": "4"})
    packed(rig, "p", "3")
    quiet = []

    def meanwhile(child: int) -> None:
        quiet.append(bool(rig.engine.planning.quiet))
        rig.node("n" if child % 2 else "m", allocatable={"cpu": "1"})
        rig.node("m" if child % 2 else "n", allocatable={"cpu": "4"})

    rig.children.meanwhile = meanwhile
    await ended(rig, lambda: rig.recorder.notes("FailedScheduling"))
    assert rig.recorder.notes("FailedScheduling") == [STILL_CHANGING]
    assert quiet == [False] * CONFLICTS + [True]


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
    await ended(rig, lambda: rig.recorder.notes("FailedScheduling"))
    assert rig.recorder.notes("FailedScheduling") == ["the process that decides ended: it crashed"]


async def test_pods_that_go_while_they_wait_for_each_other_are_forgotten():
    rig = rig_with()
    batches = Batches(SimpleNamespace(queue=rig.engine.queue), wake=lambda: None)
    for name in ("p", "q"):
        packed(rig, name, "1")
        queued = rig.engine.queue.pop()
        batches.gather(queued, rig.engine.policies.of(queued.pod))
    await until(lambda: queued.place is Place.ACTIVE)
    rig.engine.pending.drop("default/p", dict(rig.engine.queue.get("default/p").pod.raw))
    assert "default/p" in str(vars(batches))
    compact_all()
    assert "default/p" not in str(vars(batches))
    assert "default/q" in str(vars(batches))


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
