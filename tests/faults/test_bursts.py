"""20,000 pods are created at once, with room for 19,000.

The API server accepts them as fast as it can, while the operator schedules. PODWRIGHT_BURST sets another number.
"""

from __future__ import annotations

import os
import time

import pytest

from support.faults.arena import OURS, Arena, memory

PODS = int(os.environ.get("PODWRIGHT_BURST", "20000"))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_burst_of_20000_pods(arena: Arena) -> None:
    room = PODS * 95 // 10_000 * 100
    arena.nodes(room // 100, cpu="64", memory="256Gi", pods="100")
    with arena.running(None, "--pod-intake=watch") as operator:
        started = time.monotonic()
        arena.pods(PODS, cpu="100m")
        created = time.monotonic()
        arena.wait_bound(room, 600)
        bound = arena.ledger.last_binding_at()
        arena.wait_settled(300)
        settled, memory_then = time.monotonic(), memory(operator)
        arena.verify()
        assert arena.bound(OURS) == room
        arena.delete_pods()
        arena.wait_empty(operator)
    arena.report(
        pods=PODS,
        bound=room,
        seconds_to_create=f"{created - started:.1f}",
        seconds_to_bind=f"{bound - started:.1f}",
        pods_per_second=f"{room / (bound - started):.0f}",
        seconds_to_settle=f"{settled - started:.1f}",
        memory_with_all_pods_in_MiB=f"{memory_then:.0f}",
    )
