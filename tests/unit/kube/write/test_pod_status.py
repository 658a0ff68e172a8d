"""The status of pending pods: written when it changes, not twice, and the newest change wins."""

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
from support.waiting import patience

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


async def test_a_verdict_is_patched_with_its_generation():
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


@pytest.mark.parametrize(
    "source", [pytest.param("written", id="by our own write"), pytest.param("seen", id="by the watch")]
)
async def test_a_status_that_is_known_is_not_written_again(source):
    async with writing() as (writer, script):
        raw = pending(conditions=[scheduled(NO_ROOM)]) if source == "seen" else pending()
        writer.seen("u1", raw)
        for _ in range(3):
            writer.write(parse_pod(raw), NO_ROOM, None)
            await writer.flush(5)
        assert len(script.requests) == (0 if source == "seen" else 1)


async def test_a_new_message_keeps_the_transition_time():
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


async def test_the_newest_of_several_changes_is_written():
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


async def test_errors_that_may_pass_are_retried(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    raw = pending()
    async with writing(says(500), says(503)) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), NO_ROOM, None)
        async with patience():
            while len(script.requests) < 3:
                await asyncio.sleep(0.005)
        assert script.requests[0].body == script.requests[2].body


async def until_asked(script, times):
    async with patience():
        while len(script.requests) < times:
            await asyncio.sleep(0.005)


async def test_after_a_conflict_the_patch_names_the_current_version(monkeypatch):
    """If the pod was bound meanwhile, the watch removes it, and no patch follows."""
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


async def test_a_write_names_the_version_that_the_previous_one_returned():
    raw = pending()
    async with writing(default=says(200, {"metadata": {"resourceVersion": "8"}})) as (writer, script):
        writer.seen("u1", raw)
        for text in ("one", "two"):
            writer.write(parse_pod(raw), Verdict("Unschedulable", text), None)
            await writer.flush(5)
        assert [request.body["metadata"]["resourceVersion"] for request in script.requests] == ["1", "8"]


async def test_a_nomination_that_is_cleared_while_it_is_written_is_cleared_afterwards():
    raw = pending()

    async def meanwhile(request):
        writer.seen("u1", raw)  # a label was added: the watch shows the pod without our write
        writer.write(parse_pod(raw), None, "")
        return await says(200, {"metadata": {"resourceVersion": "8"}})(request)

    async with writing(meanwhile) as (writer, script):
        writer.seen("u1", raw)
        writer.write(parse_pod(raw), None, "a")
        await writer.flush(5)
        writer.seen("u1", pending(nominatedNodeName="a"))
        await writer.flush(5)
        assert [request.body["status"]["nominatedNodeName"] for request in script.requests] == ["a", None]


async def test_another_pod_of_the_same_name_is_not_written_to(caplog):
    raw = pending()
    immutable = 'Pod "web" is invalid: metadata.uid: Invalid value: "u1": field is immutable'
    async with writing(says(422, {"reason": "Invalid", "message": immutable})) as (writer, script):
        writer.seen("u1", raw)
        for text in ("one", "two"):
            writer.write(parse_pod(raw), Verdict("Unschedulable", text), None)
            await writer.flush(5)
        assert len(script.requests) == 1
        assert caplog.records == []


async def test_retry_after_is_honoured(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    pauses = []
    loop = asyncio.get_running_loop()
    later = loop.call_later

    def record_pause(seconds, *work):
        pauses.append(seconds)
        return later(0.001 if seconds == 17.0 else seconds, *work)

    raw = pending()
    async with writing(says(429, **{"Retry-After": "17"})) as (writer, script):
        writer.seen("u1", raw)
        monkeypatch.setattr(loop, "call_later", record_pause)
        writer.write(parse_pod(raw), NO_ROOM, None)
        await until_asked(script, 2)
        assert 17.0 in pauses


async def test_a_verdict_is_written_after_an_unexpected_error(monkeypatch):
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
async def test_a_refusal_is_not_retried(refusal):
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


async def test_writes_of_one_pod_do_not_overlap():
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
        written = [request.body["status"]["conditions"][0]["message"] for request in script.requests]
        assert written == [NO_ROOM.message, "newer"]


async def test_a_newer_change_absorbs_a_failed_one(monkeypatch):
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
