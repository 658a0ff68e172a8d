"""The HTTP API: many hypotheses in one request, bounded, and only for who may ask."""

import asyncio
import threading

import pytest
from aiohttp.test_utils import TestClient, TestServer

from podwright.kube.serve.access.gates import is_loopback
from podwright.simulator.hypotheses.hypothesis import TIME_IS_UP
from podwright.simulator.server import RequestLimits, SimulationServer
from support.objects.builders import make_policy
from support.simulator.kit import copy_of, loaded, node, pod
from support.waiting import PATIENCE_SECONDS, patience


@pytest.fixture
def cluster():
    return loaded(node("a"), node("b", cpu="2"), pod("web-0", on="a"), pod("waits", cpu="4"))


@pytest.fixture
async def client(cluster):
    async with asking(cluster) as client:
        yield client


def asking(cluster, read=None, **options):
    server = SimulationServer(read or (lambda: cluster), **options)
    return TestClient(TestServer(server.application()))


async def post(client, path, body, **headers):
    answer = await client.post(path, json=body, headers=headers)
    return answer.status, await answer.json()


async def test_many_hypotheses_are_tried_in_one_request(client, cluster):
    before = copy_of(cluster)
    status, body = await post(
        client,
        "/v1/simulate",
        {
            "hypotheses": [
                {"name": "now"},
                {"name": "more", "addNodes": [{"count": 1, "like": "a"}]},
                {"name": "described", "addNodes": [{"template": node("big")}]},
                {"drain": ["a"], "retryPending": False},
                {"scale": ["deploy/web=3", {"kind": "deploy", "name": "web", "replicas": 4}]},
                {"policies": [make_policy("p", strategy={"type": "Nope"})]},
                {"drain": ["x"]},
                {"pods": [pod("p", cpu="1x")]},
                {"nodes": 3},
            ]
        },
    )
    assert status == 200
    now, more, described, drained, scaled, *wrong = body["results"]
    assert now["landed"] == []
    assert [each["node"] for each in more["landed"]] == ["a-added-1"]
    assert [each["node"] for each in described["landed"]] == ["big-added-1"]
    assert [(each["pod"], each["node"]) for each in drained["landed"]] == [("default/web-0", "b")]
    assert drained["pending"] == []
    assert [each["pod"] for each in scaled["landed"]] == ["default/web-added-1", "default/web-added-2"]
    assert [each["error"].partition(":")[0] for each in wrong] == ["hypotheses[5]", "hypotheses[6]", "hypotheses[7]", "hypotheses[8].nodes"]  # fmt: skip
    assert "spec.strategy.type" in wrong[0]["error"]
    assert copy_of(cluster) == before


async def test_summaries_have_counts_in_the_place_of_lists(client):
    _, body = await post(client, "/v1/simulate", {"hypotheses": [{"drain": ["a"]}], "summary": True, "emptyNodes": 2})
    (result,) = body["results"]
    assert (result["landed"], result["pending"]) == (1, 1)
    assert result["emptied"]["tried"] == 1
    assert "changes" not in result


async def test_too_many_pods_in_all_results_become_summaries(cluster):
    async with asking(cluster, limits=RequestLimits(listed=2)) as client:
        _, body = await post(client, "/v1/simulate", {"hypotheses": [{"drain": ["a"]}, {"drain": ["a"]}]})
    first, second = body["results"]
    assert isinstance(first["landed"], list)
    assert isinstance(second["landed"], int)


async def test_each_node_is_tried(client):
    status, body = await post(client, "/v1/each-node", {"action": "drain"})
    assert status == 200
    assert body["complete"]
    assert {each["node"]: each["fits"] for each in body["results"]} == {"a": True, "b": True}
    _, body = await post(client, "/v1/each-node", {"action": "remove", "nodes": ["b"]})
    assert [each["node"] for each in body["results"]] == ["b"]


async def test_the_cluster_in_numbers_and_again_after_a_reload(cluster):
    clusters = [cluster, loaded(node("a"), node("b"), node("c"))]
    async with asking(cluster, read=lambda: clusters.pop(0)) as client:
        body = await (await client.get("/v1/cluster")).json()
        assert (body["nodes"], body["pods"], body["pending"]) == (2, 1, 1)
        assert await post(client, "/v1/reload", {}) == (200, {"nodes": 3, "problems": []})
        assert (await (await client.get("/v1/cluster")).json())["nodes"] == 3


