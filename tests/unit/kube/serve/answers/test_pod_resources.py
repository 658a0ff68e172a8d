"""/metrics/resources shows what pods request, and their limits, as kube-scheduler does."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from podwright.core.objects.pod import parse_pod
from podwright.kube.serve.answers import pod_resources
from podwright.kube.serve.answers.pod_resources import known_pods, pages
from support.engine.kit import Rig, deciding, settle
from support.objects.builders import make_pod
from support.serve.kit import Told, get, serving

GI = 2**30


def amounts(pods):
    """Amounts by (request or limit, pod, node, resource)."""
    text = b"".join(pages(lambda: pods)).decode()
    return {
        (family.name.removeprefix("kube_pod_resource_"), *(sample.labels[k] for k in ("pod", "node", "resource"))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }  # fmt: skip


def known(rig):
    return list(known_pods(rig.engine.cache, rig.engine.queue))


def container(restart=None, requests=None, **limits):
    made = {"name": "c", "resources": {"requests": requests or {}, "limits": {k.replace("_", "-"): v for k, v in limits.items()}}}  # fmt: skip
    return made | ({"restartPolicy": restart} if restart else {})


async def test_pending_pods_and_all_pods_on_nodes_are_listed():
    rig = Rig()
    rig.node("a", allocatable={"cpu": "1"})
    rig.pod("waits", requests={"cpu": "2500m"})
    rig.engine.assigned.put(make_pod("theirs", node="a", requests={"memory": "1Gi"}))
    rig.engine.assigned.put(make_pod("stray", node="gone", requests={"cpu": "1"}))
    rig.engine.assigned.put(make_pod("done", node="a", requests={"cpu": "1"}, status={"phase": "Succeeded"}))
    assert amounts(known(rig)) == {
        ("request", "waits", "", "cpu"): 2.5,
        ("request", "theirs", "a", "memory"): GI,
        ("request", "stray", "gone", "cpu"): 1,
    }


async def test_a_pod_is_listed_once_while_it_is_being_bound():
    rig = Rig()
    rig.node("a")
    answer = asyncio.get_running_loop().create_future()
    rig.cluster.outcomes = [answer]
    raw = rig.pod("web", requests={"cpu": "1"})
    async with deciding(rig):
        assert rig.placed_on("web") == "a"
        assert amounts(known(rig)) == {("request", "web", "", "cpu"): 1}
        assert len(known(rig)) == 1
        answer.set_result(None)
        rig.confirm(raw, "a")
        await settle()
        assert amounts(known(rig)) == {("request", "web", "a", "cpu"): 1}


async def test_a_pod_that_is_bound_between_two_pages_is_not_listed_twice():
    rig = Rig()
    rig.node("a")
    raw = rig.pod("web", requests={"cpu": "1"})
    listing = known_pods(rig.engine.cache, rig.engine.queue)
    assert next(listing).name == "web"
    rig.confirm(raw, "a")
    assert list(listing) == []


def test_a_series_has_kube_schedulers_labels():
    pod = make_pod(
        "web", namespace="shop", node="a", requests={"cpu": "100m"}, priority=7, spec={"schedulerName": 'a"b\\'}
    )
    line = b"".join(pages(lambda: [parse_pod(pod)])).decode().splitlines()[2]
    assert line == (
        'kube_pod_resource_request{namespace="shop",pod="web",node="a",scheduler="a\\"b\\\\",priority="7",'
        'resource="cpu",unit="cores"} 0.1'
    )


@pytest.mark.parametrize(
    ("resource", "unit"),
    [
        ("cpu", "cores"),
        ("memory", "bytes"),
        ("ephemeral-storage", "bytes"),
        ("hugepages-2Mi", "bytes"),
        ("attachable-volumes-csi", "integer"),
        ("example.com/gpu", ""),
    ],
)
def test_each_resource_has_a_unit(resource, unit):
    pod = parse_pod(make_pod(spec={"containers": [container(requests={resource: "4"}, **{resource: "8"})]}))
    text = b"".join(pages(lambda: [pod])).decode()
    assert text.count(f'resource="{resource}",unit="{unit}"') == 2


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        pytest.param({"containers": [container(), container()]}, {}, id="none"),
        pytest.param(
            {"containers": [container(cpu="100m", memory="1Gi"), container(cpu="1")]},
            {"cpu": 1.1, "memory": GI},
            id="containers are summed",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [container("Always", cpu="1"), container(cpu="3", memory="1Gi")],
            },
            {"cpu": 4, "memory": GI},
            id="an init container and the sidecars before it count if they have more than the containers",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "500m", "memory": "1Gi"}},
            {"cpu": 1.5},
            id="overhead is added to existing limits only",
        ),
        pytest.param(
            {"containers": [container(cpu="1", ephemeral_storage="5")], "resources": {"limits": {"cpu": "3"}}},
            {"cpu": 3, "ephemeral-storage": 5},
            id="a limit of the pod replaces the limits of its containers",
        ),
        pytest.param({"containers": [container(cpu="none")]}, {}, id="an invalid limit is ignored and the pod is listed"),
    ],
)  # fmt: skip
def test_limits_are_summed_as_by_the_kubelet(spec, limits):
    found = amounts([parse_pod(make_pod("web", spec=spec))])
    assert {key[3]: amount for key, amount in found.items() if key[0] == "limit"} == limits


def test_pods_of_one_template_share_their_limits():
    spec = {"containers": [container(cpu="1")], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    first, second = (parse_pod(make_pod(name, spec=spec)) for name in "ab")
    assert first.limits is second.limits


async def test_other_tasks_run_between_two_pages(monkeypatch):
    monkeypatch.setattr(pod_resources, "PODS_PER_PAGE", 1)
    pods = [parse_pod(make_pod(f"p{n}", requests={"cpu": "1"})) for n in range(50)]
    turns = 0
    turns_at = []

    async def other_task():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def listing():
        for pod in pods:
            turns_at.append(turns)
            yield pod

    async with serving(Told(list_pods=listing)) as server:
        task = asyncio.create_task(other_task())
        status, headers, body = await get(server, "/metrics/resources")
        task.cancel()
    assert status == 200
    assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert body == b"".join(pages(lambda: pods))
    assert len(set(turns_at)) == 100
