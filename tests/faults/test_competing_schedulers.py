"""Another scheduler fills the same nodes: kube-scheduler, or a second instance that also believes it is the leader."""

from __future__ import annotations

import time

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import OURS, Arena

KUBE_SCHEDULER = "default-scheduler"


def test_kube_scheduler_fills_the_same_nodes(arena: Arena) -> None:
    """The nodes have room for 480 of 600 pods. Both schedulers bind pods, and each must notice the other's."""
    arena.nodes(40, pods="12")
    kube_scheduler = arena.cluster.start_scheduler()
    try:
        with arena.running(None, "--pod-intake=watch"):
            with arena.creating_pods(300, 80, "ours"), arena.creating_pods(300, 80, "theirs", scheduler=KUBE_SCHEDULER):
                pass
            started = time.monotonic()
            wait_until(lambda: arena.bound() + arena.bound(KUBE_SCHEDULER) >= 480, 60, "the nodes are full")
            arena.wait_settled()
            settled = time.monotonic() - started
    finally:
        kube_scheduler.stop()
    ours, others = arena.bound(), arena.bound(KUBE_SCHEDULER)
    arena.verify(disturbed=True)
    assert min(ours, others) > 100
    excess = ours + others - 480
    arena.report(
        pods_ours=ours,
        pods_of_kube_scheduler=others,
        faults="kube-scheduler fills the same nodes",
        pods_over_capacity=excess,
        noticed_within_seconds=arena.ledger.noticed_within({OURS}),
        seconds_to_settle=f"{settled:.1f}",
    )


def test_two_instances_that_both_believe_they_lead(arena: Arena) -> None:
    arena.nodes(40, pods="12")
    first_one = arena.running(None, "--pod-intake=watch", name="first")
    second_one = arena.running(None, "--pod-intake=kopf", name="second")
    with first_one as first, second_one as second:
        before = [_attempts(one) for one in (first, second)]
        # While one of them is suspended, the other binds. Afterwards either may be too fast for the other.
        for turn, waiting in enumerate((first, second)):
            waiting.process.pause()
            arena.pods(20, f"turn{turn}-")
            arena.wait_bound(20 * (turn + 1))
            waiting.process.resume()
        with arena.creating_pods(400, 120):
            pass
        arena.wait_bound(440)
        arena.wait_settled()
        started = time.monotonic()
        arena.pods(100, "later")
        arena.wait_settled()
        settled = time.monotonic() - started
        shares = [_attempts(one) - earlier for one, earlier in zip((first, second), before, strict=True)]
        wait_until(
            lambda: all(one.metric("scheduler_cache_size", type="assumed_pods") == 0 for one in (first, second)),
            60,
            "neither keeps assumed pods that the other has bound",
        )
    arena.verify(disturbed=True, single_instance=False)
    assert min(shares) > 0
    over_committed = kit.over_committed(arena.cluster)
    arena.report(
        pods=540,
        bound=arena.bound(OURS),
        faults="a second instance schedules the same pods",
        attempts_of_each=shares,
        nodes_over_committed=len(over_committed),
        seconds_to_settle=f"{settled:.1f}",
    )


def _attempts(operator: kit.Operator) -> int:
    return int(operator.metric("scheduler_pod_scheduling_attempts_count"))
