"""The operator, or the leading one of two, is killed (SIGKILL) repeatedly while 40 queues take room from each other.

Meanwhile no queue exceeds its limit, no node its capacity, and nothing is evicted past a budget, before its minimum
runtime, or of what its queue, or one above it, is guaranteed; and when the world rests, evictions have ended, gangs are
whole or have nothing, queues have what they are entitled to, and each pod says what it waits for. Without a kill, each
pod or gang for which others were evicted gets a place. PODWRIGHT_FAULTS=all (make faults) kills 30 times, and lets
another instance take over 10 times.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults import leaders
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, RequestFilter, is_binding
from support.faults.queued_teams import QueuedTeams

INTAKE = "--pod-intake=watch"
REST = 5
"""Seconds without evictions and bindings."""


def is_eviction(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/eviction")


def is_binding_or_eviction(method: str, path: str) -> bool:
    return is_binding(method, path) or is_eviction(method, path)


def kill_repeatedly(
    arena: Arena, kills: int, proxies: Sequence[FaultProxy], decider: Callable[[], kit.Operator]
) -> None:
    """`decider` returns the operator that decides, started again where that was killed. It runs behind one of the
    proxies.
    """
    randomness = random.Random(kills)
    teams = QueuedTeams(arena, seed=kills)

    def in_flight(only: RequestFilter) -> bool:
        return any(proxy.in_flight(only) for proxy in proxies)

    def scale_down_and_up() -> None:
        paused = teams.pause()
        teams.wait_at_rest(1)
        wait_until(lambda: not in_flight(is_eviction), 60, "evictions that were decided before have come")
        teams.resume(paused)

    with teams.living():
        decider()
        teams.wait_shared()
        teams.wait_at_rest(REST)
        teams.verify()
        for proxy in proxies:
            proxy.faults = [Faults({}, is_binding_or_eviction, delay=0.4, response_delay=0.4)]
        during = 0
        for _ in range(kills):
            operator = decider()
            scale_down_and_up()
            wait_until(lambda: in_flight(is_eviction), 60, "pods are evicted for the queues that are back")
            time.sleep(randomness.uniform(0, 1))
            during += in_flight(is_binding_or_eviction)
            os.kill(operator.process.pid, signal.SIGKILL)
            operator.process.wait(10)
        for proxy in proxies:
            proxy.faults = []
        interrupted = teams.budgets_of_interrupted_evictions()
        started, evicted = time.monotonic(), len(teams.ledger.evicted)
        teams.calm_since = started + 1  # what was in flight has come by then
        decider()
        teams.wait_shared()
        shared = time.monotonic()
        teams.wait_at_rest(REST)
        teams.verify()
        scale_down_and_up()
        teams.wait_shared()
        teams.wait_at_rest(REST)
        teams.verify()
        claims = teams.claims()
        assert not arena.ledger.moved, arena.ledger.moved
        assert during >= kills / 3, f"only {during} of {kills} kills came while something was under way"
    arena.report(
        faults=f"{kills} times SIGKILL, {during} of them with Bindings or evictions in flight",
        evictions=f"{evicted} between kills, {len(teams.ledger.evicted) - evicted} after",
        evictions_for_gangs=sum("-" in unit and len(unit) < 9 for unit in claims.values()),
        evictions_of_gangs=sum(len(each.path) == 1 for each in teams.ledger.evicted.values()),
        evictions_without_event=len(teams.ledger.evicted.keys() - claims.keys()),
        pods_that_wait_with_an_older_message=teams.outdated,
        seconds_from_last_start_to_shares=f"{shared - started:.1f}",
        budgets_used_up_by_interrupted_evictions=interrupted,
    )


def restarted(arena: Arena, kills: int) -> None:
    """The operator starts again after each kill, and must exit with status 0 at the end."""
    running: list[kit.Operator] = []

    def decider() -> kit.Operator:
        if not running or not running[-1].process.alive:
            running.append(arena.start(proxy, INTAKE))
        return running[-1]

    with FaultProxy(arena.cluster) as proxy:
        try:
            kill_repeatedly(arena, kills, [proxy], decider)
        finally:
            for operator in running[-1:]:
                operator.process.stop(30)
    assert running[-1].process.returncode == 0, running[-1].process.log_tail(40)


def test_promises_to_queues_hold_although_the_operator_is_killed_under_reclaim(arena: Arena) -> None:
    restarted(arena, 3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_promises_to_queues_hold_although_the_operator_is_killed_30_times(arena: Arena) -> None:
    restarted(arena, 30)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_promises_to_queues_hold_although_another_instance_takes_over_10_times(arena: Arena, tmp_path: Path) -> None:
    with leaders.instances(arena, tmp_path, 2, "watch") as among:

        def leader() -> kit.Operator:
            for place, operator in enumerate(among.operators):
                if operator.process.returncode == -signal.SIGKILL:
                    among.operators[place] = among.start(place)
            return among.operators[among.leader()]

        kill_repeatedly(arena, 10, [proxy for proxy in among.proxies if proxy is not None], leader)
