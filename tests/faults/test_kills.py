"""The operator is killed (SIGKILL) repeatedly at random moments, while pods are created.

The proxy delays Bindings and their responses, so that many kills come while some Bindings are executed and others are
not. Most operators are killed some time after they have begun to bind, and the others some time after their start.
PODWRIGHT_KILLS sets the number of kills in the short test (4). The slow test kills 50 times. In another one, each
operator is killed as soon as it has bound a pod.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding

DURING, AFTER = 36, 4
"""Pods that are created while an operator is killed, and after that, so that there is always something left to bind."""


LIVES = 6


def kill_repeatedly(arena: Arena, kills: int, intake: str) -> None:
    randomness = random.Random(kills)
    pods = (kills + 1) * (DURING + AFTER)
    kills_with_bindings = interrupted = 0
    arena.nodes(pods // 8, pods="10")
    arena.pods(DURING + AFTER, "first")
    with FaultProxy(arena.cluster) as proxy:
        proxy.faults = [Faults({}, is_binding, delay=0.5, response_delay=0.5)]
        for kill in range(kills):
            begins = randomness.random() < 0.8
            operator = arena.start(proxy, f"--pod-intake={intake}", ready=False)
            if begins:
                wait_until(lambda: proxy.in_flight(is_binding) > 0, 60, "the operator has begun to bind")
            with arena.creating_pods(DURING, 16, f"p{kill}-"):
                time.sleep(randomness.uniform(0, 1.2))
                in_flight = proxy.in_flight(is_binding)
                os.kill(operator.process.pid, signal.SIGKILL)
                operator.process.wait(10)
            arena.pods(AFTER, f"later{kill}-")
            kills_with_bindings += in_flight > 0
            interrupted += in_flight
    placed = sum(bool(raw["spec"].get("nodeName")) for raw in kit.pods(arena.cluster, arena.namespace))
    assert kills <= placed < pods
    assert kills_with_bindings >= kills / 3, (
        f"only {kills_with_bindings} of {kills} kills came while a Binding was in flight"
    )
    started = time.monotonic()
    with arena.running(None, f"--pod-intake={intake}", warm_up=False) as operator:
        arena.wait_bound(pods)
        arena.wait_settled()
        arena.verify()
        recovered = max(0.0, arena.ledger.last_binding_at() - started)
        arena.empty(operator)  # it keeps nothing of its predecessors' pods
    arena.report(
        pods=pods,
        faults=f"{kills} times SIGKILL, {kills_with_bindings} of them with Bindings in flight, {interrupted} in all",
        seconds_from_last_start_to_all_bound=f"{recovered:.1f}",
    )


def test_no_pod_is_lost_or_bound_twice_when_the_operator_is_killed_repeatedly(arena: Arena) -> None:
    kill_repeatedly(arena, int(os.environ.get("PODWRIGHT_KILLS", "4")), "watch")


@pytest.mark.slow
def test_no_pod_is_lost_or_bound_twice_when_the_operator_is_killed_50_times(arena: Arena) -> None:
    kill_repeatedly(arena, 50, "kopf")


def test_each_operator_is_killed_as_soon_as_it_has_bound_a_pod(arena: Arena) -> None:
    arena.nodes(100)
    for life in range(LIVES):
        arena.pods(DURING, f"life{life}-")
        bound = arena.bound()
        operator = arena.start(None, "--pod-intake=watch", ready=False)
        wait_until(lambda bound=bound: arena.bound() > bound, 30, "the operator has bound a pod")
        os.kill(operator.process.pid, signal.SIGKILL)
        operator.process.wait(10)
    placed = arena.bound()
    with arena.running(None, "--pod-intake=watch", warm_up=False):
        arena.wait_bound(LIVES * DURING)
        arena.wait_settled()
        arena.verify()
    arena.report(pods=LIVES * DURING, faults=f"{LIVES} times SIGKILL after the first Binding", bound=placed)
