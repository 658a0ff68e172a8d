"""The API server is killed, or etcd is stopped or suspended. The operator makes no guesses, and recovers by itself."""

from __future__ import annotations

import time

import pytest

from podwright.testing import wait_until
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, is_binding

PODS = 400
IN_FLIGHT = 30


@pytest.mark.parametrize("intake", ["kopf", pytest.param("watch", marks=pytest.mark.slow)])
def test_the_operator_recovers_when_the_api_server_is_killed_with_bindings_in_flight(arena: Arena, intake: str) -> None:
    """The API server dies while its requests to etcd are pending, so each Binding may or may not have been executed."""
    arena.nodes(40, pods="12")
    etcd, server = arena.cluster.etcd, arena.cluster.api_server
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}"):
        proxy.hold(is_binding)
        with arena.creating_pods(PODS, 200):
            wait_until(lambda: proxy.held() >= IN_FLIGHT, 60, "the proxy holds many Bindings")
            etcd.pause()
            proxy.release()
            in_flight = lambda: proxy.in_flight(is_binding, forwarded=True)
            wait_until(lambda: in_flight() >= IN_FLIGHT, 60, "the API server has the Bindings")
            time.sleep(0.5)
            pending, bound = in_flight(), arena.bound()
            server.kill()
            etcd.resume()
            time.sleep(1)
            server.start()
            back = time.monotonic()
        assert bound == 0
        assert pending >= IN_FLIGHT
        arena.wait_bound(PODS)
        arena.wait_settled()
        recovered = arena.ledger.last_binding_at() - back
        arena.pods(5, "later")
        arena.wait_bound(PODS + 5, 20)
    arena.verify()
    arena.report(
        pods=PODS,
        faults=f"API server killed once with {pending} Bindings in flight",
        seconds_until_all_bound_after_its_return=f"{recovered:.1f}",
    )


@pytest.mark.parametrize("how", ["paused", pytest.param("stopped", marks=pytest.mark.slow)])
def test_the_operator_recovers_when_etcd_is_unavailable_for_10_seconds(arena: Arena, how: str) -> None:
    arena.nodes(40, pods="12")
    etcd, server = arena.cluster.etcd, arena.cluster.api_server
    with arena.running(None, "--pod-intake=kopf"):
        with arena.creating_pods(PODS, 150):
            arena.wait_bound(PODS // 8)
            etcd.pause() if how == "paused" else etcd.stop()
            time.sleep(10)
            etcd.resume() if how == "paused" else etcd.start()
            back = time.monotonic()
        server.wait_ready(arena.cluster.client.ready, 60)
        arena.wait_bound(PODS, 120)
        arena.wait_settled()
    arena.verify()
    recovered = arena.ledger.last_binding_at() - back
    arena.report(pods=PODS, faults=f"etcd {how} for 10 s", seconds_until_all_bound_after_its_return=f"{recovered:.1f}")
