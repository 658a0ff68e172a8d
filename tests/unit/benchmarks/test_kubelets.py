"""Simulated kubelets: pods run at once, end at once when they are deleted, and come back without a node."""

import asyncio
import contextlib

import pytest
from benchmarks.kubelets import Kubelets, successor

from support.waiting import patience


def pod(name, phase="Pending", **metadata):
    metadata = {"name": name, "namespace": "default", "labels": {"queue": "q"}, "resourceVersion": "1", **metadata}
    return {"metadata": metadata, "spec": {"nodeName": "n", "priority": 5}, "status": {"phase": phase}}


class FakeApi:
    """Answers with `pods`, then with `events`, and records what is sent."""

    def __init__(self, pods=(), events=(), status=200):
        self.pods, self.events, self.status = pods, events, status
        self.sent = []

    async def get(self, _path):
        return {"items": self.pods, "metadata": {"resourceVersion": "7"}}

    async def watch(self, _path, version):
        assert version == "7"
        for kind, raw in self.events:
            yield {"type": kind, "object": raw}
        await asyncio.Event().wait()

    async def _answer(self, method, path, body=None):
        self.sent.append((method, path.removeprefix("/api/v1/namespaces/default/pods"), body))
        return self.status

    async def post(self, path, body):
        return await self._answer("POST", path, body)

    async def patch(self, path, body):
        return await self._answer("PATCH", path, body["status"]["phase"])

    async def delete(self, path):
        return await self._answer("DELETE", path)


def simulated(api, requests):
    async def run():
        kubelets, settled = Kubelets(api), asyncio.Event()
        task = asyncio.create_task(kubelets.run(settled))
        async with patience():
            await asyncio.wait({task, asyncio.create_task(settled.wait())}, return_when=asyncio.FIRST_COMPLETED)
            at_first = len(api.sent)
            while not task.done() and kubelets.sent < requests:
                await asyncio.sleep(0)
        if task.done():
            await task
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return at_first

    return asyncio.run(run())


def test_pods_that_have_nodes_already_run_before_the_simulation_is_settled():
    api = FakeApi([pod("a"), pod("b", "Running")])
    assert simulated(api, 1) == 1
    assert api.sent == [("PATCH", "/a/status", "Running")]


def test_a_bound_pod_runs_and_a_deleted_one_ends_and_comes_back():
    ending = pod("c", "Running", deletionTimestamp="2026-01-01T00:00:00Z")
    api = FakeApi((), [("ADDED", pod("b")), ("MODIFIED", ending), ("DELETED", ending)])
    simulated(api, 3)
    again = successor(ending)
    assert api.sent == [("PATCH", "/b/status", "Running"), ("DELETE", "/c", None), ("POST", "", again)]


def test_a_pod_succeeds_after_its_time():
    api = FakeApi([pod("a", annotations={"benchmarks/runs-for": "1ms"})])
    simulated(api, 2)
    assert api.sent == [("PATCH", "/a/status", "Running"), ("PATCH", "/a/status", "Succeeded")]
    assert successor(api.pods[0])["metadata"]["annotations"] == {"benchmarks/runs-for": "1ms"}


def test_a_successor_keeps_labels_and_spec_but_no_node_and_has_a_new_name():
    first = successor(pod("c"))
    assert first["metadata"] == {"name": "c.1", "namespace": "default", "labels": {"queue": "q"}}
    assert first["spec"] == {"priority": 5}
    assert successor(first)["metadata"]["name"] == "c.2"


@pytest.mark.parametrize(("status", "is_failure"), [(404, False), (409, False), (403, True), (500, True)])
def test_requests_may_only_come_too_late(status, is_failure):
    api = FakeApi([pod("a")], status=status)
    if is_failure:
        with pytest.raises(ExceptionGroup) as raised:
            simulated(api, 1)
        assert raised.group_contains(RuntimeError, match=f"HTTP {status}")
    else:
        simulated(api, 1)
