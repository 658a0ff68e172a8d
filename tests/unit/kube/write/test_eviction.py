"""Eviction: the victim is marked, deleted by uid, and gets an event; the outcome is reported."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from podwright.core.objects.pod import parse_pod
from podwright.engine.outcomes.binding.limiter import PROMPT_LIMIT, BindLimiter
from podwright.engine.ports import EvictionEvent, Regarding
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.write import eviction
from podwright.kube.write.eviction import PodEvictor, at_once
from support.engine.kit import FakeRecorder, settle
from support.http.kit import api, hangs_up, says
from support.objects.builders import make_pod
from support.waiting import patience, until

VICTIM = parse_pod(make_pod("low", uid="u1", metadata={"generation": 3}))
PREEMPTOR = parse_pod(make_pod("high", uid="u2", spec={"schedulerName": "podwright"}))


async def evict(*answers, victim=VICTIM, preemptor=PREEMPTOR, where="a", **options):
    """The server's script, the recorded events, and the reported outcomes: whether the victim is deleted."""
    async with api(*answers) as (http, script):
        recorder, outcomes = FakeRecorder(), []
        evictor = PodEvictor(http, recorder, lambda: 1_700_000_000.0)
        evictor.evict(victim, preemptor, where, outcomes.append, **options)
        await asyncio.gather(*evictor.tasks)
        return script, recorder.events, outcomes


async def test_a_victim_is_marked_deleted_by_uid_and_gets_an_event():
    script, events, outcomes = await evict(says(200, {}), says(200, {}))
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
    assert events == [("low", "Preempted", "Preempted by pod u2 on node a")]
    assert outcomes == [True]


async def test_a_victim_that_was_marked_before_keeps_its_transition_time():
    marked = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
    script, _, _ = await evict(says(200, {}), says(200, {}), victim=parse_pod(make_pod("low", status=marked)))
    (condition,) = script.requests[0].body["status"]["conditions"]
    assert "lastTransitionTime" not in condition
    assert "observedGeneration" not in condition


async def test_a_preempting_pod_group_is_named():
    group = Regarding("default", "gang", "u9", "7", "podwright", "PodGroup", "scheduling.k8s.io/v1beta1")
    script, events, _ = await evict(says(200, {}), says(200, {}), preemptor=group, where="cluster")
    (condition,) = script.requests[0].body["status"]["conditions"]
    assert condition["message"] == "podwright: preempting to accommodate a higher priority podgroup"
    assert events == [("low", "Preempted", "Preempted by podgroup u9 on node cluster")]


class TestWithinBudgets:
    async def test_an_eviction_that_is_no_longer_wanted_is_not_tried_again(self):
        wanted = [False, True]
        script, events, outcomes = await evict(says(429, {}), within_budgets=True, wanted=wanted.pop)
        assert len(script.requests) == 1
        assert (events, outcomes) == ([], [False])

    async def test_the_eviction_api_deletes_by_uid(self):
        script, events, outcomes = await evict(says(201, {}), within_budgets=True)
        assert script.asked == ["POST /api/v1/namespaces/default/pods/low/eviction"]
        assert script.requests[0].body == {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "low", "namespace": "default"},
            "deleteOptions": {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u1"}},
        }
        assert (events, outcomes) == ([("low", "Preempted", "Preempted by pod u2 on node a")], [True])

    async def test_a_pod_that_is_moved_is_told_so(self):
        event = EvictionEvent("Rebalanced", "Rebalancing", "moved to node b")
        _, events, _ = await evict(says(201, {}), within_budgets=True, event=event)
        assert events == [("low", "Rebalanced", "moved to node b")]

    async def test_a_budget_that_stays_exhausted_fails_the_eviction(self, monkeypatch):
        monkeypatch.setattr(eviction, "RETRY", RetryPolicy(shortest=0.0, longest=0.0, attempts=2))
        script, events, outcomes = await evict(says(429), says(429), within_budgets=True)
        assert (len(script.requests), events, outcomes) == (2, [], [False])

    @pytest.mark.parametrize("status", [404, 409])
    async def test_a_victim_that_is_gone_gets_no_event(self, status):
        _, events, outcomes = await evict(says(status), within_budgets=True)
        assert (events, outcomes) == ([], [True])

    async def test_an_eviction_whose_answer_was_lost_counts(self):
        _, events, outcomes = await evict(hangs_up(), says(404), within_budgets=True)
        assert (len(events), outcomes) == (1, [True])


IMMUTABLE = {"reason": "Invalid", "message": 'Pod "low" is invalid: metadata.uid: field is immutable'}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([says(404)], id="it is gone"),
        pytest.param([says(422, IMMUTABLE)], id="another pod has its name"),
        pytest.param([says(200, {}), says(409)], id="another pod has taken its name"),
    ],
)
async def test_a_victim_that_others_deleted_gets_no_event(answers):
    script, events, outcomes = await evict(*answers)
    assert (events, outcomes) == ([], [True])
    assert len(script.requests) == len(answers)


async def test_a_mark_that_conflicts_is_written_again():
    script, events, outcomes = await evict(says(409), says(200, {}), says(200, {}))
    assert len(script.requests) == 3
    assert (len(events), outcomes) == (1, [True])