@pytest.mark.parametrize(
    "path, body, status, problem",
    [
        ("/v1/simulate", [], 400, "the body: expected an object, got a list"),
        ("/v1/simulate", {}, 400, "hypotheses: a value is required"),
        ("/v1/simulate", {"hypothesis": []}, 400, "hypothesis: unknown field"),
        ("/v1/simulate", {"hypotheses": [{}] * 4}, 400, "hypotheses: 4 are more than 3"),
        ("/v1/simulate", {"hypotheses": [], "seed": "x"}, 400, "seed: expected a whole number"),
        ("/v1/simulate", {"hypotheses": [], "emptyNodes": -1}, 400, "emptyNodes: -1 is less than 0"),
        ("/v1/simulate", {"hypotheses": [], "seed": 1.5}, 400, "seed: expected a whole number, got number 1.5"),
        ("/v1/simulate", {"hypotheses": [], "seed": 2.0**70}, 400, "seed: expected a whole number, got number 1.1805916207174113e+21"),
        ("/v1/simulate", {"hypotheses": [], "summary": 1}, 400, "summary: expected true or false"),
        ("/v1/each-node", {"action": "cordon"}, 400, "action: 'cordon' is not one of drain, remove"),
        ("/v1/each-node", {"action": "drain", "nodes": [1]}, 400, "nodes[0]: expected a string, got whole number 1"),
        ("/v1/each-node", {"action": "drain", "nodes": ["x"]}, 422, "drain: there is no node 'x'"),
        ("/v1/nothing", {}, 404, "Not Found"),
    ],
)  # fmt: skip
async def test_a_wrong_request_is_refused_with_the_field(cluster, path, body, status, problem):
    async with asking(cluster, limits=RequestLimits(hypotheses=3)) as client:
        found, answer = await post(client, path, body)
    assert found == status
    assert problem in answer["error"]


@pytest.mark.parametrize(
    "hypothesis, problem",
    [
        (3, "hypotheses[0]: expected an object, got whole number 3"),
        ({"drain": "a"}, "hypotheses[0].drain: expected a list, got string 'a'"),
        ({"drain": [1]}, "hypotheses[0].drain[0]: expected a string, got whole number 1"),
        ({"addNodes": [{"count": True}]}, "hypotheses[0].addNodes[0].count: expected a whole number, got true or false"),
        ({"addNodes": [{"count": 1.5}]}, "hypotheses[0].addNodes[0].count: expected a whole number, got number 1.5"),
        ({"pods": [{}]}, "pods[0]: has no kind; expected Pod, or a workload with a template"),
        ({"pods": [{"kind": "Role"}]}, "pods[0]: kind 'Role' is neither Pod nor a workload with a template"),
        ({"addNodes": [{"many": 1}]}, "hypotheses[0].addNodes[0].many: unknown field"),
        ({"addNodes": [{"count": 10**9, "like": "a"}]}, "hypotheses[0]: add-nodes: 1000000000 is not between"),
        ({"scale": ["x"]}, "hypotheses[0].scale[0]: scale: 'x' is not of the form"),
        ({"scale": [{"kind": "deploy", "name": "x", "replicas": None}]}, "hypotheses[0].scale[0].replicas: a value is required"),
        ({"scale": [{"kind": "Pod", "name": "x", "replicas": 1}]}, "hypotheses[0].scale[0]: scale: Pod/default/x names no workload"),
        ({"scale": [{"kind": "job", "name": "x", "replicas": -1}]}, "hypotheses[0].scale[0]: scale: -1 is not a number of pods"),
        ({"retryPending": "no"}, "hypotheses[0].retryPending: expected true or false"),
        ({"policies": [{"kind": "Pod"}]}, "hypotheses[0]: policies[0]: expected a SchedulerPolicy, got Pod"),
    ],
)  # fmt: skip
async def test_a_wrong_hypothesis_is_answered_with_the_field(client, hypothesis, problem):
    _, body = await post(client, "/v1/simulate", {"hypotheses": [hypothesis]})
    assert problem in body["results"][0]["error"]


