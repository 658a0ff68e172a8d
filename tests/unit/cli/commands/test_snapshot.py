"""`podwright snapshot` on the sandbox, and on dumps of kubectl."""

import asyncio
import json

import pytest
from click.testing import CliRunner
from kubernetes.client import ApiClient, Configuration

from podwright.cli.main import main
from podwright.sandbox import SandboxThread
from podwright.simulator.live import NOT_ALLOWED, LiveConnection, snapshot_of, take_snapshot
from podwright.simulator.loaded import load
from podwright.simulator.params import DOES_NOT_EXIST
from podwright.simulator.params import NOT_ALLOWED as MAY_NOT_GET
from podwright.simulator.snapshot import SnapshotError, read_snapshot
from podwright.testing.objects import collection_path
from support.examples.clusters import SandboxApi
from support.http.kit import says, served
from support.objects.builders import make_node, make_pod


def item(kind, raw, version="v1"):
    return {"apiVersion": version, "kind": kind, **raw}


OBJECTS = [
    item("Node", make_node("a", annotations={"example.com/load": "5", "example.com/other": "x"})),
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
    return CliRunner().invoke(main, ["snapshot", *map(str, args)])


def test_a_snapshot_of_a_cluster_can_be_loaded(kubeconfig, tmp_path):
    path = tmp_path / "cluster.json.gz"
    result = invoke("--kubeconfig", kubeconfig, "-o", path)
    assert result.exit_code == 0, result.output
    assert "1 nodes, 2 pods" in result.stderr
    cluster = load(read_snapshot([str(path)]))
    assert list(cluster.cache.nodes) == ["a"]
    assert [pod.key for pod in cluster.pending.values()] == ["default/waits", "other/there"]
    assert cluster.problems == []


def test_numbers_of_signals_are_written_down_and_sources_that_do_not_answer_are_named(kubeconfig, tmp_path):
    (tmp_path / "signals.yaml").write_text(
        "signals:\n"
        "- {name: noted, annotation: {key: example.com/load, timeKey: example.com/at}}\n"
        "- {name: dead, prometheus: {url: 'http://127.0.0.1:1', query: up}}\n"
    )
    path = tmp_path / "cluster.json"
    result = invoke("--kubeconfig", kubeconfig, "--signals", tmp_path / "signals.yaml", "-o", path)
    assert result.exit_code == 0, result.output
    assert "without all numbers of signal dead: " in result.stderr
    assert read_snapshot([str(path)]).signals == {"dead": {}}
    (node,) = read_snapshot([str(path)]).of_kind("Node")
    assert node["metadata"]["annotations"] == {"example.com/load": "5"}
    again = invoke(path, "-o", tmp_path / "again.json")
    assert again.exit_code == 0, again.output
    assert read_snapshot([str(tmp_path / "again.json")]).signals == {"dead": {}}
    refused = invoke(path, "--signals", tmp_path / "signals.yaml")
    assert refused.exit_code == 1
    assert "it cannot be used with FILES" in refused.output


def test_kinds_that_are_not_served_are_named(kubeconfig):
    taken = snapshot_of(LiveConnection(kubeconfig=kubeconfig))
    assert taken.minor is not None
    assert taken.taken_at is not None
    assert "Pod" not in taken.missing


def test_one_namespace_is_enough(kubeconfig):
    taken = snapshot_of(LiveConnection(kubeconfig=kubeconfig, namespaces=("other",)))
    assert [raw["metadata"]["name"] for raw in taken.of_kind("Pod")] == ["there"]
    assert [raw["metadata"]["name"] for raw in taken.of_kind("Node")] == ["a"]


def test_without_a_server_the_error_says_so(tmp_path):
    path = tmp_path / "config"
    path.write_text(json.dumps({"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x"}))  # fmt: skip
    with pytest.raises(SnapshotError, match="cannot read the cluster"):
        snapshot_of(LiveConnection(kubeconfig=str(path)))
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


TAKES = {"params": {"node": "a"}, "rules": {"filters": [{"name": "f", "expression": "node.name == params.node"}]}}


def policy(name, source):
    spec = {**TAKES, "paramsFrom": {"configMapRef": {"name": source}}}
    return item(
        "SchedulerPolicy", {"metadata": {"name": name, "generation": 1}, "spec": spec}, "podwright.dev/v1alpha1"
    )


def config_map(name, namespace="podwright-system"):
    data = {"node": "b", "password": "hunter2"}
    return item("ConfigMap", {"metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"}, "data": data})


