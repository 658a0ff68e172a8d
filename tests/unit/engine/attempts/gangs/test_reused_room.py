"""Room that pods of one PodGang leave is held for the gang that names it."""

from __future__ import annotations

from typing import Any

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import GROVE_API, GROVE_KIND, GROVE_LABEL, parse_pod_group
from podwright.core.state.pod_groups import Members
from podwright.core.state.reservations import reused_name
from podwright.engine.attempts.gangs.reused_room import KEPT_SECONDS
from support.costs.call_counts import calls_of
from support.engine.kit import Rig, deciding, on_node, ours, settle

ALL = {"cpu": "8"}
GATE = {"schedulingGates": [{"name": "grove.io/podgang-pending-creation"}]}


class Update:
    """The gang `old` fills n0 and n1, and `new` of as many pods is to take over its room. `free`: other, larger
    nodes.
    """

    def __init__(self, free: int = 0, **spec: Any) -> None:
        self.rig = Rig()
        self.engine = self.rig.engine
        self.engine.gathering.leads = True
        for index in range(2 + free):
            self.rig.node(f"n{index}", allocatable={"cpu": "8" if index < 2 else "64"})
        self.gang("old")
        for index in range(2):
            self.engine.assigned.put(self.member("old", index, f"n{index}"))
        self.gang("new", **{"reuseReservationRef": {"name": "old", "namespace": "default"}, **spec})
        self.new_pods(spec=GATE)

    def gang(self, name: str, uid: str = "", **spec: Any) -> None:
        metadata = {"name": name, "namespace": "default", "uid": uid or name}
        groups = {"podgroups": [{"name": "c", "minReplicas": 2}]}
        self.engine.objects(GROVE_KIND).put({"metadata": metadata, "spec": {**groups, **spec}})

    def member(self, gang: str, index: int, node: str = "", **options: Any) -> dict[str, Any]:
        labels = {GROVE_LABEL: gang, "grove.io/podclique": "c"}
        raw = ours(f"{gang}-{index}", requests=ALL, metadata={"labels": labels}, **options)
        return on_node(raw, node) if node else raw

    def new_pods(self, **options: Any) -> None:
        for index in range(2):
            self.engine.pending.put(self.member("new", index, **options))

    def leaves(self, index: int) -> None:
        self.engine.assigned.drop(f"default/old-{index}", None)

    @property
    def held(self) -> list[str]:
        found = self.engine.cache.reservations.get(reused_name("new"))
        return [] if found is None else [slot.node for slot in found.slots]

    async def later(self, seconds: float = 1.0) -> None:
        self.rig.now += seconds
        self.engine.reservations.expire()
        self.engine.reused_room.release()
        self.engine.wake()
        await settle()

    def placed(self, gang: str = "new") -> list[str]:
        return [self.rig.placed_on(f"{gang}-{index}") for index in range(2)]


async def test_no_other_pod_gets_the_room_before_the_new_gang_can_start():
    it = Update()
    it.rig.pod("small", requests=ALL)
    it.new_pods()
    async with deciding(it.rig):
        await settle()
        it.leaves(0)
        await it.later()
        assert (it.rig.placed_on("small"), it.placed(), it.held) == ("", ["", ""], ["n0"])
        it.leaves(1)
        await it.later()
        assert sorted(it.placed()) == ["n0", "n1"]
        await it.later()
        assert (it.held, it.rig.placed_on("small")) == ([], "")
    assert it.rig.recorder.notes("RoomHeld") == [
        "the room that pods of PodGang default/old leave is held for this gang"
    ]


async def test_the_new_gang_prefers_the_room_to_nodes_with_better_scores():
    it = Update(free=2)
    it.new_pods(spec=GATE)
    for index in range(2):
        it.leaves(index)
    async with deciding(it.rig):
        await settle()
        assert it.held == ["n0", "n1"]
        it.new_pods()
        await settle()
        assert sorted(it.placed()) == ["n0", "n1"]


@pytest.mark.parametrize("how", ["required", "preferred"])
async def test_a_gang_that_is_to_be_in_one_rack_prefers_that_of_the_room(how):
    it = Update(topologyConstraint={"packConstraint": {how: "rack"}})
    for index in range(4):
        size = "8" if index < 2 else "64"
        it.rig.node(f"n{index}", allocatable={"cpu": size}, labels={"rack": f"r{index // 2}"})
    for index in range(2):
        it.leaves(index)
    it.new_pods()
    async with deciding(it.rig):
        await settle()
        assert sorted(it.placed()) == ["n0", "n1"]


async def test_it_starts_elsewhere_if_the_room_is_gone():
    it = Update(free=2)
    for index in range(2):
        it.leaves(index)
        it.engine.nodes.drop(f"n{index}", None)
    it.new_pods()
    async with deciding(it.rig):
        await settle()
        assert sorted(it.placed()) == ["n2", "n3"]
        await it.later()
        assert it.held == []


async def test_pods_that_come_and_go_hold_no_more_room_than_there_are_pods_that_wait_for_it():
    it = Update(free=2)
    for turn in range(3):
        for index in range(2):
            it.engine.assigned.put(it.member("old", index, f"n{(turn + index) % 4}"))
            it.leaves(index)
    assert it.held == ["n0", "n1"]


