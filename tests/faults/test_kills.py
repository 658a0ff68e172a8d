"""The operator is killed (SIGKILL) at random points, over and over, while pods keep coming.

PODWRIGHT_KILLS sets how often in the short run (4); the long one, marked slow, kills 50 times.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

import operator_kit as kit
from fault_kit import Arena


def kill_over_and_over(arena: Arena, kills: int, intake: str) -> None:
    chance = random.Random(kills)
    pods = 40 * kills
    arena.nodes(pods // 8, pods="10")
    before: dict[str, str] = {}
    with arena.filling(pods, 8):
        for _ in range(kills):
            operator = arena.start(None, f"--pod-intake={intake}", ready=False)
            if chance.random() < 0.8:
                operator.process.wait_ready(lambda operator=operator: operator.ready, 60)
            time.sleep(chance.uniform(0, 1.2))
            os.kill(operator.process.pid, signal.SIGKILL)
            operator.process.wait(10)
    for raw in kit.pods(arena.cluster, arena.namespace):
        before[raw["metadata"]["uid"]] = raw["spec"].get("nodeName", "")
    placed = sum(1 for node in before.values() if node)
    assert placed >= kills
    began = time.monotonic()
    with arena.running(None, f"--pod-intake={intake}", warm=False):
        arena.wait_bound(pods)
        arena.wait_calm()
    arena.verify()
    recovered = max(0.0, arena.ledger.latest() - began)
    arena.tell(pods=pods, faults=f"{kills} times SIGKILL", seconds_from_last_start_to_all_bound=f"{recovered:.1f}")


def test_killed_several_times_nothing_is_lost_or_bound_twice(arena: Arena) -> None:
    kill_over_and_over(arena, int(os.environ.get("PODWRIGHT_KILLS", "4")), "watch")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_50_times_nothing_is_lost_or_bound_twice(arena: Arena) -> None:
    kill_over_and_over(arena, 50, "kopf")
