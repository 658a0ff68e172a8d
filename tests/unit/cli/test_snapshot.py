"""`podwright snapshot` on the sandbox, and on dumps of kubectl."""

import json

import pytest
from click.testing import CliRunner

from podwright.cli.snapshot import snapshot
from podwright.sandbox import SandboxThread
from podwright.simulator.live import NOT_ALLOWED, Connection, snapshot_of
from podwright.simulator.loaded import load
from podwright.simulator.snapshot import SnapshotError, read_snapshot
from podwright.testing.objects import collection_path
from support.examples.clusters import SandboxApi
from support.objects.builders import make_node, make_pod


def item(kind, raw, version="v1"):
    return {"apiVersion": version, "kind": kind, **raw}


OBJECTS = [
    item("Node", make_node("a")),
    item("Pod", make_pod("waits", spec={"schedulerName": "nobody"})),
    item("Pod", make_pod("there", namespace="other", spec={"schedulerName": "nobody"})),
]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory):
    with SandboxThread() as sandbox:
        api = SandboxApi(sandbox.url)
        api.request("POST", "/api/v1/namespaces", {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "other"}})  # fmt: skip
        for raw in OBJECTS:
            api.request("POST", collection_path(raw), raw)
        yield str(sandbox.write_kubeconfig(tmp_path_factory.mktemp("sandbox") / "kubeconfig"))


def invoke(*args):
    return CliRunner().invoke(snapshot, [*map(str, args)])


def test_a_snapshot_of_a_cluster_can_be_loaded(kubeconfig, tmp_path):
    path = tmp_path / "cluster.json.gz"
    result = invoke("--kubeconfig", kubeconfig, "-o", path)
    assert result.exit_code == 0, result.output
    assert "1 nodes, 2 pods" in result.stderr
    cluster = load(read_snapshot([str(path)]))
    assert list(cluster.cache.nodes) == ["a"]
    assert [pod.key for pod in cluster.pending.values()] == ["default/waits", "other/there"]
    assert cluster.problems == []


def test_kinds_that_are_not_served_are_named(kubeconfig):
    taken = snapshot_of(Connection(kubeconfig=kubeconfig))
    assert taken.minor is not None
    assert taken.taken_at is not None
    assert "Pod" not in taken.missing


def test_one_namespace_is_enough(kubeconfig):
    taken = snapshot_of(Connection(kubeconfig=kubeconfig, namespaces=("other",)))
    assert [raw["metadata"]["name"] for raw in taken.of_kind("Pod")] == ["there"]
    assert [raw["metadata"]["name"] for raw in taken.of_kind("Node")] == ["a"]


def test_without_a_server_the_error_says_so(tmp_path):
    path = tmp_path / "config"
    path.write_text(json.dumps({"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}))  # fmt: skip
    with pytest.raises(SnapshotError, match="cannot read the cluster"):
        snapshot_of(Connection(kubeconfig=str(path)))
    assert NOT_ALLOWED not in invoke("--kubeconfig", path).output


def test_dumps_become_snapshots_without_secrets(tmp_path):
    dump = tmp_path / "dump.json"
    hidden = {"containers": [{"name": "c", "env": [{"name": "A", "value": "hunter2"}]}]}
    objects = [item("Pod", make_pod("p", spec=hidden)), item("Secret", {"metadata": {"name": "s"}, "data": {"k": "hunter2"}})]  # fmt: skip
    dump.write_text(json.dumps({"kind": "List", "items": objects}))
    result = invoke(dump)
    assert result.exit_code == 0, result.output
    assert [raw["kind"] for raw in json.loads(result.stdout)["items"]] == ["Pod"]
    assert "hunter2" not in result.stdout


def test_a_bad_file_is_an_error(tmp_path):
    dump = tmp_path / "dump.json"
    dump.write_text('{"items": [')
    result = invoke(dump)
    assert result.exit_code == 1
    assert f"Error: {dump}: is cut off after 11 bytes" in result.output
