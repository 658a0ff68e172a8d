"""The page of the simulation server: the loaded cluster, explanations, and who may see them."""

import asyncio
import json

import pytest
from aiohttp.test_utils import TestClient, TestServer

from podwright.kube.serve.page import feed as feeds
from podwright.simulator.server import RequestLimits, SimulationServer
from support.simulator.kit import copy_of, loaded, node, pod
from support.waiting import patience


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(feeds, "TICK_SECONDS", 0.005)


@pytest.fixture
def cluster():
    return loaded(node("a"), node("b", cpu="2"), pod("web-0", on="a"), pod("waits", cpu="99"))


def asking(cluster, **options):
    return TestClient(
        TestServer(SimulationServer(cluster if callable(cluster) else lambda: cluster, **options).application())
    )


async def first(answer, *names):
    """The first event of each of these names."""
    found = {}
    async with patience():
        while len(found) < len(names):
            text = (await answer.content.readuntil(b"\n\n")).decode()
            if text.startswith("event: "):
                head, _, data = text.strip().partition("\ndata: ")
                name = head.removeprefix("event: ")
                if name in names:
                    found.setdefault(name, json.loads(data))
    return found


async def test_the_page_shows_the_loaded_cluster(cluster):
    before = copy_of(cluster)
    async with asking(cluster) as client:
        assert "<title>Podwright</title>" in await (await client.get("/page/")).text()
        async with client.get("/page/stream") as answer:
            found = await first(answer, "nodes", "queue", "policies")
    assert found["nodes"]["simulated"]
    assert found["nodes"]["name"] == ["a", "b"]
    assert [each[1] for each in found["queue"]["pods"]] == ["waits"]
    assert [each[1] for each in found["policies"]["list"]] == ["built-in-default"]
    assert copy_of(cluster) == before


async def test_pods_and_nodes_are_explained(cluster):
    before = copy_of(cluster)
    async with asking(cluster) as client:
        waits = await (await client.get("/page/pod?namespace=default&name=waits")).json()
        placed = await (await client.get("/page/pod?namespace=default&name=web-0")).json()
        about = await (await client.get("/page/node?name=a")).json()
        assert (await client.get("/page/pod?namespace=default&name=none")).status == 404
    assert (waits["state"], waits["causes"][0]["plugin"]) == ("Pending", "NodeResourcesFit")
    assert waits["changes"]
    assert (placed["state"], placed["node"]) == ("Placed", "a")
    assert [each["name"] for each in about["pods"]] == ["web-0"]
    assert copy_of(cluster) == before


async def test_an_explanation_ends_with_the_time_of_a_request(cluster):
    async with asking(cluster, limits=RequestLimits(seconds=0)) as client:
        waits = await (await client.get("/page/pod?namespace=default&name=waits")).json()
    assert waits["causes"][0]["plugin"] == "NodeResourcesFit"
    assert "changes" not in waits
    assert waits["notes"] == ["there was no time to try everything that could help"]


async def test_simulations_change_nothing_for_those_who_look(cluster):
    async with asking(cluster) as client, client.get("/page/stream") as answer:
        await first(answer, "nodes", "queue")
        body = {"hypotheses": [{"addNodes": [{"count": 3, "like": "a"}]}, {"drain": ["a"]}]}
        assert (await client.post("/v1/simulate", json=body)).status == 200
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await first(answer, "change")


async def test_a_cluster_that_is_read_again_is_shown_anew(cluster):
    clusters = [loaded(node("c")), cluster]
    async with asking(clusters.pop) as client, client.get("/page/stream") as answer:
        assert (await first(answer, "nodes"))["nodes"]["name"] == ["a", "b"]
        assert (await client.post("/v1/reload", json={})).status == 200
        assert (await first(answer, "nodes"))["nodes"]["name"] == ["c"]


DATA = (
    "/page/stream",
    "/page/node?name=a",
    "/page/policy?name=built-in-default",
    "/page/pod?namespace=default&name=waits",
)


async def test_data_needs_the_token_and_files_do_not(cluster):
    async with asking(cluster, token="secret") as client:
        assert (await client.get("/page/")).status == 200
        assert (await client.get("/page/main.js")).status == 200
        for path in DATA:
            assert (await client.get(path)).status == 401
            async with client.get(path, headers={"Authorization": "Bearer secret"}) as answer:
                assert answer.status == 200


async def test_another_name_of_this_machine_gets_nothing(cluster):
    async with asking(cluster) as client:
        for path in ("/page/", *DATA):
            assert (await client.get(path, headers={"Host": "evil.example"})).status == 403


@pytest.mark.parametrize("site, status", [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)])
async def test_another_website_gets_files_only(cluster, site, status):
    headers = {"Sec-Fetch-Site": site}
    async with asking(cluster) as client:
        assert (await client.get("/page/", headers=headers)).status == 200
        for path in (*DATA, "/v1/cluster"):
            async with client.get(path, headers=headers) as answer:
                assert answer.status == status
        assert (await client.post("/v1/simulate", json={"hypotheses": []}, headers=headers)).status == status


async def test_pods_wait_for_their_turn_unless_gates_hold_them_back():
    gated = pod("gated", spec={"schedulingGates": [{"name": "example.com/quota"}]})
    async with asking(loaded(node("a"), pod("waits"), gated)) as client, client.get("/page/stream") as answer:
        found = (await first(answer, "queue"))["queue"]["pods"]
    assert sorted((each[1], each[2], each[6]) for each in found) == [
        ("gated", "gated", "SchedulingGates"),
        ("waits", "active", ""),
    ]


async def test_it_is_read_only(cluster):
    async with asking(cluster) as client:
        for path in ("/page/", *DATA):
            assert (await client.post(path, json={})).status == 405


async def test_a_namespace_can_be_chosen(cluster):
    async with asking(cluster) as client, client.get("/page/stream?namespace=other") as answer:
        assert (await first(answer, "queue"))["queue"]["pods"] == []
