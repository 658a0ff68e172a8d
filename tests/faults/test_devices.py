"""Pods get devices while the operator is killed (SIGKILL), the driver republishes its slices, and a second scheduler takes devices, too.

PODWRIGHT_KILLS sets the number of kills in the short test (4). The slow test kills 50 times, under 1,000 pods.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from podwright.testing import wait_until
from support.control_plane import device_driver as dra
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults

OTHER = "podwright-other"


@pytest.fixture
def claims(arena: Arena) -> Iterator[None]:
    """The controller that makes claims from templates and takes pods that are gone out of them."""
    manager = arena.cluster.start_controller_manager(["resourceclaim-controller", "garbage-collector-controller"])
    arena.cluster.client.create(dra.template("one", arena.namespace))
    yield
    arena.delete_pods()
    dra.delete_claims(arena.cluster, arena.namespace)
    manager.stop()


def devices_of(nodes: int) -> Mapping[str, Sequence[str]]:
    """Eight devices for each node."""
    return {f"n{i}": [f"gpu-{j}" for j in range(8)] for i in range(nodes)}


def is_write_to_claim(method: str, path: str) -> bool:
    return method in ("PUT", "PATCH", "POST") and (path.endswith("/binding") or "/resourceclaims" in path)


def verify(arena: Arena, pods: int) -> None:
    """Each pod is bound, to the node of the device that its claim has, and each claim is reserved for its pod."""
    assert dra.faults(arena.cluster) == []
    owned = {raw["metadata"]["ownerReferences"][0]["uid"]: raw for raw in dra.claims(arena.cluster, arena.namespace)}
    placed = [raw for raw in kit.pods(arena.cluster, arena.namespace) if raw["spec"].get("nodeName")]
    assert len(placed) == pods
    for raw in placed:
        claim = owned[raw["metadata"]["uid"]]
        (result,) = dra.results_of(claim)
        assert (result["pool"], dra.consumers(claim)) == (raw["spec"]["nodeName"], [raw["metadata"]["uid"]])


def kill_repeatedly(arena: Arena, kills: int, pods: int) -> None:
    """A quarter of the pods is deleted meanwhile, whether bound or not, and there are just enough devices for the others."""
    randomness = random.Random(kills)
    cluster = arena.cluster
    left, interrupted = pods - pods // 4, 0
    nodes = -(-left // 8)
    arena.nodes(nodes, pods="100")
    with dra.Driver(cluster, devices_of(nodes)) as driver, FaultProxy(cluster) as proxy:
        proxy.faults = [Faults({}, is_write_to_claim, delay=0.3, response_delay=0.3)]
        with driver.republishing(), arena.creating_pods(pods, pods / kills / 3, cpu="1m", **dra.from_template("one")):
            deleted = 0
            for kill in range(kills):
                operator = arena.start(proxy, ready=False)
                if randomness.random() < 0.8:
                    operator.process.wait_ready(lambda operator=operator: operator.ready, 60)
                time.sleep(randomness.uniform(0, 1.5))
                interrupted += proxy.in_flight(is_write_to_claim)
                os.kill(operator.process.pid, signal.SIGKILL)
                operator.process.wait(10)
                while deleted < (pods - left) * (kill + 1) // kills:
                    arena.retry(lambda deleted=deleted: cluster.client.delete(arena.pod(f"p{4 * deleted}")))
                    deleted += 1
        for i in range(pods - left):  # those that were not created yet
            cluster.client.delete(arena.pod(f"p{4 * i}"))
        proxy.faults = []
        started = time.monotonic()
        with arena.running(None, warm_up=False):
            wait_until(lambda: kit.bound(cluster, arena.namespace) == left, 180, "all pods are bound")
            recovered = time.monotonic() - started
            wait_until(lambda: not dra.faults(cluster), 60, "no claim is reserved for a pod that is gone")
            assert not arena.ledger.moved
            verify(arena, left)
        arena.report(
            pods=pods,
            devices=nodes * 8,
            faults=f"{kills} times SIGKILL, {interrupted} writes in flight, slices of generation {driver.generation}",
            seconds_from_last_start_to_all_bound=f"{recovered:.1f}",
        )
    assert interrupted


@pytest.mark.usefixtures("claims")
def test_no_device_is_held_twice_when_the_operator_is_killed_repeatedly(arena: Arena) -> None:
    kills = int(os.environ.get("PODWRIGHT_KILLS", "4"))
    kill_repeatedly(arena, kills, 20 * kills)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("claims")
def test_no_device_is_held_twice_when_the_operator_is_killed_50_times(arena: Arena) -> None:
    kill_repeatedly(arena, 50, 1000)


@pytest.mark.usefixtures("claims")
def test_two_schedulers_never_bind_pods_to_one_device(arena: Arena) -> None:
    """They do not know of each other. Writes are delayed, so that both often choose the same device."""
    cluster, pods = arena.cluster, 32
    arena.nodes(pods // 8, pods="100")
    with dra.Driver(cluster, devices_of(pods // 8)), FaultProxy(cluster) as one, FaultProxy(cluster) as other:
        for proxy in (one, other):
            proxy.faults = [Faults({}, is_write_to_claim, delay=0.2)]
        second = arena.running(other, f"--scheduler-name={OTHER}", warm_up=False, name="second")
        with arena.running(one, warm_up=False, name="first"), second:
            wanted = dra.from_template("one")
            arena.pods(pods // 2, "ours", cpu="1m", **wanted)
            arena.pods(pods // 2, "theirs", cpu="1m", scheduler=OTHER, **wanted)
            wait_until(lambda: kit.bound(cluster, arena.namespace) == pods, 120, "all pods are bound")
            verify(arena, pods)
            contested = len(kit.events(cluster, arena.namespace, "DeviceAllocatedTwice"))
        arena.report(pods=pods, devices=pods, faults="a second scheduler", claims_with_a_rival=contested)
    assert contested, "they never chose the same device"
