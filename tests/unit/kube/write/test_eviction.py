"""Eviction: marked, deleted by uid, told; and what has begun is reported truly."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.engine.ports import Regarding
from podwright.kube.write import eviction
from podwright.kube.write.eviction import PodEvictor
from support.engine.kit import FakeRecorder
from support.http.kit import api, hangs_up, says
from support.objects.builders import make_pod

VICTIM = parse_pod(make_pod("low", uid="u1", metadata={"generation": 3}))
PREEMPTOR = parse_pod(make_pod("high", uid="u2", spec={"schedulerName": "podwright"}))


async def evict(*answers, victim=VICTIM, preemptor=PREEMPTOR, where="a"):
    """What was asked of the server, what was told, and whether the deletion has begun."""
    async with api(*answers) as (http, script):
        recorder, begun = FakeRecorder(), []
        evictor = PodEvictor(http, recorder, lambda: 1_700_000_000.0)
        evictor.evict(victim, preemptor, where, begun.append)
        await asyncio.gather(*evictor.tasks)
        return script, recorder.events, begun


async def test_a_victim_is_marked_deleted_by_its_uid_and_told():
    script, told, begun = await evict(says(200, {}), says(200, {}))
    assert script.asked == [
        "PATCH /api/v1/namespaces/default/pods/low/status",
        "DELETE /api/v1/namespaces/default/pods/low",
    ]
    mark, deletion = (request.body for request in script.requests)
    assert mark["metadata"] == {"uid": "u1"}
    assert mark["status"]["conditions"] == [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "podwright: preempting to accommodate a higher priority pod",
            "observedGeneration": 3,
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        }
    ]
    assert deletion["preconditions"] == {"uid": "u1"}
    assert told == [("low", "Preempted", "Preempted by pod u2 on node a")]
    assert begun == [True]


async def test_a_victim_that_was_marked_before_keeps_the_time_of_it():
    marked = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
    script, _, _ = await evict(says(200, {}), says(200, {}), victim=parse_pod(make_pod("low", status=marked)))
    (condition,) = script.requests[0].body["status"]["conditions"]
    assert "lastTransitionTime" not in condition
    assert "observedGeneration" not in condition


async def test_a_pod_group_that_preempts_is_called_so():
    group = Regarding("default", "gang", "u9", "7", "podwright", "PodGroup", "scheduling.k8s.io/v1beta1")
    script, told, _ = await evict(says(200, {}), says(200, {}), preemptor=group, where="cluster")
    (condition,) = script.requests[0].body["status"]["conditions"]
    assert condition["message"] == "podwright: preempting to accommodate a higher priority podgroup"
    assert told == [("low", "Preempted", "Preempted by podgroup u9 on node cluster")]


IMMUTABLE = {"reason": "Invalid", "message": 'Pod "low" is invalid: metadata.uid: field is immutable'}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([says(404)], id="it is gone"),
        pytest.param([says(422, IMMUTABLE)], id="another one has its name"),
        pytest.param([says(200, {}), says(409)], id="another one has had its name since"),
    ],
)
async def test_a_victim_that_went_without_our_doing_is_not_told_of(answers):
    script, told, going = await evict(*answers)
    assert (told, going) == ([], [True])
    assert len(script.requests) == len(answers)


async def test_a_mark_that_met_another_change_is_made_again():
    script, told, going = await evict(says(409), says(200, {}), says(200, {}))
    assert len(script.requests) == 3
    assert (len(told), going) == (1, [True])


async def test_one_that_is_being_deleted_already_is_left_alone():
    terminating = parse_pod(make_pod("low", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    script, told, begun = await evict(victim=terminating)
    assert (script.asked, told, begun) == ([], [], [True])


async def test_trouble_that_may_pass_is_tried_again(monkeypatch):
    script, _, begun = await evict(says(500), says(200, {}), says(503), says(200, {}), says(200, {}))
    assert len(script.requests) == 5
    assert begun == [True]


async def test_a_refusal_is_reported(monkeypatch):
    monkeypatch.setattr(eviction, "RETRY", replace(eviction.RETRY, attempts=2))
    _, told, begun = await evict(says(403))
    assert (told, begun) == ([], [False])


@pytest.mark.parametrize(
    ("answers", "ours"),
    [
        pytest.param([says(200, {}), hangs_up(), says(404)], True, id="the deletion went through, its answer was lost"),
        pytest.param([hangs_up(), says(404)], False, id="somebody else deleted it before we asked"),
    ],
)
async def test_a_deletion_without_an_answer_is_looked_into(answers, ours):
    script, told, going = await evict(*answers)
    assert going == [True]
    assert bool(told) is ours
    assert len(script.requests) == len(answers)


class TestTheEnd:
    async def test_what_has_begun_is_finished(self):
        marked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request):
            marked.set()
            await go_on.wait()
            return await says(200, {})(request)

        async with api(slow, says(200, {})) as (http, script):
            evictor, begun = PodEvictor(http, FakeRecorder(), lambda: 0.0), []
            evictor.evict(VICTIM, PREEMPTOR, "a", begun.append)
            await marked.wait()
            finishing = asyncio.create_task(evictor.finish(60))
            await asyncio.sleep(0)
            go_on.set()
            await finishing
            assert [request.method for request in script.requests] == ["PATCH", "DELETE"]
            assert begun == [True]

    async def test_what_has_not_begun_is_left_to_the_next_process(self, monkeypatch):
        monkeypatch.setattr(eviction, "MAX_CONCURRENT", 1)
        marked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request):
            marked.set()
            await go_on.wait()
            return await says(200, {})(request)

        async with api(slow, default=says(200, {})) as (http, script):
            evictor, begun = PodEvictor(http, FakeRecorder(), lambda: 0.0), []
            for _ in range(3):
                evictor.evict(VICTIM, PREEMPTOR, "a", begun.append)
            await marked.wait()
            finishing = asyncio.create_task(evictor.finish(60))
            await asyncio.sleep(0)
            go_on.set()
            await finishing
            assert [request.method for request in script.requests] == ["PATCH", "DELETE"]
            assert sorted(begun) == [False, False, True]

    async def test_what_takes_too_long_is_given_up(self):
        arrived = asyncio.Event()

        async def slow(_request):
            arrived.set()
            await asyncio.Event().wait()

        async with api(slow) as (http, _):
            evictor, begun = PodEvictor(http, FakeRecorder(), lambda: 0.0), []
            evictor.evict(VICTIM, PREEMPTOR, "a", begun.append)
            await arrived.wait()
            await evictor.finish(0)
            assert begun == [False]
            assert not evictor.tasks
