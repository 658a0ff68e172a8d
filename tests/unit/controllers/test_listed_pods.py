"""Kopf's lists of pods go to the intake at once; Kopf handles only what its watch reports."""

from __future__ import annotations

import asyncio

import kopf
import orjson
import pytest
from kopf._core.reactor import queueing

from podwright.kube.kinds import POD, POLICY
from support.controllers.kit import FakeRuntime, login_to, running_kopf, served_kind
from support.http.kit import forever, page, says, served, streams
from support.objects.builders import make_pod
from support.waiting import patience

DISCOVERY = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {
        "resources": [served_kind("namespaces", "Namespace"), served_kind(POD.plural, POD.kind, namespaced=True)]
    },
    "/apis": {"groups": []},
}


def pod(name, version):
    raw = make_pod(name)
    return {**raw, "metadata": {**raw["metadata"], "uid": name, "resourceVersion": str(version)}}


def event(kind, raw):
    return {"type": kind, "object": raw}


async def listed_at(path, *answers):
    """Returns Kopf's view of the path, and the pods that the intake gets of it."""
    taken = []
    async with served(*answers) as (url, _):
        info = await login_to(url, taken.append).session()
        response = await info.aiohttp_session.get(url + path)
        answer = await response.json(content_type=None)
        await info.aiohttp_session.close()
    return answer, taken


@pytest.mark.parametrize("path", [POD.collection, POD.collection_in("team"), POD.collection_in("pods")])
async def test_the_intake_gets_the_pods_of_a_list_and_kopf_the_rest_of_it(path):
    pods = [pod("a", 1), pod("b", 2)]
    answer, taken = await listed_at(path, page(*pods, version=7, following="more"))
    assert taken == pods
    assert answer == {"metadata": {"continue": "more", "resourceVersion": "7"}, "items": []}


@pytest.mark.parametrize(
    "path",
    [POLICY.collection, "/api/v1/namespaces", "/api/v1/namespaces/pods", POD.path("pods", "team"), "/apis/a/v1/pods"],
)
async def test_kopf_gets_all_other_answers_whole(path):
    items = [{"metadata": {"name": "one", "uid": "u1"}}]
    answer, taken = await listed_at(path, page(*items, version=7))
    assert (answer["items"], taken) == (items, [])


async def test_a_deeply_nested_pod_does_not_make_the_list_unreadable():
    deep = orjson.Fragment(b'{"x":' * 1_500 + b"1" + b"}" * 1_500)
    answer, taken = await listed_at(POD.collection, page({**pod("a", 1), "status": deep}, pod("b", 2), version=7))
    assert [raw["metadata"]["name"] for raw in taken] == ["a", "b"]
    assert answer["items"] == []


async def test_kopf_gets_errors_whole():
    answer, taken = await listed_at(POD.collection, says(410))
    assert (answer["reason"], taken) == ("R410", [])


@pytest.mark.parametrize("pods", [10, 100])
async def test_kopf_starts_workers_only_for_what_its_watch_reports(monkeypatch, pods):
    """With Kopf itself. The list has two pages; after an error 410, Kopf lists again."""
    runtime, workers, arrived = FakeRuntime(readable=False), [], asyncio.Event()
    runtime.crds_watchable, events = False, runtime.pending.events
    runtime.pending.take_event = lambda raw: (events.append(raw), len(events) == 4 and arrived.set())
    worker = queueing.worker
    monkeypatch.setattr(queueing, "worker", lambda **of: (workers.append(of["key"]), worker(**of))[1])
    items = [pod(f"pod-{n}", n) for n in range(pods)]
    lists = [
        page(*items[::2], version=900, following="more"),
        page(*items[1::2], version=900),
        page(*items, version=910),
    ]
    changed, created = pod("pod-1", 901), pod("new", 902)
    first = [event("MODIFIED", changed), event("ADDED", created), event("DELETED", pod("pod-2", 903))]
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    watches = [streams(*first, expired), streams(event("ADDED", pod("newer", 911)), then=forever)]
    since = []

    async def answer(request):
        if request.path != POD.collection:
            said = says(200, DISCOVERY[request.path]) if request.path in DISCOVERY else says(404)
        elif "watch" in request.query:
            since.append(request.query["resourceVersion"])
            said = watches.pop(0)
        else:
            said = lists.pop(0)
        response = await said(request)
        response.content_type = "application/json"
        return response

    async with (
        served(default=answer) as (url, _),
        running_kopf(runtime, login_to(url, runtime.pending.put_listed)),
        patience(),
    ):
        await arrived.wait()
    assert [raw["metadata"]["name"] for raw in runtime.pending.listed] == [
        raw["metadata"]["name"] for raw in [*items[::2], *items[1::2], *items]
    ]
    handled = {(raw["type"], raw["object"]["metadata"]["name"]) for raw in events}
    assert handled == {("MODIFIED", "pod-1"), ("ADDED", "new"), ("DELETED", "pod-2"), ("ADDED", "newer")}
    assert since == ["900", "910"]
    assert sorted(uid for _, uid in workers) == ["new", "newer", "pod-1", "pod-2"]
    assert kopf.OperatorSettings().watching.initial_streaming is False  # else there would be no list
