"""A long run fails if a figure of the last third is worse than that of the second third by more than its bound, and if
pods are not where they should be.
"""

import asyncio
import json
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from benchmarks import soak
from benchmarks.soak import Sample, Soak, grown

FLAT = [Sample(at=float(i), bound=i, resident_mb=100.0, in_use_mb=80.0, p50_ms=10.0, p99_ms=50.0) for i in range(30)]


def test_the_first_third_does_not_count():
    assert grown([*(replace(each, resident_mb=50.0) for each in FLAT[:10]), *FLAT[10:]]) == {}


@pytest.mark.parametrize(
    ("name", "before", "after"), [("in_use_mb", 80.0, 85.0), ("resident_mb", 100.0, 111.0), ("p99_ms", 50.0, 76.0)]
)
def test_a_figure_that_grows_is_named(name, before, after):
    assert grown([*FLAT[:20], *(replace(each, **{name: after}) for each in FLAT[20:])]) == {name: (before, after)}


def test_bindings_that_cease_are_named():
    stalled = [*FLAT[:20], *(replace(each, bound=20) for each in FLAT[20:])]
    assert grown(stalled) == {"bound": (10, 0)}


class FakeApi:
    """A cluster with one node, and the pods `a` and `b` on it."""

    async def get(self, path):
        if "/nodes" in path:
            return {"items": [{}], "metadata": {}}
        pods = [{"metadata": {"name": name}, "spec": {"nodeName": "n"}} for name in "ab"]
        return {"items": pods if path.endswith("%21%3D") else []}

    async def post(self, _path, _body):
        return 201

    async def delete(self, _path):
        return 200


@pytest.mark.parametrize(("node_of_b", "right"), [("n", 2), ("m", 1)])
async def test_pods_that_the_caches_have_on_another_node_are_counted(node_of_b, right, monkeypatch):
    monkeypatch.setattr(soak, "SETTLED_SECONDS", 0.0)
    sizes = (("nodes", 1), ("pods", 2), ("assumed_pods", 0))
    pages = {
        "/metrics": "".join(f'scheduler_cache_size{{type="{name}"}} {size}\n' for name, size in sizes),
        "/metrics/resources": "".join(
            f'kube_pod_resource_request{{namespace="default",pod="{pod}",node="{node}",resource="cpu"}} 1\n'
            for pod, node in (("a", "n"), ("b", node_of_b), ("c", ""))
        ),
    }
    monkeypatch.setattr(soak, "read", pages.__getitem__)
    both, waiting = await Soak(FakeApi(), 1, 1.0, "", 0).differences()
    assert both == {"nodes": (1, 1), "pods": (2, 2), "assumed_pods": (0, 0), "pods on their nodes": (right, 2)}
    assert waiting == 0


async def test_a_pod_without_a_node_counts_with_the_time_that_it_has_waited_and_as_never_bound_when_it_is_deleted():
    load = Soak(FakeApi(), 1, 1.0, "", 0)
    for number in range(2):
        await load.create(f"p{number}", number)
    load.seen_on_node({"metadata": {"name": "p0"}})
    assert [len(load.latencies()) for _ in range(2)] == [2, 1]
    for number in range(2):
        await load.delete(f"p{number}")
    assert (load.bound, load.never_bound, load.latencies()) == (1, 1, [])


class FailingApi(FakeApi):
    """Its watch fails as soon as there is a sample."""

    def __init__(self, output):
        self._output = output

    async def get(self, _path):
        return {"items": [], "metadata": {"resourceVersion": "1"}}

    async def patch(self, _path, _body, _kind):
        return 200

    async def watch(self, _path, _version):
        while not self._output.exists():
            await asyncio.sleep(0.01)
        raise RuntimeError("too old")
        yield


async def test_a_failure_of_the_kubelets_ends_the_run_and_is_said_and_the_samples_are_kept(
    tmp_path, monkeypatch, capsys
):
    output, told = tmp_path / "samples.json", []

    @asynccontextmanager
    async def connect(_kubeconfig):
        yield FailingApi(output)

    scheduler = SimpleNamespace(
        pid=os.getpid(),
        wait_ready=lambda _ready, _seconds: told.append("waited"),
        stop=lambda: told.append("stopped"),
        log_tail=lambda: "the log",
    )
    monkeypatch.setattr(soak, "LEAST_INTERVAL", 0.01)
    monkeypatch.setattr(soak, "install", lambda _cluster: None)
    monkeypatch.setattr(soak, "connect", connect)
    monkeypatch.setattr(soak, "podwright", lambda _given: SimpleNamespace(start=lambda _cluster, _installed: scheduler))
    monkeypatch.setattr(soak, "read", lambda _url: "podwright_memory_in_use_bytes 1000000\n")
    wrong = await soak.soak(SimpleNamespace(kubeconfig=None), nodes=1, rate=1.0, seconds=3.0, output=output)
    samples = json.loads(output.read_text())
    assert wrong == [f"the run ended early, after {len(samples)} samples: see above"]
    assert "RuntimeError: too old" in (printed := capsys.readouterr().out)
    assert "the log" in printed
    assert told == ["waited", "stopped"]
    assert samples[0]["in_use_mb"] == 1.0


async def test_a_pod_that_the_api_server_refused_is_no_pod_without_a_node():
    api = FakeApi()
    api.post = refused
    load = Soak(api, 1, 1.0, "", 0)
    await load.create("p", 1)
    await load.delete("p")
    assert (load.never_bound, load.latencies()) == (0, [])


async def refused(_path, _body):
    return 504


def test_too_few_samples_are_said():
    assert grown(FLAT[:2]) == {"samples": (3, 2)}
