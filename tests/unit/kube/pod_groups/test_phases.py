"""The phase and the counts of a custom PodGroup, from the pods that come in."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from podwright.core.objects.pod_group import (
    GROUP_LABEL,
    GROVE_API,
    PLUGINS_API,
    PLUGINS_KIND,
    VOLCANO_API,
    VOLCANO_KIND,
)
from podwright.kube.pod_groups import phases as module
from podwright.kube.pod_groups.phases import MemberCounts, PodGroupPhases, phase, volcano_phase
from support.engine.kit import OURS, Rig
from support.groupings.workloads import reference
from support.objects.builders import make_pod

KEY = f"{PLUGINS_API}:ml/train"
NOW = "2023-11-14T22:13:20Z"


@pytest.mark.parametrize(
    ("before", "counts", "wanted"),
    [
        pytest.param("", (0, 0, 0, 0, 0), "Pending", id="no pods"),
        pytest.param("", (2, 0, 0, 0, 0), "Pending", id="too few pods"),
        pytest.param("Pending", (3, 0, 0, 0, 0), "Scheduling", id="enough pods, no nodes"),
        pytest.param("Scheduling", (3, 2, 0, 0, 0), "Scheduling", id="some have nodes"),
        pytest.param("Scheduling", (4, 3, 1, 0, 0), "Scheduled", id="enough have nodes"),
        pytest.param("Scheduled", (3, 3, 2, 1, 0), "Running", id="enough run or have succeeded"),
        pytest.param("Running", (4, 2, 2, 0, 0), "Unknown", id="some were replaced by pending pods"),
        pytest.param("Unknown", (4, 4, 4, 0, 0), "Running", id="all run again"),
        pytest.param("Running", (2, 2, 2, 0, 0), "Pending", id="some were deleted"),
        pytest.param("Running", (3, 3, 0, 3, 0), "Finished", id="all succeeded"),
        pytest.param("Running", (3, 3, 2, 0, 1), "Failed", id="one failed"),
        pytest.param("Running", (4, 4, 0, 3, 1), "Finished", id="enough succeeded and one failed"),
        pytest.param("Scheduling", (3, 1, 0, 0, 1), "Scheduling", id="one failed before enough were placed"),
        pytest.param("Finished", (0, 0, 0, 0, 0), "Finished", id="finished is final"),
        pytest.param("Failed", (3, 3, 3, 0, 0), "Failed", id="failed is final"),
    ],
)
def test_the_phase_follows_from_the_counts(before, counts, wanted):
    assert phase(before, 3, MemberCounts(*counts)) == wanted


@pytest.mark.parametrize(
    ("before", "counts", "wanted"),
    [
        pytest.param("", (0, 0, 0, 0, 0), "Inqueue", id="no pods: operators may create them"),
        pytest.param("Pending", (3, 2, 0, 0, 0), "Inqueue", id="too few have nodes"),
        pytest.param("Inqueue", (3, 3, 0, 0, 0), "Running", id="enough have nodes"),
        pytest.param("Inqueue", (3, 3, 2, 1, 0), "Running", id="enough run or have succeeded"),
        pytest.param("Running", (3, 2, 2, 0, 0), "Unknown", id="one waits again"),
        pytest.param("Running", (3, 3, 2, 0, 1), "Unknown", id="one failed, and the others run"),
        pytest.param("Running", (4, 4, 3, 0, 1), "Running", id="one failed that is not needed"),
        pytest.param("Unknown", (3, 0, 0, 0, 0), "Inqueue", id="all wait again"),
        pytest.param("Running", (4, 4, 1, 3, 0), "Running", id="not all have succeeded"),
        pytest.param("Running", (3, 3, 0, 3, 0), "Completed", id="all have succeeded"),
        pytest.param("Unknown", (3, 3, 0, 2, 1), "Completed", id="all have succeeded but one, which failed"),
        pytest.param("Unknown", (3, 3, 0, 0, 3), "Completed", id="all have failed"),
        pytest.param("Running", (3, 2, 0, 2, 0), "Inqueue", id="two have succeeded, and one waits"),
        pytest.param("Completed", (0, 0, 0, 0, 0), "Completed", id="the pods of a completed group are deleted"),
        pytest.param("Completed", (6, 6, 3, 0, 3), "Running", id="all had failed and were replaced"),
    ],
)
def test_the_phase_of_a_group_of_volcano(before, counts, wanted):
    assert volcano_phase(before, 3, MemberCounts(*counts)) == wanted


class Setting:
    """A rig with the group `ml/train` of three, and a status writer that records."""

    def __init__(self):
        self.rig = Rig()
        self.written: list[dict] = []
        self.status: dict = {}
        self.phases = PodGroupPhases(self.rig.engine, self, lambda: 1_700_000_000.0)
        self.assigned = self.phases.counting(self.rig.engine.assigned)
        self.rig.engine.cache.groups.serve(PLUGINS_API)
        self.group("g1")

    def group(self, uid):
        raw = {"metadata": {"name": "train", "namespace": "ml", "uid": uid}, "spec": {"minMember": 3}}
        self.rig.engine.cache.set_object(PLUGINS_KIND, raw)

    def fields_of(self, key):
        assert key == KEY
        return self.status

    def set_fields(self, key, fields):
        assert key == KEY
        self.written.append(dict(fields))

    def pod(self, name, node="", phase="Pending", scheduler=OURS, labels=None, owner=None):
        labels = {GROUP_LABEL: "train"} if labels is None else labels
        metadata = {"ownerReferences": [owner]} if owner else {}
        raw = make_pod(name, namespace="ml", labels=labels, uid=name, metadata=metadata, node=node)
        raw["spec"]["schedulerName"], raw["status"]["phase"] = scheduler, phase
        return raw

    def waiting(self, name, **options):
        self.rig.engine.pending.put(self.pod(name, **options))

    def bound(self, name, phase="Pending", **options):
        self.assigned.put(self.pod(name, "n1", phase, **options))

    def new_fields(self):
        """The fields that are written now; None if none are."""
        count = len(self.written)
        self.phases.write_changes()
        return self.written[-1] if len(self.written) > count else None


def fields(phase, scheduled=0, running=0, succeeded=0, failed=0, **more):
    counts = {"scheduled": scheduled, "running": running, "succeeded": succeeded, "failed": failed}
    started = {} if phase == "Pending" else {"scheduleStartTime": NOW}
    return {"phase": phase, **counts, **started, **more}


def test_a_group_from_its_first_pod_to_its_end():
    setting = Setting()
    assert setting.new_fields() == fields("Pending")
    setting.waiting("a")
    assert setting.new_fields() == fields("Pending")
    for name in "bc":
        setting.waiting(name)
    assert setting.new_fields() == fields("Scheduling")
    for name in "abc":
        setting.bound(name)
    assert setting.new_fields() == fields("Scheduled", 3)
    for name in "abc":
        setting.bound(name, "Running")
    assert setting.new_fields() == fields("Running", 3, 3)
    for name in "abc":
        setting.bound(name, "Succeeded")
    assert setting.new_fields() == fields("Finished", 3, 0, 3)
    setting.assigned.drop("a", None)
    assert setting.new_fields() is None


def test_members_that_finish_count_and_deleted_ones_do_not():
    setting = Setting()
    for name in "abcd":
        setting.bound(name, "Running")
    setting.bound("d", "Failed", labels={GROUP_LABEL: "another"})
    setting.assigned.drop("c", None)
    assert setting.new_fields() == fields("Pending", 2, 2)
    setting.waiting("e")
    said = setting.new_fields()
    assert (said["phase"], said["scheduled"], said["running"]) == ("Scheduling", 2, 2)


def test_a_pod_that_leaves_the_group_no_longer_counts():
    setting = Setting()
    for name in "abc":
        setting.bound(name, "Running")
    assert setting.new_fields() == fields("Running", 3, 3)
    setting.bound("c", "Running", labels={"app": "web"})
    assert setting.new_fields() == fields("Pending", 2, 2, scheduleStartTime=NOW)


def test_nothing_is_written_while_nothing_changes():
    setting = Setting()
    setting.bound("a", "Running")
    setting.new_fields()
    setting.bound("a", "Running")
    setting.bound("plain", "Running", labels={})
    setting.assigned.drop("plain", None)
    assert setting.new_fields() is None


def test_the_first_owners_stay():
    setting = Setting()
    setting.waiting("a", owner={"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "j"})
    assert setting.new_fields()["occupiedBy"] == "ml/job"
    setting.rig.engine.pending.drop("a", None)
    setting.bound("b", owner={"apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "o"})
    assert setting.new_fields()["occupiedBy"] == "ml/job"


def test_a_status_from_before_the_start_is_continued():
    setting = Setting()
    setting.status = {"phase": "Running", "scheduleStartTime": "2020-01-01T00:00:00Z", "occupiedBy": "ml/job"}
    for name in "abc":
        setting.bound(name)
    setting.assigned.drop("c", None)
    setting.waiting("d")
    said = setting.new_fields()
    assert (said["phase"], said["scheduleStartTime"]) == ("Unknown", "2020-01-01T00:00:00Z")
    assert said["occupiedBy"] == "ml/job"


def test_a_new_group_of_the_same_name_is_not_finished():
    setting = Setting()
    for name in "abc":
        setting.bound(name, "Succeeded")
    assert setting.new_fields()["phase"] == "Finished"
    for name in "abc":
        setting.assigned.drop(name, None)
    setting.group("g2")
    assert setting.new_fields() == fields("Pending")


def test_a_group_of_another_scheduler_is_not_written():
    setting = Setting()
    for name in "abc":
        setting.bound(name, "Running", scheduler="another-scheduler")
    assert setting.new_fields() is None
    setting.bound("d", "Running")
    assert setting.new_fields() == fields("Running", 4, 4)


async def test_nothing_is_written_before_the_caches_are_complete(monkeypatch):
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    setting = Setting()
    setting.bound("a")
    setting.phases.finish()
    complete = asyncio.Event()
    running = asyncio.create_task(setting.phases.run(complete))
    await asyncio.sleep(0.01)
    setting.phases.finish()
    assert setting.written == []
    complete.set()
    await asyncio.sleep(0.01)
    setting.phases.finish()
    assert [said["scheduled"] for said in setting.written] == [1]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_an_invalid_pod_is_ignored():
    setting = Setting()
    setting.new_fields()
    for wrong in ({"labels": [GROUP_LABEL]}, {"labels": {GROUP_LABEL: "train"}, "ownerReferences": [{}]}):
        raw = setting.pod("odd", "n1")
        raw["metadata"] |= wrong
        setting.assigned.put(raw)
    assert setting.new_fields() is None


@pytest.mark.parametrize("wrong", [{"labels": 5}, {"annotations": 5}, {"labels": [[]]}])
def test_an_invalid_pod_does_not_keep_those_that_come_with_it_from_counting(wrong):
    setting = Setting()
    raw = setting.pod("odd", "n1")
    raw["metadata"] |= {"labels": {}, **wrong}
    setting.assigned.put_all([setting.pod("a", "n1"), raw, setting.pod("b", "n1")])
    assert setting.new_fields()["scheduled"] == 2


async def test_groups_of_volcano_are_left_to_it_unless_its_scheduler_name_is_served():
    rig, written = Rig(), []
    writer = SimpleNamespace(fields_of=lambda _key: {}, set_fields=lambda _key, fields: written.append(fields["phase"]))
    phases = PodGroupPhases(rig.engine, writer, lambda: 1_700_000_000.0)
    rig.engine.cache.groups.serve(VOLCANO_API)

    def put(count):
        metadata = {"name": "job", "namespace": "ml", "uid": "job"}
        rig.engine.cache.set_object(VOLCANO_KIND, {"metadata": metadata, "spec": {"minMember": count}})
        phases.write_changes()

    put(2)
    assert written == []
    policy = {"metadata": {"name": "v", "uid": "v", "generation": 1}, "spec": {"schedulerName": "volcano"}}
    assert rig.engine.policies.apply(policy).accepted
    put(3)
    assert written == ["Inqueue"]


def test_a_group_of_volcano_beside_a_pod_gang_is_left_alone_since_its_pods_count_for_the_gang():
    rig, written = Rig(), []
    writer = SimpleNamespace(fields_of=lambda _key: {}, set_fields=lambda key, _fields: written.append(key))
    phases = PodGroupPhases(rig.engine, writer, lambda: 1_700_000_000.0)
    policy = {"metadata": {"name": "v", "uid": "v", "generation": 1}, "spec": {"schedulerName": "volcano"}}
    assert rig.engine.policies.apply(policy).accepted

    def put():
        metadata = {"name": "llm", "namespace": "ml", "uid": "g", "ownerReferences": [reference(gang)]}
        rig.engine.cache.set_object(VOLCANO_KIND, {"metadata": metadata, "spec": {"minMember": 2}})
        phases.write_changes()

    gang = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": {"name": "llm", "uid": "p"}}
    rig.engine.cache.groups.serve(GROVE_API)
    put()
    assert written == []
    rig.engine.cache.groups.withdraw(GROVE_API)
    put()
    assert written == [f"{VOLCANO_API}:ml/llm"]


def test_members_that_name_several_groups_count_for_the_one_that_counts():
    rig, written = Rig(), {}
    writer = SimpleNamespace(fields_of=lambda _key: {}, set_fields=written.__setitem__)
    phases = PodGroupPhases(rig.engine, writer, lambda: 1_700_000_000.0)
    keys = {VOLCANO_KIND: f"{VOLCANO_API}:ml/job", PLUGINS_KIND: f"{PLUGINS_API}:ml/train"}
    for kind, key in keys.items():
        metadata = {"name": key.rpartition("/")[2], "namespace": "ml", "uid": key}
        rig.engine.cache.set_object(kind, {"metadata": metadata, "spec": {"minMember": 2}})
    metadata = {"annotations": {"scheduling.k8s.io/group-name": "job"}}
    raw = make_pod("p", namespace="ml", labels={GROUP_LABEL: "train"}, metadata=metadata, node="n")
    raw["spec"]["schedulerName"], raw["status"]["phase"] = OURS, "Running"

    def running(kind):
        written.clear()
        phases.write_changes()
        return written[keys[kind]]["running"]

    phases.counting(rig.engine.assigned).put(raw)
    assert running(PLUGINS_KIND) == 1
    rig.engine.cache.groups.withdraw(PLUGINS_API)
    assert running(VOLCANO_KIND) == 1
    rig.engine.cache.groups.serve(PLUGINS_API)
    assert running(PLUGINS_KIND) == 1
