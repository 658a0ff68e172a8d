"""The operator is killed (SIGKILL) at random points, over and over, while pods keep coming.

Bindings are held up on their way there and back, so that many a kill comes while some have been carried out and some not.
PODWRIGHT_KILLS sets how often in the short run (4); the long one, marked slow, kills 50 times.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from support.control_plane import operator_process as kit
from support.faults.kit import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding


def kill_over_and_over(arena: Arena, kills: int, intake: str) -> None:
    chance = random.Random(kills)
    pods = 40 * kills
    caught = broken_off = 0
    arena.nodes(pods // 8, pods="10")
    with FaultProxy(arena.cluster) as proxy:
        proxy.faults = [Faults({}, is_binding, delay=0.5, late=0.5)]
        with arena.filling(pods, 16):
            for _ in range(kills):
                operator = arena.start(proxy, f"--pod-intake={intake}", ready=False)
                if chance.random() < 0.8:
                    operator.process.wait_ready(lambda operator=operator: operator.ready, 60)
                time.sleep(chance.uniform(0, 1.2))
                under_way = proxy.under_way(is_binding)
                os.kill(operator.process.pid, signal.SIGKILL)
                operator.process.wait(10)
                caught += under_way > 0
                broken_off += under_way
    placed = sum(bool(raw["spec"].get("nodeName")) for raw in kit.pods(arena.cluster, arena.namespace))
    assert kills <= placed < pods
    assert caught >= kills / 3, f"{caught} of {kills} kills came while a Binding was under way"
    began = time.monotonic()
    with arena.running(None, f"--pod-intake={intake}", warm=False) as operator:
        arena.wait_bound(pods)
        arena.wait_calm()
        arena.verify()
        recovered = max(0.0, arena.ledger.latest() - began)
        arena.emptied(operator)  # it counts nothing of its predecessors' for ever
    arena.tell(
        pods=pods,
        faults=f"{kills} times SIGKILL, {caught} of them with Bindings under way, {broken_off} in all",
        seconds_from_last_start_to_all_bound=f"{recovered:.1f}",
    )


def test_killed_several_times_nothing_is_lost_or_bound_twice(arena: Arena) -> None:
    kill_over_and_over(arena, int(os.environ.get("PODWRIGHT_KILLS", "4")), "watch")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_50_times_nothing_is_lost_or_bound_twice(arena: Arena) -> None:
    kill_over_and_over(arena, 50, "kopf")
