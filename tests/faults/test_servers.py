"""The API server is killed, etcd is stopped or frozen: nothing is guessed, and work goes on by itself."""

from __future__ import annotations

import time

import pytest

from podwright.testing import wait_until
from support.faults.kit import Arena
from support.faults.proxy import FaultProxy, is_binding

PODS = 400
IN_FLIGHT = 30


@pytest.mark.parametrize("intake", ["kopf", pytest.param("watch", marks=pytest.mark.slow)])
def test_the_api_server_is_killed_with_bindings_in_flight(arena: Arena, intake: str) -> None:
    """It has them and waits for etcd when it dies: each may have come to pass or not, and nobody says which."""
    arena.nodes(40, pods="12")
    etcd, server = arena.cluster.etcd, arena.cluster.api_server
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}"):
        proxy.hold(is_binding)
        with arena.filling(PODS, 200):
            wait_until(lambda: proxy.held() >= IN_FLIGHT, 60, "many Bindings are on their way")
            etcd.pause()
            proxy.release()
            in_flight = lambda: proxy.under_way(is_binding, passed_on=True)  # noqa: E731
            wait_until(lambda: in_flight() >= IN_FLIGHT, 20, "the API server has the Bindings")
            time.sleep(0.5)
            unanswered, bound = in_flight(), arena.bound()
            server.kill()
            etcd.resume()
            time.sleep(1)
            server.start()
            back = time.monotonic()
        assert bound == 0
        assert unanswered >= IN_FLIGHT
        arena.wait_bound(PODS)
        arena.wait_calm()
        recovered = arena.ledger.latest() - back
        arena.pods(5, "later")
        arena.wait_bound(PODS + 5, 20)
    arena.verify()
    arena.tell(
        pods=PODS,
        faults=f"API server killed once with {unanswered} Bindings in flight",
        seconds_until_all_bound_after_its_return=f"{recovered:.1f}",
    )


@pytest.mark.parametrize("how", ["paused", pytest.param("stopped", marks=pytest.mark.slow)])
def test_etcd_is_away_for_10_seconds(arena: Arena, how: str) -> None:
    arena.nodes(40, pods="12")
    etcd, server = arena.cluster.etcd, arena.cluster.api_server
    with arena.running(None, "--pod-intake=kopf"):
        with arena.filling(PODS, 150):
            arena.wait_bound(PODS // 8)
            etcd.pause() if how == "paused" else etcd.stop()
            time.sleep(10)
            etcd.resume() if how == "paused" else etcd.start()
            back = time.monotonic()
        server.wait_ready(arena.cluster.client.ready, 60)
        arena.wait_bound(PODS, 120)
        arena.wait_calm()
    arena.verify()
    recovered = arena.ledger.latest() - back
    arena.tell(pods=PODS, faults=f"etcd {how} for 10 s", seconds_until_all_bound_after_its_return=f"{recovered:.1f}")
