"""Events do not retry a gang that has no room, and no gang that fits is left waiting."""

from __future__ import annotations

import random
from math import inf
from typing import Any
from unittest import mock

import pytest

from podwright.core.gangs.capacity_bounds import CapacityBounds
from podwright.core.gangs.decisions import GangPlacement
from podwright.core.gangs.plan import GangPlanner
from podwright.core.objects.pod_group import KIND, WORKLOAD_API, group_key
from podwright.core.preemption.placed_priorities import PlacedPriorities
from podwright.core.queues.bounds import Bounds
from podwright.core.queues.queues import QUEUE_LABEL, QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.state.reservations import Reservation, Slot
from support.engine.kit import Rig, deciding, on_node, settle
from support.objects.builders import in_group, make_node, make_pod, make_pod_group, make_taint

ZONE = "zone"


def rig_of(nodes: int, cpu: int) -> Rig:
    rig = Rig()
    rig.engine.cache.groups.serve(WORKLOAD_API)
    for index in range(nodes):
        rig.node(f"n{index}", allocatable={"cpu": str(cpu)})
    return rig


def gang(rig: Rig, name: str, size: int, *, spec: Any = None, group: Any = None, **options: Any) -> None:
    rig.engine.objects(KIND).put(make_pod_group(name, size, **(group or {})))
    for index in range(size):
        rig.pod(f"{name}-{index}", requests={"cpu": "1"}, spec={**in_group(name), **(spec or {})}, **options)


def confirm_bound(rig: Rig, confirmed: dict[str, str]) -> None:
    """The watches show what was bound since the last call."""
    for name, node in rig.cluster.bound[len(confirmed) :]:
        confirmed[name] = node
        where = rig.engine.cache.placement(f"default/{name}")
        pod = where.pods[f"default/{name}"]
        rig.confirm(make_pod(name, requests={"cpu": "1"}, spec=in_group(pod.group.rpartition("/")[2])), node)


async def attempts_while_a_gang_ends(waiting: int, size: int) -> tuple[int, int, Rig]:
    """How many plans are made, and statuses written, while the pods of a gang end one by one and others of its size
    wait.
    """
    rig, confirmed = rig_of(2, size), {}
    for index in range(waiting + 2):
        gang(rig, f"g{index}", size)
    async with deciding(rig):
        confirm_bound(rig, confirmed)
        assert len(confirmed) == 2 * size
        written = len(rig.status.written)
        with mock.patch.object(GangPlanner, "plan", autospec=True, side_effect=GangPlanner.plan) as plan:
            for index in range(size):
                rig.now += 0.01
                rig.engine.assigned.drop(f"default/g0-{index}", None)
                await settle()
        confirm_bound(rig, confirmed)
        assert len(confirmed) == 3 * size, "the first gang that waits has taken the room"
        return plan.call_count, len(rig.status.written) - written, rig


async def test_one_of_the_waiting_gangs_is_tried_when_the_room_of_a_gang_becomes_free_pod_by_pod():
    for size in (4, 8):
        for waiting in (3, 6):
            plans, written, _ = await attempts_while_a_gang_ends(waiting, size)
            assert plans == 1, "with the last pod only; the others wait for the room that it takes"
            assert written == 0


async def test_an_event_counts_the_room_of_gangs_whose_members_are_alike_once():
    """Their sizes may differ."""
    for waiting in (2, 6):
        rig = rig_of(1, 9)
        for name in ("a", "b", "c"):
            rig.engine.assigned.put(make_pod(name, node="n0", requests={"cpu": "3"}))
        for index in range(waiting):
            gang(rig, f"g{index}", 4 + index % 2)
        async with deciding(rig):
            with mock.patch.object(
                CapacityBounds, "per_node", autospec=True, side_effect=CapacityBounds.per_node
            ) as count:
                rig.engine.assigned.drop("default/a", None)
                await settle()
            assert count.call_count == 1
            rig.now += 20
            rig.engine.assigned.drop("default/b", None)
            await settle()
            assert len(rig.cluster.bound) >= 4


