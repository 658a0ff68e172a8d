"""The operator is killed (SIGKILL) repeatedly while 40 queues take room from each other.

Meanwhile no queue exceeds its limit, no node its capacity, and nothing is evicted past a budget, before its minimum
runtime, or of what its queue is guaranteed; and when the world rests, evictions have ended, queues have what they are
entitled to, and each pod says what it waits for. PODWRIGHT_FAULTS=all (make faults) kills 30 times.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from podwright.testing import wait_until
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, is_binding
from support.faults.queued_teams import QueuedTeams

INTAKE = "--pod-intake=watch"
REST = 5
"""Seconds without evictions and bindings."""


def is_eviction(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/eviction")


def is_binding_or_eviction(method: str, path: str) -> bool:
    return is_binding(method, path) or is_eviction(method, path)


def kill_repeatedly(arena: Arena, kills: int) -> None:
    randomness = random.Random(kills)
    teams = QueuedTeams(arena, seed=kills)
    with FaultProxy(arena.cluster) as proxy, teams.living():
        with arena.running(proxy, INTAKE, warm_up=False):
            teams.wait_shared()
            teams.wait_at_rest(REST)
            teams.verify()
        proxy.faults = [Faults({}, is_binding_or_eviction, delay=0.4, response_delay=0.4)]
        during = 0
        for _ in range(kills):
            operator = arena.start(proxy, INTAKE)
            paused = teams.pause()
            teams.wait_at_rest(1)
            teams.resume(paused)
            wait_until(lambda: proxy.in_flight(is_eviction) > 0, 60, "pods are evicted for the queues that are back")
            time.sleep(randomness.uniform(0, 1))
            during += proxy.in_flight(is_binding_or_eviction) > 0
            os.kill(operator.process.pid, signal.SIGKILL)
            operator.process.wait(10)
        proxy.faults = []
        started, evicted = time.monotonic(), len(teams.ledger.evicted)
        with arena.running(None, INTAKE, warm_up=False):
            teams.wait_shared()
            shared = time.monotonic()
            teams.wait_at_rest(REST)
            teams.verify()
        assert not arena.ledger.moved, arena.ledger.moved
        assert during >= kills / 3, f"only {during} of {kills} kills came while something was under way"
    arena.report(
        faults=f"{kills} times SIGKILL, {during} of them with Bindings or evictions in flight",
        evictions=f"{evicted} between kills, {len(teams.ledger.evicted) - evicted} after",
        pods_that_wait_with_an_older_message=teams.outdated,
        seconds_from_last_start_to_shares=f"{shared - started:.1f}",
    )


@pytest.mark.timeout(600)
def test_promises_to_queues_hold_although_the_operator_is_killed_under_reclaim(arena: Arena) -> None:
    kill_repeatedly(arena, 3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_promises_to_queues_hold_although_the_operator_is_killed_30_times(arena: Arena) -> None:
    kill_repeatedly(arena, 30)
