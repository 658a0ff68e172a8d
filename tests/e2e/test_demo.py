"""`podwright demo` as users run it: in its sandbox, and on a real cluster, which it leaves unchanged."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from podwright.testing import ControlPlane, node, pod, wait_until
from support.control_plane import operator_process

pytestmark = pytest.mark.slow

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COMMAND = [sys.executable, "-W", "error", "-m", "podwright", "demo"]


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=280, check=False)


def traces(cluster: ControlPlane) -> Sequence[str]:
    """The demo's leftover objects. Without a namespace controller, deleted namespaces stay, so terminating ones do not
    count.
    """
    client = cluster.client
    label = "app.kubernetes.io/managed-by=podwright-demo"
    left = [item["metadata"]["name"] for item in client.items("/api/v1/pods", labelSelector=label)]
    namespaces = client.items("/api/v1/namespaces", labelSelector=label)
    left += [item["metadata"]["name"] for item in namespaces if "deletionTimestamp" not in item["metadata"]]
    if client.raw("GET", operator_process.POLICIES)[0] == 200:
        left += [item["metadata"]["name"] for item in client.items(operator_process.POLICIES, labelSelector=label)]
    return left


@pytest.fixture
def zones(empty_cluster: ControlPlane) -> ControlPlane:
    """Seven nodes of three sizes in three zones, one of them partly used, and a tainted node."""
    for i in range(7):
        labels = {"topology.kubernetes.io/zone": f"zone-{i % 3}"}
        empty_cluster.client.create(node(f"n{i}", cpu=str(4 + 2 * (i % 3)), labels=labels))
    taints = [{"key": "control-plane", "effect": "NoSchedule"}]
    empty_cluster.client.create(node("tainted", taints=taints))
    empty_cluster.client.create(pod("resident", cpu="2", memory="4Gi", nodeName="n3"))
    return empty_cluster


@pytest.mark.slow
def test_all_checks_pass_in_the_sandbox(tmp_path):
    done = demo("--picture", tmp_path / "demo.svg")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 12 checks passed (31 pods placed, 1 pending, " in done.stdout
    assert "web-01 -> node-00" in done.stdout
    assert "too-big -> no node: 0/20 nodes are available: 20 Insufficient cpu." in done.stdout
    assert "+   type: LeastAllocated" in done.stdout
    assert "[batch-pack, gen. 2]" in done.stdout
    assert done.stderr == ""
    assert "podwright" in (tmp_path / "demo.svg").read_text()


@pytest.mark.parametrize(
    "installed", [pytest.param(True, id="with the CRD"), pytest.param(False, id="without the CRD")]
)
def test_the_demo_leaves_no_objects_on_a_cluster(zones, installed):
    if installed:
        operator_process.install(zones)
    else:
        zones.kubectl("delete", "crd", "schedulerpolicies.podwright.dev", "--ignore-not-found")
    try:
        done = demo("--kubeconfig", zones.kubeconfig)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "All 11 checks passed" in done.stdout
        assert "0/8 nodes are available: " in done.stdout
        assert traces(zones) == []
        assert (zones.client.raw("GET", f"{CRDS}/schedulerpolicies.podwright.dev")[0] == 200) is installed
    finally:
        operator_process.install(zones)


def test_the_demo_uses_an_installed_operator(zones):
    operator_process.install(zones)
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment"}
    deployment["metadata"] = {"name": operator_process.ACCOUNT[1], "namespace": operator_process.ACCOUNT[0]}
    try:
        zones.client.patch(deployment, {"status": {"replicas": 1, "readyReplicas": 1}}, "status")
        with operator_process.running(zones):
            done = demo("--kubeconfig", zones.kubeconfig)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "which is installed in the cluster" in done.stdout
        assert traces(zones) == []
    finally:
        zones.client.patch(deployment, {"status": {"replicas": 0, "readyReplicas": 0}}, "status")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_cleans_up(zones, number):
    operator_process.install(zones)
    command = [*COMMAND, "--pace", "1", "--kubeconfig", str(zones.kubeconfig)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: any(name.startswith("web-") for name in traces(zones)), 60, "the first pods exist")
        os.kill(process.pid, number)
        _, stderr = process.communicate(timeout=180)
        assert process.returncode == 130, stderr.decode()
        assert stderr == b""
    finally:
        process.kill()
        process.wait()
    assert traces(zones) == []


def test_the_demo_refuses_a_cluster_with_one_node(empty_cluster):
    empty_cluster.client.create(node("only"))
    done = demo("--kubeconfig", empty_cluster.kubeconfig)
    assert done.returncode == 1
    assert "The demo failed: the demo needs at least two nodes that accept pods; this cluster has 1" in done.stdout
    assert traces(empty_cluster) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "does not exist", id="a missing file"),
        pytest.param("clusters: 7", "The demo failed: ", id="not a kubeconfig"),
        pytest.param(
            "{current-context: x, contexts: [{name: x, context: {cluster: x}}], "
            "clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}]}",
            "The demo failed: preparing the cluster: ",
            id="an unreachable server",
        ),
    ],
)
def test_the_demo_explains_why_it_cannot_reach_a_cluster(tmp_path, content, message):
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    done = demo("--kubeconfig", path)
    assert done.returncode == 1, done.stderr
    assert message in done.stdout
    assert "Traceback" not in done.stderr


def test_the_page_stays_until_the_demo_is_interrupted(tmp_path):
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen([*COMMAND, "--page", "--pace", "0"], stdout=file, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "The page stays open" in log.read_text(), 60, "the end of the demo")
        url = re.search(r"stays open until Ctrl-C: (\S+)", log.read_text())[1]
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert b"<title>Podwright</title>" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, log.read_text()
        assert "All 12 checks passed" in log.read_text()
    finally:
        process.kill()
        process.wait()
