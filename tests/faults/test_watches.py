"""Watches are closed, stall, or deliver events twice, late or not at all."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable, Iterator

import pytest

from podwright.testing import wait_until
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Watch

PODS = 300
PODS_PATH = "/api/v1/pods"


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_pods_are_scheduled_while_watches_are_closed_and_expire(arena: Arena, intake: str) -> None:
    arena.nodes(40, pods="12")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}"):
        with arena.creating_pods(PODS, 80) as creating:
            disturbances = itertools.cycle([proxy.close_watches, proxy.expire_watches])
            for disturb in itertools.takewhile(lambda _: creating.is_alive(), disturbances):
                wait_until(lambda disturb=disturb: disturb() > 0, 60, "there are watches again")
                time.sleep(0.3)
        created = time.monotonic()
        arena.wait_bound(PODS)
        arena.wait_settled()
    arena.verify()
    assert min(proxy.injected["watch closed"], proxy.injected["watch ended by an error (410)"]) > 0
    recovered = max(0.0, arena.ledger.last_binding_at() - created)
    arena.report(pods=PODS, faults=dict(proxy.injected), seconds_to_recover=f"{recovered:.1f}")


def test_errors_in_watches_restart_kopf_but_not_the_scheduler(arena: Arena) -> None:
    arena.nodes(10, pods="12")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, "--pod-intake=kopf") as operator:
        for i in range(2):
            arena.pods(20, f"before{i}-")
            arena.wait_bound(20 * (i + 1))
            assert proxy.expire_watches(code=500, reason="InternalError") > 0
        started = time.monotonic()
        arena.pods(20, "after")
        arena.wait_bound(60)
        arena.wait_settled()
        assert "restarting Kopf" in operator.log()
    arena.verify()
    arena.report(
        pods=60, faults=dict(proxy.injected), seconds_to_recover=f"{arena.ledger.last_binding_at() - started:.1f}"
    )


class Disorder:
    """Delivers some events twice, and some after their successor. Events of one object keep their order."""

    def __init__(self, share: float, counted: dict[str, int]) -> None:
        self._random = random.Random(3)
        self._share = share
        self._held: dict[Watch, tuple[str, bytes]] = {}
        self._counted = counted

    def __call__(self, watch: Watch, line: bytes) -> Iterator[bytes]:
        drawn = self._random.random()
        held = self._held.pop(watch, None)
        name = line.split(b'"name":"', 1)[-1].split(b'"', 1)[0].decode()
        if held is not None:
            swapped = [line, held[1]] if held[0] != name else [held[1], line]
            yield from swapped
        elif drawn < self._share and b'"BOOKMARK"' not in line:
            self._counted["late"] += 1
            self._held[watch] = (name, line)
        elif drawn < 2 * self._share:
            self._counted["twice"] += 1
            yield from (line, line)
        else:
            yield line


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_duplicate_and_late_events_do_no_harm(arena: Arena, intake: str) -> None:
    arena.nodes(40, pods="12")
    counted = {"late": 0, "twice": 0}
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}"):
        proxy.tamper = Disorder(0.1, counted)
        started = time.monotonic()
        arena.pods(PODS)
        # The last event of a watch may still be held, until another one follows.
        arena.wait_bound(PODS - 2)
        arena.pods(3, "push")
        arena.wait_bound(PODS + 1)
        assert proxy.close_watches() > 0
        arena.wait_bound(PODS + 3)
        arena.wait_settled()
    arena.verify()
    assert min(counted.values()) > 10
    seconds = arena.ledger.last_binding_at() - started
    arena.report(pods=PODS + 3, faults=counted, seconds_until_all_bound=f"{seconds:.1f}")


@pytest.mark.slow
@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_silently_stalled_watches_are_detected(arena: Arena, intake: str) -> None:
    arena.nodes(10, pods="12")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}"):
        arena.pods(10)
        arena.wait_bound(10)
        stalled = proxy.stall_watches()
        assert stalled > 0
        started = time.monotonic()
        arena.nodes(10, first=10, pods="12")
        arena.pods(150, "later")
        arena.wait_bound(160, 120)
        arena.wait_settled()
    arena.verify()
    recovered = arena.ledger.last_binding_at() - started
    arena.report(pods=160, faults=f"{stalled} watches stalled", seconds_until_detected_and_all_bound=f"{recovered:.1f}")


@pytest.mark.slow
@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_audits_detect_lost_events_of_pods(arena: Arena, intake: str) -> None:
    """The watch loses events of new pods, confirmations of Bindings, and deletions of pending pods."""
    arena.nodes(10, pods="12")
    randomness, lost = random.Random(5), {"lost": 0}

    def lossy(watch: Watch, line: bytes) -> Iterable[bytes]:
        if watch.path == PODS_PATH and b'"BOOKMARK"' not in line and randomness.random() < 0.3:
            lost["lost"] += 1
            return ()
        return (line,)

    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        proxy.tamper = lossy
        arena.pods(100)
        arena.pods(10, "huge", cpu="100")
        waiting = lambda: operator.metric("scheduler_pending_pods", queue="unschedulable")
        arena.wait_bound(100, 150)
        arena.wait_settled()
        for i in range(10):
            arena.cluster.client.delete(arena.pod(f"huge{i}"))
        deleted = time.monotonic()
        wait_until(lambda: waiting() == 0, 150, "the operator has dropped the deleted pods")
        dropped = time.monotonic() - deleted
        assumed = lambda: operator.metric("scheduler_cache_size", type="assumed_pods")
        wait_until(lambda: assumed() == 0, 90, "every binding is confirmed")
    arena.verify()
    assert lost["lost"] > 0
    arena.report(pods=110, faults=lost, seconds_until_deleted_pods_were_dropped=f"{dropped:.1f}")