async def test_gangs_that_request_other_amounts_are_counted_for_themselves():
    rig = rig_of(1, 2)
    rig.engine.assigned.put(make_pod("there", node="n0", requests={"cpu": "2"}))
    large = {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "2"}}}]}
    for name in ("large", "small", "large-too"):
        gang(rig, name, 2, spec={} if name == "small" else large)
    async with deciding(rig):
        rig.now += 20
        rig.engine.assigned.drop("default/there", None)
        await settle()
        assert sorted(name for name, _ in rig.cluster.bound) == ["small-0", "small-1"]


@pytest.mark.parametrize("size", [1, 2])
async def test_a_gang_is_not_tried_for_room_that_is_held_for_others(size):
    rig = rig_of(1, 4)
    for index in range(4):
        rig.engine.assigned.put(make_pod(f"there{index}", node="n0", requests={"cpu": "1"}))
    gang(rig, "gang", size)
    rig.engine.reservations.set(Reservation("held", "default", inf, [Slot("n0", {"cpu": "2"})], group="another"))
    async with deciding(rig):
        with mock.patch.object(GangPlanner, "plan", autospec=True, side_effect=GangPlanner.plan) as plan:
            for index in range(2):
                rig.now += 20
                rig.engine.assigned.drop(f"default/there{index}", None)
                await settle()
            assert plan.call_count == 0
        rig.engine.reservations.remove("held")
        await settle()
        assert len(rig.cluster.bound) == size


async def test_a_gang_that_ends_before_those_that_room_is_held_for_come_gets_it_from_the_start():
    rig = rig_of(1, 2)
    slots = [Slot("n0", {"cpu": "2"})]
    rig.engine.reservations.set(Reservation("held", "default", inf, slots, group="another", at=rig.now + 100))
    gang(rig, "gang", 2, spec={"activeDeadlineSeconds": 60})
    async with deciding(rig):
        assert len(rig.cluster.bound) == 2


async def test_a_gang_whose_room_another_one_has_taken_keeps_its_place_before_those_that_came_later():
    rig, confirmed = rig_of(1, 9), {}
    rig.engine.assigned.put(make_pod("large", node="n0", requests={"cpu": "5"}))
    for name in ("first", "taker", "earlier"):
        gang(rig, name, 4)
    async with deciding(rig):
        confirm_bound(rig, confirmed)
        rig.now += 20
        gang(rig, "later", 5)
        await settle()
        rig.now += 20
        for index in range(4):
            rig.engine.assigned.drop(f"default/first-{index}", None)
            await settle()
        confirm_bound(rig, confirmed)
        assert {name.rpartition("-")[0] for name in confirmed} == {"first", "taker"}
        rig.now += 20
        rig.engine.assigned.drop("default/large", None)
        await settle()
        confirm_bound(rig, confirmed)
        assert {name.rpartition("-")[0] for name in confirmed} == {"first", "taker", "earlier"}


async def test_a_gang_that_needs_one_more_member_is_tried_at_each_event():
    rig = rig_of(1, 4)
    gang(rig, "placed", 4)
    async with deciding(rig):
        confirm_bound(rig, {})
        rig.engine.objects(KIND).put(make_pod_group("two", 1))
        for index in range(2):
            rig.pod(f"two-{index}", requests={"cpu": "1"}, spec=in_group("two"))
        await settle()
        rig.now += 5
        rig.engine.assigned.drop("default/placed-0", None)
        await settle()
        assert rig.counts == {"unschedulable": 1}


async def test_a_gang_that_does_not_wait_for_room_yet_is_tried_and_waits_for_it_then():
    """The selector rejected it, so the end of a pod would not retry it."""
    rig = rig_of(0, 0)
    rig.node("n0", allocatable={"cpu": "2"}, labels={"disk": "hdd"})
    rig.engine.assigned.put(make_pod("there", node="n0", requests={"cpu": "2"}))
    gang(rig, "gang", 2, spec={"nodeSelector": {"disk": "ssd"}})
    async with deciding(rig):
        rig.now += 20
        rig.node("n0", allocatable={"cpu": "2"}, labels={"disk": "ssd"})
        await settle()
        assert rig.counts == {"unschedulable": 2}
        rig.now += 20
        rig.engine.assigned.drop("default/there", None)
        await settle()
        assert sorted(name for name, _ in rig.cluster.bound) == ["gang-0", "gang-1"]


