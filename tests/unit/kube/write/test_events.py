"""Events: their form, series of repeated events, a bounded queue, and retries."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.engine.outcomes.binding.concurrency import FEW
from podwright.engine.ports import Regarding
from podwright.kube.write import events
from podwright.kube.write.events import MOST_WORKERS, TIMES_ALONE, WORKERS, EventRecorder
from support.http.kit import api, says
from support.objects.builders import make_pod
from support.waiting import patience, until

POD = parse_pod(make_pod("web", uid="u1", metadata={"resourceVersion": "5"}, spec={"schedulerName": "podwright"}))
OTHER = parse_pod(make_pod("other", uid="u2", spec={"schedulerName": "podwright"}))


@asynccontextmanager
async def recording(*answers, default=None, **options):
    """A running recorder, the server's script, and the wall clock's time in a list of one."""
    time = [1_700_000_000.25]
    async with api(*answers, default=default or says(201, {})) as (http, script):
        options = {"clock": lambda: time[0], "dropped": lambda: None} | options
        recorder = EventRecorder(http, **options)
        task = asyncio.create_task(recorder.run())
        try:
            yield recorder, script, time
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_an_event_has_kube_schedulers_form():
    async with recording() as (recorder, script, _):
        recorder.record(POD, "Normal", "Scheduled", "Binding", "Successfully assigned default/web to a")
        await recorder.flush(5)
        (request,) = script.requests
        assert request.path == "/apis/events.k8s.io/v1/namespaces/default/events"
        body = request.body
        assert re.fullmatch(r"web\.[0-9a-f]{16}", body["metadata"].pop("name"))
        assert re.fullmatch(r"podwright-\S+", body.pop("reportingInstance"))
        assert body == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": "default"},
            "eventTime": "2023-11-14T22:13:20.250000Z",
            "reportingController": "podwright",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "default",
                "name": "web",
                "uid": "u1",
                "resourceVersion": "5",
            },
            "note": "Successfully assigned default/web to a",
            "type": "Normal",
        }


async def test_an_event_has_the_policy_that_decided_as_an_annotation():
    async with recording() as (recorder, script, _):
        for generation in (3, 3, 4):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room", policy=f"strict@{generation}")
            await recorder.flush(5)
        recorder.forget("u1")
        await recorder.flush(5)
        created, _, counted = script.requests
        assert created.body["metadata"]["annotations"] == {"podwright.dev/policy": "strict@3"}
        assert counted.body["series"]["count"] == 3
        assert counted.body["metadata"] == {"annotations": {"podwright.dev/policy": "strict@4"}}


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        pytest.param("short", "short", id="short enough"),
        pytest.param("x" * 1024, "x" * 1024, id="exactly the limit"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="too long"),
        pytest.param("é" * 600, "é" * 510 + " ...", id="characters of several bytes are kept whole"),
    ],
)
@pytest.mark.parametrize("kind", ["Normal", "Warning"])
async def test_a_note_is_cut_at_1024_bytes(kind, note, expected):
    async with recording() as (recorder, script, _):
        recorder.record(POD, kind, "FailedScheduling", "Scheduling", note)
        await recorder.flush(5)
        (request,) = script.requests
        assert request.body["note"] == expected
        assert len(expected.encode()) <= 1024


async def test_repetitions_of_a_cut_note_are_one_series():
    async with recording() as (recorder, script, _):
        for _ in range(3):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "x" * 2000)
        await recorder.flush(5)
        # Two workers may send them in either order: a PATCH that finds no event creates it.
        assert sorted(request.method for request in script.requests) == ["PATCH", "POST"]


async def test_an_event_can_regard_an_invalid_pod():
    async with recording() as (recorder, script, _):
        bad = Regarding("default", "bad", "u9", "3", "podwright")
        recorder.record(bad, "Warning", "FailedScheduling", "Scheduling", "no quantity")
        await recorder.flush(5)
        assert script.requests[0].body["regarding"]["name"] == "bad"


async def test_an_event_names_the_scheduler_that_reports_it_and_no_object_of_another_namespace():
    async with recording() as (recorder, script, _):
        note = "Preempted by podgroup u9 on node cluster"
        recorder.record(POD, "Normal", "Preempted", "Preempting", note, reporter="other-scheduler")
        await recorder.flush(5)
        body = script.requests[0].body
        assert (body["reportingController"], "related" in body) == ("other-scheduler", False)


async def test_a_repeated_event_becomes_a_series_that_counts():
    async with recording() as (recorder, script, _):
        for _ in range(5):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
            await recorder.flush(5)
        assert [request.method for request in script.requests] == ["POST", "PATCH"]
        first, second = script.requests
        assert second.path.endswith(f"/events/{first.body['metadata']['name']}")
        assert second.body == {"series": {"count": 2, "lastObservedTime": "2023-11-14T22:13:20.250000Z"}}
        assert second.headers["Content-Type"] == "application/strategic-merge-patch+json"


async def test_a_new_text_is_a_new_event_and_ends_the_previous_series():
    async with recording() as (recorder, script, _):
        for note in ("no cpu", "no cpu", "no cpu", "no memory", "no memory"):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", note)
            await recorder.flush(5)
        written = [(r.method, r.body.get("note") or r.body["series"]["count"]) for r in script.requests]
        assert written == [("POST", "no cpu"), ("PATCH", 2), ("PATCH", 3), ("POST", "no memory"), ("PATCH", 2)]


async def test_a_count_that_did_not_fit_into_the_queue_is_written_later():
    async with recording(queue_limit=1) as (recorder, script, _):
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        await recorder.flush(5)
        recorder.record(OTHER, "Normal", "Scheduled", "Binding", "fine")
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        await recorder.flush(5)
        recorder.forget(POD.uid)
        await recorder.flush(5)
        assert script.requests[-1].body["series"]["count"] == 2


async def test_a_shortened_name_is_valid():
    long = Regarding("default", "a" * 229 + "-" + "b" * 20, "u9", "3", "podwright")
    async with recording() as (recorder, script, _):
        recorder.record(long, "Normal", "Scheduled", "Binding", "fine")
        await recorder.flush(5)
        assert re.fullmatch(r"a{229}\.[0-9a-f]{16}", script.requests[0].body["metadata"]["name"])


async def test_each_pod_and_reason_has_its_own_event():
    async with recording() as (recorder, script, _):
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        recorder.record(OTHER, "Warning", "FailedScheduling", "Scheduling", "no room")
        recorder.record(POD, "Warning", "FailedBinding", "Scheduling", "no room")
        await recorder.flush(5)
        assert [request.method for request in script.requests] == ["POST"] * 3


async def test_a_series_whose_event_has_expired_is_created_again():
    async with recording(says(201, {}), says(404)) as (recorder, script, _):
        for _ in range(2):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
            await recorder.flush(5)
        assert [request.method for request in script.requests] == ["POST", "PATCH", "POST"]
        assert script.requests[2].body["series"]["count"] == 2


async def test_the_end_of_a_series_writes_its_count(monkeypatch):
    monkeypatch.setattr(events, "SWEEP_SECONDS", 0.01)
    async with recording() as (recorder, script, time):
        for _ in range(2):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        await recorder.flush(5)
        for _ in range(3):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        time[0] += events.FINISH_SECONDS + 1
        async with patience():
            while len(script.requests) < 3:
                await asyncio.sleep(0.005)
        assert script.requests[-1].body["series"]["count"] == 5
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        await recorder.flush(5)
        assert script.requests[-1].method == "POST"


async def test_forgetting_a_pod_writes_the_counts_of_its_series():
    async with recording() as (recorder, script, _):
        for _ in range(4):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        recorder.record(OTHER, "Warning", "FailedScheduling", "Scheduling", "no room")
        await recorder.flush(5)
        for _ in range(3):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        recorder.forget(POD.uid)
        await recorder.flush(5)
        assert script.requests[-1].body["series"]["count"] == 7
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        recorder.record(OTHER, "Warning", "FailedScheduling", "Scheduling", "no room")
        await recorder.flush(5)
        assert sorted(request.method for request in script.requests[-2:]) == ["PATCH", "POST"]


@pytest.mark.parametrize("step", [-86_400, 86_400], ids=["a day back", "a day ahead"])
async def test_a_step_of_the_wall_clock_does_not_end_a_series(monkeypatch, step):
    monkeypatch.setattr(events, "SWEEP_SECONDS", 0.01)
    times = [0.0]
    async with recording(steady=lambda: times[0]) as (recorder, script, time):
        for _ in range(3):
            recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
            await recorder.flush(5)
        time[0] += step
        await asyncio.sleep(0.05)
        recorder.record(POD, "Warning", "FailedScheduling", "Scheduling", "no room")
        await recorder.flush(5)
        assert [request.method for request in script.requests] == ["POST", "PATCH"]
        times[0] += events.FINISH_SECONDS + 1
        await until(lambda: len(script.requests) == 3)
        assert script.requests[-1].body["series"]["count"] == 4


@pytest.mark.parametrize(("most", "first", "later"), [(None, 9, 9), (0, 0, 0), (3, 3, 2)])
async def test_scheduled_events_can_be_few_or_none_and_others_are_not(most, first, later):
    left_out = []
    async with recording(scheduled_per_second=most, left_out=lambda: left_out.append(1)) as (recorder, script, time):

        async def reasons_of_a_burst():
            script.requests.clear()
            for _ in range(9):
                recorder.record(POD, "Normal", "Scheduled", "Binding", "there")
                recorder.record(POD, "Normal", "Nominated", "Nominating", "there")
            await recorder.flush(5)
            return [request.body["reason"] for request in script.requests]

        found = await reasons_of_a_burst()
        assert (found.count("Scheduled"), found.count("Nominated")) == (first, 9)
        time[0] += 2 / 3
        assert (await reasons_of_a_burst()).count("Scheduled") == later
        time[0] += 60
        assert (await reasons_of_a_burst()).count("Scheduled") == first
        assert len(left_out) == 3 * 9 - first - later - first


async def test_events_beyond_the_queue_limit_are_dropped_and_counted():
    async with api(default=says(201, {})) as (http, _):
        dropped = []
        recorder = EventRecorder(http, clock=lambda: 0.0, dropped=lambda: dropped.append(1), queue_limit=3)
        for _ in range(5):
            recorder.record(POD, "Normal", "Scheduled", "Binding", "there")
        assert len(dropped) == 2


async def test_errors_that_may_pass_are_retried_a_few_times(monkeypatch):
    monkeypatch.setattr(events, "RETRY", replace(events.RETRY, attempts=2))
    dropped = []
    async with recording(says(500), says(201, {}), says(500), says(500), dropped=lambda: dropped.append(1)) as (
        recorder,
        script,
        _,
    ):
        recorder.record(POD, "Normal", "Scheduled", "Binding", "one")
        await recorder.flush(5)
        assert len(script.requests) == 2
        assert dropped == []
        recorder.record(POD, "Normal", "Scheduled", "Binding", "two")
        await recorder.flush(5)
        assert len(script.requests) == 4
        assert dropped == [1]


@pytest.mark.parametrize("status", [403, 404, 422])
async def test_a_refused_event_is_not_retried(status):
    async with recording(says(status)) as (recorder, script, _):
        recorder.record(POD, "Normal", "Scheduled", "Binding", "one")
        await recorder.flush(5)
        assert len(script.requests) == 1


async def test_posting_stays_below_its_rate():
    async with recording(per_second=50.0) as (recorder, script, _):
        started = asyncio.get_running_loop().time()
        for _ in range(15):
            recorder.record(POD, "Normal", "Scheduled", "Binding", "there")
        await recorder.flush(5)
        assert len(script.requests) == 15
        assert asyncio.get_running_loop().time() - started >= 14 / 50 - 0.05


@pytest.mark.parametrize(
    ("network_seconds", "others", "least", "greatest"),
    [
        pytest.param(0.0, FEW + 1, 1, 2 * WORKERS, id="quick, beside Bindings"),
        pytest.param(0.0, FEW, 2 * WORKERS, 2 * TIMES_ALONE * WORKERS, id="quick, alone"),
        pytest.param(0.05, FEW + 1, 2 * WORKERS, MOST_WORKERS, id="slow, beside Bindings"),
    ],
)
async def test_how_many_events_are_posted_at_once(network_seconds, others, least, greatest):
    in_progress, most, released, enough = 0, 0, asyncio.Event(), asyncio.Event()

    async def answer(request):
        nonlocal in_progress, most
        if request.path.endswith("binding"):
            await released.wait()
            return await says(201, {})(request)
        in_progress += 1
        most = max(most, in_progress)
        if most >= least:
            enough.set()
        if network_seconds:
            await asyncio.sleep(network_seconds)
        else:  # a busy machine may send the first requests slowly
            async with patience():
                await enough.wait()
        in_progress -= 1
        return await says(201, {})(request)

    async with api(default=answer) as (http, script):
        bindings = [asyncio.create_task(http.send("POST", "/binding", b"{}")) for _ in range(others)]
        await until(lambda: http.in_progress == others)
        recorder = EventRecorder(http, clock=time.time, steady=time.monotonic, dropped=lambda: None)
        posted = asyncio.create_task(recorder.run())
        for count in (500, 20):  # the additional workers have ended after the first ones, the others go on
            for _ in range(count):
                recorder.record(POD, "Normal", "Scheduled", "Binding", "there")
            await recorder.flush(60)
        assert len(script.requests) == others + 520
        released.set()
        await asyncio.gather(*bindings)
        posted.cancel()
    assert least <= most <= greatest


async def test_each_reason_of_a_refusal_is_logged_once_and_a_terminating_namespace_is_not(caplog):
    terminating = {"reason": "Forbidden", "message": "unable to create: namespace a is being terminated"}
    forbidden = {"reason": "Forbidden", "message": "events is forbidden: cannot create resource"}
    invalid = {"reason": "Invalid", "message": "note: too long"}
    answers = [says(403, terminating), says(404), says(403, forbidden), says(403, forbidden), says(422, invalid)]
    async with recording(*answers) as (recorder, script, _):
        with caplog.at_level("WARNING"):
            for _ in answers:
                recorder.record(POD, "Normal", "Scheduled", "Binding", "assigned")
                await recorder.flush(5)
        assert len(script.requests) == len(answers)
    logged = [record.getMessage().rpartition("reason): ")[2] for record in caplog.records]
    assert logged == [forbidden["message"], invalid["message"]]


async def test_the_oldest_series_ends_where_too_many_objects_have_one(monkeypatch):
    monkeypatch.setattr(events, "SERIES_LIMIT", 2)
    pods = [replace(POD, name=f"p{number}", uid=f"u{number}") for number in range(3)]
    async with recording() as (recorder, script, _):
        for pod in (pods[0], pods[1], pods[0], pods[2]):
            recorder.record(pod, "Warning", "FailedScheduling", "Scheduling", "no")
        await recorder.flush(5)
        recorder.record(pods[1], "Warning", "FailedScheduling", "Scheduling", "no")
        recorder.record(pods[0], "Warning", "FailedScheduling", "Scheduling", "no")
        await recorder.flush(5)
        sent = [(request.method, request.path.rpartition("/")[2].partition(".")[0]) for request in script.requests]
        assert sent.count(("POST", "events")) == 4
        assert sorted(sent)[:2] == [("PATCH", "p0"), ("PATCH", "p1")]


async def test_refusals_with_different_reasons_are_logged_a_bounded_number_of_times(caplog):
    answers = [says(403, {"reason": f"Reason{number}", "message": "no"}) for number in range(300)]
    async with recording(*answers) as (recorder, _, _):
        for _ in range(300):
            recorder.record(POD, "Normal", "Scheduled", "Binding", "note")
        await recorder.flush(5)
    assert sum("an event was refused" in record.message for record in caplog.records) == 100
