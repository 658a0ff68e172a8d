"""Discovery of kinds, with pod groups: the best served and readable version is used, as it comes and goes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from podwright.core.framework.features import AUTOMATIC, Features
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import (
    GROUP_LABEL,
    PLUGINS_API,
    PLUGINS_KIND,
    VOLCANO_API,
    VOLCANO_KIND,
    WORKLOAD_API,
)
from podwright.core.objects.watched_kinds import PRIORITY_CLASS
from podwright.engine.attempts.gangs.group_changes import RANKED_AT_ONCE
from podwright.kube.pod_groups.door import pod_group_doors
from podwright.kube.pod_groups.group_status import PodGroupStatusWriter
from podwright.kube.pod_groups.priority_classes import PriorityClassDoor
from podwright.kube.watch import served_kinds as module
from podwright.kube.watch.served_kinds import ServedKinds
from support.engine.kit import Rig, ours
from support.http.kit import api, says
from support.waiting import patience

V1BETA1, V1ALPHA3, V1ALPHA2 = (f"{WORKLOAD_API}/{version}" for version in ("v1beta1", "v1alpha3", "v1alpha2"))
CUSTOM = f"{PLUGINS_API}/v1alpha1"
VOLCANO, CLASSES = f"{VOLCANO_API}/v1beta1", f"{WORKLOAD_API}/v1"
GROUP = {"metadata": {"name": "gang", "namespace": "default", "uid": "g"}, "spec": {"minMember": 2}}


class Server:
    """An API server with these versions of pod groups; RBAC allows all verbs but the `forbidden` ones."""

    def __init__(self, *served):
        self.served = set(served)
        self.forbidden: set[str] = set()
        self.asked: list[str] = []

    async def answer(self, request):
        self.asked.append(request.path)
        if request.method == "POST":
            verb = (await request.json())["spec"]["resourceAttributes"]["verb"]
            return await says(201, {"status": {"allowed": verb not in self.forbidden}})(request)
        version = request.path.removeprefix("/apis/")
        if version in self.served:
            names = ("podgroups", "podgroups/status", "priorityclasses")
            return await says(200, {"resources": [{"name": name} for name in names]})(request)
        if version == V1BETA1:
            return await says(200, {"resources": [{"name": "priorityclasses"}]})(request)
        return await says(404)(request)


@asynccontextmanager
async def discovering(server, **gates):
    rig = Rig()
    async with api(default=server.answer) as (http, _):
        started = []

        def start(name, reflector):
            started.append((name, reflector.resource.version))
            return asyncio.create_task(asyncio.sleep(60))

        writer = PodGroupStatusWriter(http, lambda: 0.0)
        features = Features({**AUTOMATIC, **gates})
        apis = ServedKinds(http, pod_group_doors(rig.engine, writer, features), start=start)
        yield apis, rig, started
        for api_in_use in apis.served.values():
            api_in_use.task.cancel()


def show(kind, raw):
    """As the reflector of the kind does it."""
    kind.reflector.known[kind.door.key(raw)] = 1
    kind.door.put(raw)


def in_group(rig, **fields):
    """True if a pod with these fields is a member of a group."""
    return rig.engine.cache.groups.is_member(parse_pod(ours("p", **fields)))


@pytest.mark.parametrize(
    ("served", "version"),
    [
        pytest.param((V1BETA1, V1ALPHA3), "v1beta1", id="1.37"),
        pytest.param((V1ALPHA3,), "v1alpha3", id="1.37, alpha only"),
        pytest.param((V1ALPHA2,), "v1alpha2", id="1.36"),
    ],
)
async def test_the_best_served_version_is_used(served, version):
    async with discovering(Server(*served)) as (apis, rig, started):
        assert not in_group(rig, spec={"schedulingGroup": {"podGroupName": "gang"}})
        assert await apis.discover()
        assert started == [("podgroups.scheduling.k8s.io", version)]
        assert in_group(rig, spec={"schedulingGroup": {"podGroupName": "gang"}})
        assert not in_group(rig, labels={GROUP_LABEL: "gang"})
        assert not await apis.discover()


async def test_without_served_apis_pods_have_no_group():
    async with discovering(Server()) as (apis, rig, started):
        assert not await apis.discover()
        assert started == []
        assert not in_group(rig, spec={"schedulingGroup": {"podGroupName": "gang"}})


async def test_groups_are_used_once_rbac_allows(caplog):
    server = Server(CUSTOM)
    server.forbidden = {"watch"}
    async with discovering(server) as (apis, rig, _):
        caplog.set_level("INFO")
        for _ in range(2):
            assert not await apis.discover()
        assert not in_group(rig, labels={GROUP_LABEL: "gang"})
        problems = [record.getMessage() for record in caplog.records if "RBAC" in record.getMessage()]
        assert problems == ["pod groups of scheduling.x-k8s.io are off: RBAC does not let us watch them"]
        server.forbidden = set()
        assert await apis.discover()
        assert in_group(rig, labels={GROUP_LABEL: "gang"})


async def test_the_workload_api_can_be_turned_off_by_its_gate():
    server = Server(V1BETA1, CUSTOM)
    async with discovering(server, GenericWorkload=False) as (apis, _, started):
        assert await apis.discover()
        assert started == [("podgroups.scheduling.x-k8s.io", "v1alpha1")]
        assert not [path for path in server.asked if WORKLOAD_API in path]


async def test_an_api_is_given_up_only_after_it_was_missing_for_long(monkeypatch):
    server = Server(CUSTOM)
    async with discovering(server) as (apis, rig, _):
        await apis.discover()
        show(apis.served[PLUGINS_KIND], GROUP)
        groups = rig.engine.cache.groups
        for served, known in ((set(), 1), ({CUSTOM}, 1), (set(), 1)):
            server.served = served
            assert not await apis.discover()
            assert len(groups.all()) == known
        monkeypatch.setattr(module, "GONE_SECONDS", 0.0)
        task = apis.served[PLUGINS_KIND].task
        assert await apis.discover()
        assert task.cancelling()
        assert len(groups.all()) == 0
        assert not in_group(rig, labels={GROUP_LABEL: "gang"})
        server.served = {CUSTOM}
        assert await apis.discover()
        assert in_group(rig, labels={GROUP_LABEL: "gang"})


async def test_priority_classes_are_read_while_groups_that_name_them_are_served(monkeypatch):
    monkeypatch.setattr(module, "GONE_SECONDS", 0.0)
    server = Server(CUSTOM, CLASSES)
    async with discovering(server) as (apis, rig, started):
        apis.add(PriorityClassDoor(rig.engine))
        for served in ({VOLCANO}, set(), {VOLCANO}):
            server.asked.clear()
            server.served = {CUSTOM, CLASSES, *served}
            await apis.discover()
            assert (PRIORITY_CLASS in apis.served) is bool(served)
            assert served or not [path for path in server.asked if path.endswith("selfsubjectaccessreviews")]
            if served:
                show(apis.served[PRIORITY_CLASS], {"metadata": {"name": "high"}, "value": 7})
            assert bool(rig.engine.cache.store.get(PRIORITY_CLASS, "high")) is bool(served)
        assert started.count(("priorityclasses.scheduling.k8s.io", "v1")) == 2


async def test_a_crd_that_is_installed_later_begins_priority_classes_too():
    server = Server(CLASSES)
    async with discovering(server) as (apis, rig, _):
        apis.add(PriorityClassDoor(rig.engine))
        assert not await apis.discover()
        server.served.add(VOLCANO)
        assert await apis.discover(VOLCANO_KIND) == [VOLCANO_KIND, PRIORITY_CLASS]


async def test_members_have_the_priority_of_their_group_before_pods_are_tried_again():
    async with discovering(Server(VOLCANO, CLASSES)) as (apis, rig, _):
        apis.add(PriorityClassDoor(rig.engine))
        await apis.discover()
        for index in range(2 * RANKED_AT_ONCE):
            rig.pod(f"m{index}", metadata={"annotations": {"scheduling.k8s.io/group-name": "gang"}})
        show(apis.served[VOLCANO_KIND], {**GROUP, "spec": {"minMember": 2, "priorityClassName": "high"}})
        show(apis.served[PRIORITY_CLASS], {"metadata": {"name": "high"}, "value": 7})
        await apis.served[VOLCANO_KIND].door.changed()
        assert {rig.engine.queue.get(uid).pod.priority for uid in rig.engine.queue.uids()} == {7}


async def test_an_upgrade_of_the_server_replaces_the_version(monkeypatch):
    monkeypatch.setattr(module, "GONE_SECONDS", 0.0)
    server = Server(V1ALPHA2)
    async with discovering(server) as (apis, rig, started):
        await apis.discover()
        server.served = {V1BETA1}
        assert await apis.discover()
        assert [version for _, version in started] == ["v1alpha2", "v1beta1"]
        assert in_group(rig, spec={"schedulingGroup": {"podGroupName": "gang"}})


async def test_discovery_follows_the_crd_at_once(monkeypatch):
    monkeypatch.setattr(module, "CRD_POLL_SECONDS", 0.01)
    server = Server()
    crd = {"metadata": {"name": "podgroups.scheduling.x-k8s.io"}}
    async with discovering(server) as (apis, rig, _), patience():
        running = asyncio.create_task(apis.run())
        apis.crds[PLUGINS_KIND].put(crd)
        await asyncio.sleep(0.05)
        server.served = {CUSTOM}
        await until(lambda: in_group(rig, labels={GROUP_LABEL: "gang"}))
        apis.served[PLUGINS_KIND].reflector.synced.set()
        apis.crds[PLUGINS_KIND].drop("podgroups.scheduling.x-k8s.io", None)
        server.served = set()
        await until(lambda: not in_group(rig, labels={GROUP_LABEL: "gang"}))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_event_of_a_crd_in_use_triggers_no_requests():
    server = Server(CUSTOM)
    async with discovering(server) as (apis, _, _), patience():
        await apis.discover()
        asked = len(server.asked)
        running = asyncio.create_task(apis.run())
        apis.crds[PLUGINS_KIND].put({})
        await until(lambda: not apis.crds[PLUGINS_KIND].changed.is_set())
        await asyncio.sleep(0.05)
        assert len(server.asked) == asked
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(holds):
    while not holds():
        await asyncio.sleep(0.01)
