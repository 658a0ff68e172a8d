"""SchedulingQueues as they come in, and the statuses that are written about them."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.queues import device_supply
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.kube.queues.door import counts_of
from podwright.kube.queues.kinds import SCHEDULING_QUEUES
from podwright.kube.write import object_status as module
from support.http.kit import api, says
from support.objects.devices import make_class, make_device, make_slice
from support.queues.incoming import NOON, Queues, queues
from support.waiting import until

GPU = "nvidia.com/gpu"
DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(module, "STATUS_SECONDS", 0.005)


async def test_the_status_says_what_a_queue_has_and_what_its_first_pod_waits_for():
    async with queues() as it:
        it.rig.node("n", allocatable={GPU: "8"})
        it.put("ml", resources={GPU: {"limit": 6}})
        it.put("team", parent="ml", resources={GPU: {"guarantee": 2, "limit": 4, "lendingLimit": 1}})
        running = it.rig.pod("a", labels={QUEUE_LABEL: "team"}, requests={GPU: "3"})
        it.rig.confirm(running, "n")
        it.rig.pod("b", labels={QUEUE_LABEL: "team"}, requests={GPU: "2"})
        await until(lambda: it.written.get("team", [{}])[-1].get("pendingPods"))
        status = it.written["team"][-1]
        assert status["summary"] == "nvidia.com/gpu 3 of 4"
        assert (status["allocated"], status["borrowed"], status["share"]) == ({GPU: "3"}, {GPU: "1"}, {GPU: "4"})
        assert (status["pending"], status["pendingPods"]) == ({GPU: "2"}, 1)
        message = "team holds 3 of 4 nvidia.com/gpu, and the pod requests 2; ml has 3 free of 6"
        assert status["firstWaiting"] == {"pod": "default/b", "message": message}
        assert it.written["ml"][-1]["capacity"] == {GPU: "8"}
        assert status["lastAccepted"]["spec"]["parent"] == "ml"
        assert it.condition("team")["lastTransitionTime"] == "2026-01-01T12:00:00Z"


async def test_what_the_api_server_has_already_is_not_written_again():
    async with queues() as it:
        it.put("a")
        await until(lambda: "a" in it.written)
        it.put("a", status=it.written["a"][-1])
        await asyncio.sleep(0.1)
        assert len(it.written["a"]) == 1


@pytest.mark.parametrize("seconds", [60.0, 0.05], ids=["in time", "too late"])
async def test_statuses_wait_for_the_decisions_about_the_first_pods_but_not_for_long(monkeypatch, seconds):
    monkeypatch.setattr(module, "FIRST_BURST_SECONDS", seconds)
    known, decided = asyncio.Event(), asyncio.Event()
    async with api(default=says(200, {})) as (http, script):
        it = Queues(http, script)
        writing = asyncio.create_task(it.doors[SCHEDULING_QUEUES].run_after(known, decided))
        it.put("a")
        await asyncio.sleep(0.1)
        assert not it.written
        known.set()
        if seconds > 1:
            await asyncio.sleep(0.1)
            assert not it.written
            decided.set()
        await until(lambda: "a" in it.written)
        writing.cancel()


async def test_an_invalid_queue_stays_as_it_was_and_says_why():
    async with queues() as it:
        it.put("a", resources={GPU: {"limit": 4}})
        it.put("a", 2, resources={GPU: {"limit": "four"}})
        await until(lambda: "a" in it.written)
        assert it.core.get("a").quotas[GPU].limit == 4
        accepted = it.condition("a")
        assert (accepted["status"], accepted["reason"], accepted["observedGeneration"]) == ("False", "Invalid", 2)
        assert "spec.resources[nvidia.com/gpu].limit" in accepted["message"]
        assert it.condition("a", "Active")["reason"] == "LastGoodGeneration"
        [(about, reason, note)] = it.rig.recorder.events
        assert (about, reason, note) == ("a", "QueueNotAccepted", accepted["message"])


async def test_pods_of_a_queue_that_was_never_valid_wait_and_say_why():
    def bound():
        found = it.core.bounds.of(it.rig.engine.queue.get("default/p").pod)
        return found and found.message

    async with queues() as it:
        it.rig.pod("p", labels={QUEUE_LABEL: "a"}, requests={GPU: "1"})
        for limit, problem in (
            ("1500m", "'1500m' has a fraction; only cpu may have thousandths"),
            (-1, "-1 is less than 0"),
        ):
            it.put("a", resources={GPU: {"limit": limit}})
            assert bound() == f"queue a is invalid: SchedulingQueue a: spec.resources[{GPU}].limit: {problem}"
        it.put("a", resources={GPU: {"limit": 0}})
        assert bound() == f"a holds 0 of 0 {GPU}"
        it.doors[SCHEDULING_QUEUES].drop("a", None)
        assert (bound(), it.core.active) == (None, False)
        it.put("a", priority="high")
        it.put("b")
        it.doors[SCHEDULING_QUEUES].drop("a", None)
        assert bound() == "queue a does not exist (named by metadata.labels[podwright.dev/queue])"


async def test_a_queue_without_parent_is_not_in_force():
    async with queues() as it:
        it.put("a", parent="nowhere")
        await until(lambda: "a" in it.written)
        assert "spec.parent: queue 'nowhere' does not exist" in it.condition("a")["message"]
        assert it.condition("a", "Active")["reason"] == "NotAccepted"
        assert "lastAccepted" not in it.written["a"][-1]


async def test_a_flavor_that_no_node_has_is_a_warning_until_one_has_it():
    async with queues() as it:
        it.put("ml", flavors=[{"name": "h100", "nodeSelector": {"model": "H100"}, "resources": {GPU: {"limit": 4}}}])
        await until(lambda: it.written.get("ml"))
        warning = it.condition("ml", "FlavorWithoutNodes")
        assert (
            warning["message"]
            == "SchedulingQueue ml: spec.flavors[h100].nodeSelector: no node has the labels model=H100"
        )
        assert it.condition("ml")["status"] == it.condition("ml", "Active")["status"] == warning["status"] == "True"
        assert it.rig.recorder.events == [("ml", "FlavorWithoutNodes", warning["message"])]
        it.rig.node("n", labels={"model": "H100"}, allocatable={GPU: "8"})
        await until(lambda: len(it.written["ml"][-1]["conditions"]) == 2)


async def test_a_limit_under_what_runs_is_one_warning():
    async with queues() as it:
        it.rig.node("n", allocatable={GPU: "8", "cpu": "8"})
        it.put("ml", resources={"cpu": {"limit": "4"}})
        pods = [it.rig.pod(f"p{i}", labels={QUEUE_LABEL: "ml"}, requests={"cpu": "1500m"}) for i in range(2)]
        for pod in pods:
            it.rig.confirm(pod, "n")
        it.put("ml", 2, resources={"cpu": {"limit": "1"}})
        await until(lambda: it.written.get("ml"))
        message = "SchedulingQueue ml: spec.resources[cpu].limit: pods of the queue hold {}, more than this limit of 1"
        assert it.condition("ml", "OverLimit")["message"] == message.format("3")
        assert it.core.get("ml").quotas["cpu"].limit == 1000
        it.rig.engine.assigned.drop(pods[0]["metadata"]["uid"], pods[0])
        await until(lambda: it.condition("ml", "OverLimit")["message"] == message.format("1500m"))
        assert [reason for _, reason, _ in it.rig.recorder.events if reason == "OverLimit"] == ["OverLimit"]


async def test_guarantees_that_others_may_take_are_one_warning_until_the_parent_has_them():
    async with queues() as it:
        it.put("top", resources={GPU: {"limit": 8}})
        it.put("team", parent="top", resources={GPU: {"guarantee": 6}})
        it.put("rival", resources={GPU: {}})
        text = "the queues right below are guaranteed 6, more than the 0 of this queue, so they may get less"
        expected = f"SchedulingQueue top: spec.resources[{GPU}].guarantee: {text}"
        await until(lambda: it.written.get("top"))
        assert it.condition("top", "GuaranteesNotCovered")["message"] == expected
        assert it.condition("top")["status"] == it.condition("top", "Active")["status"] == "True"
        assert it.rig.recorder.events == [("top", "GuaranteesNotCovered", expected)]
        it.put("top", 2, resources={GPU: {"guarantee": 6}})
        await until(lambda: len(it.written["top"][-1]["conditions"]) == 2)


async def test_how_many_devices_queues_share_and_that_some_are_not_counted(monkeypatch):
    monkeypatch.setattr(device_supply, "MOST_IN_POOL", 2)
    async with queues() as it:
        for name, count in (("n", 2), ("m", 3)):
            it.rig.node(name)
            slice_ = make_slice(name, [make_device(f"g{number}") for number in range(count)], node=name)
            it.rig.engine.cache.set_object("ResourceSlice", slice_)
        it.rig.engine.cache.set_object("DeviceClass", make_class("gpu"))
        it.put("ml", resources={DEVICES: {"limit": 4}, GPU: {}})
        await until(lambda: it.written.get("ml"))
        assert it.written["ml"][-1]["capacity"][DEVICES] == "2"
        message = it.condition("ml", "CapacityUnknown")["message"]
        assert f"ml: spec.resources[{DEVICES}]: not all free devices are counted: pool gpu.example.com/m has" in message
        assert it.rig.recorder.events == []


async def test_a_closed_queue_says_that_its_pods_wait():
    async with queues() as it:
        it.put("a", state="Closed")
        it.put("b", parent="a")
        await until(lambda: {"a", "b"} <= it.written.keys())
        active = it.condition("b", "Active")
        assert (active["status"], active["reason"]) == ("False", "NotOpen")
        assert "queue a is in state Closed" in active["message"]


@pytest.mark.parametrize(
    "wrong",
    [pytest.param({"parent": "nowhere"}, id="parent"), pytest.param({"priority": "high"}, id="field")],
)
async def test_the_last_valid_generation_is_in_force_after_a_restart(wrong):
    async with queues() as it:
        kept = {"generation": 1, "spec": {"resources": {GPU: {"limit": 4}}}}
        it.put("a", 2, status={"lastAccepted": kept}, **wrong)
        assert it.core.get("a").quotas[GPU].limit == 4
        await until(lambda: "a" in it.written)
        assert it.condition("a", "Active")["reason"] == "LastGoodGeneration"
        assert it.written["a"][-1]["lastAccepted"] == kept


async def test_usage_goes_on_after_a_restart_from_what_the_status_says():
    async with queues() as it:
        users = [{"user": "ann", "hours": {GPU: "60"}}]
        usage = {
            "observedAt": "2026-01-01T11:00:00Z", "since": "2025-12-01T00:00:00Z", "average": {GPU: "4"},
            "hours": {GPU: "100"}, "users": users,
        }  # fmt: skip
        it.put("a", status={"usage": usage}, usageHalfLife="1h")
        [*it.core.sample_usage(NOON)]
        assert it.core.records["a"].average == pytest.approx({GPU: 2.0})
        await until(lambda: it.written.get("a"))
        assert it.written["a"][-1]["usage"] == {
            "observedAt": "2026-01-01T12:00:00Z", "since": "2025-12-01T00:00:00Z", "average": {GPU: "2"},
            "hours": {GPU: "100"}, "users": users,
        }  # fmt: skip


@pytest.mark.parametrize("kept", [None, [], {"spec": 1}, {"generation": "x", "spec": {"priority": []}}])
async def test_a_status_that_nobody_can_read_harms_nothing(kept):
    async with queues() as it:
        it.put("a", status={"lastAccepted": kept})
        assert it.core.get("a") is not None


async def test_new_conditions_are_written_before_new_amounts(monkeypatch):
    monkeypatch.setattr(module, "WriteLimit", Limit)
    async with queues() as it:
        for index in range(20):
            it.put(f"q{index}")
        await until(lambda: len(it.written) == 20)
        for name, written in it.written.items():
            it.put(name, status={**written[-1], "pendingPods": 7})
        it.put("q19", 2, state="Hold", status=it.written["q19"][-1])
        seen = len(it.script.requests)
        await until(lambda: len(it.script.requests) >= seen + 20)
        assert it.script.requests[seen].path.endswith("/q19/status")


class Limit:
    async def take(self):
        await asyncio.sleep(0)


async def test_a_refused_write_is_retried_later_and_logged_once(caplog):
    async with queues(says(403)) as it:
        it.put("a")
        await until(lambda: it.script.requests)
        await asyncio.sleep(0.1)
        assert len(it.script.requests) == 1
        assert caplog.text.count("cannot write the status of queue a") == 1


async def test_a_deleted_queue_is_gone():
    async with queues() as it:
        it.put("a")
        it.doors[SCHEDULING_QUEUES].drop("a", None)
        assert (it.core.get("a"), it.core.active) == (None, False)


async def test_queues_are_counted_by_whether_their_newest_version_is_accepted():
    async with queues() as it:
        assert counts_of(it.doors.values()) == {}
        it.put("a")
        it.put("lost", parent="gone")
        it.put("bad", state="Ajar")
        assert counts_of(it.doors.values()) == {("accepted",): 1, ("refused",): 2}
        it.put("gone")
        assert counts_of(it.doors.values()) == {("accepted",): 3, ("refused",): 1}
