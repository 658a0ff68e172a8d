"""Room that is gathered for the gang at the head of a queue."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import islice
from math import inf
from random import Random
from types import SimpleNamespace
from unittest import mock

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.core.gangs import gathering as module
from podwright.core.gangs.gathering import MOST_GANGS
from podwright.core.gangs.start_times import EarliestStart, by_end
from podwright.core.objects.compaction import compact_all
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    COMPOSITE_API,
    COMPOSITE_KIND,
    GROUP_LABEL,
    KIND,
    PLUGINS_API,
    PLUGINS_KIND,
    WORKLOAD_API,
)
from podwright.core.plugins.topology_placement_generator import TopologyPlacementGenerator
from podwright.core.queue.queued_pod import Place
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.deadline import TookLongError
from podwright.core.state.nominator import reservation_of
from podwright.core.state.reservations import Reservation, Slot, gathered_name
from podwright.engine.attempts.gangs import room
from podwright.engine.process.steps import at_once
from support.costs.call_counts import calls_of
from support.engine.kit import Rig, deciding, ours, settle
from support.engine.long_work import FakeChildren
from support.objects.builders import in_group, make_pod, make_pod_group

GPU = "nvidia.com/gpu"
START = "1970-01-01T00:16:40Z"
"""The time of a new rig: 1,000 s."""


async def gathered():
    """Waits until all queues have been looked after, however many turns that takes."""
    names = ("podwright release of gathered room", "podwright gathering of room")
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() in names))


class Queued:
    def __init__(self, children=None, **rules):
        self.rig = Rig(children=children)
        self.engine = self.rig.engine
        self.queues = queues_of(self.engine.cache)
        self.queues.set(QueueRules("q", **{"gather_after": 300.0, "quotas": {GPU: Quota()}, **rules}))
        for name in ("n0", "n1"):
            self.rig.node(name, allocatable={GPU: "4"})
        self.running = {}

    def runs(self, name, node, gpus, limit=None, owner="", start=START, terminating=False, queue="q"):
        spec = {} if limit is None else {"activeDeadlineSeconds": limit}
        status = {"phase": "Running", "startTime": start}
        raw = self.rig.pod(name, labels={QUEUE_LABEL: queue}, requests={GPU: str(gpus)}, spec=spec, status=status)
        if owner:
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
            raw["metadata"]["ownerReferences"] = [reference]
        if terminating:
            raw["metadata"]["deletionTimestamp"] = START
        self.rig.confirm(raw, node)

    def ends(self, name):
        self.engine.assigned.drop(f"default/{name}", None)

    def gang(self, name, size, gpus, needed=None, created=START, ports=()):
        self.engine.cache.groups.serve(PLUGINS_API)
        metadata = {"name": name, "namespace": "default", "uid": name}
        self.engine.objects(PLUGINS_KIND).put({"metadata": metadata, "spec": {"minMember": needed or size}})
        for index in range(size):
            labels = {QUEUE_LABEL: "q", GROUP_LABEL: name}
            raw = ours(f"{name}{index}", labels=labels, requests={GPU: str(gpus)})
            raw["metadata"]["creationTimestamp"] = created
            raw["spec"]["containers"][0]["ports"] = [*ports]
            self.engine.pending.put(raw)

    def pod(self, name, gpus, limit=None, queue=""):
        spec = {} if limit is None else {"activeDeadlineSeconds": limit}
        self.rig.pod(name, labels={QUEUE_LABEL: queue} if queue else {}, requests={GPU: str(gpus)}, spec=spec)

    async def later(self, seconds):
        self.rig.now += seconds
        self.engine.reservations.expire()
        self.engine.gathering.begin()
        await gathered()
        await settle()
        self.engine.wake()
        await settle()

    @property
    def held(self):
        nominator = self.engine.cache.nominator
        slots = [pod for name in nominator.nodes() for pod in nominator.on(name) if reservation_of(pod)]
        return sorted(slot.nominated_node_name for slot in slots)

    @property
    def placed(self):
        return {pod.name for info in self.engine.cache.nodes.values() for pod in info.pods.values()}


async def test_a_gang_that_waits_for_long_gets_the_room_that_becomes_free():
    it = Queued()
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 2, 2)
    async with deciding(it.rig):
        await it.later(200)
        assert it.held == []
        await it.later(200)
        assert it.held == ["n1", "n1"]
        assert (
            "g",
            "RoomHeld",
            "room for 2 pods is held on 1 nodes, where the pod group can start within 600 s",
        ) in it.rig.recorder.events
        it.pod("small", 2)
        it.ends("b")
        await it.later(60)
        assert {"g0", "g1"} <= it.placed
        assert "small" not in it.placed
        await it.later(10)
        assert len(it.engine.cache.reservations) == 0


@pytest.mark.parametrize(("trouble", "held"), [("end", ["n1", "n1"]), ("refuse", [])])
async def test_a_gang_is_planned_again_at_once_if_a_child_ended_and_later_if_there_can_be_none(
    monkeypatch, trouble, held
):
    it = Queued(children=FakeChildren())
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 2, 2)

    def take_long(*_args):
        raise TookLongError

    async with deciding(it.rig):
        with monkeypatch.context() as patched:
            patched.setattr(it.engine.elsewhere, "_slice", SimpleNamespace(run=take_long))
            setattr(it.rig.children, trouble, "it crashed")
            await it.later(400)
            assert it.held == []
        setattr(it.rig.children, trouble, "")
        await it.later(5)
        assert it.held == held
        await it.later(60)
        assert it.held == ["n1", "n1"]


async def test_room_is_held_for_the_members_that_a_gang_needs_although_more_wait():
    it = Queued(quotas={GPU: Quota(guarantee=4, weight=0)})
    it.queues.set(QueueRules("o", quotas={GPU: Quota()}, reclaim_min_runtime=10.0**9))
    it.runs("a", "n0", 4, limit=2000, queue="o")
    it.runs("b", "n1", 4, limit=1000, queue="o")
    it.gang("g", 4, 2, needed=2)
    async with deciding(it.rig):
        for _ in range(3):
            await it.later(400)
            assert it.held == ["n1", "n1"]
        assert len([reason for _, reason, _ in it.rig.recorder.events if reason == "RoomHeld"]) == 1


@pytest.mark.parametrize(("guarantee", "held"), [(3, []), (4, ["n1", "n1"])])
async def test_a_queue_gathers_room_in_a_flavor_only_within_its_share_there(guarantee, held):
    h100 = f"{GPU}@h100"
    flavors = {"h100": {"model": "H100"}}
    it = Queued(quotas={h100: Quota(guarantee=guarantee, weight=0)}, flavors=flavors)
    for name in ("n0", "n1"):
        it.rig.node(name, allocatable={GPU: "4"}, labels={"model": "H100"})
    it.queues.set(QueueRules("o", quotas={h100: Quota()}, reclaim_min_runtime=10.0**9))
    it.runs("a", "n0", 4, limit=2000, queue="o")
    it.runs("b", "n1", 4, limit=1000, queue="o")
    it.gang("g", 2, 2)
    async with deciding(it.rig):
        for _ in range(2):
            await it.later(400)
            assert it.held == held


async def test_pods_that_say_nothing_are_expected_to_take_as_long_as_earlier_ones_of_their_owner():
    it = Queued()
    it.runs("before", "n1", 4, owner="job")
    it.rig.now += 500
    it.ends("before")
    it.runs("evicted", "n1", 4, owner="job", terminating=True)
    it.rig.now += 5000
    it.ends("evicted")
    it.runs("a", "n0", 4)
    it.runs("b", "n1", 4, owner="job", start="1970-01-01T01:48:20Z")
    it.gang("g", 2, 2)
    async with deciding(it.rig):
        await it.later(1)
        assert it.held == ["n1", "n1"]
        (note,) = [note for _, reason, note in it.rig.recorder.events if reason == "RoomHeld"]
        assert note.endswith("can start in 499 s, if pods run for as long as is expected")


@pytest.mark.parametrize("queue", ["", "q"])
async def test_pods_that_end_before_are_placed_there(queue):
    it = Queued()
    it.runs("a", "n0", 4)
    it.runs("b", "n1", 3, limit=1000)
    it.gang("g", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n1"]
        it.pod("long", 1, limit=700)
        it.pod("endless", 1)
        await it.later(0)
        assert not {"long", "endless"} & it.placed
        it.pod("short", 1, limit=500, queue=queue)
        await it.later(0)
        assert "short" in it.placed
        await it.later(10)
        assert len(it.rig.recorder.notes("RoomHeld")) == 1, "they count as ended when the gang starts"


async def test_a_queue_without_it_gathers_no_room():
    it = Queued(gather_after=0.0)
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 2, 2)
    async with deciding(it.rig):
        await it.later(4000)
        assert it.held == []


async def test_a_gang_that_a_limit_forbids_gathers_no_room():
    it = Queued(quotas={GPU: Quota(limit=9)})
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 2, 2)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == []


@pytest.mark.parametrize("what", ["another scheduler puts a pod there", "the node is deleted"])
async def test_the_place_is_thought_over_when_the_room_is_lost(what):
    it = Queued()
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 3, limit=1000)
    it.gang("g", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n1"]
        if what == "the node is deleted":
            it.engine.nodes.drop("n1", None)
        else:
            it.runs("foreign", "n1", 1, queue="")
        await it.later(1)
        assert it.held == ["n0"]


async def test_a_queue_gathers_no_room_that_others_are_owed():
    it = Queued()
    it.queues.set(QueueRules("owed", quotas={GPU: Quota(guarantee=8)}))
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 2, 2)
    async with deciding(it.rig):
        await it.later(400)
        assert len(it.held) == 2
        for index in range(2):
            it.rig.pod(f"owed{index}", labels={QUEUE_LABEL: "owed"}, requests={GPU: "4"})
        await it.later(5)
        assert it.held == []


async def test_a_gang_that_can_never_start_holds_nothing():
    it = Queued()
    it.gang("g", 3, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == []


@pytest.mark.parametrize("change", ["gang deleted", "queue changed", "queue deleted", "time over"])
async def test_the_room_is_given_back(change):
    it = Queued()
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n1"]
        match change:
            case "gang deleted":
                it.engine.pending.drop("default/g0", None)
            case "queue changed":
                it.queues.set(QueueRules("q", quotas={GPU: Quota()}))
            case "queue deleted":
                it.queues.remove("q")
            case "time over":
                it.queues.set(QueueRules("q", quotas={GPU: Quota(limit=1)}, gather_after=300.0))
                it.rig.now += 5000
        await it.later(1)
        assert it.held == []
        assert len(it.engine.cache.reservations) == 0


async def test_a_group_that_is_created_again_does_not_take_over_the_room_of_the_one_before():
    it = Queued()
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        it.engine.objects(PLUGINS_KIND).put(
            {"metadata": {"name": "g", "namespace": "default", "uid": "another"}, "spec": {"minMember": 1}}
        )
        await it.later(1)
        assert it.engine.gathering.held().keys() == {"gang-another"}
        assert it.held == ["n1"]


async def test_a_gang_that_goes_to_another_queue_gives_its_room_back():
    it = Queued(quotas={GPU: Quota(guarantee=12)})
    it.queues.set(QueueRules("other", quotas={GPU: Quota()}))
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n1"]
        raw = ours("g0", labels={QUEUE_LABEL: "other", GROUP_LABEL: "g"}, requests={GPU: "4"})
        raw["metadata"]["creationTimestamp"] = START
        it.engine.pending.put(raw)
        await it.later(1)
        assert it.held == []


async def test_a_gang_for_which_others_are_evicted_gives_the_room_back_that_it_has_gathered():
    it = Queued(quotas={GPU: Quota(guarantee=4, weight=0)})
    it.rig.evictor.waits = True
    it.queues.set(QueueRules("o", quotas={GPU: Quota()}, reclaim_min_runtime=10.0**9))
    it.runs("a", "n0", 4, limit=2000, queue="o")
    it.runs("b", "n1", 4, limit=1000, queue="o")
    it.gang("g", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n1"]
        it.queues.set(QueueRules("o", quotas={GPU: Quota()}))
        await it.later(100)
        assert it.engine.cache.nominator.node_of("default/g0")
        await it.later(1)
        assert it.held == [], "it holds the room of its victim"


async def test_a_hierarchy_of_groups_gets_the_room_that_it_has_gathered():
    it = Queued()
    for api in (WORKLOAD_API, COMPOSITE_API):
        it.engine.cache.groups.serve(api)
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    policy = {"gang": {"minGroupCount": 2}}
    it.engine.objects(COMPOSITE_KIND).put(
        {"metadata": {"name": "top", "namespace": "default", "uid": "top"}, "spec": {"schedulingPolicy": policy}}
    )
    created = {"creationTimestamp": START}
    for name in ("g0", "g1"):
        it.engine.objects(KIND).put(make_pod_group(name, 1, parentCompositePodGroupName="top"))
        it.rig.pod(name, labels={QUEUE_LABEL: "q"}, requests={GPU: "2"}, spec=in_group(name), metadata=created)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n0", "n0"]
        it.ends("a")
        await it.later(1)
        assert {"g0", "g1"} <= it.placed


async def test_room_that_is_given_back_is_offered_once_for_each_node():
    it = Queued()
    it.runs("a", "n0", 4)
    it.runs("b", "n1", 4)
    it.gang("g", 8, 1)
    async with deciding(it.rig):
        await it.later(400)
        assert len(it.held) == 8
        it.queues.set(QueueRules("q", quotas={GPU: Quota()}))
        await settle()
        with mock.patch.object(it.engine.queue, "move", side_effect=it.engine.queue.move) as moved:
            await it.later(1)
        assert it.held == []
        assert sorted(call.args[1].node_name for call in moved.call_args_list) == ["n0", "n1"]


async def test_gangs_at_the_head_gather_room_in_order_as_long_as_they_fit_beside_each_other():
    it = Queued()
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    for name, gpus in (("g", 2), ("h", 4), ("i", 4), ("j", 2)):
        it.gang(name, 1, gpus)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n0", "n1"], "i does not fit beside them, and j comes after i"
        it.ends("a")
        await it.later(0)
        assert {"g0", "j0"} <= it.placed, "room beside what is held stays usable"
        for name in ("g0", "j0"):
            it.runs(name, "n0", 2)
        await it.later(1)
        assert it.engine.gathering.held().keys() == {"gang-h", "gang-i"}, "once one has started, so does the next"


async def test_gangs_start_in_order_although_nodes_become_free_one_by_one():
    """Each wave of gangs fills the nodes. Without order, small ones go first, and the last wave leaves nodes idle."""
    it = Queued(gather_after=1.0)
    nodes = [f"n{index}" for index in range(8)]
    for name in nodes:
        it.rig.node(name, allocatable={GPU: "4"})
    sizes = [8, 4, 4, 3, 3, 1, 1, 2, 2, 1, 3]
    async with deciding(it.rig):
        for number, size in enumerate(sizes):
            it.gang(f"g{number}-", size, 4)
        await it.later(0)
        waves, seen = [], 0
        while len(it.rig.cluster.bound) < sum(sizes):
            bound = it.rig.cluster.bound[seen:]
            seen += len(bound)
            waves.append({pod.partition("-")[0] for pod, _ in bound})
            for pod, node in bound:
                it.runs(pod, node, 4)
            await it.later(5)
            for pod, _ in bound:
                it.ends(pod)
                await it.later(0)
            await it.later(5)
    assert waves == [{"g0"}, {"g1", "g2"}, {"g3", "g4", "g5", "g6"}]


@pytest.mark.parametrize("gathers", [True, False])
async def test_gangs_start_although_small_pods_come_without_end(gathers):
    it, random = Queued(gather_after=3.0 if gathers else 0.0), Random(7)
    for index in range(4):
        it.rig.node(f"n{index}", allocatable={GPU: "4"})
    running, seen, gangs = [], 0, set()
    async with deciding(it.rig):
        for step in range(120):
            created = {"creationTimestamp": datetime.fromtimestamp(it.rig.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
            for index in range(2):
                requests = {GPU: str(random.choice([1, 2]))}
                it.rig.pod(f"s{step}-{index}", labels={QUEUE_LABEL: "q"}, requests=requests, metadata=created)
            if step in (20, 30, 40):
                size = random.randint(2, 4)
                gangs.update(f"gang{step}-{index}" for index in range(size))
                it.gang(f"gang{step}-", size, random.choice([3, 4]))
            await it.later(1)
            for name, node in it.rig.cluster.bound[seen:]:
                pod = it.engine.cache.placement(f"default/{name}").pods[f"default/{name}"]
                it.runs(name, node, pod.requests.amounts[GPU])
                running.append(name)
            seen = len(it.rig.cluster.bound)
            for name in running[:2]:
                it.ends(name)
            del running[:2]
    started = gangs & {name for name, _ in it.rig.cluster.bound}
    assert (started == gangs) is gathers, len(gangs - started)


async def test_a_gang_that_gathers_room_is_tried_before_others_of_its_queue_that_were_rejected_earlier():
    it = Queued()
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    it.gang("g", 1, 4)
    it.gang("h", 2, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n0"]
        it.engine.queue.activate("default/h0")
        await it.later(100)
        it.engine.queue.activate("default/g0")
        await it.later(100)
    for name in ("h0", "g0"):
        it.engine.queue.activate(f"default/{name}")
    assert it.engine.queue.first_active().pod.name == "g0"


async def test_a_gang_that_gathers_room_is_tried_once_its_room_is_there_and_at_once_then():
    it = Queued()
    it.rig.node("n2", allocatable={GPU: "4"})
    for index in range(4):
        it.runs(f"a{index}", "n0", 1, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    it.runs("c", "n2", 4, limit=2000)
    it.gang("g", 2, 2)
    it.gang("h", 2, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n0", "n0", "n1", "n2"]
        it.engine.queue.activate("default/g0")  # in vain, so it backs off
        await it.later(0)
        attempts = it.engine.queue.get("default/g0").attempts
        it.ends("b")
        await it.later(0)
        assert it.engine.queue.get("default/g0").attempts == attempts, "that room is held for h"
        for index in range(4):
            it.ends(f"a{index}")
            await it.later(0)
        assert {"g0", "g1"} <= it.placed


async def test_an_event_that_gives_a_gang_no_room_does_not_look_at_each_member_again():
    it = Queued()
    for index in range(4):
        it.runs(f"a{index}", "n0", 1, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    it.gang("g", 2, 2)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n0", "n0"]
        it.ends("a0")
        await it.later(0)
        with mock.patch.object(room, "CapacityBounds", side_effect=room.CapacityBounds) as made:
            for name in ("a1", "a2"):
                it.ends(name)
                await it.later(0)
        assert made.call_count == 0


async def test_room_of_nominated_pods_is_no_room_for_a_gang_that_gathers_room():
    it = Queued()
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    it.gang("g", 2, 2)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n0", "n0"]
        member = it.engine.queue.get("default/g0").pod
        it.engine.cache.nominator.add(parse_pod(make_pod("first", requests={GPU: "4"}, priority=10)), "n0")
        it.ends("a")
        check = room.GangRoom(it.engine.cache, it.engine.policies).check
        assert "NodeResourcesFit" in check()(member)
        it.engine.cache.nominator.remove("default/first")
        assert check()(member) is None


async def test_a_gang_that_is_to_be_close_together_lacks_room_also_because_of_domains():
    """It is left alone only if it also waits for the events that change these."""
    it = Queued()
    it.engine.cache.groups.serve(WORKLOAD_API)
    for name in ("n0", "n1"):
        it.rig.node(name, allocatable={GPU: "4"}, labels={"rack": name})
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    near = {"topology": [{"key": "rack"}]}
    it.engine.objects(KIND).put(make_pod_group("gang", 2, schedulingConstraints=near))
    for name in ("g0", "g1"):
        created = {"creationTimestamp": START}
        it.rig.pod(name, labels={QUEUE_LABEL: "q"}, requests={GPU: "2"}, spec=in_group("gang"), metadata=created)
    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n0", "n0"]
        check = room.GangRoom(it.engine.cache, it.engine.policies).check()
        assert TopologyPlacementGenerator.name in check(it.engine.queue.get("default/g0").pod)


async def test_a_gang_that_gathers_room_backs_off_after_an_error():
    it = Queued()
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    it.gang("g", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        it.rig.cluster.outcomes = [ClusterError("refused", 403)]
        it.rig.cluster.objects["Pod", "g0"] = ours("g0")
        it.ends("a")
        await it.later(0)
        assert it.rig.cluster.bound == [("g0", "n0")]
        assert it.engine.queue.get("default/g0").place is Place.BACKOFF


async def test_a_gang_that_only_seems_to_have_room_backs_off_until_it_lacks_room_again():
    """The members of this one need a node each, which is not counted."""
    it = Queued()
    for name in ("n0", "n1"):
        it.runs(f"last-{name}", name, 2, limit=2000)
        for index in range(2):
            it.runs(f"{name}-{index}", name, 1, limit=1000)
    it.gang("g", 2, 1, ports=[{"containerPort": 80, "hostPort": 80}])

    def in_vain():
        it.engine.queue.reject(it.engine.queue.take("default/g0"), {"NodeResourcesFit", "NodePorts"})

    def place_after(name):
        it.ends(name)
        return it.engine.queue.get("default/g0").place

    async with deciding(it.rig):
        await it.later(400)
        assert it.held == ["n0", "n1"]
        assert place_after("n0-0") is Place.UNSCHEDULABLE
        assert place_after("n0-1") is Place.ACTIVE
        in_vain()
        assert place_after("last-n0") is Place.BACKOFF
        in_vain()
        it.runs("back", "n0", 4)
        assert place_after("n1-0") is Place.UNSCHEDULABLE
        assert place_after("back") is Place.ACTIVE


@pytest.mark.parametrize(
    ("of_all", "own", "gathers"),
    [
        pytest.param(300.0, None, True, id="a queue that says nothing"),
        pytest.param(300.0, 0.0, False, id="a queue that says never"),
        pytest.param(0.0, None, False, id="nobody says anything"),
    ],
)
async def test_the_time_of_all_queues_counts_for_those_that_do_not_say_theirs(of_all, own, gathers):
    it = Queued(gather_after=own)
    it.queues.gather_after = of_all
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert bool(it.held) is gathers


@pytest.mark.parametrize("compacted", [True, False])
async def test_what_a_deleted_queue_has_planned_in_vain_is_forgotten(compacted):
    """So a new queue of that name does not wait until the gang of the old one is planned again."""
    it = Queued()
    it.gang("g", 1, 8)
    async with deciding(it.rig):
        await it.later(400)
        it.rig.node("large", allocatable={GPU: "8"})
        it.runs("a", "large", 8, limit=1000)
        rules = it.queues.get("q")
        it.queues.remove("q")
        if compacted:
            compact_all()
        it.queues.set(rules)
        await it.later(1)
        assert it.held == ["large"] * compacted


async def test_a_single_pod_at_the_head_keeps_the_gangs_behind_it_from_gathering_room():
    it = Queued()
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=1000)
    it.gang("g", 1, 4)
    it.rig.pod("single", labels={QUEUE_LABEL: "q"}, requests={GPU: "4"}, metadata={"creationTimestamp": START})
    it.gang("h", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert len(it.held) == 1


async def test_gangs_of_a_queue_together_gather_no_more_than_it_is_entitled_to():
    it = Queued(quotas={GPU: Quota(guarantee=6, weight=0)})
    it.queues.set(QueueRules("o", quotas={GPU: Quota()}, reclaim_min_runtime=10.0**9))
    it.runs("a", "n0", 4, limit=1000, queue="o")
    it.runs("b", "n1", 4, limit=1000, queue="o")
    it.pod("more", 4, queue="o")
    for name in ("g", "h"):
        it.gang(name, 1, 4)
    async with deciding(it.rig):
        for _ in range(2):
            await it.later(400)
            assert it.engine.gathering.held().keys() == {"gang-g"}


async def test_not_all_gangs_of_a_queue_gather_room():
    it = Queued()
    for index in range(MOST_GANGS):
        it.rig.node(f"more{index}", allocatable={GPU: "4"})
        it.runs(f"r{index}", f"more{index}", 4)
    it.runs("a", "n0", 4)
    it.runs("b", "n1", 4)
    for index in range(MOST_GANGS + 2):
        it.gang(f"g{index}-", 1, 4)
    async with deciding(it.rig):
        await it.later(400)
        assert len(it.held) == MOST_GANGS


async def test_the_pods_of_a_queue_are_looked_at_and_not_sorted(monkeypatch):
    compared = []

    class Rank(tuple):
        __slots__ = ()

        def __lt__(self, other):
            compared.append(self)
            return tuple(self) < tuple(other)

        def __gt__(self, other):
            return other < self

    it, count = Queued(), 200
    it.runs("a", "n0", 4, limit=1000)
    it.runs("b", "n1", 4, limit=2000)
    for index in Random(7).sample(range(count), count):
        created = datetime.fromtimestamp(1000 + index, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        it.gang(f"g{index}-", 1, 4, created=created)
    async with deciding(it.rig):
        await it.later(600)
        assert it.engine.gathering.held().keys() == {"gang-g0-", "gang-g1-"}
        monkeypatch.setattr(module, "_importance", lambda pod: Rank((-pod.priority, pod.creation)))
        await it.later(1)
        assert 0 < len(compared) < 2 * count


async def gathering_gangs(count):
    """So many gangs that gather room, as another process has taken them over."""
    it = Queued()
    for index in range(count):
        it.rig.node(f"more{index}", allocatable={GPU: "4"})
        it.runs(f"r{index}", f"more{index}", 4)
        it.gang(f"g{index}-", 4, 1)
    it.runs("a", "n0", 4)
    it.runs("b", "n1", 4)
    async with deciding(it.rig):
        await it.later(400)
        adopted = module.GatheringGangs(it.engine.cache)
        assert (adopted.take_over(), len(adopted.held())) == ([], count)
    return it, adopted


def calls_of_steps(steps):
    """How many functions each step calls, and what the steps yield."""
    yielded = []
    found = [calls_of(lambda: yielded.extend(islice(steps, 1)))]
    while len(yielded) == len(found):
        found.append(calls_of(lambda: yielded.extend(islice(steps, 1))))
    return found, yielded


@pytest.mark.parametrize("gone", [0, 1], ids=["all do", "one is gone"])
async def test_whether_gangs_still_wait_is_looked_at_in_steps_that_do_not_grow_with_their_number(gone):
    async def steps(gangs):
        it, adopted = await gathering_gangs(gangs)
        for index in range(4 * gone):
            it.engine.pending.drop(f"default/g0-{index}", None)
        found, yielded = calls_of_steps(adopted.release(it.rig.now))
        assert [*filter(None, yielded)] == ["gang-g0-"] * gone
        return max(found), sum(found)

    few, many = await steps(MOST_GANGS // 4), await steps(MOST_GANGS)
    assert many[0] < 2 * few[0]
    assert many[1] < 5 * few[1]


async def test_what_gangs_gather_room_already_is_looked_at_in_steps_before_the_next_does():
    async def longest(gangs):
        it, adopted = await gathering_gangs(gangs)
        due, start = late(it, adopted)
        found, _ = calls_of_steps(adopted.gather(due, start, it.rig.now))
        assert len(adopted.held()) == gangs
        return max(found)

    assert await longest(MOST_GANGS - 1) < 2 * await longest(MOST_GANGS // 4)


def late(it, adopted):
    """One more gang, which can start on n0."""
    it.gang("late-", 4, 1)
    due = next(adopted.due("q", it.rig.now))
    return due, EarliestStart(inf, {pod.uid: "n0" for pod in due.members}, frozenset({"default/a"}))


async def test_an_attempt_may_pause_at_each_running_pod():
    it, adopted = await gathering_gangs(3)
    deadline, paused = it.engine.cache.deadline, []
    deadline.check = lambda: paused.append(True)
    running = by_end(it.engine.cache, adopted.may_end(), it.rig.now)
    deadline.check = None
    assert len(running) == 5
    assert len(paused) == 2 * 5, "to find it, and to find its end"


async def test_a_gang_gathers_room_later_if_others_begin_to_start_while_it_is_looked_at():
    it, adopted = await gathering_gangs(3)
    due, start = late(it, adopted)
    looked_at = adopted.gather(due, start, it.rig.now)
    next(looked_at)
    it.ends("r0")
    it.rig.confirm(ours("g0-0", labels={QUEUE_LABEL: "q", GROUP_LABEL: "g0-"}, requests={GPU: "1"}), "more0")
    assert at_once(looked_at) is None
    assert at_once(adopted.gather(next(adopted.due("q", it.rig.now)), start, it.rig.now)) is not None


def after_a_restart(it, uid="g", node="n1", group="g"):
    """The API server has room for a gang, which another process has held."""
    key = f"{PLUGINS_API}:default/{group}"
    held = Reservation(
        gathered_name(uid), "default", 5000.0, [Slot(node, {GPU: "2"})] * 2, group=key, group_uid=uid, at=2000.0
    )
    it.engine.reservations.set(held)


async def test_after_a_restart_the_room_is_held_for_the_same_gang():
    it = Queued()
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 4)
    it.gang("g", 2, 2)
    after_a_restart(it)
    assert not it.engine.gathering.leads
    async with deciding(it.rig):
        await it.later(1)
        assert it.engine.gathering.leads
        assert it.held == ["n1", "n1"]
        assert it.engine.gathering.held().keys() == {"gang-g"}
        await it.later(600)
        assert it.held == ["n1", "n1"], "the place is not thought over before its time"
        it.pod("small", 2)
        it.ends("b")
        await it.later(1)
        assert {"g0", "g1"} <= it.placed
        assert "small" not in it.placed
        await it.later(1)
        assert len(it.engine.cache.reservations) == 0


@pytest.mark.parametrize("gone", ["the gang", "its uid is another", "its queue"])
async def test_room_of_a_gang_that_is_gone_is_given_back_after_a_restart(gone):
    it = Queued()
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 4)
    if gone != "the gang":
        it.gang("g", 2, 2)
    after_a_restart(it, uid="other" if gone == "its uid is another" else "g")
    if gone == "its queue":
        it.queues.remove("q")
    async with deciding(it.rig):
        await it.later(1)
        assert it.held == []
        assert it.engine.gathering.held() == {}


async def test_several_gangs_of_a_queue_are_taken_over():
    it = Queued()
    it.runs("a", "n0", 4)
    it.runs("b", "n1", 4)
    for name, node in (("g", "n1"), ("h", "n0")):
        it.gang(name, 2, 2)
        after_a_restart(it, uid=name, group=name, node=node)
    async with deciding(it.rig):
        await it.later(1)
        assert it.engine.gathering.held().keys() == {"gang-g", "gang-h"}


async def test_after_a_restart_the_first_gang_of_a_queue_keeps_the_room_to_which_it_is_entitled():
    it = Queued(quotas={GPU: Quota(guarantee=6, weight=0)})
    it.queues.set(QueueRules("o", quotas={GPU: Quota()}, reclaim_min_runtime=10.0**9))
    for name, node in (("a", "n0"), ("b", "n1")):
        it.runs(name, node, 4, limit=10_000, queue="o")
    it.pod("more", 4, queue="o")
    it.gang("z", 2, 2)
    it.gang("a", 2, 2, created="1970-01-01T00:16:41Z")
    for name, node in (("a", "n0"), ("z", "n1")):
        after_a_restart(it, uid=name, group=name, node=node)
    async with deciding(it.rig):
        await it.later(1)
        assert it.engine.gathering.held().keys() == {"gang-z"}


async def test_the_room_stays_held_when_a_member_is_created_anew():
    it = Queued()
    it.rig.node("small", allocatable={GPU: "1"})
    it.runs("a", "n0", 4, limit=2000)
    it.runs("b", "n1", 4)
    it.runs("c", "small", 1, limit=2000)
    it.gang("g", 1, 4, needed=2)

    def member(name, gpus):
        labels = {QUEUE_LABEL: "q", GROUP_LABEL: "g"}
        it.rig.pod(name, labels=labels, requests={GPU: str(gpus)}, metadata={"creationTimestamp": START})

    member("less", 1)
    async with deciding(it.rig):
        await it.later(400)
        held = it.engine.cache.reservations.get("gang-g")
        assert it.held == ["n0", "small"]
        it.engine.pending.drop("default/g0", None)
        member("g1", 4)
        await it.later(1)
        assert it.engine.cache.reservations.get("gang-g") is held


async def test_pods_for_which_others_were_evicted_keep_their_room_after_a_restart():
    it = Queued()
    it.runs("other", "n1", 4)
    # The victims have ended meanwhile.
    it.rig.pod("claimant", labels={QUEUE_LABEL: "q"}, status={"nominatedNodeName": "n0"}, requests={GPU: "4"})
    it.rig.pod("greater", requests={GPU: "2"}, spec={"preemptionPolicy": "Never", "priority": 1000})
    async with deciding(it.rig):
        await it.later(60)
        assert "claimant" in it.placed
        assert "greater" not in it.placed
