"""The checks: what is decided, held and written about each Workload, on an engine's cache and a scripted API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import orjson
import pytest
from aiohttp import web

from podwright.core.state.deadline import TookLongError
from podwright.kube.options.options import Options
from podwright.kueue import checks, options
from podwright.kueue.checks import Checks
from podwright.kueue.options import CheckOptions
from podwright.kueue.places import HeldPlaces
from support.engine.kit import Rig, values
from support.http.kit import api
from support.kueue.stand_in import CHECK, condition, pod_set
from support.kueue.workloads import workload
from support.waiting import until

OURS = {"metadata": {"name": CHECK, "generation": 1}, "spec": {"controllerName": "podwright.dev/fits-now"}}
PENDING = {"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(checks, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(checks, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(checks, "AUDIT_SECONDS", 0.002)


class World:
    """An API server with one Workload, and the checks in front of it."""

    def __init__(self):
        self.rig = Rig()
        self.raw = {}
        self.gone = False
        """True if the API server has no Workload any more."""
        self.refusals = 0
        """How many Reservations are still refused."""
        self.written = []
        self.held = {}
        self.checks_there = [OURS]

    def put(self, *pod_sets, conditions=("QuotaReserved",), retries=0, **options):
        made = workload(*pod_sets, checks=[{**PENDING, "retryCount": retries}], **options).raw
        status = {**made["status"], "conditions": [condition(each, True) for each in conditions]}
        self.raw = {**made, "status": status}
        self.report()

    def report(self, kind=None):
        self.checks.take_workload({"type": kind, "object": self.raw})

    def change(self):
        """Another writer changes the Workload."""
        metadata = self.raw["metadata"]
        version = str(int(metadata["resourceVersion"]) + 1)
        self.raw = {**self.raw, "metadata": {**metadata, "resourceVersion": version}}

    async def answer(self, request):
        path, text = request.path, await request.read()
        body = orjson.loads(text) if text else None
        name = path.rpartition("/")[2]
        if name == "slow":
            await asyncio.sleep(0.05)
            return web.json_response({"spec": {}})
        if request.method == "GET":
            listed = {"admissionchecks": self.checks_there, "reservations": [*self.held.values()]}
            if name not in listed and self.gone:
                return web.json_response({"reason": "NotFound"}, status=404)
            return web.json_response({"items": listed[name]} if name in listed else self.raw)
        if "/reservations/" in path:
            if self.refusals and request.method == "PATCH":
                self.refusals -= 1
                return web.json_response({"reason": "InternalError"}, status=500)
            self.held.pop(name, None) if request.method == "DELETE" else self.held.update({name: body})
        elif "/workloads/" in path:
            if body["metadata"]["resourceVersion"] != self.raw["metadata"]["resourceVersion"]:
                return web.json_response({"reason": "Conflict"}, status=409)
            self.written.append(body["status"]["admissionChecks"])
            self.raw = {**self.raw, "status": {**self.raw["status"], **body["status"]}}
            self.change()
            self.report("MODIFIED")
        return web.json_response({})

    @property
    def nodes(self):
        return [slot["node"] for raw in self.held.values() for slot in raw["spec"]["slots"]]


@asynccontextmanager
async def world():
    made = World()
    async with api(default=made.answer) as (http, script):
        made.script = script
        chosen = CheckOptions(
            common=Options(), hold=60.0, first_retry=5.0, longest_retry=60.0, reject_what_never_fits=False
        )
        places = HeldPlaces(http, made.rig.engine, seconds=60, now=lambda: made.rig.now)
        made.checks = Checks(
            http,
            made.rig.engine,
            places,
            recorder=made.rig.recorder,
            metrics=made.rig.ports.metrics,
            options=chosen,
            now=lambda: made.rig.now,
        )
        running = asyncio.create_task(made.checks.run())
        yield made
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_workload_is_read_again_all_the_time_and_that_disturbs_no_decision():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.put(pod_set(), assignments={"main": {"flavors": {"cpu": "slow"}}})
        await until(lambda: it.written)
        assert [each[0]["state"] for each in it.written] == ["Ready"]
        assert len([each for each in it.script.requests if each.method == "GET"]) > 10
        assert len([each for each in it.script.asked if each.startswith("PATCH") and "reservations" in each]) == 1
        await until(lambda: it.rig.recorder.events)
        assert it.rig.recorder.events[-1][1] == "FitsNow"


async def test_a_place_that_other_pods_take_meanwhile_is_left_for_another():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "1", "pods": "9"})
        it.put(pod_set())
        await until(lambda: it.nodes)
        it.rig.node("n1", allocatable={"cpu": "1", "pods": "9"})
        it.rig.confirm(it.rig.pod("fast", requests={"cpu": "1"}), "n0")
        await until(lambda: it.written)
        assert it.written[0][0]["state"] == "Ready"
        assert it.nodes == ["n1"]


async def test_a_place_that_other_pods_take_without_another_is_given_back():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "1", "pods": "9"})
        it.put(pod_set())
        await until(lambda: it.nodes)
        it.rig.confirm(it.rig.pod("fast", requests={"cpu": "1"}), "n0")
        await until(lambda: it.written)
        assert (it.written[0][0]["state"], it.written[0][0]["requeueAfterSeconds"]) == ("Retry", 5)
        assert (it.held, len(it.rig.engine.cache.reservations)) == ({}, 0)


async def test_nothing_is_written_onto_another_version_than_was_decided_about():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.put(pod_set())
        await until(lambda: it.nodes)
        it.change()
        await until(lambda: it.written)
        assert [each[0]["state"] for each in it.written] == ["Ready"]


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param((), id="no quota"),
        pytest.param(("QuotaReserved", "Evicted"), id="evicted, with quota until its job has stopped"),
        pytest.param(("QuotaReserved", "Finished"), id="finished"),
    ],
)
async def test_a_workload_that_may_not_start_is_not_answered(conditions):
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.put(pod_set(), conditions=conditions)
        await asyncio.sleep(0.1)
        assert (it.written, it.held) == ([], {})


async def test_an_inactive_workload_is_not_answered():
    async with world() as it:
        it.put(pod_set(), active=False)
        await asyncio.sleep(0.1)
        assert it.written == []


async def test_a_reservation_that_is_refused_is_written_again_before_anything_is_promised():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.refusals = 2
        it.put(pod_set())
        await until(lambda: it.written)
        assert it.written[0][0]["state"] == "Ready"
        assert it.nodes == ["n0"]


async def test_two_workloads_never_get_the_same_place():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "1", "pods": "9"})
        it.put(pod_set())
        second = {**it.raw, "metadata": {**it.raw["metadata"], "uid": "v", "name": "other"}}
        it.checks.take_workload({"type": "ADDED", "object": second})
        await until(lambda: it.written)
        promised = [each[0]["state"] for each in it.written]
        assert promised.count("Ready") <= 1
        assert it.nodes == ["n0"]


async def test_workloads_that_take_long_hold_no_other_up(monkeypatch):
    """More of them than there are workers: the first one is decided about, and the others wait for it."""
    monkeypatch.setattr(checks, "AUDIT_SECONDS", 60.0)
    asked, answer = [], asyncio.Event()

    async def compute(work):
        asked.append(work.args[2].uid)
        await answer.wait()
        return work()

    def here(work):
        if work.args[2].uid != "u":
            raise TookLongError
        return work()

    async with world() as it:
        monkeypatch.setattr(it.rig.engine.elsewhere, "compute", compute)
        monkeypatch.setattr(it.rig.engine.elsewhere, "here", here)
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        made = workload(pod_set(), checks=[PENDING]).raw
        status = {**made["status"], "conditions": [condition("QuotaReserved", True)]}
        for number in range(checks.WORKERS + 9):
            metadata = {**made["metadata"], "uid": f"slow-{number}", "name": f"slow-{number}"}
            it.checks.take_workload({"type": "ADDED", "object": {**made, "metadata": metadata, "status": status}})
        await until(lambda: asked)
        it.put(pod_set())
        await until(lambda: it.written)
        assert it.written[0][0]["state"] == "Ready"
        assert len(asked) == 1
        answer.set()
        await until(lambda: len(set(asked)) > 1)


async def test_a_check_without_a_spec_is_not_ours():
    """The API server takes one."""
    without = {"metadata": {"name": "other", "generation": 1}}
    async with world() as it:
        it.checks_there = [without, OURS]
        it.checks.take_check({"type": "ADDED", "object": without})
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.put(pod_set())
        await until(lambda: it.written)
        assert it.written[0][0]["state"] == "Ready"


async def test_a_deleted_workload_is_forgotten_with_its_place():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.put(pod_set())
        await until(lambda: it.written)
        it.gone = True
        it.report("DELETED")
        await until(lambda: not it.held)
        assert len(it.rig.engine.cache.reservations) == 0


async def test_a_workload_that_is_deleted_before_the_answer_gets_none_and_keeps_no_place():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.put(pod_set())
        await until(lambda: it.nodes)
        it.gone = True
        it.report("DELETED")
        await until(lambda: not it.held)
        assert (it.written, len(it.rig.engine.cache.reservations)) == ([], 0)


async def test_a_deletion_that_the_watch_has_missed_is_found():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.put(pod_set())
        await until(lambda: it.written)
        it.gone = True
        await until(lambda: not it.held)
        assert len(it.rig.engine.cache.reservations) == 0


async def test_places_of_workloads_that_went_while_nobody_looked_are_given_back_at_the_start():
    labels = {"app.kubernetes.io/managed-by": "podwright-admission-check", "podwright.dev/workload-uid": "gone"}
    metadata = {"name": "kueue-gone-0-0", "labels": labels, "annotations": {"podwright.dev/workload": "team/train"}}
    async with world() as it:
        it.held = {"kueue-gone-0-0": {"metadata": metadata, "spec": {}}}
        it.held["not-ours"] = {"metadata": {"name": "not-ours", "labels": labels}, "spec": {}}
        it.put(pod_set(), conditions=())  # of the same name, with another uid
        await until(lambda: [*it.held] == ["not-ours"])


async def test_thousands_that_do_not_fit_come_back_no_faster_than_a_few_a_second(monkeypatch):
    monkeypatch.setattr(options, "MOST_RETRIES", 0.01)
    async with world() as it:
        for count in (1, 2, 3):
            it.put(pod_set(cpu="9"), retries=10)
            await until(lambda count=count: len(it.written) == count)
        pauses = [each[0]["requeueAfterSeconds"] for each in it.written]
        assert pauses == [60, 100, 200]


async def test_an_answer_that_could_not_be_written_delays_nobody(monkeypatch):
    monkeypatch.setattr(options, "MOST_RETRIES", 0.01)
    async with world() as it:
        it.put(pod_set(cpu="9"), retries=10)
        it.change()  # the first answer is to an old version
        await until(lambda: it.written)
        assert it.written[0][0]["requeueAfterSeconds"] == 60


async def test_answers_places_and_what_waits_are_counted():
    async with world() as it:
        metrics = partial(values, it.rig)
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.refusals = 10**6
        it.put(pod_set())
        await until(lambda: it.refusals < 10**6)
        assert metrics("podwright_admission_check_waiting_workloads") == {(): 1}
        it.refusals = 0
        await until(lambda: metrics("podwright_admission_check_answers_total"))
        assert metrics("podwright_admission_check_answers_total") == {("Ready",): 1}
        assert metrics("podwright_admission_check_duration_seconds_count") == {("Ready",): 1}
        await until(lambda: metrics("podwright_admission_check_waiting_workloads") == {(): 0})  # once the watch says so
        assert metrics("podwright_admission_check_places") == {(): 1}


async def test_an_answer_that_stays_the_same_keeps_its_time_of_transition():
    async with world() as it:
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9"})
        it.put(pod_set())
        await until(lambda: it.written)
        first = it.written[0][0]["lastTransitionTime"]
        assert first != PENDING["lastTransitionTime"]
        it.rig.now += 61  # its time is over
        it.rig.engine.reservations.expire()
        await until(lambda: len(it.written) == 2)
        assert (it.written[1][0]["state"], it.written[1][0]["lastTransitionTime"]) == ("Ready", first)


async def test_a_place_that_no_reservation_can_describe_is_said():
    async with world() as it:
        names = [f"example.com/r{number}" for number in range(33)]
        it.rig.node("n0", allocatable={"cpu": "4", "pods": "9", **dict.fromkeys(names, "9")})
        made = pod_set()
        made["template"]["spec"]["containers"][0]["resources"]["requests"] |= dict.fromkeys(names, "1")
        it.put(made)
        await until(lambda: it.written)
        assert it.written[0][0]["state"] == "Retry"
        assert "spec.slots[0].requests" in it.written[0][0]["message"]
