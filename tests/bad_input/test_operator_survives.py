"""The operator, as a separate process, survives every object of this folder and logs each error once.

The test writes the objects into the sandbox's store without validation. Some exist before the operator starts; others
are added, changed and deleted while it runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from podwright.sandbox import Sandbox
from podwright.sandbox.store import Revision, StoreChange
from podwright.testing import Process
from podwright.testing.processes import free_port
from support.control_plane.operator_process import Operator, wait_ready
from support.objects import policies
from support.objects.bad_objects import BadObject, read
from support.objects.builders import make_pod

pytestmark = pytest.mark.slow

STORED = {
    "pending": "pods",
    "assigned": "pods",
    "nodes": "nodes",
    "Namespace": "namespaces",
    "Service": "services",
    "ReplicaSet": "replicasets.apps",
}
"""The sandbox's collection for each stream."""
SELECTOR_FIELDS = {"pending": {"schedulerName": "podwright"}, "assigned": {"nodeName": "node-0001"}}
"""The fields by which the API server selects pods for a stream, if the spec itself is malformed."""
NODE = "node-0001"


class Cluster:
    """The sandbox, with objects that it would not accept."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._cluster = sandbox.cluster

    def put(self, bad: BadObject, name: str) -> None:
        """Stores the object under this name, or its next version. An object without metadata stays unnamed."""
        store = self._cluster.store
        store.rv += 1
        own = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(store.rv)}
        raw, metadata = bad.raw, bad.raw.get("metadata")
        if isinstance(metadata, dict):
            raw = {**raw, "metadata": {**metadata, **own}}
        namespace = {} if bad.stream in ("nodes", "Namespace") else {"namespace": "default"}
        status = {"phase": "Pending"}
        entry = Revision(
            {"metadata": {**own, **namespace}, "spec": SELECTOR_FIELDS.get(bad.stream, {}), "status": status}, store.rv
        )
        entry.data = orjson.dumps({key: value for key, value in raw.items() if key not in ("kind", "apiVersion")})
        collection = store[STORED[bad.stream]]
        collection.record(StoreChange(store.rv, collection.entries.get(entry.key), entry))

    def remove(self, bad: BadObject, name: str) -> None:
        stored = STORED[bad.stream]
        for key, entry in list(self._cluster.store[stored].entries.items()):
            if key[1] == name:
                self._cluster.store.remove(stored, entry)

    async def good_pod(self, name: str) -> None:
        """Waits until a valid pod is placed: by then the operator has processed everything before it."""
        kind = self._cluster.kinds.named("pods")
        raw = make_pod(name, spec={"schedulerName": "podwright", "nodeSelector": {"kubernetes.io/hostname": NODE}})
        self._cluster.create(kind, "default", raw)
        await until(lambda: self._cluster.get(kind, "default", name).obj["spec"].get("nodeName") == NODE, name)


async def until(holds: Callable[[], bool], what: str) -> None:
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"timed out: {what}")


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(kubelet=False, controllers=False) as found:
        definitions = found.cluster.kinds.named("customresourcedefinitions.apiextensions.k8s.io")
        found.cluster.create(definitions, "", policies.load(policies.CRD))
        found.add_nodes(1)
        yield found


@asynccontextmanager
async def running(sandbox: Sandbox, folder: Path, intake: str) -> AsyncIterator[Operator]:
    """A ready operator. Stops it at the end."""
    port = free_port()
    kubeconfig = sandbox.write_kubeconfig(folder / "kubeconfig")
    command = [sys.executable, "-m", "podwright", "run", f"--kubeconfig={kubeconfig}", f"--pod-intake={intake}"]
    process = Process("operator", [*command, f"--health-address=127.0.0.1:{port}"], folder / "operator.log")
    operator = Operator(process, port)
    process.start()
    try:
        await asyncio.to_thread(wait_ready, operator)
        yield operator
    finally:
        await asyncio.to_thread(process.stop, 30)


def errors(operator: Operator, bad: BadObject, name: str) -> list[str]:
    """The log lines that name the object and the field. For an object without a name they name the collection."""
    named = f"/{name}:" if STORED[bad.stream] == "pods" else f" {name}:"
    field = bad.error or ""
    if nameless(bad):
        named, field = f"/{STORED[bad.stream]}: ", "metadata"
    return [line for line in operator.log().splitlines() if named in line and field in line]


def nameless(bad: BadObject) -> bool:
    return not isinstance(bad.raw.get("metadata"), dict)


@pytest.mark.parametrize("intake", ["watch", "kopf"])
async def test_the_operator_survives_bad_objects_and_logs_each_error_once(sandbox, tmp_path, intake):
    cluster, objects = Cluster(sandbox), read()
    for bad in objects:
        cluster.put(bad, f"early-{bad.stem}")
    async with running(sandbox, tmp_path, intake) as operator:
        await cluster.good_pod("first")
        for bad in objects:
            cluster.put(bad, f"early-{bad.stem}")
            cluster.put(bad, f"late-{bad.stem}")
        await cluster.good_pod("second")
        logged = [(bad, f"{when}-{bad.stem}") for bad in objects for when in ("early", "late")]
        for bad, name in logged:
            if bad.error is not None:
                await until(lambda bad=bad, name=name: bool(errors(operator, bad, name)), f"the error about {name}")
        for bad in objects:
            cluster.remove(bad, f"early-{bad.stem}")
            cluster.put(bad, f"late-{bad.stem}")
        await cluster.good_pod("third")
        assert operator.process.alive
        assert operator.ready
        assert operator.get("/livez") == (200, "ok")
        for bad, name in logged:
            assert len(errors(operator, bad, name)) == (0 if bad.error is None else 1), name
    assert operator.process.returncode == 0
    assert "Traceback" not in operator.log()
