"""Third-party plugins in the operator on the real control plane: from files and from entry points."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit

EXAMPLES = kit.CHECKOUT / "examples"
PACKAGE = EXAMPLES / "src" / "podwright_examples"
SAMPLE = kit.CHECKOUT / "manifests" / "examples" / "second-schedulers" / "sample-scheduler.yaml"


@pytest.fixture
def cluster(installed, empty_cluster):
    empty_cluster.bulk.create([node(name, cpu="4", memory="8Gi") for name in ("node-b", "node-a", "node-c")])
    return empty_cluster


@pytest.fixture(scope="module")
def installed_package(tmp_path_factory):
    """The examples package, installed into a separate folder, so that its plugins are found only by their entry
    points.
    """
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(EXAMPLES)], check=True)
    return target


def deployment_manifest(namespace):
    documents = yaml.safe_load_all(SAMPLE.read_text())
    raw = next(raw for raw in documents if raw["kind"] == "Deployment")
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}


def ways(installed_package, tmp_path):
    folder = tmp_path / "plugins"
    folder.mkdir()
    for path in PACKAGE.glob("[!_]*.py"):
        (folder / path.name).write_text(path.read_text())
    return {
        "files": ([f"--plugin-dir={folder}"], {}),
        "entry points": (
            [],
            {"PYTHONPATH": os.pathsep.join([str(installed_package), os.environ.get("PYTHONPATH", "")])},
        ),
    }


@pytest.mark.parametrize("way", ["files", "entry points"])
def test_the_sample_plugin_logs_at_its_extension_points(cluster, namespace, installed_package, tmp_path, way):
    arguments, environ = ways(installed_package, tmp_path)[way]
    cluster.apply(EXAMPLES / "policies" / "sample-plugin.yaml")
    with kit.running(cluster, *arguments, environ=environ) as operator:
        controllers = cluster.start_controller_manager(["deployment-controller", "replicaset-controller"])
        try:
            cluster.client.create(deployment_manifest(namespace))
            kit.wait_bound(cluster, namespace, 1)
        finally:
            controllers.stop()
        (placed,) = kit.pods(cluster, namespace)
        name, place = placed["metadata"]["name"], placed["spec"]["nodeName"]
        log = operator.log()
    assert f"PreFilter of pod {namespace}/{name}: favorite_color #326CE5, favorite_number 7, thanks_to everybody" in log
    for each in ("node-a", "node-b", "node-c"):
        assert f"Filter of pod {namespace}/{name} on node {each}: favorite_color #326CE5" in log
    assert f"PreBind of pod {namespace}/{name} on node {place}: thanks_to everybody" in log
    assert kit.decision(placed)["policy"] == "sample-plugin"


def test_the_namescore_plugin_prefers_nodes_by_name(cluster, namespace, installed_package, tmp_path):
    arguments, environ = ways(installed_package, tmp_path)["files"]
    cluster.apply(EXAMPLES / "policies" / "namescore.yaml")
    with kit.running(cluster, *arguments, environ=environ):
        cluster.bulk.create([pod(f"p{i}", namespace, scheduler="namescore-scheduler") for i in range(3)])
        kit.wait_bound(cluster, namespace, 3)
    assert {raw["spec"]["nodeName"] for raw in kit.pods(cluster, namespace)} == {"node-a"}


def test_an_operator_with_a_broken_plugin_exits_and_names_it(cluster, tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_of_the_kind\n")
    operator = kit.start(cluster, f"--plugin-dir={tmp_path}", ready=False)
    wait_until(lambda: not operator.process.alive, 60, "the operator has ended")
    assert f"file {Path(tmp_path) / 'broken.py'}: cannot be imported: ModuleNotFoundError" in operator.log()


def test_a_policy_with_an_unknown_plugin_is_rejected_in_its_status(cluster, namespace):
    cluster.apply(EXAMPLES / "policies" / "sample-plugin.yaml")
    with kit.running(cluster):
        path = f"{kit.POLICIES}/sample-plugin"
        wait_until(lambda: kit.condition(cluster.client.get(path), "Accepted"), 20, "the policy has a status")
        accepted = kit.condition(cluster.client.get(path), "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "UnknownPlugin")
        assert "sample-plugin" in accepted["message"]
        cluster.bulk.create([pod("other", namespace, scheduler="podwright")])
        kit.wait_bound(cluster, namespace, 1)
