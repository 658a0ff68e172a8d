"""Kopf waits for a kind that is not served, instead of ending."""

from __future__ import annotations

import asyncio

import pytest

from podwright.controllers import missing_kinds
from podwright.kube.kinds import POLICY
from support.controllers.kit import FakeRuntime, login_to, running_kopf, served_kind
from support.http.kit import forever, page, says, served, streams, without_pauses


def group(name, version):
    return {"name": name, "preferredVersion": {"version": version}, "versions": [{"version": version}]}


DISCOVERY = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": [served_kind("namespaces", "Namespace")]},
    "/apis": {"groups": [group(POLICY.group, POLICY.version)]},
    POLICY.root: {"resources": [served_kind(POLICY.plural, POLICY.kind)]},
}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(missing_kinds, "RETRY", without_pauses(missing_kinds.RETRY))


def ignore(_raw):
    pass


def lines_of(caplog):
    return [record.getMessage() for record in caplog.records if record.name == missing_kinds.__name__]


async def test_a_list_of_policies_waits_until_they_are_served_and_says_so_once(caplog):
    caplog.set_level("INFO")
    async with served(says(404), says(404), says(404), says(200), says(404), says(200)) as (url, script):
        info = await login_to(url, ignore).session()
        for _ in range(2):
            response = await info.aiohttp_session.get(url + POLICY.collection)
            assert response.status == 200
        await info.aiohttp_session.close()
    assert len(script.requests) == 6
    missing, found = lines_of(caplog)[:2]
    assert missing == f"{POLICY.collection} is not served any more (was the CRD deleted?); Kopf waits for it"
    assert found == f"{POLICY.collection} is served again"
    assert lines_of(caplog) == [missing, found, missing, found]


@pytest.mark.parametrize("path", ["/apis/podwright.dev/v1alpha1", f"{POLICY.collection}/one", "/api/v1/pods"])
async def test_a_404_for_anything_else_is_an_answer(path):
    async with served(default=says(404)) as (url, script):
        info = await login_to(url, ignore).session()
        assert (await info.aiohttp_session.get(url + path)).status == 404
        await info.aiohttp_session.close()
    assert len(script.requests) == 1


async def test_kopf_survives_that_policies_are_not_served_for_a_while(caplog):
    """With Kopf itself: without the middleware it ends at the first 404."""
    runtime, asked, arrived = FakeRuntime(kopf_watches_pods=False), [], asyncio.Event()
    runtime.crds_watchable, events = False, runtime.policies.events
    runtime.policies.take_event = lambda event: (events.append(event), arrived.set())
    policy = {"metadata": {"name": "one", "uid": "u1", "resourceVersion": "1"}}
    lists = [says(404), says(404), page(policy, version=1)]

    async def answer(request):
        if request.path != POLICY.collection:
            said = says(200, DISCOVERY[request.path]) if request.path in DISCOVERY else says(404)
        else:
            asked.append(dict(request.query))
            said = streams(then=forever) if "watch" in request.query else lists.pop(0)
        response = await said(request)
        response.content_type = "application/json"
        return response

    async with served(default=answer) as (url, _), running_kopf(runtime, login_to(url, ignore)) as running:
        arrival = asyncio.create_task(arrived.wait())
        await asyncio.wait({running, arrival}, return_when=asyncio.FIRST_COMPLETED)
        ended = running.done()
        arrival.cancel()
    assert not ended
    assert [event["object"]["metadata"]["name"] for event in events] == ["one"]
    assert len([query for query in asked if "watch" not in query]) == 3
    assert not [record for record in caplog.records if record.exc_info]