async def test_a_terminating_victim_is_left_alone():
    terminating = parse_pod(make_pod("low", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    script, events, outcomes = await evict(victim=terminating)
    assert (script.asked, events, outcomes) == ([], [], [True])


async def test_errors_that_may_pass_are_retried():
    script, _, outcomes = await evict(says(500), says(200, {}), says(503), says(200, {}), says(200, {}))
    assert len(script.requests) == 5
    assert outcomes == [True]


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        pytest.param("3", 3.0, id="the server's time"),
        pytest.param("60", 5.0, id="five seconds at most"),
        pytest.param("0", 0.1, id="no less than the backoff"),
    ],
)
async def test_a_retry_waits_as_long_as_the_server_asks(asked, waited, monkeypatch):
    pauses, real = [], RetryPolicy.pause
    monkeypatch.setattr(RetryPolicy, "pause", lambda *arguments: (pauses.append(real(*arguments)), 0.0)[1])
    script, events, outcomes = await evict(says(429, **{"Retry-After": asked}), says(200, {}), says(200, {}))
    assert len(script.requests) == 3
    assert (len(events), outcomes) == (1, [True])
    assert pauses == [waited]


async def test_a_refusal_is_reported_as_not_deleted(monkeypatch):
    monkeypatch.setattr(eviction, "RETRY", replace(eviction.RETRY, attempts=2))
    _, events, outcomes = await evict(says(403))
    assert (events, outcomes) == ([], [False])


@pytest.mark.parametrize(
    ("answers", "ours"),
    [
        pytest.param([says(200, {}), hangs_up(), says(404)], True, id="the response to our deletion was lost"),
        pytest.param([hangs_up(), says(404)], False, id="another client deleted it before our request"),
    ],
)
async def test_a_lost_response_does_not_hide_who_deleted_the_victim(answers, ours):
    script, events, outcomes = await evict(*answers)
    assert outcomes == [True]
    assert bool(events) is ours
    assert len(script.requests) == len(answers)


async def test_slow_deletions_do_not_delay_others():
    """No deletion is answered before the last one has arrived."""
    count, arrived, all_arrived = 100, [], asyncio.Event()

    async def answer(request):
        if request.method == "DELETE":
            arrived.append(request.path)
            if len(arrived) == count:
                all_arrived.set()
            await all_arrived.wait()
        return await says(200, {})(request)

    async with api(default=answer) as (http, _), patience():
        evictor, outcomes = PodEvictor(http, FakeRecorder(), lambda: 0.0, BindLimiter(time.monotonic)), []
        for index in range(count):
            evictor.evict(parse_pod(make_pod(f"low-{index}")), PREEMPTOR, "a", outcomes.append)
        await asyncio.gather(*evictor.tasks)
        assert outcomes == [True] * count


async def test_a_busy_server_gets_a_few_tens_of_evictions_at_once():
    """None of them is answered for half a second, which is no reason to send more."""
    arrived, go_on, now = [], asyncio.Event(), [0.0]

    async def answer(request):
        arrived.append(request.path)
        await go_on.wait()
        return await says(200, {})(request)

    async with api(default=answer) as (http, _), patience():
        limiter = at_once(lambda: now[0])
        evictor, outcomes = PodEvictor(http, FakeRecorder(), lambda: 0.0, limiter), []
        for index in range(100):
            evictor.evict(parse_pod(make_pod(f"low-{index}")), PREEMPTOR, "a", outcomes.append)
        await until(lambda: len(arrived) == PROMPT_LIMIT)
        now[0] += 0.5
        limiter.wake_next()
        await settle()
        assert len(limiter) == PROMPT_LIMIT
        go_on.set()
        await asyncio.gather(*evictor.tasks)
        assert outcomes == [True] * 100


class TestFinish:
    async def test_started_evictions_are_finished(self):
        marked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request):
            marked.set()
            await go_on.wait()
            return await says(200, {})(request)

        async with api(slow, says(200, {})) as (http, script):
            evictor, outcomes = PodEvictor(http, FakeRecorder(), lambda: 0.0), []
            evictor.evict(VICTIM, PREEMPTOR, "a", outcomes.append)
            await marked.wait()
            finishing = asyncio.create_task(evictor.finish(60))
            await asyncio.sleep(0)
            go_on.set()
            await finishing
            assert [request.method for request in script.requests] == ["PATCH", "DELETE"]
            assert outcomes == [True]

    async def test_evictions_that_have_not_started_are_cancelled(self):
        marked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(request):
            marked.set()
            await go_on.wait()
            return await says(200, {})(request)

        async with api(slow, default=says(200, {})) as (http, script):
            evictor, outcomes = PodEvictor(http, FakeRecorder(), lambda: 0.0, BindLimiter(lambda: 0.0, 1)), []
            for _ in range(3):
                evictor.evict(VICTIM, PREEMPTOR, "a", outcomes.append)
            await marked.wait()
            finishing = asyncio.create_task(evictor.finish(60))
            await asyncio.sleep(0)
            go_on.set()
            await finishing
            assert [request.method for request in script.requests] == ["PATCH", "DELETE"]
            assert sorted(outcomes) == [False, False, True]

    async def test_evictions_that_outlast_the_grace_are_cancelled(self):
        arrived = asyncio.Event()

        async def slow(_request):
            arrived.set()
            await asyncio.Event().wait()

        async with api(slow) as (http, _):
            evictor, outcomes = PodEvictor(http, FakeRecorder(), lambda: 0.0), []
            evictor.evict(VICTIM, PREEMPTOR, "a", outcomes.append)
            await arrived.wait()
            await evictor.finish(0)
            assert outcomes == [False]
            assert not evictor.tasks
