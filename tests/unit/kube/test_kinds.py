"""The registry of watched kinds: the RBAC of the manifests grants what it needs, and one entry is enough to watch a kind."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import yaml

from podwright.core.objects.watched_kinds import WATCHED_KINDS
from podwright.kube.kinds import CRD, EVENT, PLUGINS_POD_GROUPS, POD, POD_GROUPS, POLICY, REQUIRED

CLUSTER_ROLE = Path(__file__).parents[3] / "manifests" / "base" / "cluster-role.yaml"
READ = {"get", "list", "watch"}


def granted():
    """The verbs that the ClusterRole grants, by group and resource."""
    verbs = defaultdict(set)
    role = next(iter(yaml.safe_load_all(CLUSTER_ROLE.read_text(encoding="utf-8"))))
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs[group, resource] |= set(rule["verbs"])
    return verbs


def needed():
    """The verbs that the scheduler uses, by group and resource."""
    verbs = defaultdict(set)
    for kind in WATCHED_KINDS:
        verbs[kind.group, kind.plural] |= READ | ({"update"} if kind.updated else set())
    for resource in (POLICY, *POD_GROUPS, *PLUGINS_POD_GROUPS):
        verbs[resource.group, resource.plural] |= READ
        verbs[resource.group, f"{resource.plural}/status"] |= {"patch"}
    verbs[POD.group, POD.plural] |= {"delete"}
    verbs[POD.group, "pods/binding"] |= {"create"}
    verbs[POD.group, "pods/status"] |= {"patch"}
    verbs[EVENT.group, EVENT.plural] |= {"create", "patch"}
    verbs[CRD.group, CRD.plural] |= {"list", "watch"}
    return verbs


def test_the_cluster_role_grants_exactly_what_the_scheduler_uses():
    assert granted() == needed()


def test_only_pods_and_nodes_are_required():
    assert {resource.kind for resource in REQUIRED} == {"Pod", "Node"}


ONE_MORE_KIND = """
import asyncio, pathlib, sys
from podwright.core.objects import watched_kinds as registry

entry = registry.WatchedKind("RuntimeClass", "node.k8s.io", "v1", "runtimeClasses", namespaced=False, spec_fields=("kept",))
registry.STORED_KINDS += (entry,)
registry.WATCHED_KINDS += (entry,)

from podwright.core.framework.cluster_events import Action, ClusterEvent
from podwright.kube.options import Options
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
