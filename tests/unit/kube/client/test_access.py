"""The checks before anything is watched: what is served, and what RBAC allows."""

from __future__ import annotations

import asyncio

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.kube.client import access
from podwright.kube.client import http as http_module
from podwright.kube.client.errors import AccessError
from podwright.kube.kinds import NODE, POD, POLICY, STORED
from support.http.kit import api, says, without_pauses
from support.waiting import patience

NOT_SERVED = "the API server does not serve it"


def cluster(*, served=("nodes", "pods"), forbidden=()):
    """The answer of an API server that serves these resources, and whose RBAC forbids (verb, resource) pairs."""

    async def answer(request):
        if request.method == "POST":
            asked = (await request.json())["spec"]["resourceAttributes"]
            return await says(201, {"status": {"allowed": (asked["verb"], asked["resource"]) not in forbidden}})(
                request
            )
        if request.path != "/api/v1":
            return await says(404)(request)
        return await says(200, {"resources": [{"name": name} for name in served]})(request)

    return answer


@pytest.mark.parametrize(
    ("resource", "options", "problem"),
    [
        pytest.param(NODE, {}, None, id="readable"),
        pytest.param(NODE, {"served": ["pods"]}, NOT_SERVED, id="its group lacks the kind"),
        pytest.param(POLICY, {}, NOT_SERVED, id="its group is not served"),
        pytest.param(NODE, {"forbidden": [("list", "nodes")]}, "RBAC does not let us list it", id="list forbidden"),
        pytest.param(NODE, {"forbidden": [("watch", "nodes")]}, "RBAC does not let us watch it", id="watch forbidden"),
    ],
)
async def test_the_access_problem_of_a_kind_is_named(resource, options, problem):
    async with api(default=cluster(**options)) as (http, _):
        assert await access.access_problem(http, resource) == problem


async def test_unreadable_kinds_are_left_out_and_logged(caplog):
    async with api(default=cluster(forbidden=[("list", "nodes")])) as (http, _):
        kinds = [NODE, POD, POLICY]
        assert access.readable_of(kinds, await access.access_problems(http, kinds)) == [POD]
    assert [record.getMessage() for record in caplog.records] == [
        "/api/v1/nodes is off: RBAC does not let us list it",
        f"/apis/podwright.dev/v1alpha1/schedulerpolicies is off: {NOT_SERVED}",
    ]


async def test_kinds_that_the_version_of_kubernetes_does_not_have_are_left_out_silently(caplog):
    """Unless they are served and forbidden."""
    async with api(default=cluster(forbidden=[("list", "nodes")])) as (http, _):
        kinds, absent = [NODE, POD, POLICY], ["Node", "SchedulerPolicy"]
        assert access.readable_of(kinds, await access.access_problems(http, kinds), absent) == [POD]
    assert [record.getMessage() for record in caplog.records] == ["/api/v1/nodes is off: RBAC does not let us list it"]


async def test_a_group_is_asked_for_once_and_all_rights_at_the_same_time():
    rights_asked = asyncio.Barrier(4)
    answer = cluster()

    async def answer_together(request):
        if request.method == "POST":
            await rights_asked.wait()
        return await answer(request)

    async with api(default=answer_together) as (http, script), patience():
        assert await access.access_problems(http, [NODE, POD]) == dict.fromkeys([NODE, POD])
    assert script.asked.count("GET /api/v1") == 1
    assert len(script.asked) == 5


async def test_all_problems_of_required_kinds_are_one_error():
    async with api(default=cluster(served=["pods"], forbidden=[("watch", "pods")])) as (http, _):
        with pytest.raises(AccessError) as missing:
            await access.require(http, [NODE, POD])
    assert str(missing.value) == f"/api/v1/nodes: {NOT_SERVED}; /api/v1/pods: RBAC does not let us watch it"


async def test_an_error_of_the_server_is_not_a_missing_kind(monkeypatch):
    monkeypatch.setattr(http_module, "READ_RETRY", without_pauses(http_module.READ_RETRY))
    async with api(default=says(500)) as (http, _):
        with pytest.raises(ClusterError):
            await access.require(http, [NODE])


@pytest.mark.parametrize(
    ("version", "minor"),
    [
        pytest.param({"major": "1", "minor": "36"}, 36, id="a plain number"),
        pytest.param({"major": "1", "minor": "36+"}, 36, id="a vendor's suffix"),
        pytest.param({}, None, id="none"),
    ],
)
async def test_the_minor_version_is_read(version, minor):
    async with api(says(200, version)) as (http, _):
        assert await access.server_minor(http) == minor


async def test_only_a_few_questions_are_open_at_a_time():
    """Each one beside another needs a connection of its own."""
    served = [{"name": kind.plural} for kind in STORED]
    is_open = most = 0

    async def answer_slowly(request):
        nonlocal is_open, most
        is_open += 1
        most = max(most, is_open)
        await asyncio.sleep(0.01)
        is_open -= 1
        found = (
            says(200, {"resources": served}) if request.method == "GET" else says(201, {"status": {"allowed": True}})
        )
        return await found(request)

    async with api(default=answer_slowly) as (http, script):
        problems = await access.access_problems(http, STORED)
    assert problems == dict.fromkeys(STORED)
    assert len(script.asked) > 2 * access.QUESTIONS_AT_A_TIME
    assert most == access.QUESTIONS_AT_A_TIME
