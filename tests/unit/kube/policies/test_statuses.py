"""When statuses of policies are written, how often, and what they say about a policy's work."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
from aiohttp import web

from podwright.api.policy_status import Work, status_of
from podwright.engine.records.metrics import Metrics
from podwright.engine.records.policy_activity import FAULTS, Activities
from podwright.engine.records.policy_metrics import POLICY_ERRORS
from podwright.kube.policies import statuses
from podwright.kube.write import write_limit
from podwright.kube.write.write_limit import WriteLimit
from support.engine.kit import Rig
from support.policies.controlled import controlled, policy
from support.policies.policy_sets import build
from support.policies.policy_sets import policy as named

NOON = "2026-01-01T12:00:00Z"


def status_with(**work):
    policies = build()
    return status_of(policies, policies.apply(named("a", {})), None, NOON, Work(**work))


async def test_all_policies_together_are_written_five_times_a_second(monkeypatch):
    now, written = [100.0], []

    async def sleep(seconds):
        now[0] += max(seconds, 1e-6)  # as a clock does

    monkeypatch.setattr(write_limit, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(write_limit, "time", SimpleNamespace(monotonic=lambda: now[0]))
    limit = WriteLimit()
    for _ in range(30):
        await limit.take()
        written.append(now[0] - 100.0)
    assert written[4] == 0.0
    assert written[-1] == pytest.approx(5.0, abs=0.001)
    for start in range(5):
        within = [each for each in written[5:] if start + 0.01 < each <= start + 1.01]
        assert len(within) == 5


async def test_a_fault_is_written_at_once_and_its_repetition_is_not():
    async with controlled() as it:
        it.controller.apply(policy())
        await it.requests(1)
        activities = it.engine.activities
        activities.fault("p", "rule f failed on node a: no such key: x", cause="rule f")
        written = await it.requests(2)
        found = written[-1].body[-1]["value"]
        assert [each["message"] for each in found["faults"]] == ["rule f failed on node a: no such key: x"]
        assert found["evaluationErrors"] == 1
        for node in "bcd":
            activities.fault("p", f"rule f failed on node {node}: no such key: x", cause="rule f")
        activities.of("p").decisions[0] += 100
        await it.requests(2)


async def test_counts_alone_are_written_with_the_next_refresh(monkeypatch):
    monkeypatch.setattr(statuses, "REFRESH_SECONDS", 0.05)
    async with controlled() as it:
        it.controller.apply(policy())
        await it.requests(1)
        it.engine.activities.of("p").decisions[0] += 100
        await it.becomes(lambda: len(it.script.requests) == 2)
        assert it.script.requests[-1].body[-1]["value"]["decisions"] == 100


def statuses_in_memory(label):
    """Those of policies that select pods by this label."""
    gc.collect()
    found = [each["lastAccepted"] for each in gc.get_objects() if type(each) is dict and "lastAccepted" in each]
    return [each for each in found if label in str(each)]


async def test_of_a_status_that_was_written_no_copy_is_kept():
    """It has the policy's spec, which may be long."""

    async def written(request):
        return web.json_response({"status": (await request.json())[-1]["value"]})

    async with controlled(default=written) as it:
        it.controller.apply(policy(match={"podSelector": {"matchLabels": {"kept-once": ""}}}))
        await it.requests(1)
        it.script.requests.clear()
        await it.becomes(lambda: len(statuses_in_memory("kept-once")) == 1)
        it.controller.remove("p")
        await it.becomes(lambda: not statuses_in_memory("kept-once"))


async def test_the_last_five_different_faults_are_kept_with_their_times():
    now = [0.0]
    metrics = Metrics(lambda: 0.0)
    activities = Activities(metrics, wall=lambda: now[0])
    for i in range(8):
        now[0] = float(i)
        activities.fault("p", f"fault {i}")
    now[0] = 60.0
    activities.fault("p", "rule r on node b", cause="fault 4")
    assert [*activities.of("p").faults.values()] == [
        (3.0, "fault 3"),
        (5.0, "fault 5"),
        (6.0, "fault 6"),
        (7.0, "fault 7"),
        (60.0, "rule r on node b"),
    ]
    assert FAULTS == 5
    assert metrics.counter(POLICY_ERRORS).of("p")[0] == 9
    activities.keep(())
    assert not activities.of("p").faults


def test_the_status_has_the_latest_fault_first_with_its_time():
    found = status_with(evaluation_errors=7, faults=((0.0, "old"), (86400.0, "new")))
    assert found["faults"] == [
        {"time": "1970-01-02T00:00:00Z", "message": "new"},
        {"time": "1970-01-01T00:00:00Z", "message": "old"},
    ]
    assert found["evaluationErrors"] == 7


def test_the_status_has_what_the_policy_decided_and_the_pods_that_wait_for_it():
    found = status_with(decisions=12, pending_pods=3)
    assert (found["activeGeneration"], found["decisions"], found["pendingPods"]) == (1, 12, 3)
    assert not {"decisions", "pendingPods", "faults", "interpretedRules", "boundedBy"} & status_with().keys()


def test_the_status_names_interpreted_rules_with_the_reason():
    found = status_with(interpreted=(("all-labels", "it reads node.labels as a whole"),))
    assert found["interpretedRules"] == [{"name": "all-labels", "reason": "it reads node.labels as a whole"}]


async def test_what_an_engine_reports_of_a_policy_with_an_interpreted_rule():
    rules = {"filters": [{"name": "all", "expression": "node.labels.exists(k, k.startsWith(pod.labels.app))"}]}
    async with controlled() as it:
        it.controller.apply(policy(rules=rules))
        work = it.engine.policies.work_of("p")
        assert [name for name, _ in work.interpreted] == ["all"]
        (written,) = await it.requests(1)
        (rule,) = written.body[-1]["value"]["interpretedRules"]
        assert rule["name"] == "all"
        assert rule["reason"]


def test_the_status_has_what_rules_cost_estimated_and_measured():
    assert status_with(rules=(1_500_001, 0.0302))["ruleCost"] == {
        "estimatedMilliseconds": 1501,
        "measuredMilliseconds": 31,
    }


async def test_what_an_engine_reports_of_the_cost_of_rules():
    rules = {"filters": [{"name": "all", "expression": "node.labels.exists(k, k.startsWith(pod.labels.app))"}]}
    rig = Rig()
    async with controlled(rig=rig) as it:
        it.controller.apply(policy(rules=rules))
        assert it.engine.policies.work_of("p").rules is None, "there are no nodes"
        rig.node("a")
        (estimated, measured) = it.engine.policies.work_of("p").rules
        assert estimated > 0
        assert measured == 0.0
        activity = it.engine.activities.of("p")
        for label, seconds in (("p@1", 0.2), ("p@1", 0.1), ("p@2", 0.01)):
            activity.took(label, seconds)
            measured = it.engine.policies.work_of("p").rules[1]
            assert measured == {"p@1": 0.2, "p@2": 0.01}[label]
