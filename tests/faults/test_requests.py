"""Requests that are late, cut, refused, or carried out without an answer."""

from __future__ import annotations

import time

import pytest

from support.faults.kit import Arena
from support.faults.proxy import ANSWER_LOST, CUT, FaultProxy, Faults, is_binding, is_write

PODS = 160


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Faults({ANSWER_LOST: 0.3}, is_binding), id="Bindings go through and the answer is lost"),
        pytest.param(
            Faults({CUT: 0.3}, is_binding), id="connections are cut before the Binding arrives", marks=pytest.mark.slow
        ),
        pytest.param(Faults({"409": 0.1}, is_binding), id="Bindings are answered 409 although nothing happened"),
        pytest.param(Faults({"429": 0.2}, is_binding, retry_after=1), id="Bindings are throttled with Retry-After"),
        pytest.param(
            Faults({"500": 0.2, "504": 0.2}, is_binding), id="Bindings are answered 500 and 504", marks=pytest.mark.slow
        ),
        pytest.param(Faults({}, is_binding, delay=1.0), id="Bindings take up to a second"),
        pytest.param(
            Faults({CUT: 0.05, ANSWER_LOST: 0.05, "409": 0.05, "429": 0.05, "500": 0.05, "504": 0.05}, is_write, 0.05),
            id="all of it at once, to every write",
        ),
    ],
)
def test_pods_are_bound_once_although_bindings_go_wrong(arena: Arena, faults: Faults) -> None:
    arena.nodes(30, pods="10")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, "--pod-intake=watch"):
        proxy.faults = [faults]
        started = time.monotonic()
        arena.pods(PODS, cpu="400m")
        arena.wait_bound(PODS)
        healed = arena.ledger.latest()
        proxy.faults = []
        arena.wait_calm()
    arena.verify()
    assert proxy.injected.total() > PODS / 20
    assert proxy.too_early(is_binding) == [], "the server asked to wait"
    arena.tell(pods=PODS, faults=dict(proxy.injected), seconds_to_bind_all=f"{healed - started:.1f}")


@pytest.mark.parametrize("intake", ["kopf", pytest.param("watch", marks=pytest.mark.slow)])
def test_an_unreliable_network_from_the_start_on(arena: Arena, intake: str) -> None:
    """Once with pods that are there already, and once more to see that nothing is kept of all that went wrong."""
    arena.nodes(30, pods="10")
    arena.pods(PODS, cpu="400m")
    unreliable = [Faults({CUT: 0.04, "500": 0.04, "504": 0.02, "429": 0.02, ANSWER_LOST: 0.04}, delay=0.05)]
    with FaultProxy(arena.cluster) as proxy:
        proxy.faults = unreliable
        started = time.monotonic()
        with arena.running(proxy, f"--pod-intake={intake}", warm=False) as operator:
            arena.wait_bound(PODS, 90)
            took = arena.ledger.latest() - started
            proxy.faults = []
            arena.wait_calm()
            arena.verify()
            before = arena.emptied(operator)
            proxy.faults = unreliable
            again = time.monotonic()
            arena.pods(PODS, "again", cpu="400m")
            arena.wait_bound(PODS, 90)
            proxy.faults = []
            arena.wait_calm()
            arena.wait_memory(operator, before)
    arena.verify()
    assert proxy.too_early(is_binding) == []
    arena.tell(
        pods=2 * PODS,
        faults=dict(proxy.injected),
        seconds_to_start_and_bind_all=f"{took:.1f}",
        and_once_more=f"{arena.ledger.latest() - again:.1f}",
    )
