"""The status of pending pods: written when it changes, not again, and the newest wish counts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.engine.ports import Verdict
from podwright.kube.client.http import Http
from podwright.kube.write import work_queue
from podwright.kube.write.pod_status import PodStatusWriter
from support.http.kit import api, says
from support.objects.builders import make_pod

NO_ROOM = Verdict("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")


@asynccontextmanager
async def writing(*answers, default=None):
    async with api(*answers, default=default or says(200, {})) as (http, script):
        writer = PodStatusWriter(http, lambda: 1_700_000_000.0)
        task = asyncio.create_task(writer.run())
        try:
            yield writer, script
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def pending(**status_fields):
    return make_pod("web", uid="u1", metadata={"generation": 3, "resourceVersion": "1"}, status=status_fields)


def scheduled(verdict, **fields):
    return {"type": "PodScheduled", "status": "False", "reason": verdict.reason, "message": verdict.message, **fields}


async def test_a_verdict_is_patched_with_the_generation_it_is_about():
    raw = pending()
    async with writing() as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await writer.flush(5)
        (request,) = script.requests
        assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/default/pods/web/status")
        assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
        condition = scheduled(NO_ROOM, observedGeneration=3, lastTransitionTime="2023-11-14T22:13:20Z")
        assert request.body == {
            "metadata": {"uid": "u1", "resourceVersion": "1"},
            "status": {"conditions": [condition]},
        }


@pytest.mark.parametrize("again", [pytest.param("written", id="by us"), pytest.param("seen", id="as the watch shows")])
async def test_what_the_status_says_already_is_not_written_again(again):
    async with writing() as (writer, script):
        raw = pending(conditions=[scheduled(NO_ROOM)]) if again == "seen" else pending()
        writer.seen("u1", raw)
        for _ in range(3):
            writer.write(parse_pod(raw), NO_ROOM, None)
            await writer.flush(5)
        assert len(script.requests) == (0 if again == "seen" else 1)


async def test_another_text_keeps_the_time_of_the_transition():
    raw = pending(conditions=[scheduled(NO_ROOM, lastTransitionTime="2020-01-01T00:00:00Z")])
    async with writing() as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), Verdict("Unschedulable", "another"), None)
        await writer.flush(5)
        (condition,) = script.requests[0].body["status"]["conditions"]
        assert condition["message"] == "another"
        assert "lastTransitionTime" not in condition


async def test_a_nomination_is_written_and_cleared():
    raw = pending()
    async with writing() as (writer, script):
        writer.seen("u1", raw)
        for node in ("a", "a", ""):
            writer.write(parse_pod(raw), None, node)
            await writer.flush(5)
        written = [request.body["status"] for request in script.requests]
        assert written == [{"nominatedNodeName": "a"}, {"nominatedNodeName": None}]


async def test_of_several_wishes_the_newest_counts():
    raw = pending()
    async with writing() as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, "a")
        writer.write(parse_pod(raw), Verdict("Unschedulable", "newer"), None)
        await writer.flush(5)
        (request,) = script.requests
        assert request.body["status"]["conditions"][0]["message"] == "newer"
        assert request.body["status"]["nominatedNodeName"] == "a"


async def test_nothing_is_written_for_a_pod_that_is_no_longer_pending():
    raw = pending()
    async with writing() as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        writer.forget("u1")
        writer.write(parse_pod(raw), NO_ROOM, None)
        await writer.flush(5)
        assert script.requests == []


async def test_trouble_that_may_pass_is_tried_again(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    raw = pending()
    async with writing(says(500), says(503)) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        async with asyncio.timeout(5):
            while len(script.requests) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert script.requests[0].body == script.requests[2].body


async def until_asked(script, times):
    async with asyncio.timeout(5):
        while len(script.requests) < times:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_pod_that_changed_meanwhile_is_written_to_as_it_is_now(monkeypatch):
    """It may have been bound: then the watch takes it away, and the verdict with it."""
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    raw = pending()

    async def changed(request):
        writer.seen("u1", {**raw, "metadata": {**raw["metadata"], "resourceVersion": "7"}})
        return await says(409)(request)

    async with writing(changed) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await until_asked(script, 2)
        versions = [request.body["metadata"]["resourceVersion"] for request in script.requests]
        assert versions == ["1", "7"]


async def test_after_a_write_the_next_one_is_to_the_version_that_came_of_it():
    raw = pending()
    async with writing(default=says(200, {"metadata": {"resourceVersion": "8"}})) as (writer, script):
        writer.seen("u1", raw)
        for text in ("one", "two"):
            writer.write(parse_pod(raw), Verdict("Unschedulable", text), None)
            await writer.flush(5)
        assert [request.body["metadata"]["resourceVersion"] for request in script.requests] == ["1", "8"]


async def test_what_is_taken_back_while_it_is_being_written_is_written_once_more():
    raw = pending()

    async def meanwhile(request):
        writer.seen("u1", raw)  # somebody labels the pod, and the watch shows it without what is being written
        writer.write(parse_pod(raw), None, "")
        return await says(200, {"metadata": {"resourceVersion": "8"}})(request)

    async with writing(meanwhile) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), None, "a")
        await writer.flush(5)
        writer.seen("u1", pending(nominatedNodeName="a"))
        await writer.flush(5)
        assert [request.body["status"]["nominatedNodeName"] for request in script.requests] == ["a", None]


async def test_another_pod_of_its_name_is_left_alone(caplog):
    raw = pending()
    immutable = 'Pod "web" is invalid: metadata.uid: Invalid value: "u1": field is immutable'
    async with writing(says(422, {"reason": "Invalid", "message": immutable})) as (writer, script):
        writer.seen("u1", raw)
        for text in ("one", "two"):
            writer.write(parse_pod(raw), Verdict("Unschedulable", text), None)
            await writer.flush(5)
        assert len(script.requests) == 1
        assert caplog.records == []


async def test_the_pause_that_the_server_asks_for_is_kept(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    pauses = []
    loop = asyncio.get_running_loop()
    later = loop.call_later

    def noted(seconds, *work):
        pauses.append(seconds)
        return later(min(seconds, 0.001), *work)

    raw = pending()
    async with writing(says(429, **{"Retry-After": "17"})) as (writer, script):
        writer.seen("u1", raw)
        monkeypatch.setattr(loop, "call_later", noted)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await until_asked(script, 2)
        assert 17.0 in pauses


async def test_an_error_of_another_kind_leaves_the_verdict_unsaid(monkeypatch):
    raw = pending()
    async with writing() as (writer, script):
        writer.seen("u1", raw)
        with monkeypatch.context() as broken:
            broken.setattr(Http, "call", lambda *_: 1 / 0)
            writer.write(parse_pod(raw), NO_ROOM, None)
            await writer.flush(5)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await writer.flush(5)
        assert len(script.requests) == 1


@pytest.mark.parametrize("refusal", [403, 404, 422])
async def test_a_refusal_is_not_tried_again(refusal):
    raw = pending()
    async with writing(says(refusal)) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await writer.flush(5)
        await asyncio.sleep(0.02)
        assert len(script.requests) == 1


async def test_a_long_outage_loses_no_status(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.0001, longest=0.001))
    raw = pending()
    async with writing(*[says(503)] * 12) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await writer.flush(5)
        assert len(script.requests) == 13


async def test_writes_of_one_pod_are_made_one_after_the_other():
    raw = pending()
    answered = asyncio.Event()

    async def slow(request):
        writer.write(parse_pod(raw), Verdict("Unschedulable", "newer"), None)
        await asyncio.sleep(0.02)
        answered.set()
        return await says(200, {})(request)

    async def after(request):
        assert answered.is_set()
        return await says(200, {})(request)

    async with writing(slow, default=after) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await writer.flush(5)
        said = [request.body["status"]["conditions"][0]["message"] for request in script.requests]
        assert said == [NO_ROOM.message, "newer"]


async def test_what_a_failed_write_said_is_said_by_the_next_one(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    raw = pending()

    async def meanwhile(request):
        writer.write(parse_pod(raw), None, "a")
        return await says(503)(request)

    async with writing(meanwhile) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await writer.flush(5)
        body = script.requests[-1].body["status"]
        assert (body["nominatedNodeName"], body["conditions"][0]["reason"]) == ("a", "Unschedulable")