async def test_a_gang_that_may_preempt_is_tried_though_it_has_no_room():
    rig = rig_of(1, 4)
    for index in range(2):
        rig.engine.assigned.put(make_pod(f"top{index}", node="n0", requests={"cpu": "2"}, priority=100))
    gang(rig, "gang", 3, priority=50)
    async with deciding(rig):
        assert rig.counts == {"unschedulable": 3}
        rig.engine.assigned.drop("default/top0", None)
        await settle()
        rig.now += 20
        rig.engine.assigned.put(make_pod("low", node="n0", requests={"cpu": "1"}, priority=0))
        rig.engine.assigned.drop("default/top1", None)
        await settle()
        # Three of four CPUs are free, so nobody is evicted; before, two were.
        assert rig.evictor.evicted == []
        assert sorted(name for name, _ in rig.cluster.bound) == ["gang-0", "gang-1", "gang-2"]
        gang(rig, "more", 3, priority=50)
        await settle()
        rig.now += 20
        rig.engine.assigned.put(make_pod("other", node="n0", requests={"cpu": "0"}, priority=0))
        rig.engine.assigned.drop("default/other", None)
        await settle()
        assert rig.counts == {"unschedulable": 3}


async def test_a_gang_is_tried_again_when_the_last_of_its_victims_is_gone():
    rig, size = rig_of(1, 8), 4
    rig.evictor.waits = True
    for index in range(8):
        rig.engine.assigned.put(make_pod(f"low{index}", node="n0", requests={"cpu": "1"}, priority=0))
    gang(rig, "gang", size, priority=50)
    async with deciding(rig):
        victims = [name for name, _, _ in rig.evictor.evicted]
        assert len(victims) == size
        for name in victims:
            rig.evictor.answers[name](True)
        with mock.patch.object(GangPlanner, "plan", autospec=True, side_effect=GangPlanner.plan) as plan:
            for name in victims:
                assert plan.call_count == 0
                rig.now += 20
                rig.engine.assigned.drop(f"default/{name}", None)
                await settle()
        assert len(rig.cluster.bound) == size
        assert plan.call_count == 1


async def test_a_gang_whose_victims_are_going_takes_room_elsewhere():
    rig = rig_of(1, 4)
    rig.evictor.waits = True
    rig.engine.assigned.put(make_pod("low", node="n0", requests={"cpu": "4"}, priority=0))
    gang(rig, "gang", 4, priority=50)
    async with deciding(rig):
        assert len(rig.evictor.evicted) == 1
        rig.evictor.answers["low"](True)
        rig.now += 20
        rig.node("n1", allocatable={"cpu": "4"})
        await settle()
        assert {node for _, node in rig.cluster.bound} == {"n1"}


async def test_gangs_at_a_limit_are_not_looked_at_while_it_has_no_room_for_them():
    rig = rig_of(1, 20)
    for name, limit in (("all", 9), ("a", 2), ("b", 4)):
        quotas = {"cpu": Quota(limit=1000 * limit)}
        queues_of(rig.engine.cache).set(QueueRules(name, "" if name == "all" else "all", quotas=quotas))
    for name in ("b0", "a0", "a1", "a2", "a3"):
        gang(rig, name, 2, labels={QUEUE_LABEL: name[0]}, spec={"preemptionPolicy": "Never"})
    async with deciding(rig):
        confirm_bound(rig, confirmed := {})
        assert sorted(confirmed) == ["a0-0", "a0-1", "b0-0", "b0-1"]
        rig.now += 20
        with mock.patch.object(Bounds, "together", autospec=True, side_effect=Bounds.together) as asked:
            for name in ("b0-0", "b0-1", "a0-0"):
                rig.engine.assigned.drop(f"default/{name}", None)
                await settle()
            assert asked.call_count == 0
        rig.engine.assigned.drop("default/a0-1", None)
        await settle()
        confirm_bound(rig, confirmed)
    assert len(confirmed) == 6


