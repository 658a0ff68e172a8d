"""Queues of KAI and of Volcano as they come in, beside SchedulingQueues, and their statuses."""

from __future__ import annotations

import asyncio

import pytest

from podwright.api.kai_queue import KAI_LABEL
from podwright.core.objects.pod import QUEUE_ANNOTATION
from podwright.core.queues.queues import QUEUE_LABEL
from podwright.kube.queues.kinds import KAI_QUEUES, SCHEDULING_QUEUES, VOLCANO_QUEUES
from podwright.kube.write import object_status as module
from support.http.kit import says
from support.queues.incoming import queues
from support.waiting import until

GPU = "nvidia.com/gpu"
ALL = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(module, "STATUS_SECONDS", 0.005)


def gpus(quota=0, limit=-1, weight=1):
    return {"cpu": ALL, "memory": ALL, "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}}


def kai_pod(it, name, queue, gpus="1", **options):
    return it.rig.pod(
        name, labels={KAI_LABEL: queue}, requests={GPU: gpus}, spec={"schedulerName": "kai-scheduler"}, **options
    )


def volcano_pod(it, name, queue, cpu="1"):
    return it.rig.pod(
        name,
        metadata={"annotations": {QUEUE_ANNOTATION: queue}},
        requests={"cpu": cpu},
        spec={"schedulerName": "volcano"},
    )


def bound(it, name):
    found = it.core.bounds.of(it.rig.engine.queue.get(f"default/{name}").pod)
    return "" if found is None else found.message


def latest(it, kind, name):
    return it.written_to(kind).get(name, [{}])[-1]


async def test_queues_of_kai_bound_its_pods_and_have_its_status():
    async with queues() as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.rig.node("n", allocatable={GPU: "8", "cpu": "16", "memory": "64Gi"})
        it.put_other(KAI_QUEUES, "research", resources=gpus(limit=3))
        it.put_other(KAI_QUEUES, "vision", parentQueue="research", resources=gpus(quota=1))
        it.put_other(KAI_QUEUES, "audio", parentQueue="research", resources=gpus(quota=1))
        it.rig.confirm(kai_pod(it, "a", "vision", "2"), "n")
        kai_pod(it, "b", "vision", "2")
        assert bound(it, "b") == "research holds 2 of 3 nvidia.com/gpu, and the pod requests 2"
        kai_pod(it, "parent", "research")
        assert (
            bound(it, "parent")
            == "queue research has queues below it, so no pods start in it (named by metadata.labels[kai.scheduler/queue])"
        )
        await until(lambda: latest(it, KAI_QUEUES, "research").get("childQueues") == ["audio", "vision"])
        await until(lambda: latest(it, KAI_QUEUES, "vision").get("requested") == {GPU: "4"})
        found = latest(it, KAI_QUEUES, "vision")
        assert (found["allocated"], found["requested"]) == ({GPU: "2"}, {GPU: "4"})
        assert "childQueues" not in found
        over = it.condition("vision", "OverQuota", KAI_QUEUES)
        assert (over["status"], over["message"]) == ("True", "nvidia.com/gpu 2 of 1")
        assert it.condition("vision", "Accepted", KAI_QUEUES)["status"] == "True"
        assert "observedGeneration" not in it.condition("vision", "Accepted", KAI_QUEUES)
        assert it.rig.recorder.events == []


async def test_pods_of_priority_100_stay_within_the_quota_of_every_queue():
    async with queues() as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.rig.node("n", allocatable={GPU: "8", "cpu": "16", "memory": "64Gi"})
        it.put_other(KAI_QUEUES, "research", resources=gpus(quota=1))
        it.put_other(KAI_QUEUES, "vision", parentQueue="research", resources=gpus(quota=2))
        it.rig.confirm(kai_pod(it, "train", "vision", "2", priority=50), "n")
        it.rig.confirm(kai_pod(it, "build", "vision", priority=100), "n")
        kai_pod(it, "more", "vision", priority=99)
        assert bound(it, "more") == ""
        kai_pod(it, "inference", "vision", priority=125)
        assert bound(it, "inference") == (
            "research is guaranteed 1 nvidia.com/gpu, of which pods that are never evicted hold 1, and the pod, which is "
            "one of these, requests 1"
        )
        it.put_other(KAI_QUEUES, "research", resources=gpus())
        assert bound(it, "inference").startswith("research is guaranteed 0 nvidia.com/gpu")
        await until(lambda: latest(it, KAI_QUEUES, "vision").get("allocated") == {GPU: "3"})
        for name in ("vision", "research"):
            await until(lambda name=name: latest(it, KAI_QUEUES, name).get("allocatedNonPreemptible") == {GPU: "1"})


async def test_a_queue_without_a_limit_of_gpus_may_use_none():
    async with queues() as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.rig.node("n", allocatable={GPU: "8"})
        it.put_other(KAI_QUEUES, "a", resources={"cpu": ALL, "gpu": {"quota": 4}})
        kai_pod(it, "p", "a")
        assert bound(it, "p") == "a holds 0 of 0 nvidia.com/gpu"


async def test_queues_of_kai_count_only_while_its_scheduler_name_is_served():
    async with queues() as it:
        it.put("ours", resources={GPU: {"limit": 0}})
        it.begin(KAI_QUEUES)
        it.put_other(KAI_QUEUES, "a", resources=gpus(limit=0))
        it.rig.pod("p", labels={KAI_LABEL: "a"}, requests={GPU: "1"})
        await until(lambda: it.written)
        assert (bound(it, "p"), it.core.get("a")) == ("", None)
        assert it.written_to(KAI_QUEUES) == {}
        it.serve("kai-scheduler")
        assert bound(it, "p") == "a holds 0 of 0 nvidia.com/gpu"
        await until(lambda: it.written_to(KAI_QUEUES))
        it.rig.engine.policies.remove("kai-scheduler")
        it.rig.engine.policies_changed()
        assert (bound(it, "p"), it.core.get("a")) == ("", None)


async def test_the_api_may_go_and_come_back():
    async with queues() as it:
        it.serve("kai-scheduler")
        for _ in range(2):
            it.begin(KAI_QUEUES)
            it.put_other(KAI_QUEUES, "a", resources=gpus(limit=0))
            kai_pod(it, "p", "a")
            assert bound(it, "p") == "a holds 0 of 0 nvidia.com/gpu"
            it.end(KAI_QUEUES)
            assert (bound(it, "p"), it.core.active) == ("", False)


async def test_our_own_label_comes_first():
    async with queues() as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.put_other(KAI_QUEUES, "a", resources=gpus())
        it.put("b", state="Closed")
        it.rig.pod("p", labels={KAI_LABEL: "a", QUEUE_LABEL: "b"}, spec={"schedulerName": "kai-scheduler"})
        assert bound(it, "p") == "queue b is in state Closed"


async def test_of_two_objects_with_one_name_ours_counts():
    async with queues() as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.put_other(KAI_QUEUES, "a", resources=gpus(limit=1))
        it.put_other(KAI_QUEUES, "other", resources=gpus(limit=2))
        assert it.core.get("a").quotas[GPU].limit == 1
        it.put("a", resources={GPU: {"limit": 5}})
        assert it.core.get("a").quotas[GPU].limit == 5
        message = "a SchedulingQueue of podwright.dev has this name, and counts instead of this Queue"
        await until(lambda: latest(it, KAI_QUEUES, "a"))
        accepted = it.condition("a", "Accepted", KAI_QUEUES)
        assert (accepted["status"], accepted["message"]) == ("False", f"metadata.name: {message}")
        assert [(about, reason) for about, reason, _ in it.rig.recorder.events] == [("a", "QueueNotAccepted")]
        await until(lambda: latest(it, KAI_QUEUES, "other"))
        assert it.condition("other", "Accepted", KAI_QUEUES)["status"] == "True"
        await until(lambda: it.written)
        assert it.condition("a")["status"] == "True"
        it.put_other(KAI_QUEUES, "a", resources=gpus(limit=3))
        assert it.core.get("a").quotas[GPU].limit == 5
        it.doors[SCHEDULING_QUEUES].drop("a", None)
        assert it.core.get("a").quotas[GPU].limit == 3
        await until(lambda: it.condition("a", "Accepted", KAI_QUEUES)["status"] == "True")
        it.doors[KAI_QUEUES].drop("a", None)
        assert it.core.get("a") is None


async def test_an_invalid_object_of_ours_takes_no_name_from_a_valid_one():
    async with queues() as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.put_other(KAI_QUEUES, "a", resources=gpus(limit=1))
        it.put("a", priority="high")
        assert it.core.get("a").quotas[GPU].limit == 1
        await until(lambda: it.written)
        assert it.condition("a", "Active")["reason"] == "NotAccepted"
        assert "allocated" not in it.written["a"][-1]
        kai_pod(it, "p", "a")
        assert bound(it, "p") == ""
        it.doors[KAI_QUEUES].drop("a", None)
        assert bound(it, "p").startswith("queue a is invalid: SchedulingQueue a: spec.priority: ")
        it.put_other(KAI_QUEUES, "a", resources={"gpu": {"limit": "many"}})
        it.doors[SCHEDULING_QUEUES].drop("a", None)
        assert bound(it, "p").startswith("queue a is invalid: Queue a: spec.resources.gpu.limit: ")
        it.put_other(KAI_QUEUES, "a", resources=gpus(limit=1))
        assert it.core.get("a").quotas[GPU].limit == 1


async def test_an_invalid_queue_of_kai_stays_as_it_was_and_says_why():
    async with queues() as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.put_other(KAI_QUEUES, "a", resources=gpus(limit=4))
        it.put_other(KAI_QUEUES, "a", resources={"gpu": {"limit": "four"}})
        assert it.core.get("a").quotas[GPU].limit == 4
        await until(lambda: latest(it, KAI_QUEUES, "a"))
        accepted = it.condition("a", "Accepted", KAI_QUEUES)
        assert (accepted["status"], accepted["reason"]) == ("False", "Invalid")
        assert accepted["message"].startswith("Queue a: spec.resources.gpu.limit: ")


async def test_a_queue_of_kai_without_its_parent_is_an_orphan():
    async with queues() as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.put_other(KAI_QUEUES, "a", parentQueue="nowhere", resources=gpus(quota=4))
        await until(lambda: latest(it, KAI_QUEUES, "a"))
        orphan = it.condition("a", "Orphan", KAI_QUEUES)
        message = "Queue a: spec.parentQueue: queue 'nowhere' does not exist"
        assert (orphan["status"], orphan["message"]) == ("True", message)
        kai_pod(it, "p", "a")
        assert bound(it, "p") == f"queue a is invalid: {message}"
        it.put_other(KAI_QUEUES, "nowhere", resources=[])
        await until(lambda: it.condition("a", "Orphan", KAI_QUEUES)["status"] == "False")
        assert "'nowhere' is not valid" in it.condition("a", "Accepted", KAI_QUEUES)["message"]
        it.put_other(KAI_QUEUES, "nowhere", resources=gpus(quota=1))
        await until(lambda: it.condition("a", "Accepted", KAI_QUEUES)["status"] == "True")
        await until(lambda: latest(it, KAI_QUEUES, "nowhere"))
        accepted = it.condition("nowhere", "Accepted", KAI_QUEUES)
        assert accepted["status"] == "True", "KAI lets the children of a queue have larger quotas"


async def test_a_status_of_which_the_api_server_drops_a_part_is_not_written_again():
    kept = {"conditions": []}
    async with queues(says(200, {"status": kept})) as it:
        it.serve("kai-scheduler")
        it.begin(KAI_QUEUES)
        it.put_other(KAI_QUEUES, "root", resources=gpus(limit=4))
        await until(lambda: latest(it, KAI_QUEUES, "root"))
        it.put_other(KAI_QUEUES, "root", status=kept, resources=gpus(limit=4))
        await asyncio.sleep(0.1)
        assert len(it.written_to(KAI_QUEUES)["root"]) == 1


async def test_queues_of_volcano_are_below_a_root_and_have_its_status():
    async with queues() as it:
        it.serve("volcano")
        it.begin(VOLCANO_QUEUES)
        assert it.core.names() == []
        it.rig.node("n", allocatable={"cpu": "8", "memory": "8Gi"})
        it.put_other(VOLCANO_QUEUES, "team", capability={"cpu": 2})
        assert it.core.path("team") == ["team", "root"]
        it.rig.confirm(volcano_pod(it, "a", "team"), "n")
        volcano_pod(it, "b", "team", "2")
        assert bound(it, "b") == "team holds 1 of 2 cpu, and the pod requests 2"
        await until(lambda: latest(it, VOLCANO_QUEUES, "team").get("allocated", {}).get("cpu") == "1")
        assert latest(it, VOLCANO_QUEUES, "team") == {"state": "Open", "allocated": {"cpu": "1", "memory": "0"}}
        it.put_other(VOLCANO_QUEUES, "root", capability={"cpu": 1})
        assert it.core.get("root").quotas["cpu"].limit == 1000
        it.doors[VOLCANO_QUEUES].drop("root", None)
        assert it.core.get("root").quotas == {}
        it.end(VOLCANO_QUEUES)
        assert (it.core.active, bound(it, "b")) == (False, "")


async def test_a_queue_of_volcano_that_is_closing_is_closed_when_its_pods_are_gone():
    async with queues() as it:
        it.serve("volcano")
        it.begin(VOLCANO_QUEUES)
        it.rig.node("n", allocatable={"cpu": "8"})
        it.put_other(VOLCANO_QUEUES, "team", {"state": "Closing", "reservation": {}})
        running = volcano_pod(it, "a", "team")
        it.rig.confirm(running, "n")
        volcano_pod(it, "b", "team")
        assert bound(it, "b") == "queue team is in state Hold"
        await until(lambda: latest(it, VOLCANO_QUEUES, "team"))
        before = latest(it, VOLCANO_QUEUES, "team")
        assert (before["state"], before["allocated"]["cpu"], before["reservation"]) == ("Closing", "1", {})
        it.rig.engine.assigned.drop("default/a", None)
        it.rig.engine.pending.drop("default/b", None)
        await until(lambda: latest(it, VOLCANO_QUEUES, "team")["state"] == "Closed")


async def test_a_queue_of_volcano_that_is_invalid_says_so_in_an_event():
    async with queues() as it:
        it.serve("volcano")
        it.begin(VOLCANO_QUEUES)
        it.put_other(VOLCANO_QUEUES, "team", capability={"cpu": "much"})
        await until(lambda: it.rig.recorder.events)
        [(about, reason, note)] = it.rig.recorder.events
        assert (about, reason) == ("team", "QueueNotAccepted")
        assert note.startswith("Queue team: spec.capability.cpu: ")
        await until(lambda: latest(it, VOLCANO_QUEUES, "team"))
        assert latest(it, VOLCANO_QUEUES, "team") == {"state": "Open"}