async def test_room_that_more_important_pods_have_taken_is_forgotten():
    it = Update()
    reservations, nominator = it.engine.cache.reservations, it.engine.cache.nominator
    high = parse_pod(ours("high", priority=1))
    for _ in range(5):
        it.engine.assigned.put(it.member("old", 0, "n0"))
        it.leaves(0)
        (slot,) = nominator.on("n0")
        reservations.give_way(slot, high)
    it.leaves(1)
    assert it.held == ["n1"], "a scheduler that takes over holds what the object says"
    assert reservations.counts(reused_name("new")) == (1, 0, 0)


async def test_a_pod_whose_node_is_gone_leaves_no_room():
    it = Update()
    it.engine.nodes.drop("n0", None)
    it.leaves(0)
    assert it.held == []


def test_what_a_pod_that_leaves_costs_does_not_depend_on_how_many_pods_wait():
    def looks(waiting: int) -> int:
        it, seen = Update(), []
        for index in range(2, waiting):
            it.engine.pending.put(it.member("new", index, spec=GATE))
        members = it.engine.cache.groups.members(f"{GROVE_API}:default/new")
        assert members.unplaced_count == len(members.unplaced()) == waiting
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Members, "unplaced", lambda each: seen.extend(each.waiting) or [*each.waiting.values()])
            it.leaves(0)
            it.engine.reused_room.release()
        assert it.held == ["n0"]
        return len(seen)

    assert looks(20) == looks(2)


def test_what_a_pod_that_leaves_costs_does_not_depend_on_how_many_gangs_name_its_gang():
    def calls(naming: int) -> int:
        it = Update()
        for index in range(naming):
            it.gang(f"other-{index}", reuseReservationRef={"name": "old"})
        it.engine.objects(GROVE_KIND).drop("default/new", None)
        found = calls_of(lambda: it.leaves(0))
        assert len(it.engine.cache.reservations) == 0
        return found

    assert calls(800) < 1.5 * calls(100)


async def test_a_pod_that_finishes_before_it_is_deleted_leaves_its_room_once():
    it = Update()
    it.engine.assigned.put(it.member("old", 0, "n0", status={"phase": "Failed"}))
    it.leaves(0)
    assert it.held == ["n0"]


async def test_a_pod_that_finishes_before_it_was_seen_on_its_node_leaves_its_room():
    it = Update(free=2)
    it.gang("first")
    it.gang("second", reuseReservationRef={"name": "first"})
    for index in range(2):
        it.engine.pending.put(it.member("first", index))
        it.engine.pending.put(it.member("second", index, spec=GATE))
    async with deciding(it.rig):
        await settle()
        node = it.rig.placed_on("first-0")
        it.engine.assigned.put(it.member("first", 0, node, status={"phase": "Failed"}))
        assert [slot.node for slot in it.engine.cache.reservations.get(reused_name("second")).slots] == [node]


async def test_the_room_is_given_back_after_a_time_which_begins_anew_with_each_pod():
    it = Update()
    it.leaves(0)
    async with deciding(it.rig):
        await it.later(KEPT_SECONDS - 1)
        it.leaves(1)
        await it.later(KEPT_SECONDS - 1)
        assert it.held == ["n0", "n1"]
        it.rig.pod("small", requests=ALL)
        await settle()
        assert it.rig.placed_on("small") == ""
        await it.later(2)
        assert (it.held, bool(it.rig.placed_on("small"))) == ([], True)


@pytest.mark.parametrize("uid", ["", "another"], ids=["it is gone", "it was made anew"])
async def test_the_room_is_given_back_with_its_gang(uid):
    it = Update()
    it.leaves(0)
    assert it.held == ["n0"]
    if uid:
        it.gang("new", uid)
    else:
        it.engine.objects(GROVE_KIND).drop("default/new", None)
    await it.later()
    assert it.held == []
    it.leaves(1)
    assert it.held == []


async def test_nothing_is_held_for_a_gang_that_has_started():
    it = Update(free=2)
    for index in range(2):
        it.engine.assigned.put(it.member("new", index, f"n{index + 2}"))
    it.leaves(0)
    assert it.held == []


async def test_a_pod_of_higher_priority_gets_the_room():
    it = Update()
    it.new_pods()
    it.leaves(0)
    it.rig.pod("high", requests=ALL, priority=1)
    async with deciding(it.rig):
        await settle()
        assert it.rig.placed_on("high") == "n0"


async def test_what_was_evicted_for_others_leaves_its_room_to_them():
    it = Update()
    it.engine.assigned.eviction_started("default/old-0")
    it.leaves(0)
    assert it.held == []


async def test_only_the_instance_that_leads_holds_room():
    it = Update()
    it.engine.gathering.leads = False
    it.leaves(0)
    assert it.held == []


@pytest.mark.parametrize(
    "reference",
    [{"name": "old", "namespace": "other"}, {"name": "unknown", "namespace": "default"}, {}, None],
    ids=["of another namespace", "unknown", "empty", "none"],
)
async def test_a_reference_to_no_other_gang_of_the_namespace_holds_nothing(reference):
    it = Update(reuseReservationRef=reference)
    it.leaves(0)
    assert len(it.engine.cache.reservations) == 0


def test_the_reference_of_a_gang_is_read():
    raw = {
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": {"podgroups": [], "reuseReservationRef": {"name": "f"}},
    }
    assert parse_pod_group(GROVE_KIND, raw).reuses == "scheduler.grove.io:ml/f"
