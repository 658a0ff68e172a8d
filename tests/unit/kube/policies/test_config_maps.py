"""The ConfigMaps of local policies' params: read one by one, with the rights of each namespace, at a bounded rate."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from aiohttp import web

from podwright.api.spec.rules import config_map_problem
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.kube.policies import config_maps as module
from podwright.kube.policies.config_maps import ConfigMapReader
from support.engine.kit import Rig
from support.http.kit import api, says
from support.policies.local import delegating, local_policy
from support.waiting import until

FILTER = {"rules": {"filters": [{"name": "f", "expression": "node.name == params.node"}]}}
PATH = "/api/v1/namespaces/team-a/configmaps/{}"


def config_map(name="tiers", version=1, **data):
    return {"metadata": {"name": name, "namespace": "team-a", "resourceVersion": str(version)}, "data": data}


def wanting(name="ours", source="tiers", namespace="team-a", generation=1):
    return local_policy(
        name, namespace, generation, paramsFrom={"configMapRef": {"name": source}}, params={"node": "own"}, **FILTER
    )


class Server:
    """Serves ConfigMaps by path, an error for those that are a number."""

    def __init__(self):
        self.objects = {}

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        found = self.objects.get(request.path, 404)
        if isinstance(found, int):
            return await says(found)(request)
        if "PartialObjectMetadata" in request.headers["Accept"]:
            found = {"metadata": found["metadata"]}
        return await says(200, found)(request)


@asynccontextmanager
async def reading(monkeypatch, *policies, watched=()):
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(module, "READS_PER_SECOND", 500.0)
    server, engine = Server(), Rig().engine
    engine.policies.apply(delegating(delegation={"rules": True, "strategies": ["Random"]}))
    for raw in policies:
        assert engine.policies.apply_local(raw).accepted
    async with api(default=server) as (http, script):
        reader = ConfigMapReader(http, engine, is_watched=watched.__contains__)
        task = asyncio.create_task(reader.run())
        stored = lambda name="tiers": engine.cache.store.get("ConfigMap", name, "team-a")
        missing = lambda key="team-a/ours": engine.policies.work_of(key).missing_params
        try:
            yield SimpleNamespace(server=server, engine=engine, script=script, stored=stored, missing=missing)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_config_map_is_read_and_its_changes_are_seen(monkeypatch):
    async with reading(monkeypatch, wanting()) as it:
        it.server.objects[PATH.format("tiers")] = config_map(node="a")
        await until(lambda: it.stored() and it.stored()["data"] == {"node": "a"})
        await until(lambda: not it.missing())
        it.server.objects[PATH.format("tiers")] = config_map(version=2, node="b")
        await until(lambda: it.stored()["data"] == {"node": "b"})


async def test_until_it_was_read_the_status_says_so(monkeypatch):
    noted = []
    monkeypatch.setattr(ActivePolicies, "note_config_map", lambda _self, _config_map, why: noted.append(why))
    async with reading(monkeypatch, wanting()) as it:
        it.server.objects[PATH.format("tiers")] = config_map(node="a")
        await until(lambda: len(noted) >= 2)
    assert noted[:2] == ["has not been read yet", ""]


async def test_an_unchanged_config_map_is_not_transferred_again(monkeypatch):
    async with reading(monkeypatch, wanting()) as it:
        it.server.objects[PATH.format("tiers")] = config_map(node="a")
        await until(lambda: len(it.script.requests) >= 6)
        whole = [each for each in it.script.requests if each.headers["Accept"] == "application/json"]
        assert len(whole) == 1
        assert {each.method for each in it.script.requests} == {"GET"}


async def test_a_config_map_that_is_deleted_while_used_keeps_its_last_content(monkeypatch):
    async with reading(monkeypatch, wanting()) as it:
        it.server.objects[PATH.format("tiers")] = config_map(node="a")
        await until(it.stored)
        (active,) = [each for each in it.engine.policies.built if each.compiled.name == "team-a/ours"]
        plugin = active.framework.plugins["LocalRules"]
        (params,) = plugin.params.values()
        assert params.current()["node"] == "a"
        del it.server.objects[PATH.format("tiers")]
        await until(lambda: "exist" in it.missing())
        assert it.missing() == "ConfigMap team-a/tiers does not exist: its last content stays in use"
        assert params.current()["node"] == "a"


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (403, "cannot be read (says 403; a Role of the namespace has to let the operator's service account `get` it"),
        (500, "cannot be read (says 500)"),
    ],
)
async def test_what_keeps_it_from_being_read_is_named(monkeypatch, status, shown):
    async with reading(monkeypatch, wanting()) as it:
        it.server.objects[PATH.format("tiers")] = status
        await until(lambda: "cannot" in it.missing())
        assert it.missing().startswith(f"ConfigMap team-a/tiers {shown}")
        assert it.missing().endswith("the params of the policy alone are used")
        it.server.objects[PATH.format("tiers")] = config_map(node="a")
        await until(lambda: not it.missing())


async def test_an_error_of_the_server_does_not_take_what_is_known(monkeypatch):
    async with reading(monkeypatch, wanting()) as it:
        it.server.objects[PATH.format("tiers")] = config_map(node="a")
        await until(it.stored)
        it.server.objects[PATH.format("tiers")] = 500
        await until(lambda: "cannot" in it.missing())
        assert it.stored()["data"] == {"node": "a"}


async def test_a_config_map_that_is_too_large_is_not_taken(monkeypatch):
    async with reading(monkeypatch, wanting()) as it:
        it.server.objects[PATH.format("tiers")] = config_map(node="x" * 4097)
        await until(lambda: "characters" in it.missing())
        assert "has 4097 characters under node, more than 4096" in it.missing()
        assert it.stored() is None


async def test_only_what_active_policies_name_is_read(monkeypatch):
    async with reading(monkeypatch, wanting(), local_policy("plain", strategy={"type": "Random"})) as it:
        for name in ("tiers", "other"):
            it.server.objects[PATH.format(name)] = config_map(name, node="a")
        await until(it.stored)
        it.engine.policies.apply_local(wanting(source="other", generation=2))
        await until(lambda: it.stored("other"))
        assert it.stored() is None
        it.engine.policies.remove("team-a/ours")
        await until(lambda: it.stored("other") is None)
        count = len(it.script.requests)
        await asyncio.sleep(0.05)
        assert len(it.script.requests) <= count + 1
        assert {each.path for each in it.script.requests} == {PATH.format("tiers"), PATH.format("other")}


async def test_a_namespace_that_is_watched_anyway_is_not_read(monkeypatch):
    async with reading(monkeypatch, wanting(), watched=("team-a",)) as it:
        await asyncio.sleep(0.05)
        assert it.script.requests == []


async def test_all_together_are_read_at_a_bounded_rate(monkeypatch):
    policies = [wanting(f"p{i}", f"c{i}") for i in range(10)]
    async with reading(monkeypatch, *policies) as it:
        pauses = []
        sleep = asyncio.sleep

        async def counting(seconds):
            pauses.append(seconds)
            await sleep(seconds)

        monkeypatch.setattr(module.asyncio, "sleep", counting)
        every = {PATH.format(f"c{i}") for i in range(10)}
        await until(lambda: {each.path for each in it.script.requests} == every)
        monkeypatch.setattr(module.asyncio, "sleep", sleep)
        assert len(it.script.requests) <= len([each for each in pauses if each == 1 / 500.0]) + 2


def test_the_number_of_keys_is_bounded():
    assert config_map_problem({"data": {f"k{i}": "" for i in range(65)}}) == "has 65 keys, more than 64"
    assert config_map_problem({}) == ""
