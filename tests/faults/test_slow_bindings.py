"""Some Bindings hang, as behind a slow admission webhook: everybody else's pods get their nodes all the same."""

from __future__ import annotations

import time

import pytest

from podwright.testing import wait_until
from support.faults.kit import Arena
from support.faults.proxy import FaultProxy, is_binding

SLOW, QUICK = 150, 300


@pytest.mark.parametrize("intake", ["watch", pytest.param("kopf", marks=pytest.mark.slow)])
def test_bindings_that_hang_hold_up_no_others(arena: Arena, intake: str) -> None:
    """Many more hang than would be on their way at once if all went well."""
    arena.nodes(40, pods="12")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        proxy.hold(lambda method, path: is_binding(method, path) and "/pods/slow" in path)
        arena.pods(SLOW, "slow")
        wait_until(lambda: proxy.held() == SLOW, 60, "all slow Bindings are on their way")
        arena.pods(QUICK, "quick")
        arena.wait_bound(QUICK)
        held, assumed = proxy.held(), operator.metric("scheduler_cache_size", type="assumed_pods")
        released = time.monotonic()
        proxy.release()
        arena.wait_bound(SLOW + QUICK)
        arena.wait_calm()
    arena.verify()
    assert held == SLOW
    assert assumed >= SLOW
    names = {binding.pod.name: binding.version for binding in arena.ledger.bindings.values()}
    first_slow = min(version for name, version in names.items() if name.startswith("slow"))
    last_quick = max(version for name, version in names.items() if name.startswith("quick"))
    assert last_quick < first_slow
    arena.tell(
        pods=SLOW + QUICK,
        faults=f"{SLOW} Bindings held until {QUICK} others were bound",
        seconds_until_all_bound_after_their_release=f"{arena.ledger.latest() - released:.1f}",
    )
