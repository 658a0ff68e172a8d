"""Somebody else fills the same nodes at the same time: kube-scheduler, or a second instance that believes it leads."""

from __future__ import annotations

import time

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.kit import OURS, Arena

RIVAL = "default-scheduler"


def test_kube_scheduler_fills_the_same_nodes(arena: Arena) -> None:
    """Room for 480 of 600: both place at once, and each notices what the other has taken."""
    arena.nodes(40, pods="12")
    rival = arena.cluster.start_scheduler()
    try:
        with arena.running(None, "--pod-intake=watch"):
            with arena.filling(300, 80, "ours"), arena.filling(300, 80, "theirs", scheduler=RIVAL):
                pass
            began = time.monotonic()
            wait_until(lambda: arena.bound() + arena.bound(RIVAL) >= 480, 60, "the nodes are full")
            arena.wait_calm()
            calm = time.monotonic() - began
    finally:
        rival.stop()
    ours, others = arena.bound(), arena.bound(RIVAL)
    arena.verify(disturbed=True)
    assert min(ours, others) > 100
    excess = ours + others - 480
    arena.tell(
        pods_ours=ours,
        pods_of_the_rival=others,
        faults="kube-scheduler fills the same nodes",
        placed_too_many=excess,
        noticed_within_seconds=arena.ledger.noticed_within({OURS}),
        seconds_to_calm=f"{calm:.1f}",
    )


def test_two_instances_that_both_believe_they_lead(arena: Arena) -> None:
    arena.nodes(40, pods="12")
    first_one = arena.running(None, "--pod-intake=watch", name="first")
    second_one = arena.running(None, "--pod-intake=kopf", name="second")
    with first_one as first, second_one as second:
        before = [_attempts(one) for one in (first, second)]
        with arena.filling(440, 120):
            pass
        arena.wait_bound(440)
        arena.wait_calm()
        began = time.monotonic()
        arena.pods(100, "later")
        arena.wait_calm()
        calm = time.monotonic() - began
        shares = [_attempts(one) - known for one, known in zip((first, second), before, strict=True)]
        wait_until(
            lambda: all(one.metric("scheduler_cache_size", type="assumed_pods") == 0 for one in (first, second)),
            60,
            "neither counts pods that the other one has bound elsewhere",
        )
    arena.verify(disturbed=True, alone=False)
    assert min(shares) > 0
    crowded = kit.over_committed(arena.cluster)
    arena.tell(
        pods=540,
        bound=arena.bound(OURS),
        faults="a second instance decides too",
        attempts_of_each=shares,
        nodes_overfilled=len(crowded),
        seconds_to_calm=f"{calm:.1f}",
    )


def _attempts(operator: kit.Operator) -> int:
    return int(operator.metric("scheduler_pod_scheduling_attempts_count"))
