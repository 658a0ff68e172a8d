"""The cluster as plugins reach it: waits for stored objects read the cache and send no request."""

from __future__ import annotations

import asyncio
import time

import pytest

from podwright.core.framework.interface import ClusterError, ClusterTimeoutError
from podwright.core.objects.watched_kinds import trimmed
from podwright.core.state.object_store import ObjectStore
from podwright.engine.outcomes.binding.cycle import BindingCycles
from podwright.engine.outcomes.binding.limiter import BindLimiter
from podwright.engine.outcomes.binding.plugin_cluster import STORED_WHOLE, PluginCluster, StoreWaits

CLAIM = "PersistentVolumeClaim"


class Api:
    """A Cluster that keeps the waits that reach it, and answers nothing."""

    def __init__(self):
        self.waits = []

    async def get(self, *_):
        raise AssertionError("a wait reads nothing from the API server")

    bind = update = create = patch = delete = get

    async def wait_for(self, kind, name, namespace, done, timeout):
        self.waits.append((kind, name, namespace, timeout))


def claim(name="data", phase="Pending", namespace="team"):
    return {"metadata": {"name": name, "namespace": namespace}, "status": {"phase": phase}}


def is_bound(raw):
    return raw is not None and raw["status"]["phase"] == "Bound"


@pytest.fixture
def store():
    store = ObjectStore()
    store.set(CLAIM, claim())
    return store


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def cluster(api, store):
    return reaching(api, store)


def reaching(api, store):
    return PluginCluster(api, BindingCycles(), store=store, limiter=BindLimiter(time.monotonic))


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_wait_ends_when_the_watch_brings_the_change(cluster, store):
    wait = asyncio.create_task(cluster.wait_for(CLAIM, "data", "team", is_bound, 60))
    await settle()
    store.set(CLAIM, claim(phase="Lost"))
    await settle()
    assert not wait.done()
    store.set(CLAIM, claim(phase="Bound"))
    await settle()
    assert wait.done()
    await wait


async def test_a_wait_for_what_is_so_already_ends_at_once(cluster, store):
    store.set(CLAIM, claim(phase="Bound"))
    await cluster.wait_for(CLAIM, "data", "team", is_bound, 60)


async def test_an_object_that_is_deleted_or_created_is_a_change(cluster, store):
    gone = asyncio.create_task(cluster.wait_for(CLAIM, "data", "team", lambda raw: raw is None, 60))
    created = asyncio.create_task(cluster.wait_for("StorageClass", "fast", "", lambda raw: raw is not None, 60))
    await settle()
    store.remove(CLAIM, "data", "team")
    store.set("StorageClass", {"metadata": {"name": "fast"}})
    await asyncio.gather(gone, created)


async def test_a_wait_reaches_its_timeout(cluster):
    with pytest.raises(ClusterTimeoutError, match=r"PersistentVolumeClaim team/data: not as expected after 0\.01 s"):
        await cluster.wait_for(CLAIM, "data", "team", is_bound, 0.01)


@pytest.mark.parametrize("error", [ValueError("bad"), TimeoutError("of its own")], ids=repr)
async def test_an_exception_of_the_condition_reaches_the_waiting_plugin_and_not_the_watch(cluster, store, error):
    def done(raw):
        if raw["status"]["phase"] == "Lost":
            raise error
        return False

    wait = asyncio.create_task(cluster.wait_for(CLAIM, "data", "team", done, 60))
    await settle()
    store.set(CLAIM, claim(phase="Lost"))
    with pytest.raises(type(error)):
        await wait


async def test_many_changes_of_other_objects_ask_no_condition_again(cluster, store):
    asked = []
    waits = [
        asyncio.create_task(cluster.wait_for(CLAIM, name, "team", lambda raw, name=name: asked.append(name), 60))
        for name in ("data", "logs")
    ]
    await settle()
    assert sorted(asked) == ["data", "logs"]
    for number in range(1_000):
        store.set(CLAIM, claim(f"other-{number}"))
        store.set(CLAIM, claim("data", namespace="elsewhere"))
    await settle()
    assert len(asked) == 2
    store.set(CLAIM, claim("logs"))
    await settle()
    assert asked[2:] == ["logs"]
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_waits_that_ended_leave_nothing(store):
    waits = StoreWaits(store)
    tasks = [asyncio.create_task(waits.wait_for(CLAIM, f"c{n}", "team", is_bound, 60)) for n in range(10)]
    await settle()
    assert len(waits) == 10
    for n in range(5):
        store.set(CLAIM, claim(f"c{n}", "Bound"))
    for task in tasks[5:]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(waits) == 0


@pytest.mark.parametrize("kind", ["Pod", "Node", "ReplicaSet"])
async def test_a_wait_for_an_object_that_the_store_does_not_have_whole_goes_to_the_api_server(cluster, api, kind):
    await cluster.wait_for(kind, "one", "team", lambda _raw: False, 7)
    assert api.waits == [(kind, "one", "team", 7)]


@pytest.mark.parametrize("kind", sorted(STORED_WHOLE))
def test_the_store_keeps_all_fields_that_may_be_waited_for(kind):
    raw = {"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": {"a": 1}, "status": {"phase": "b"}, "data": 1}
    assert trimmed(kind, raw) == raw


async def test_a_refused_binding_is_an_error(store):
    class Refusing(Api):
        async def bind(self, *_):
            raise ClusterError("conflict", 409)

    with pytest.raises(ClusterError, match="conflict"):
        await reaching(Refusing(), store).bind(_Pod(), "n1", {})


class _Pod:
    uid = "u1"