async def test_bodies_are_bounded_and_must_be_json(cluster):
    async with asking(cluster, limits=RequestLimits(request_bytes=100)) as client:
        assert (await post(client, "/v1/simulate", {"hypotheses": ["x" * 200]}))[0] == 413
        answer = await client.post("/v1/simulate", data=b"{", headers={"Content-Type": "application/json"})
        assert answer.status == 400
        assert (await client.post("/v1/simulate", data=b"{}")).status == 415


async def test_when_the_time_is_up_the_rest_is_not_tried(cluster):
    async with asking(cluster, limits=RequestLimits(seconds=-1.0)) as client:
        _, body = await post(client, "/v1/simulate", {"hypotheses": [{}]})
        assert body["results"] == [{"error": f"hypotheses[0]: {TIME_IS_UP}"}]
        assert await post(client, "/v1/each-node", {"action": "drain"}) == (200, {"results": [], "complete": False})


async def test_a_bounded_number_of_requests_waits(cluster):
    reading, go = threading.Event(), threading.Event()
    reads = []

    def read():
        if reads:
            reading.set()
            go.wait(PATIENCE_SECONDS)
        reads.append(1)
        return cluster

    async with asking(cluster, read=read, limits=RequestLimits(waiting=1)) as client:
        slow = asyncio.create_task(post(client, "/v1/reload", {}))
        await asyncio.to_thread(reading.wait, PATIENCE_SECONDS)
        status, body = await post(client, "/v1/simulate", {"hypotheses": []})
        assert (status, body["error"]) == (429, "too many requests wait")
        assert (await client.get("/healthz")).status == 200
        go.set()
        assert (await slow)[0] == 200


async def unfinished(client):
    """A connection whose request lacks the last byte of its body."""
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(b"POST /v1/simulate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    writer.write(b'Content-Length: 18\r\n\r\n{"hypotheses": []')
    await writer.drain()
    return reader, writer


async def test_requests_count_before_their_bodies_have_arrived(cluster):
    async with asking(cluster, limits=RequestLimits(waiting=1)) as client, patience():
        reader, writer = await unfinished(client)
        while (await client.get("/v1/cluster")).status == 200:
            """The server has not yet read the headers of the other request."""
        assert await post(client, "/v1/simulate", {"hypotheses": []}) == (429, {"error": "too many requests wait"})
        writer.write(b"}")
        assert b" 200 " in await reader.readline()
        writer.close()
        assert (await client.get("/v1/cluster")).status == 200


async def test_a_body_that_does_not_arrive_is_given_up(cluster):
    async with asking(cluster, limits=RequestLimits(waiting=1, body_seconds=0.01)) as client, patience():
        reader, writer = await unfinished(client)
        assert b" 408 " in await reader.readline()
        assert (await client.get("/v1/cluster")).status == 200
        writer.close()


async def test_a_token_that_is_no_text_is_wrong(cluster):
    async with asking(cluster, token="s3cret", local=False) as client, patience():
        reader, writer = await asyncio.open_connection(client.host, client.port)
        writer.write(b"GET /v1/cluster HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        assert b" 401 " in await reader.readline()
        writer.close()


async def test_a_token_is_asked_for(cluster):
    async with asking(cluster, token="s3cret", local=False) as client:
        assert (await post(client, "/v1/simulate", {"hypotheses": []}))[0] == 401
        assert (await post(client, "/v1/simulate", {"hypotheses": []}, Authorization="Bearer wrong"))[0] == 401
        assert (await post(client, "/v1/simulate", {"hypotheses": []}, Authorization="Bearer s3cret"))[0] == 200


async def test_a_local_server_does_not_answer_under_another_name(client):
    status, body = await post(client, "/v1/simulate", {"hypotheses": []}, Host="evil.example:80")
    assert (status, body["error"]) == (403, "this server is only for this machine")


@pytest.mark.parametrize(
    "host, local",
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("x", False),
        ("", False),
        ("::ffff:127.0.0.1", True),
    ],
)
def test_loopback_addresses(host, local):
    assert is_loopback(host) is local


async def test_sums_that_are_larger_than_integers_of_json_are_answered():
    cluster = loaded(node("a"), *(pod(f"p{number}", on="a", cpu="9e15") for number in range(3)))
    async with asking(cluster) as client:
        status, body = await post(client, "/v1/simulate", {"hypotheses": [{"drain": ["a"]}]})
    assert status == 200
    assert body["results"][0]["changes"][0]["requestedBefore"]["cpu"] == 2**63 - 1
