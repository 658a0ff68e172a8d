"""Reservations as they come in, what they hold and until when, and the statuses that are written about them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from podwright.api import crd
from podwright.api.reservation import LONGEST, MAX_SLOTS, RESERVATION_KIND, parse_reservation
from podwright.core.gangs.gathering import GatheringGangs
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod_group import GROVE_KIND, GROVE_LABEL, PLUGINS_API
from podwright.core.state.reservations import Replaced, Reservation, Slot, gathered_name, rebalancing_name
from podwright.engine.attempts.gangs.gathering import Gathering
from podwright.kube.reservations.door import SLOTS_OF_A_PART, ReservationDoor
from podwright.kube.write import object_status
from podwright.sandbox.schemas import Schema
from support.engine.kit import Rig, deciding, on_node, ours, settle
from support.http.kit import api, says
from support.waiting import until

GPU = "nvidia.com/gpu"
SCHEMA = Schema(crd.crd(RESERVATION_KIND)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def reservation(name="held", created="1970-01-01T00:16:40Z", **spec):
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": created}
    given = {"namespace": "default", "slots": [{"node": "n0", "requests": {GPU: 2}}]}
    return {
        "apiVersion": "podwright.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": metadata,
        "spec": {**given, **spec},
    }


class Held:
    def __init__(self, http, script):
        self.rig = Rig()
        self.script = script
        self.door = ReservationDoor(
            http, self.rig.engine, recorder=self.rig.recorder, scheduler_name="podwright", clock=lambda: self.rig.now
        )
        self.door.served = True
        for name in ("n0", "n1"):
            self.rig.node(name, allocatable={GPU: "2"})

    @property
    def status(self):
        return self.script.requests[-1].body[1]["value"]

    def condition(self, kind):
        return next(each for each in self.status["conditions"] if each["type"] == kind)


@asynccontextmanager
async def held():
    async with api(default=says(200, {})) as (http, script):
        made = Held(http, script)
        running = asyncio.create_task(made.door.run())
        yield made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(object_status, "STATUS_SECONDS", 0.005)


async def test_room_is_held_for_the_pods_that_are_meant_and_the_status_counts_them():
    async with held() as it:
        it.door.put(reservation(podSelector={"matchLabels": {"job": "a"}}))
        it.rig.pod("other", requests={GPU: "2"})
        it.rig.pod("ours", labels={"job": "a"}, requests={GPU: "2"})
        async with deciding(it.rig):
            await settle()
        assert (it.rig.placed_on("other"), it.rig.placed_on("ours")) == ("n1", "n0")
        await until(lambda: it.script.requests and it.status.get("taken"))
        assert (it.status["free"], it.status["taken"], it.status["lost"]) == (0, 1, 0)
        assert it.status["until"] == "1970-01-01T00:26:40Z"
        assert it.condition("Active")["reason"] == "Held"


async def test_waiting_pods_get_the_room_when_the_time_is_over():
    async with held() as it:
        it.door.put(reservation(slots=[{"node": "n0", "requests": {GPU: 2}}, {"node": "n1", "requests": {GPU: 2}}]))
        it.rig.pod("other", namespace="else", requests={GPU: "2"})
        async with deciding(it.rig):
            await settle()
            assert not it.rig.cluster.bound
            it.rig.now += 600
            it.rig.engine.reservations.expire()
            await settle()
            assert [name for name, _ in it.rig.cluster.bound] == ["other"]
        await until(lambda: it.script.requests and it.condition("Active")["reason"] == "Expired")
        assert "free" not in it.status


async def test_a_reservation_that_is_over_holds_nothing_when_it_comes():
    async with held() as it:
        it.door.put(reservation(created="1970-01-01T00:00:00Z"))
        assert len(it.rig.engine.cache.reservations) == 0


async def test_an_invalid_reservation_holds_nothing_and_says_why():
    async with held() as it:
        it.door.put(reservation())
        it.door.put(reservation(slots=[{"node": "n0", "requests": {GPU: "two"}}]))
        await until(lambda: it.script.requests and it.condition("Accepted")["status"] == "False")
        assert "requests" in it.condition("Accepted")["message"]
        assert len(it.rig.engine.cache.reservations) == 0
        assert [reason for _, reason, _ in it.rig.recorder.events] == ["ReservationNotAccepted"]


async def test_a_more_important_pod_takes_the_room_and_the_status_says_so():
    async with held() as it:
        it.door.put(reservation(priority=10, namespace="team"))
        it.rig.confirm(it.rig.pod("low", requests={GPU: "1"}, priority=1), "n0")
        it.rig.confirm(it.rig.pod("equal", requests={GPU: "2"}, priority=20), "n1")
        it.rig.pod("high", requests={GPU: "2"}, priority=20)
        async with deciding(it.rig):
            await settle()
        await until(lambda: it.script.requests and it.status.get("lost"))
        assert (it.status["free"], it.status["lost"]) == (0, 1)


def test_slots_are_repeated_by_their_count():
    raw = reservation(slots=[{"node": "a", "count": 3, "requests": {"cpu": "500m"}}, {"node": "b"}])
    assert SCHEMA.problems(raw) == []
    assert [slot.node for slot in parse_reservation(raw).slots] == ["a", "a", "a", "b"]


def test_there_may_be_as_many_slots_as_the_docs_say():
    requests = {"cpu": "1", "memory": "1Gi", GPU: 1, "rdma/hca": 1}
    raw = reservation(slots=[{"node": f"node-{i}", "count": 2, "requests": requests} for i in range(350)])
    assert SCHEMA.problems(raw) == []
    assert len(parse_reservation(raw).slots) == 700
    raw = reservation(slots=[{"node": "n", "count": 500, "requests": requests}, {"node": "m", "count": 500}])
    assert len(parse_reservation(raw).slots) == MAX_SLOTS


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"slots": []}, "spec.slots", id="no slots"),
        pytest.param({"slots": [{"requests": {}}]}, "spec.slots[0].node", id="no node"),
        pytest.param({"slots": [{"node": f"n{i}"} for i in range(10_000)]}, "spec: too large", id="10,000 nodes"),
        pytest.param({"slots": [{"node": "n", "count": 1001}]}, "spec.slots[0].count", id="too many"),
        pytest.param({"slots": [{"node": "n", "count": 600}] * 2}, "spec.slots", id="too many together"),
        pytest.param({"slots": [{"node": "n", "requests": {"no/such/name": 1}}]}, "spec.slots[0].requests", id="name"),
        pytest.param({"duration": "soon"}, "spec.duration", id="duration"),
        pytest.param({"duration": "99999999999999999h"}, "spec.duration", id="longer than a status can say"),
        pytest.param({"namespace": "No"}, "spec.namespace", id="namespace"),
        pytest.param({"startTime": "noon"}, "spec.startTime", id="time"),
        pytest.param({"podGroup": {"apiGroup": "x", "name": ""}}, "spec.podGroup.name", id="group without name"),
        pytest.param({"podSelector": {"matchLabels": {"a": ["b"]}}}, "spec.podSelector", id="selector"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(spec, field):
    with pytest.raises(InvalidObjectError) as caught:
        parse_reservation(reservation(**spec))
    assert "Reservation held" in str(caught.value)
    assert field in str(caught.value)


def gathered(it, at=2000.0, nodes=("n0", "n0", "n1"), until=2600.0):
    """The gang g holds room."""
    slots = [Slot(node, {GPU: "1"}) for node in nodes]
    group = f"{PLUGINS_API}:default/g"
    held = Reservation(gathered_name("u"), "default", until, slots, group=group, group_uid="u", at=at)
    it.rig.engine.reservations.set(held)
    it.holds["gang-u"] = held


@pytest.fixture
def holds(monkeypatch):
    """The room that gangs hold, by the name of the reservation."""
    found = {}
    monkeypatch.setattr(Gathering, "held", lambda _self: found)
    return found


def changes(it):
    return [each for each in it.script.requests if not each.path.endswith("/status")]


async def test_room_that_a_gang_gathers_has_an_object_that_names_it(holds):
    async with held() as it:
        it.holds, it.rig.engine.gathering.leads = holds, True
        gathered(it)
        await until(lambda: changes(it))
        (made,) = changes(it)
        assert (made.method, made.path.rpartition("/")[2], made.query["force"]) == ("PATCH", "gang-u", "true")
        assert made.body["spec"] == {
            "namespace": "default", "podGroup": {"apiGroup": PLUGINS_API, "name": "g", "uid": "u"},
            "startTime": "1970-01-01T00:33:20Z", "duration": "1600s", "priority": 1_000_000_000,
            "slots": [
                {"node": "n0", "requests": {GPU: "1"}, "count": 2}, {"node": "n1", "requests": {GPU: "1"}, "count": 1}
            ],
        }  # fmt: skip
        known = {**reservation("gang-u"), "spec": made.body["spec"]}
        assert SCHEMA.problems(known) == []
        assert parse_reservation(known) == holds["gang-u"]
        it.door.put(known)
        await asyncio.sleep(0.05)
        assert len(changes(it)) == 1
        gathered(it, nodes=("n1",))
        await until(lambda: len(changes(it)) == 2)
        assert changes(it)[-1].body["spec"]["slots"] == [{"node": "n1", "requests": {GPU: "1"}, "count": 1}]
        it.door.put(known)
        assert [each.node for each in it.rig.engine.cache.reservations.get("gang-u").slots] == ["n1"]
        holds.clear()
        await until(lambda: changes(it)[-1].method == "DELETE")


async def test_room_that_a_gang_gathers_stays_whatever_its_object_says(holds):
    async with held() as it:
        it.holds, it.rig.engine.gathering.leads = holds, True
        gathered(it, at=2.0**31, until=2.0**31 + 600)  # a pod may declare to run for so long
        await until(lambda: changes(it))
        spec = changes(it)[0].body["spec"]
        assert spec["duration"] == f"{LONGEST}s"
        it.door.put({**reservation("gang-u"), "spec": spec})
        await asyncio.sleep(0.05)
        assert len(changes(it)) == 1
        invalid = reservation("gang-u", duration="100000h")
        it.door.put(invalid)
        assert it.rig.engine.cache.reservations.get("gang-u") is not None
        await until(lambda: len(changes(it)) > 1)
        assert changes(it)[-1].body["spec"] == spec
        it.door.put(invalid)
        holds.clear()
        await until(lambda: changes(it)[-1].method == "DELETE")


async def test_before_this_process_leads_the_objects_say_what_is_held(holds):
    async with held() as it:
        spec = {"podGroup": {"apiGroup": PLUGINS_API, "name": "g", "uid": "u"}}
        it.door.put(reservation("gang-u", **spec))
        await until(lambda: it.script.requests)
        await asyncio.sleep(0.05)
        assert changes(it) == []
        found = it.rig.engine.cache.reservations.get("gang-u")
        assert (found.group, found.is_gathered) == (f"{PLUGINS_API}:default/g", True)
        it.rig.engine.gathering.leads = True
        await until(lambda: changes(it))
        assert changes(it)[0].method == "DELETE"


async def test_the_room_of_more_members_than_an_object_may_have_has_several(holds):
    async with held() as it:
        it.holds, it.rig.engine.gathering.leads = holds, True
        gathered(it, nodes=[f"n{i}" for i in range(2 * SLOTS_OF_A_PART + 1)])
        await until(lambda: len(changes(it)) == 3)
        parts = {each.path.rpartition("/")[2]: each.body["spec"] for each in changes(it)}
        counts = {name: len(spec["slots"]) for name, spec in parts.items()}
        assert counts == {"gang-u": SLOTS_OF_A_PART, "gang-u.2": SLOTS_OF_A_PART, "gang-u.3": 1}
        for name, spec in parts.items():
            it.door.put({**reservation(name), "spec": spec})
        written = lambda: [each for each in it.script.requests if each.path.endswith("gang-u.2/status")]
        await until(lambda: written() and written()[-1].body[1]["value"]["free"] == 2 * SLOTS_OF_A_PART + 1)
        assert len(changes(it)) == 3
        holds.clear()
        await until(lambda: [each.method for each in changes(it)].count("DELETE") == 3)
    async with held() as other:
        for name, spec in parts.items():
            other.door.put({**reservation(name), "spec": spec})
        assert len(other.rig.engine.cache.reservations) == 3
        GatheringGangs(other.rig.engine.cache).take_over()
        (whole,) = other.rig.engine.cache.reservations.all()
        assert (whole.name, whole.is_gathered, len(whole.slots)) == ("gang-u", True, 2 * SLOTS_OF_A_PART + 1)
        assert other.rig.engine.cache.reservations.counts("gang-u") == (2 * SLOTS_OF_A_PART + 1, 0, 0)


async def test_room_that_a_gang_takes_over_has_an_object_that_another_process_understands():
    async with held() as it:
        engine, it.rig.engine.gathering.leads = it.rig.engine, True
        spec = {"podgroups": [{"name": "c", "minReplicas": 1}]}
        for name, more in (("old", {}), ("new", {"reuseReservationRef": {"name": "old"}})):
            metadata = {"name": name, "namespace": "default", "uid": name}
            engine.objects(GROVE_KIND).put({"metadata": metadata, "spec": {**spec, **more}})
        for index in range(2):
            labels = {GROVE_LABEL: "old", "grove.io/podclique": "c"}
            raw = ours(f"old-{index}", labels=labels, requests={GPU: "1"}, priority=7)
            engine.assigned.put(on_node(raw, f"n{index}"))
            engine.pending.put(ours(f"new-{index}", labels={**labels, GROVE_LABEL: "new"}))
            engine.assigned.drop(f"default/old-{index}", None)
        await until(lambda: changes(it))
        made = changes(it)[-1]
        assert (made.method, made.path.rpartition("/")[2]) == ("PATCH", "reuse-new")
        known = {**reservation("reuse-new"), "spec": made.body["spec"]}
        assert SCHEMA.problems(known) == []
        assert parse_reservation(known) == engine.cache.reservations.get("reuse-new")
        it.door.put(known)
        engine.objects(GROVE_KIND).drop("default/new", None)
        engine.reused_room.release()
        await until(lambda: changes(it)[-1].method == "DELETE")
    async with held() as other:
        other.door.put(known)
        assert other.rig.engine.reused_room.held().keys() == {"reuse-new"}
        other.rig.engine.gathering.take_over()
        assert other.rig.engine.cache.reservations.counts("reuse-new") == (2, 0, 0)


async def test_room_for_a_group_of_a_users_reservation_is_left_alone(holds):
    async with held() as it:
        it.rig.engine.gathering.leads = True
        it.door.put(reservation(podGroup={"apiGroup": PLUGINS_API, "name": "g"}))
        await asyncio.sleep(0.05)
        assert changes(it) == []
        assert it.rig.engine.cache.reservations.get("held").group == f"{PLUGINS_API}:default/g"


def place(it):
    """The place on n1 for what comes after a pod on n0, beside which a sibling runs."""
    metadata = {
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
        ]
    }
    made = lambda name, on: on_node(ours(name, requests={GPU: "1"}, labels={"app": "web"}, metadata=metadata), on)
    for name, on in (("left", "n0"), ("beside", "n1")):
        it.rig.engine.assigned.put(made(name, on))
    pods, beside = (it.rig.engine.cache.present(name).pods for name in ("n0", "n1"))
    (left,) = pods.values()
    replaced = Replaced.of(left, beside.values())
    name = rebalancing_name(left.uid)
    return Reservation(name, "default", it.rig.now + 300, [Slot("n1", {GPU: "1"})], priority=7, replaced=replaced)


async def test_the_place_of_a_pod_that_moves_has_an_object_that_another_process_understands():
    async with held() as it:
        it.rig.engine.gathering.leads = True
        it.rig.engine.reservations.set(kept := place(it))
        assert await it.rig.engine.rebalancing.moves.keep(kept) == ""
        made = changes(it)[-1]
        assert (made.method, made.path.rpartition("reservations/")[2]) == ("PATCH", "rebalance-default/left")
        known = {**reservation(kept.name), "spec": made.body["spec"]}
        assert SCHEMA.problems(known) == []
        assert parse_reservation(known) == kept
        it.door.put(known)
        await asyncio.sleep(0.05)
        assert all(each.method == "PATCH" for each in changes(it))
        it.rig.engine.reservations.remove(kept.name)
        await until(lambda: changes(it)[-1].method == "DELETE")


@pytest.mark.parametrize("by_us", [True, False], ids=["a late deletion of our own", "somebody's deletion"])
async def test_a_place_that_is_held_again_survives_the_deletion_of_what_was_held_before(by_us):
    """A policy is stopped, and enforces again within a second."""
    async with held() as it:
        it.rig.engine.gathering.leads = True
        it.rig.engine.reservations.set(kept := place(it))
        await until(lambda: changes(it))
        known = {**reservation(kept.name), "spec": changes(it)[-1].body["spec"]}
        it.door.put(known)
        if by_us:
            it.rig.engine.reservations.remove(kept.name)
            await until(lambda: changes(it)[-1].method == "DELETE")
        it.rig.engine.reservations.set(kept)
        assert await it.rig.engine.rebalancing.moves.keep(kept) == ""
        it.door.drop(kept.name, known)
        assert (it.rig.engine.cache.reservations.get(kept.name) is not None) is by_us
        count = len(changes(it))
        if by_us:
            await until(lambda: len(changes(it)) > count)
            assert changes(it)[-1].method == "PATCH"
            it.door.put(known)
            it.door.drop(kept.name, known)
            assert it.rig.engine.cache.reservations.get(kept.name) is None, "this time, somebody deleted it"


async def test_a_place_that_cannot_be_written_says_why():
    async with api(default=says(403, {"message": "may not"})) as (http, script):
        it = Held(http, script)
        assert "may not" in await it.rig.engine.rebalancing.moves.keep(place(it))
        it.door.served = False
        assert "does not serve" in await it.rig.engine.rebalancing.moves.keep(place(it))


def test_one_pod_comes_in_place_of_another():
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w"}
    spec = {"replacedPod": {"name": "left", "uid": "l", "owner": owner}}
    assert parse_reservation(reservation(**spec)).replaced.name == "left"
    with pytest.raises(InvalidObjectError, match=r"spec\.slots"):
        parse_reservation(reservation(**spec, slots=[{"node": "n0", "count": 2}]))