def test_the_priorities_of_placed_pods_are_counted():
    rig = rig_of(1, 8)
    known = rig.engine.cache.observer(PlacedPriorities)
    assert not known.any_below(1_000)
    for name, priority in (("a", 5), ("b", 5), ("c", 7)):
        rig.engine.assigned.put(make_pod(name, node="n0", priority=priority))
    assert known.any_below(6)
    assert not known.any_below(5)
    for name in "ab":
        rig.engine.assigned.drop(f"default/{name}", None)
    assert not known.any_below(7)
    assert known.any_below(8)


class Cluster:
    """Random changes to a small cluster in which gangs of several kinds wait. `queued`: in queues with limits; `held`:
    while reservations hold room for nobody, or for one of them.
    """

    def __init__(self, seed: int, *, queued: bool, held: bool) -> None:
        self.random = random.Random(seed)
        self.rig = rig_of(0, 0)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.placed: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, tuple[int, dict[str, Any]]] = {}
        self.pending: dict[str, dict[str, Any]] = {}
        self.serial = 0
        self.queues = ("a", "b") if queued else ()
        self.held: list[str] | None = [] if held else None
        for name in ("all", *self.queues) if queued else ():
            self.limit(name)

    def limit(self, name: str) -> None:
        quotas = {"cpu": Quota(limit=1000 * self.random.choice([3, 5, 8]))}
        queues_of(self.rig.engine.cache).set(QueueRules(name, "all" if name in self.queues else "", quotas=quotas))

    def name(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def set_node(self, name: str) -> None:
        draw = self.random
        self.nodes[name] = make_node(
            name,
            labels={ZONE: draw.choice("ab"), "disk": draw.choice(["ssd", "hdd"])},
            taints=[make_taint("team")] if draw.random() < 0.3 else [],
            unschedulable=draw.random() < 0.2,
            allocatable={"cpu": str(draw.randint(1, 4)), "pods": str(draw.randint(2, 6))},
        )
        self.rig.engine.nodes.put(self.nodes[name])

    def add_node(self) -> None:
        self.set_node(self.name("n"))

    def change_node(self) -> None:
        if self.nodes:
            self.set_node(self.random.choice(sorted(self.nodes)))

    def remove_node(self) -> None:
        if len(self.nodes) > 2:
            name = self.random.choice(sorted(self.nodes))
            self.rig.engine.nodes.drop(name, self.nodes.pop(name))

    def add_gang(self) -> None:
        draw, name = self.random, self.name("g")
        size, spec, group = draw.randint(1, 5), {}, {}
        if draw.random() < 0.4:
            spec["nodeSelector"] = {"disk": "ssd"}
        if draw.random() < 0.3:
            spec["tolerations"] = [{"operator": "Exists"}]
        if draw.random() < 0.3:
            group = {"schedulingConstraints": {"topology": [{"key": ZONE}]}}
        self.groups[name] = (size, group)
        self.rig.engine.objects(KIND).put(make_pod_group(name, size, **group))
        spec["preemptionPolicy"] = "Never"
        labels = {QUEUE_LABEL: draw.choice(self.queues)} if self.queues else {}
        for index in range(size + draw.randint(0, 1)):
            self.add_member(name, index, labels=labels, spec=spec)

    def add_member(self, group: str, index: int, **options: Any) -> None:
        name, cpu = f"{group}-{index}", str(self.random.choice([1, 1, 2]))
        spec = {**in_group(group), **options.pop("spec")}
        self.pending[name] = self.rig.pod(name, requests={"cpu": cpu}, spec=spec, **options)

    def change_limit(self) -> None:
        self.limit(self.random.choice(["all", *self.queues]))

    def change_queue(self) -> None:
        """All members of a gang that wait go to one queue."""
        if self.pending:
            group, queue = self.random.choice(sorted(self.pending)).partition("-")[0], self.random.choice(self.queues)
            for name in [each for each in self.pending if each.partition("-")[0] == group]:
                raw = self.pending[name]
                self.pending[name] = {**raw, "metadata": {**raw["metadata"], "labels": {QUEUE_LABEL: queue}}}
                self.rig.engine.pending.put(self.pending[name])

    def place_member(self) -> None:
        """Somebody else binds a pod of ours."""
        if self.nodes and self.pending:
            name, node = self.random.choice(sorted(self.pending)), self.random.choice(sorted(self.nodes))
            raw = self.pending.pop(name)
            self.placed[name] = on_node(raw, node)
            self.rig.confirm(raw, node)

    def need_fewer(self) -> None:
        if self.groups:
            name = self.random.choice(sorted(self.groups))
            size, group = self.groups[name]
            if size > 2:
                self.groups[name] = (size - 1, group)
                raw = make_pod_group(name, size - 1, **group)
                raw["metadata"]["generation"] = 10 - size
                self.rig.engine.objects(KIND).put(raw)

    def end_pod(self) -> None:
        if self.placed:
            name = self.random.choice(sorted(self.placed))
            self.rig.engine.assigned.drop(f"default/{name}", self.placed.pop(name))

    def add_other(self) -> None:
        """Another scheduler's pod."""
        if self.nodes:
            name = self.name("other")
            self.placed[name] = make_pod(name, node=self.random.choice(sorted(self.nodes)), requests={"cpu": "1"})
            self.rig.engine.assigned.put(self.placed[name])

    def shrink_pod(self) -> None:
        if self.placed:
            name = self.random.choice(sorted(self.placed))
            raw = self.placed[name]
            resources = {"requests": {"cpu": "100m"}}
            spec = {**raw["spec"], "containers": [{**raw["spec"]["containers"][0], "resources": resources}]}
            metadata = {**raw["metadata"], "generation": 2}
            status = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "100m"}, **resources}]}
            self.placed[name] = {**raw, "metadata": metadata, "spec": spec, "status": {**raw["status"], **status}}
            self.rig.engine.assigned.put(self.placed[name])

    def hold(self) -> None:
        if self.nodes and self.held is not None:
            self.held.append(self.name("held"))
            slots = [Slot(self.random.choice(sorted(self.nodes)), {"cpu": "1"})] * self.random.randint(1, 2)
            group = group_key(WORKLOAD_API, "default", self.random.choice([*self.groups, "none"]))
            self.rig.engine.reservations.set(Reservation(self.held[-1], "default", inf, slots, group=group))

    def release(self) -> None:
        if self.held:
            self.rig.engine.reservations.remove(self.held.pop())

    async def step(self) -> None:
        changes = [
            *[self.end_pod] * 6,
            *[self.add_gang] * 3,
            *[self.change_node] * 3,
            self.add_node,
            self.remove_node,
            self.need_fewer,
            self.add_other,
            self.shrink_pod,
        ]
        if self.queues:
            changes += [self.change_limit, self.change_queue, self.place_member]
        if self.held is not None:
            changes += [*[self.hold] * 2, *[self.release] * 3]
        self.random.choice(changes)()
        self.rig.now += self.random.choice([0.01, 0.5, 12.0])
        self.rig.engine.wake()
        await settle()
        for name, node in [each for each in self.rig.cluster.bound if each[0] in self.pending]:
            raw = self.pending.pop(name)
            self.placed[name] = on_node(raw, node)
            self.rig.confirm(raw, node)
        await settle()

    def fitting(self) -> list[str]:
        """The waiting gangs that would be placed if they were tried now."""
        engine, found = self.rig.engine, []
        for name in self.groups:
            key = group_key(WORKLOAD_API, "default", name)
            group, members = engine.cache.groups.get(key), engine.cache.groups.members(key).unplaced()
            if not members or engine.cache.groups.placed(key):
                continue
            framework = engine.policies.of(members[0]).framework
            if isinstance(GangPlanner(framework, engine.cache, group, lambda _n: 0).plan(members), GangPlacement):
                found.append(name)
        return found


@pytest.mark.parametrize(
    ("queued", "held"), [(False, False), (True, False), (False, True)], ids=["", "in queues", "beside held room"]
)
@pytest.mark.parametrize("seed", range(12))
async def test_no_gang_that_fits_is_left_waiting(seed, queued, held):
    cluster = Cluster(seed, queued=queued, held=held)
    for _ in range(4):
        cluster.add_node()
    async with deciding(cluster.rig):
        for _ in range(60):
            await cluster.step()
            assert cluster.fitting() == []
    assert len(cluster.rig.cluster.bound) > 2
