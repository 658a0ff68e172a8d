"""Limits of queues hold for pods and gangs, and what waits is retried when a pod leaves or a queue changes."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.objects.pod_group import GROUP_LABEL, PLUGINS_API, PLUGINS_KIND
from podwright.core.queue import fair_pods, scheduling_queue
from podwright.core.queue.fair_pods import FairPods
from podwright.core.queues.queues import QUEUE_LABEL, QUEUE_QUOTA, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.objects.devices import allocated, claiming, exactly, first_available, make_claim, make_class

GPU = "nvidia.com/gpu"


@pytest.fixture
async def rig():
    made = Rig()
    made.queues = queues_of(made.engine.cache)
    made.queues.set(QueueRules("ml", quotas={GPU: Quota(limit=4)}))
    made.queues.set(QueueRules("team", "ml", quotas={GPU: Quota(limit=3)}))
    made.queues.set(QueueRules("other", "ml"))
    made.node("n", allocatable={GPU: "8"})
    return made


def add(rig, name, queue="team", gpus=1, gang="", **options):
    labels = {QUEUE_LABEL: queue, **({GROUP_LABEL: gang} if gang else {})}
    return rig.pod(name, labels=labels, requests={GPU: str(gpus)}, **options)


def add_gang(rig, name, size, queue="team"):
    rig.engine.cache.groups.serve(PLUGINS_API)
    metadata = {"name": name, "namespace": "default", "uid": name}
    rig.engine.objects(PLUGINS_KIND).put({"metadata": metadata, "spec": {"minMember": size}})
    for index in range(size):
        add(rig, f"{name}{index}", queue, gang=name)


def placed(rig):
    return {pod.name for info in rig.engine.cache.nodes.values() for pod in info.pods.values()}


async def test_a_pod_waits_for_its_limit_with_the_amounts_and_starts_when_another_leaves(rig):
    first = add(rig, "a", gpus=2)
    async with deciding(rig):
        add(rig, "b", gpus=2)
        await settle()
        assert placed(rig) == {"a"}
        [(_, verdict, _)] = rig.status.written
        expected = "team holds 2 of 3 nvidia.com/gpu, and the pod requests 2; ml has 2 free of 4"
        message = f"0/1 nodes are available: {expected}. preemption: No preemption victims found for incoming pod"
        assert verdict.message == message
        rig.confirm(first, "n")
        rig.engine.assigned.drop("default/a", None)
        rig.now += 60
        rig.engine.wake()
        await settle()
        assert placed(rig) == {"b"}


async def test_pods_of_other_schedulers_are_not_evicted_for_those_of_queues(rig):
    rig.queues.set(QueueRules("other", "ml", quotas={GPU: Quota(guarantee=8)}))
    labels = {QUEUE_LABEL: "team"}
    for name, spec in (("ours", {}), ("theirs", {"schedulerName": "default-scheduler"})):
        rig.engine.assigned.put(on_node(ours(name, labels=labels, requests={GPU: "4"}, spec=spec), "n"))
    rig.queues.set(QueueRules("ml"))
    async with deciding(rig):
        add(rig, "a", "other", gpus=5)
        await settle()
        assert rig.evictor.evicted == []
        add(rig, "b", "other", gpus=4)
        await settle()
        assert [name for name, _, _ in rig.evictor.evicted] == ["ours"]


async def test_a_change_of_a_queue_lets_pods_start(rig):
    async with deciding(rig):
        add(rig, "a", gpus=3)
        add(rig, "b", gpus=2)
        await settle()
        assert placed(rig) == {"a"}
        rig.queues.set(QueueRules("ml", quotas={GPU: Quota(limit=5)}))
        rig.queues.set(QueueRules("team", "ml"))
        rig.now += 60
        await settle()
        assert placed(rig) == {"a", "b"}


async def test_many_pods_are_put_in_their_queues_in_steps_before_one_is_popped(rig, monkeypatch):
    """Also if they come during an attempt, or while the loop waits for it to be quiet."""
    monkeypatch.setattr(scheduling_queue, "MANY", 100)
    monkeypatch.setattr(fair_pods, "MANY", 100)
    at_once, due = [], []
    pop, over, schedule = FairPods.pop, rig.engine.planning.quiet.over, rig.engine.pod_attempts.schedule_one
    monkeypatch.setattr(FairPods, "pop", lambda self: (at_once.append(self.is_unsorted), pop(self))[1])

    def come(name):
        for number in range(200):
            add(rig, f"{name}{number}", "other")

    async def quiet():
        if due == ["quiet"]:
            come(due.pop())
        await over()

    def attempt(queued):
        if due == ["attempt"]:
            come(due.pop())
        schedule(queued)

    monkeypatch.setattr(rig.engine.planning.quiet, "over", quiet)
    monkeypatch.setattr(rig.engine.pod_attempts, "schedule_one", attempt)
    come("first")
    async with deciding(rig):
        for name in ("idle", "quiet", "attempt"):
            if name == "idle":
                come(name)
            else:
                due.append(name)
                add(rig, name, "other")
            while rig.engine.queue.counts()["active"]:
                await asyncio.sleep(0)
    assert len(at_once) > 800
    assert not any(at_once)


async def test_a_gang_is_within_its_limits_as_a_whole_or_waits(rig):
    async with deciding(rig):
        add_gang(rig, "large", 4)
        add_gang(rig, "small", 3)
        await settle()
        assert placed(rig) == {"small0", "small1", "small2"}
        assert rig.engine.queue.get("default/large0").rejectors >= {"QueueQuota"}
        (_, reason, message) = rig.groups.written[0]
        assert (reason, message.partition(", pod group preemption")[0]) == (
            "Unschedulable",
            "team holds 0 of 3 nvidia.com/gpu, and the pod group requests 4",
        )


async def test_a_gang_starts_when_its_queue_has_room_for_all(rig):
    first = add(rig, "a")
    async with deciding(rig):
        await settle()
        add_gang(rig, "gang", 3)
        await settle()
        assert placed(rig) == {"a"}
        rig.confirm(first, "n")
        rig.engine.assigned.drop("default/a", None)
        rig.now += 60
        rig.engine.wake()
        await settle()
        assert placed(rig) == {"gang0", "gang1", "gang2"}


async def test_a_gang_names_a_queue_that_does_not_exist(rig):
    async with deciding(rig):
        add_gang(rig, "gang", 2, queue="gone")
        await settle()
        assert rig.groups.written[0][2].startswith("queue gone does not exist")


async def test_pods_that_waited_before_the_first_queue_are_demand_of_it():
    rig = Rig()
    add(rig, "a", "late", gpus=2)
    rig.queues = queues_of(rig.engine.cache)
    rig.queues.set(QueueRules("late", quotas={GPU: Quota(limit=8)}))
    assert rig.queues.waiting("late") == {GPU: 2}
    rig.engine.pending.drop("default/a", None)
    assert rig.queues.waiting("late") == {}


async def test_queues_take_turns(rig):
    rig.node("n", allocatable={GPU: "3"})
    rig.queues.set(QueueRules("other"))
    for number in range(3):
        add(rig, f"a{number}", "team")
    add(rig, "b", "other")
    async with deciding(rig):
        await settle()
    assert placed(rig) == {"a0", "a1", "b"}


async def test_a_namespace_that_names_another_queue_lets_its_pods_start(rig):
    def label(queue):
        rig.engine.objects("Namespace").put({"metadata": {"name": "default", "labels": {QUEUE_LABEL: queue}}})

    label("team")
    async with deciding(rig):
        for name in ("a", "b"):
            rig.pod(name, requests={GPU: "2"})
        await settle()
        assert placed(rig) == {"a"}
        label("other")
        rig.now += 60
        rig.engine.wake()
        await settle()
        assert placed(rig) == {"a", "b"}
        assert rig.queues.usage("other") == {GPU: 4}


async def test_the_pods_of_a_gang_that_leave_retry_one_waiting_gang(rig):
    running = [add(rig, f"a{index}") for index in range(3)]
    async with deciding(rig):
        await settle()
        for name in ("first", "second", "third"):
            add_gang(rig, name, 3)
            rig.now += 1
        await settle()
        before = {uid: rig.engine.queue.get(uid).attempts for uid in rig.engine.queue.uids()}
        for raw in running:
            rig.confirm(raw, "n")
        for raw in running:
            rig.engine.assigned.drop(raw["metadata"]["uid"], None)
        rig.now += 60
        rig.engine.wake()
        await settle()
        assert placed(rig) == {"first0", "first1", "first2"}
        waiting = rig.engine.queue.uids()
        assert {uid: rig.engine.queue.get(uid).attempts for uid in waiting} == {uid: before[uid] for uid in waiting}


async def test_a_pod_is_tried_again_when_a_claim_of_others_takes_less_than_it_might(rig):
    devices = "gpu.deviceclass.resource.k8s.io/devices"
    rig.queues.set(QueueRules("gpus", quotas={devices: Quota(limit=2)}))
    either = first_available("r", exactly("a", count=2), exactly("b", "nic"))
    for name in ("gpu", "nic"):
        rig.engine.objects("DeviceClass").put(make_class(name))
    for name, request in (("either", either), ("one", exactly())):
        rig.engine.objects("ResourceClaim").put(make_claim(name, request))
    labels = {QUEUE_LABEL: "gpus"}
    rig.engine.assigned.put(on_node(ours("runs", labels=labels, spec=claiming("either")), "n"))
    async with deciding(rig):
        rig.pod("waits", labels=labels, spec=claiming("one"))
        await settle()
        queued = rig.engine.queue.get("default/waits")
        assert QUEUE_QUOTA in queued.unschedulable_plugins
        status = allocated("n0", node="n", request="r/b")
        rig.engine.objects("ResourceClaim").put(make_claim("either", either, status=status))
        await settle()
        rig.now += 60
        rig.engine.wake()
        await settle()
        assert QUEUE_QUOTA not in queued.unschedulable_plugins


async def test_a_pod_whose_queue_cannot_be_found_fails_alone(rig):
    for name, queue in (("first", "team"), ("bad", ""), ("last", "other")):
        add(rig, name, queue)

    def choice(pod):
        raise RuntimeError(f"no queue for {pod.name}")

    rig.queues.membership.choice_by_policy = choice
    async with deciding(rig):
        await settle()
        assert [name for name, _ in rig.cluster.bound] == ["first", "last"]
    assert ("bad", "FailedScheduling", "RuntimeError: no queue for bad") in rig.recorder.events
