"""Behaviour that is the sandbox's own, not the real API server's: limits, unsupported requests, start and stop."""

import asyncio
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml

from podwright.sandbox import SandboxThread
from podwright.sandbox.server import SNAPSHOTS
from podwright.sandbox.tables import at, duration
from support.waiting import PATIENCE_SECONDS

from .conftest import PODS, running

CONFIGS = "/api/v1/namespaces/default/configmaps"


async def test_a_watch_from_before_the_history_expires():
    async with running(history=3) as (sandbox, http):
        first = sandbox.cluster.store.rv
        for number in range(5):
            await http("POST", CONFIGS, {"metadata": {"name": f"c-{number}"}})
        events = await http.lines(f"{CONFIGS}?watch=true&resourceVersion={first + 2}", 3)
        assert [event["object"]["metadata"]["name"] for event in events] == ["c-2", "c-3", "c-4"]
        (event,) = await http.lines(f"{CONFIGS}?watch=true&resourceVersion={first + 1}", 1)
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_the_oldest_paged_list_expires(cluster):
    for number in range(2):
        await cluster("POST", CONFIGS, {"metadata": {"name": f"c-{number}"}})
    tokens = [(await cluster.get(f"{CONFIGS}?limit=1"))["metadata"]["continue"] for _ in range(SNAPSHOTS + 1)]
    status, answer = await cluster("GET", f"{CONFIGS}?limit=1&continue={tokens[0]}")
    assert (status, answer["reason"]) == (410, "Expired")
    last = await cluster.get(f"{CONFIGS}?limit=1&continue={tokens[-1]}")
    assert [item["metadata"]["name"] for item in last["items"]] == ["c-1"]


async def test_server_side_apply_is_unsupported(cluster):
    how = "application/apply-patch+yaml"
    await cluster.pod("a")
    status, answer = await cluster("PATCH", f"{PODS}/a?fieldManager=x", {}, Content_Type=how)
    assert (status, answer["reason"]) == (415, "UnsupportedMediaType")
    assert how in answer["message"]


async def test_protobuf_is_unsupported(cluster):
    status, answer = await cluster("POST", PODS, b"k8s\x00", Content_Type="application/vnd.kubernetes.protobuf")
    assert (status, answer["reason"]) == (415, "UnsupportedMediaType")


async def test_yaml_bodies_are_supported(cluster):
    status, answer = await cluster("POST", CONFIGS, b"metadata: {name: a}", Content_Type="application/yaml")
    assert (status, answer["metadata"]["name"]) == (201, "a")


async def test_a_body_over_the_size_limit_is_rejected(cluster):
    status, answer = await cluster("POST", CONFIGS, {"metadata": {"name": "a"}, "data": {"x": "x" * 3 * 1024 * 1024}})
    assert (status, answer["reason"]) == (413, "RequestEntityTooLarge")


async def test_an_object_may_be_large_and_have_many_labels(cluster):
    body = {"metadata": {"name": "a", "labels": {f"l{number}": "x" for number in range(10_000)}}}
    await cluster("POST", CONFIGS, body | {"data": {"x": "x" * 1024 * 1024}})
    (found,) = (await cluster.get(f"{CONFIGS}?labelSelector=l9999%3Dx"))["items"]
    assert len(found["data"]["x"]) == 1024 * 1024


@pytest.mark.parametrize(
    "method, path, body",
    [
        pytest.param(
            "POST",
            PODS,
            {"metadata": {"name": "a"}, "spec": {"containers": ["no object"]}},
            id="a container that is not an object",
        ),
        pytest.param("POST", PODS, {"metadata": []}, id="metadata that is not an object"),
        pytest.param("POST", PODS, {"metadata": {"name": 7}}, id="a numeric name"),
        pytest.param("GET", f"{PODS}?limit=many", None, id="a limit that is not a number"),
        pytest.param("GET", f"{PODS}?fieldSelector=what", None, id="a selector without an operator"),
        pytest.param("POST", f"{PODS}/a/binding", {"target": "node"}, id="a target that is not an object"),
    ],
)
async def test_a_malformed_request_is_a_bad_request(cluster, method, path, body):
    status, answer = await cluster(method, path, body)
    assert (status, answer["reason"]) == (400, "BadRequest")


async def test_watches_end_when_the_sandbox_stops():
    async with running() as (sandbox, http):
        watching = asyncio.create_task(http.lines("/api/v1/namespaces?watch=true", 4))
        await watching
        opened = asyncio.Event()
        open_end = asyncio.create_task(http.lines("/api/v1/pods?watch=true", 1, opened.set))
        await opened.wait()
        await sandbox.stop()
        with pytest.raises(ValueError, match="empty"):
            await open_end


def test_a_sandbox_thread_serves_synchronous_callers(tmp_path):
    with SandboxThread(nodes=3, kubelet=False) as sandbox:
        config = yaml.safe_load(sandbox.write_kubeconfig(tmp_path / "kubeconfig").read_text())
        assert config["clusters"][0]["cluster"]["server"] == sandbox.url
        with urllib.request.urlopen(f"{sandbox.url}/api/v1/nodes?limit=2") as answer:
            assert b'"remainingItemCount":1' in answer.read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{sandbox.url}/api/v1/nodes")


def test_the_command_serves_until_sigterm():
    command = [sys.executable, "-m", "podwright.sandbox", "--nodes", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        path = Path(process.stdout.readline().strip().removeprefix("export KUBECONFIG="))
        url = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]
        with urllib.request.urlopen(f"{url}/api/v1/nodes/node-0002") as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert not path.exists()


@pytest.mark.parametrize(
    "seconds, shown",
    [
        *((0, "0s"), (119, "119s"), (120, "2m"), (310, "5m10s"), (2_820, "47m"), (12_000, "3h20m"), (10_800, "3h")),
        *((108_000, "30h"), (367_200, "4d6h"), (345_600, "4d"), (7_776_000, "90d"), (-5, "0s")),
    ],
)
def test_ages_have_kubectls_format(seconds, shown):
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    "path, found",
    [
        pytest.param(".spec.a", 1, id="a field"),
        pytest.param(".spec.b[1].c", 3, id="an index"),
        pytest.param(".spec.b[*].c", 2, id="a wildcard, which finds the first item"),
        pytest.param(".spec.b[7].c", None, id="an index beyond the end"),
        pytest.param('.spec.b[?(@.c=="3")].d', "x", id="a filter"),
        pytest.param(".metadata.labels['example.com/x']", "y", id="a quoted name"),
        pytest.param(".spec.a.b.c", None, id="a field of a number"),
    ],
)
def test_a_json_path_finds_its_field(path, found):
    obj = {"metadata": {"labels": {"example.com/x": "y"}}, "spec": {"a": 1, "b": [{"c": 2}, {"c": 3, "d": "x"}]}}
    assert at(path)(obj) == found
