"""20,000 pods at once, on room for 19,000.

They are created as the API server takes them, while the operator decides. PODWRIGHT_BURST sets another number.
"""

from __future__ import annotations

import os
import time

import pytest

from support.faults.kit import OURS, Arena, memory

PODS = int(os.environ.get("PODWRIGHT_BURST", "20000"))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_20000_pods_at_once(arena: Arena) -> None:
    room = PODS * 95 // 10_000 * 100
    arena.nodes(room // 100, cpu="64", memory="256Gi", pods="100")
    with arena.running(None, "--pod-intake=watch") as operator:
        met = time.monotonic()
        arena.pods(PODS, cpu="100m")
        created = time.monotonic()
        arena.wait_bound(room, 600)
        bound = arena.ledger.latest()
        arena.wait_calm(300)
        calm, held = time.monotonic(), memory(operator)
        arena.verify()
        assert arena.bound(OURS) == room
        arena.delete_pods()
        arena.wait_emptied(operator)
    arena.tell(
        pods=PODS,
        bound=room,
        seconds_to_create=f"{created - met:.1f}",
        seconds_to_bind=f"{bound - met:.1f}",
        pods_a_second=f"{room / (bound - met):.0f}",
        seconds_to_calm=f"{calm - met:.1f}",
        memory_with_all_of_them_in_MiB=f"{held:.0f}",
    )
