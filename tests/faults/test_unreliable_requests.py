"""Requests are delayed, cut or rejected, or their responses are lost."""

from __future__ import annotations

import time

import pytest

from support.faults.arena import Arena
from support.faults.proxy import CUT, RESPONSE_LOST, FaultProxy, Faults, is_binding, is_write

PODS = 160


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(Faults({RESPONSE_LOST: 0.3}, is_binding), id="Bindings are executed and their responses lost"),
        pytest.param(
            Faults({CUT: 0.3}, is_binding), id="connections are cut before the Binding arrives", marks=pytest.mark.slow
        ),
        pytest.param(Faults({"409": 0.1}, is_binding), id="Bindings fail with a false 409"),
        pytest.param(Faults({"429": 0.2}, is_binding, retry_after=1), id="Bindings are throttled with Retry-After"),
        pytest.param(
            Faults({"500": 0.2, "504": 0.2}, is_binding), id="Bindings fail with 500 and 504", marks=pytest.mark.slow
        ),
        pytest.param(Faults({}, is_binding, delay=1.0), id="Bindings take up to a second"),
        pytest.param(
            Faults(
                {CUT: 0.05, RESPONSE_LOST: 0.05, "409": 0.05, "429": 0.05, "500": 0.05, "504": 0.05}, is_write, 0.05
            ),
            id="all faults at once, on every write",
        ),
    ],
)
def test_pods_are_bound_once_although_bindings_fail(arena: Arena, faults: Faults) -> None:
    arena.nodes(30, pods="10")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, "--pod-intake=watch"):
        proxy.faults = [faults]
        started = time.monotonic()
        arena.pods(PODS, cpu="400m")
        arena.wait_bound(PODS)
        bound = arena.ledger.last_binding_at()
        proxy.faults = []
        arena.wait_settled()
    arena.verify()
    assert proxy.injected.total() > PODS / 20
    assert proxy.early_retries(is_binding) == [], "a retry came before Retry-After"
    arena.report(pods=PODS, faults=dict(proxy.injected), seconds_to_bind_all=f"{bound - started:.1f}")


@pytest.mark.parametrize("intake", ["kopf", pytest.param("watch", marks=pytest.mark.slow)])
def test_pods_are_bound_in_an_unreliable_network(arena: Arena, intake: str) -> None:
    """First with pods that exist already. Then with new pods, to check that the faults leave no memory in use."""
    arena.nodes(30, pods="10")
    arena.pods(PODS, cpu="400m")
    unreliable = [Faults({CUT: 0.04, "500": 0.04, "504": 0.02, "429": 0.02, RESPONSE_LOST: 0.04}, delay=0.05)]
    with FaultProxy(arena.cluster) as proxy:
        proxy.faults = unreliable
        started = time.monotonic()
        with arena.running(proxy, f"--pod-intake={intake}", warm_up=False) as operator:
            arena.wait_bound(PODS, 90)
            took = arena.ledger.last_binding_at() - started
            proxy.faults = []
            arena.wait_settled()
            arena.verify()
            before = arena.empty(operator)
            proxy.faults = unreliable
            again = time.monotonic()
            arena.pods(PODS, "again", cpu="400m")
            arena.wait_bound(PODS, 90)
            proxy.faults = []
            arena.wait_settled()
            arena.wait_memory(operator, before)
    arena.verify()
    assert proxy.early_retries(is_binding) == []
    arena.report(
        pods=2 * PODS,
        faults=dict(proxy.injected),
        seconds_to_start_and_bind_all=f"{took:.1f}",
        seconds_to_bind_the_second_half=f"{arena.ledger.last_binding_at() - again:.1f}",
    )
