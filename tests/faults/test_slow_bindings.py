"""Some Bindings hang, as behind a slow admission webhook. Other pods must be bound meanwhile."""

from __future__ import annotations

import time

import pytest

from podwright.testing import wait_until
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, is_binding

SLOW, QUICK = 150, 300


@pytest.mark.parametrize("intake", ["watch", pytest.param("kopf", marks=pytest.mark.slow)])
def test_hanging_bindings_do_not_delay_others(arena: Arena, intake: str) -> None:
    """More Bindings hang than are normally in flight at once."""
    arena.nodes(40, pods="12")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        proxy.hold(lambda method, path: is_binding(method, path) and "/pods/slow" in path)
        arena.pods(SLOW, "slow")
        wait_until(lambda: proxy.held() == SLOW, 60, "the proxy holds all slow Bindings")
        arena.pods(QUICK, "quick")
        arena.wait_bound(QUICK)
        assumed = lambda: operator.metric("scheduler_cache_size", type="assumed_pods")
        # On a slow machine some are sent again meanwhile.
        wait_until(lambda: proxy.held() == SLOW and assumed() >= SLOW, 60, "the proxy still holds all slow Bindings")
        released = time.monotonic()
        proxy.release()
        arena.wait_bound(SLOW + QUICK)
        arena.wait_settled()
    arena.verify()
    names = {binding.pod.name: binding.version for binding in arena.ledger.bindings.values()}
    first_slow = min(version for name, version in names.items() if name.startswith("slow"))
    last_quick = max(version for name, version in names.items() if name.startswith("quick"))
    assert last_quick < first_slow
    arena.report(
        pods=SLOW + QUICK,
        faults=f"{SLOW} Bindings held until {QUICK} others were bound",
        seconds_until_all_bound_after_their_release=f"{arena.ledger.last_binding_at() - released:.1f}",
    )
