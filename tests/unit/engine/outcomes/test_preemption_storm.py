"""A preemption storm: many like preemptors, and evictions that wait for their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from podwright.core.objects.pod import PodInfo
from support.engine.kit import Rig, deciding, on_node, ours, settle

NODES = 20
PER_NODE = 10
PREEMPTORS = 60
AT_ONCE = 4
GRACE_STEPS = 5
ONE = {"cpu": "1"}


@dataclass
class QueueingEvictor:
    """Completes `AT_ONCE` evictions at each step, in order. A deleted pod is gone GRACE_STEPS later."""

    evicted: list[str] = field(default_factory=list)
    waiting: deque[tuple[PodInfo, Callable[[bool], None]]] = field(default_factory=deque)
    terminating: list[list[str]] = field(default_factory=lambda: [[] for _ in range(GRACE_STEPS)])
    """The uids of deleted pods, by the steps that are left to them."""

    def evict(
        self, victim: PodInfo, _preemptor: PodInfo, _node_name: str, done: Callable[[bool], None], **_: bool
    ) -> None:
        self.evicted.append(victim.name)
        self.waiting.append((victim, done))

    def step(self, rig: Rig) -> None:
        gone, *self.terminating = *self.terminating, []
        for uid in gone:
            rig.engine.assigned.drop(uid, None)
        for _ in range(min(AT_ONCE, len(self.waiting))):
            victim, done = self.waiting.popleft()
            self.terminating[-1].append(victim.uid)
            done(True)


async def test_a_storm_evicts_exactly_as_many_pods_as_needed_and_each_once():
    """Three preemptors for each node, so that several wait for victims on one node."""
    evictor = QueueingEvictor()
    rig = Rig(evictor=evictor)
    for index in range(NODES):
        rig.node(f"n{index}", allocatable={"cpu": str(PER_NODE)})
        for pod in range(PER_NODE):
            rig.engine.assigned.put(on_node(ours(f"low-{index}-{pod}", requests=ONE, priority=0), f"n{index}"))
    for index in range(PREEMPTORS):
        rig.pod(f"high-{index}", requests=ONE, priority=10)
    async with deciding(rig):
        for _ in range(200):
            if len(rig.cluster.bound) == PREEMPTORS:
                break
            evictor.step(rig)
            rig.now += 1
            rig.engine.wake()
            await settle()
    assert len(rig.cluster.bound) == PREEMPTORS
    assert len(evictor.evicted) == PREEMPTORS
    assert len(set(evictor.evicted)) == PREEMPTORS


async def test_a_preemptor_is_not_tried_in_vain_when_the_victims_of_others_are_gone():
    evictor = QueueingEvictor()
    rig = Rig(evictor=evictor)
    for index in range(NODES):
        rig.node(f"n{index}", allocatable={"cpu": "1"})
        rig.engine.assigned.put(on_node(ours(f"low-{index}", requests=ONE, priority=0), f"n{index}"))
        rig.pod(f"high-{index}", requests=ONE, priority=10)
    async with deciding(rig):
        while len(rig.cluster.bound) < NODES and rig.now < 1_100:
            evictor.step(rig)
            rig.now += 1
            rig.engine.wake()
            await settle()
    assert len(rig.cluster.bound) == NODES
    assert len(rig.recorder.notes("FailedScheduling")) == NODES


async def test_a_preemptor_takes_room_that_comes_up_elsewhere_before_its_victim_is_gone():
    evictor = QueueingEvictor()
    rig = Rig(evictor=evictor)
    for index in range(2):
        rig.node(f"n{index}", allocatable={"cpu": "1"})
        rig.engine.assigned.put(on_node(ours(f"low-{index}", requests=ONE, priority=index), f"n{index}"))
    rig.pod("high", requests=ONE, priority=10)
    async with deciding(rig):
        await settle()
        evictor.step(rig)
        rig.now += 60
        rig.engine.wake()
        await settle()
        rig.engine.assigned.drop("default/low-1", None)
        await settle()
    assert evictor.evicted == ["low-0"]
    assert rig.cluster.bound == [("high", "n1")]
