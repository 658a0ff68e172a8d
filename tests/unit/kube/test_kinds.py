"""The registry of watched kinds: one entry is enough to watch a kind."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import quote, unquote

import pytest

from podwright.core.framework.interface import ClusterError
from podwright.kube.kinds import POD, REQUIRED


def test_only_pods_and_nodes_are_required():
    assert {resource.kind for resource in REQUIRED} == {"Pod", "Node"}


ONE_MORE_KIND = """
import asyncio, pathlib, sys
from podwright.core.objects import watched_kinds as registry

entry = registry.WatchedKind("RuntimeClass", "node.k8s.io", "v1", "runtimeClasses", namespaced=False, spec_fields=("kept",))
registry.STORED_KINDS += (entry,)
registry.WATCHED_KINDS += (entry,)

from podwright.core.framework.cluster_events import Action, ClusterEvent
from podwright.kube.options.options import Options
from podwright.kube.runtime import Runtime
from podwright.sandbox import Sandbox
from podwright.simulator.world import World

RAW = {"metadata": {"name": "a"}, "spec": {"kept": 1, "dropped": 2}}

async def main():
    async with Sandbox(delay=0, controllers=False) as sandbox:
        cluster = sandbox.cluster
        cluster.create(cluster.kinds.named("runtimeclasses.node.k8s.io"), "", RAW)
        runtime = Runtime(Options(kubeconfig=str(sandbox.write_kubeconfig(pathlib.Path(sys.argv[1]))), pod_intake="watch"))
        await runtime.start()
        async with asyncio.timeout(20):
            while runtime.missing():
                await asyncio.sleep(0.01)
        assert runtime.engine.cache.store.get("RuntimeClass", "a")["spec"] == {"kept": 1}
        await runtime.stop()

asyncio.run(main())
world = World()
world.fill({"runtimeClasses": [RAW]})
assert world.cache.store.get("RuntimeClass", "a") == RAW
assert ClusterEvent("RuntimeClass", Action.ADD).label == "node.k8s.io/RuntimeClassAdd"
"""


def test_one_entry_is_enough_to_watch_a_kind(tmp_path):
    command = [sys.executable, "-c", ONE_MORE_KIND, str(tmp_path / "kubeconfig")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("name", ["../../nodes/n", "a?dryRun=All", "a b", "a\r\nHost: x", "a%2fb", "a#b", "ä"])
def test_a_name_is_one_segment_of_a_path_whatever_it_is(name):
    for path in (POD.path(name, "default", "binding"), POD.path("p", name, "binding")):
        assert path.count("/") == "/api/v1/namespaces/default/pods/p/binding".count("/")
        assert path == quote(path, safe="/%")
        assert name in unquote(path)
    assert unquote(POD.collection_in(name)) == f"/api/v1/namespaces/{name}/pods"


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_leads_elsewhere_is_refused(name):
    for make in (lambda: POD.path(name, "default"), lambda: POD.path("p", name), lambda: POD.collection_in(name)):
        with pytest.raises(ClusterError, match="no name of an object"):
            make()