def test_dumps_keep_the_config_maps_that_policies_name_with_the_keys_that_they_read(tmp_path):
    dump, packed = tmp_path / "dump.json", tmp_path / "cluster.json"
    objects = [*OBJECTS, policy("one", "tiers"), policy("two", "gone"), config_map("tiers"), config_map("other")]
    dump.write_text(json.dumps({"kind": "List", "items": objects}))
    result = invoke(dump, "-o", packed)
    assert "without ConfigMap podwright-system/gone: is not in the dump" in result.stderr
    assert "hunter2" not in packed.read_text()
    taken = read_snapshot([str(packed)])
    (kept,) = taken.of_kind("ConfigMap")
    assert (kept["metadata"]["name"], kept["data"]) == ("tiers", {"node": "b"})
    assert load(taken).params_notes == [
        "policy two: ConfigMap podwright-system/gone is not in the dump: the params of the policy alone are used"
    ]
    again = invoke(packed)
    assert json.loads(again.stdout) == json.loads(packed.read_text())
    elsewhere = invoke(dump, "--operator-namespace", "other")
    assert "without ConfigMap other/tiers: is not in the dump" in elsewhere.stderr


async def test_a_cluster_is_asked_only_for_the_config_maps_that_policies_name():
    asked = []
    answers = {"tiers": says(200, config_map("tiers")), "gone": says(404), "closed": says(403)}

    async def serve(request):
        path = request.path
        asked.append(path)
        if path == "/version":
            return await says(200, {"minor": "37"})(request)
        if "/configmaps/" in path:
            return await answers[path.rpartition("/")[2]](request)
        found = [policy(name, name) for name in answers] if path.endswith("/schedulerpolicies") else []
        return await says(200, {"metadata": {"resourceVersion": "1"}, "items": found})(request)

    async with served(default=serve) as (url, _):
        taken = await asyncio.to_thread(take_snapshot, LiveConnection(client=ApiClient(Configuration(host=url))))
    (kept,) = taken.of_kind("ConfigMap")
    assert kept["data"] == {"node": "b"}
    assert taken.missing == {
        "ConfigMap podwright-system/gone": DOES_NOT_EXIST,
        "ConfigMap podwright-system/closed": MAY_NOT_GET,
    }
    configs = [path for path in asked if "configmaps" in path]
    assert sorted(configs) == [f"/api/v1/namespaces/podwright-system/configmaps/{name}" for name in sorted(answers)]
    assert not any("secrets" in path for path in asked)


async def test_a_snapshot_fails_at_once_though_other_lists_hang():
    failed, hanging = asyncio.Event(), asyncio.Event()

    async def serve(request):
        if request.path.endswith("/nodes"):
            hanging.set()
            await failed.wait()
        if request.path.endswith("/namespaces"):
            await hanging.wait()
            return await says(500)(request)
        return await says(200, {"metadata": {"resourceVersion": "1"}, "items": []})(request)

    async with served(default=serve) as (url, _):
        with pytest.raises(SnapshotError, match="says 500"):
            await asyncio.to_thread(snapshot_of, LiveConnection(client=ApiClient(Configuration(host=url))))
        failed.set()


@pytest.mark.parametrize("messages", [True, False])
async def test_the_messages_of_controllers_are_read_on_request_only(messages):
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: few"}
    deployment = {"metadata": {"name": "web", "namespace": "default"}, "status": {"conditions": [failure]}}

    async def serve(request):
        found = [deployment] if request.path.endswith("/deployments") else []
        return await says(200, {"metadata": {"resourceVersion": "1"}, "items": found})(request)

    async with served(default=serve) as (url, _):
        connection = LiveConnection(client=ApiClient(Configuration(host=url)), messages=messages)
        (kept,) = (await asyncio.to_thread(take_snapshot, connection)).of_kind("Deployment")
    assert kept["status"] == {"conditions": [failure if messages else {key: failure[key] for key in ("type", "status", "reason")}]}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "sent"),
    [
        pytest.param(["--as", "ann"], {"Impersonate-User": ["ann"]}, id="a user"),
        pytest.param(["--as", "ann", "--as-group", "a", "--as-group", "b"], {"Impersonate-User": ["ann"], "Impersonate-Group": ["a", "b"]}, id="groups"),
        pytest.param([], {"Impersonate-User": ["bob"]}, id="the kubeconfig's"),
    ],
)  # fmt: skip
async def test_a_cluster_is_read_as_another_user(flags, sent, tmp_path):
    seen = []

    async def serve(request):
        seen.append({name: request.headers.getall(name) for name in request.headers if name.startswith("Impersonate")})
        return await says(200, {"metadata": {"resourceVersion": "1"}, "items": []})(request)

    async with served(default=serve) as (url, _):
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps({"clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "u", "user": {"as": "bob"}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}))  # fmt: skip
        result = await asyncio.to_thread(invoke, "--kubeconfig", kubeconfig, *flags, "-o", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    assert seen == [sent] * len(seen)
    assert len(seen) > 10


def test_groups_need_a_user(kubeconfig):
    assert "--as-group needs --as" in invoke("--kubeconfig", kubeconfig, "--as-group", "a").output
