"""The status of pod groups: written when it changes, not twice, and a scheduled group stays scheduled."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from podwright.core.objects.pod_group import KAI_KIND, KIND, PLUGINS_KIND, VOLCANO_KIND, parse_pod_group
from podwright.engine.ports import Verdict
from podwright.kube.kinds import KAI_POD_GROUPS, PLUGINS_POD_GROUPS, POD_GROUPS, VOLCANO_POD_GROUPS
from podwright.kube.pod_groups.group_status import PodGroupStatusWriter
from podwright.kube.write import work_queue
from support.http.kit import api, says

NO_ROOM = Verdict("Unschedulable", "minCount (3) is not yet satisfied: 2 scheduled, 0 remaining")
NOW = "2023-11-14T22:13:20Z"


@asynccontextmanager
async def writing(*answers, version="v1beta1", default=None):
    async with api(*answers, default=default or echo) as (http, script):
        writer = PodGroupStatusWriter(http, lambda: 1_700_000_000.0)
        writer.use_version(KIND, next(resource for resource in POD_GROUPS if resource.version == version))
        writer.use_version(PLUGINS_KIND, PLUGINS_POD_GROUPS[0])
        writer.use_version(KAI_KIND, KAI_POD_GROUPS[0])
        writer.use_version(VOLCANO_KIND, VOLCANO_POD_GROUPS[0])
        task = asyncio.create_task(writer.run())
        try:
            yield writer, script
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def echo(request):
    """Returns the object with the status of the patch."""
    patch = await request.json()
    name = request.path.split("/")[-2]
    raw = {"metadata": {"name": name, "namespace": "ml", "uid": patch["metadata"]["uid"]}, "status": patch["status"]}
    return await says(200, raw)(request)


def group(*conditions, uid="u1", generation=4, **status):
    metadata = {"name": "train", "namespace": "ml", "uid": uid, "generation": generation}
    spec = {"schedulingPolicy": {"gang": {"minCount": 3}}, "minMember": 3}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": list(conditions), **status}}


def condition(status, reason, message, kind="PodGroupInitiallyScheduled", **fields):
    return {"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 4, **fields}


def waiting(**fields):
    return condition("False", NO_ROOM.reason, NO_ROOM.message, **fields)


async def test_the_reason_why_a_group_waits_is_a_condition():
    raw = group()
    async with writing() as (writer, script):
        writer.seen(KIND, raw)
        writer.not_scheduled(parse_pod_group(KIND, raw), NO_ROOM)
        await writer.flush(5)
        (request,) = script.requests
        path = "/apis/scheduling.k8s.io/v1beta1/namespaces/ml/podgroups/train/status"
        assert (request.method, request.path) == ("PATCH", path)
        assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
        assert request.body == {"metadata": {"uid": "u1"}, "status": {"conditions": [waiting(lastTransitionTime=NOW)]}}


async def test_v1alpha2_uses_the_old_name_of_the_condition():
    raw = group()
    async with writing(version="v1alpha2") as (writer, script):
        writer.seen(KIND, raw)
        writer.scheduled(parse_pod_group(KIND, raw))
        await writer.flush(5)
        (request,) = script.requests
        assert "/v1alpha2/" in request.path
        wanted = condition("True", "Scheduled", "", "PodGroupScheduled", lastTransitionTime=NOW)
        assert request.body["status"]["conditions"] == [wanted]


@pytest.mark.parametrize(
    "source", [pytest.param("written", id="by our own write"), pytest.param("seen", id="by the watch")]
)
async def test_a_status_that_is_known_is_not_written_again(source):
    raw = group(waiting()) if source == "seen" else group()
    async with writing() as (writer, script):
        writer.seen(KIND, raw)
        for _ in range(3):
            writer.not_scheduled(parse_pod_group(KIND, raw), NO_ROOM)
            await writer.flush(5)
        assert len(script.requests) == (0 if source == "seen" else 1)


async def test_a_new_message_keeps_the_transition_time():
    raw = group(waiting(lastTransitionTime="2020-01-01T00:00:00Z"))
    async with writing() as (writer, script):
        writer.seen(KIND, raw)
        writer.not_scheduled(parse_pod_group(KIND, raw), Verdict("SchedulerError", "they disagree"))
        await writer.flush(5)
        (said,) = script.requests[0].body["status"]["conditions"]
        assert (said["reason"], said["lastTransitionTime"]) == ("SchedulerError", "2020-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("raw", "first"),
    [
        pytest.param(group(), True, id="by our own write"),
        pytest.param(group(condition("True", "Scheduled", "")), False, id="by its status"),
    ],
)
async def test_a_group_that_was_scheduled_stays_scheduled(raw, first):
    async with writing() as (writer, script):
        writer.seen(KIND, raw)
        if first:
            writer.scheduled(parse_pod_group(KIND, raw))
            await writer.flush(5)
            writer.seen(KIND, raw)  # an older version, late
        writer.not_scheduled(parse_pod_group(KIND, raw), NO_ROOM)
        await writer.flush(5)
        assert [c["status"] for r in script.requests for c in r.body["status"]["conditions"]] == ["True"] * first


async def test_another_group_of_the_same_name_starts_unscheduled():
    raw, other = group(condition("True", "Scheduled", "")), group(uid="u2")
    async with writing() as (writer, script):
        writer.seen(KIND, raw)
        writer.seen(KIND, other)
        writer.not_scheduled(parse_pod_group(KIND, other), NO_ROOM)
        await writer.flush(5)
        assert script.requests[0].body["metadata"] == {"uid": "u2"}


async def test_the_newest_condition_of_each_type_is_written():
    raw = group()
    async with writing() as (writer, script):
        writer.seen(KIND, raw)
        parsed = parse_pod_group(KIND, raw)
        writer.not_scheduled(parsed, NO_ROOM)
        writer.not_scheduled(parsed, Verdict("Unschedulable", "newer"))
        writer.disrupted(parsed, "making room")
        await writer.flush(5)
        (request,) = script.requests
        assert request.body["status"]["conditions"] == [
            condition("False", "Unschedulable", "newer", lastTransitionTime=NOW),
            condition("True", "PreemptionByScheduler", "making room", "DisruptionTarget", lastTransitionTime=NOW),
        ]


async def test_errors_that_may_pass_are_retried(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    raw = group()
    async with writing(says(500), says(503)) as (writer, script):
        writer.seen(KIND, raw)
        writer.not_scheduled(parse_pod_group(KIND, raw), NO_ROOM)
        await writer.flush(5)
        assert [request.body for request in script.requests] == [script.requests[0].body] * 3


async def test_a_refusal_is_logged_once_and_a_deleted_group_is_not_written(caplog):
    raw = group()
    async with writing(default=says(403)) as (writer, script):
        for version in range(3):
            writer.seen(KIND, raw)
            writer.not_scheduled(parse_pod_group(KIND, raw), Verdict("Unschedulable", f"text {version}"))
            await writer.flush(5)
        assert len(script.requests) == 3
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        writer.forget("scheduling.k8s.io:ml/train")
        writer.not_scheduled(parse_pod_group(KIND, raw), NO_ROOM)
        await writer.flush(5)
        assert len(script.requests) == 3


async def test_fields_of_the_custom_resource_are_merged_and_changes_by_others_stay():
    raw = group(phase="Pending", running=0)
    key = "scheduling.x-k8s.io:ml/train"
    fields = {"phase": "Running", "running": 3, "failed": 0}
    async with writing() as (writer, script):
        writer.seen(PLUGINS_KIND, raw)
        writer.set_fields(key, {"phase": "Pending", "running": 0, "failed": 0})
        writer.set_fields(key, fields)
        await writer.flush(5)
        (request,) = script.requests
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        assert request.body == {"metadata": {"uid": "u1"}, "status": fields}
        assert writer.fields_of(key) == fields
        writer.seen(PLUGINS_KIND, raw)  # another client has changed it back
        writer.set_fields(key, fields)
        await writer.flush(5)
        assert len(script.requests) == 1


async def test_conditions_of_the_custom_resource_are_written_as_a_whole_list():
    other = condition("True", "Because", "of another", "Other")
    raw = group(other)
    async with writing() as (writer, script):
        writer.seen(PLUGINS_KIND, raw)
        writer.not_scheduled(parse_pod_group(PLUGINS_KIND, raw), NO_ROOM)
        await writer.flush(5)
        assert script.requests[0].body["status"]["conditions"] == [other, waiting(lastTransitionTime=NOW)]


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        pytest.param(PLUGINS_KIND, "conditions", id="conditions"),
        pytest.param(KAI_KIND, "schedulingConditions", id="of KAI"),
    ],
)
async def test_a_list_replaces_only_the_version_that_it_was_made_from(kind, field, monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    other = {"type": "Initialized", "status": "True"}
    old, new = group(), group()
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "7", "8"
    new["status"][field] = [other]

    async def conflict(request):
        writer.seen(kind, new)
        return await says(409)(request)

    async with writing(conflict) as (writer, script):
        writer.seen(kind, old)
        writer.not_scheduled(parse_pod_group(kind, old), NO_ROOM)
        await writer.flush(5)
    assert [request.body["metadata"] for request in script.requests] == [
        {"uid": "u1", "resourceVersion": version} for version in ("7", "8")
    ]
    first, second = (request.body["status"][field] for request in script.requests)
    assert second == [other, *first]


async def test_a_change_that_met_a_conflict_is_not_written_to_another_group_of_the_same_name(monkeypatch):
    monkeypatch.setattr(work_queue, "RETRY", replace(work_queue.RETRY, shortest=0.001))
    raw, other = group(), group(uid="u2")

    async def conflict(request):
        writer.forget("scheduling.x-k8s.io:ml/train")
        writer.seen(PLUGINS_KIND, other)
        return await says(409)(request)

    async with writing(conflict) as (writer, script):
        writer.seen(PLUGINS_KIND, raw)
        writer.not_scheduled(parse_pod_group(PLUGINS_KIND, raw), NO_ROOM)
        await writer.flush(5)
    assert len(script.requests) == 1


async def test_a_group_of_kai_says_that_it_waits_only_while_it_does():
    of_another_pool = {"type": "UnschedulableOnNodePool", "nodePool": "other", "status": "True", "transitionID": "4"}
    raw = group(schedulingConditions=[of_another_pool], resourcesStatus={"requested": {"cpu": "1"}})
    async with writing() as (writer, script):
        writer.seen(KAI_KIND, raw)
        parsed = parse_pod_group(KAI_KIND, raw)
        for _ in range(2):
            writer.not_scheduled(parsed, NO_ROOM)
            await writer.flush(5)
        (request,) = script.requests
        told = {"reason": NO_ROOM.reason, "message": NO_ROOM.message}
        entry = {
            "type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True", "transitionID": "5",
            **told, "reasons": [told], "lastTransitionTime": NOW,
        }  # fmt: skip
        assert request.body["status"] == {"schedulingConditions": [of_another_pool, entry]}
        for _ in range(2):
            writer.scheduled(parsed)
            await writer.flush(5)
        assert [each.body["status"] for each in script.requests[1:]] == [{"schedulingConditions": [of_another_pool]}]


async def test_conditions_are_not_written_if_the_schema_lacks_them():
    raw = group()
    pruned = {"metadata": raw["metadata"], "status": {"phase": "Pending"}}
    async with writing(default=says(200, pruned)) as (writer, script):
        writer.seen(PLUGINS_KIND, raw)
        for text in ("one", "two"):
            writer.not_scheduled(parse_pod_group(PLUGINS_KIND, raw), Verdict("Unschedulable", text))
            await writer.flush(5)
        assert len(script.requests) == 1


async def test_a_group_that_was_scheduled_has_a_condition_while_it_is_below_its_minimum():
    raw = group(condition("True", "Scheduled", ""))
    parsed = parse_pod_group(KIND, raw)
    async with writing() as (writer, script):
        writer.seen(KIND, raw)
        writer.scheduled(parsed)
        writer.not_scheduled(parsed, NO_ROOM)
        await writer.flush(5)
        assert script.requests == []
        writer.below_minimum(parsed, NO_ROOM)
        await writer.flush(5)
        writer.seen(KIND, group(condition("True", "Scheduled", ""), script.requests[0].body["status"]["conditions"][0]))
        writer.scheduled(parsed)
        await writer.flush(5)
        written = [request.body["status"]["conditions"] for request in script.requests]
    lost, back = (
        condition(status, reason, message, kind="podwright.dev/MinimumPlaced", lastTransitionTime=NOW)
        for status, reason, message in (("False", NO_ROOM.reason, NO_ROOM.message), ("True", "Scheduled", ""))
    )
    assert written == [[lost], [back]]


async def test_a_group_that_was_never_scheduled_does_not_fall_below_its_minimum():
    raw = group()
    async with writing() as (writer, script):
        writer.seen(KIND, raw)
        writer.below_minimum(parse_pod_group(KIND, raw), NO_ROOM)
        await writer.flush(5)
        assert script.requests == []


async def test_a_group_of_volcano_that_waits_is_unschedulable_as_its_users_read_it_until_it_is_scheduled():
    raw = group()
    parsed = parse_pod_group(VOLCANO_KIND, raw)
    async with writing() as (writer, script):
        writer.seen(VOLCANO_KIND, raw)
        for _ in range(2):
            writer.not_scheduled(parsed, NO_ROOM)
            await writer.flush(5)
        (request,) = script.requests
        (said,) = request.body["status"]["conditions"]
        expected = condition("True", "NotEnoughResources", NO_ROOM.message, "Unschedulable", lastTransitionTime=NOW)
        assert said == expected | {"observedGeneration": 0}
        writer.scheduled(parsed)
        await writer.flush(5)
        (said,) = script.requests[-1].body["status"]["conditions"]
        assert (said["type"], said["status"]) == ("Scheduled", "True")
        writer.not_scheduled(parsed, NO_ROOM)
        await writer.flush(5)
        assert len(script.requests) == 2
