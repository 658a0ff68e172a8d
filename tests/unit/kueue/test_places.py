"""The places of Workloads: the Reservations, and the room that they hold in our own cache."""

from __future__ import annotations

import pytest

from podwright.api import crd
from podwright.core.framework.interface import ClusterError
from podwright.kube.options.options import Options
from podwright.kueue.decision import PlacedPodSet
from podwright.kueue.options import CheckOptions
from podwright.kueue.places import HeldPlaces
from podwright.sandbox.schemas import Schema
from support.engine.kit import Rig
from support.http.kit import api, says
from support.kueue.stand_in import pod_set
from support.kueue.workloads import workload

SCHEMA = Schema(crd.crd("Reservation")["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def placed(label="u-0", **slots):
    return PlacedPodSet("main", label, slots, {"cpu": "1"})


def places(http, rig):
    return HeldPlaces(http, rig.engine, seconds=90, now=lambda: rig.now)


async def test_each_pod_set_has_reservations_that_the_api_server_takes():
    async with api(default=says(200, {})) as (http, _):
        made = places(http, Rig()).reservations(workload(pod_set()), [placed(n0=700, n1=800), placed("u-1", n0=1)])
    assert [raw["metadata"]["name"] for raw in made] == ["kueue-u-0-0", "kueue-u-0-1", "kueue-u-1-0"]
    counts = [{slot["node"]: slot["count"] for slot in raw["spec"]["slots"]} for raw in made]
    assert counts == [{"n0": 700, "n1": 300}, {"n1": 500}, {"n0": 1}]
    assert {raw["spec"]["duration"] for raw in made} == {"1m30s"}
    for raw in made:
        assert SCHEMA.problems(raw) == []


async def test_the_room_is_held_at_once_and_given_back():
    rig = Rig()
    rig.node("n0", allocatable={"cpu": "2"})
    async with api(default=says(200, {})) as (http, script):
        it = places(http, rig)
        raws = it.reservations(workload(pod_set()), [placed(n0=2)])
        assert not it.is_at("u", raws)
        it.reserve("u", raws)
        assert rig.engine.cache.reservations.counts("kueue-u-0-0") == (2, 0, 0)
        await it.write(raws)
        assert it.is_at("u", raws)
        assert not it.is_at("u", it.reservations(workload(pod_set()), [placed(n0=1)]))
        rig.now += 91
        rig.engine.reservations.expire()
        assert it.expired("u")
        assert not it.is_at("u", raws)
        await it.release("u")
        assert not it.holds("u")
        assert [request.method for request in script.requests] == ["PATCH", "DELETE"]


async def test_room_that_cannot_be_written_is_not_held():
    rig = Rig()
    async with api(default=says(500, {})) as (http, _):
        it = places(http, rig)
        raws = it.reservations(workload(pod_set()), [placed(n0=2)])
        it.reserve("u", raws)
        with pytest.raises(ClusterError):
            await it.write(raws)
        assert not it.is_at("u", raws)
        assert len(rig.engine.cache.reservations) == 0


def test_each_retry_waits_twice_as_long_up_to_a_bound():
    options = CheckOptions(common=Options(), hold=60.0, first_retry=15.0, longest_retry=100.0)
    assert [options.pause(retries) for retries in (0, 1, 2, 3, 10**9)] == [15, 30, 60, 100, 100]
    assert [options.pause(9, noes) for noes in (0, 500, 10_000)] == [100, 100, 2_000]
    assert options.pause(0, 10_000) == 15
