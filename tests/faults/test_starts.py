"""The first lists are late, or expire half-way. The operator must not schedule before its cache is complete."""

from __future__ import annotations

import time

import pytest

from podwright.testing import wait_until
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, is_later_page, is_list_of_assigned_pods

NODES = 60
ROOM, TAKEN = 12, 10
"""A node's room for pods, and its pods at the start: in all more pods than a page of a list holds."""
FREE = NODES * (ROOM - TAKEN)
NEW = FREE + 20


@pytest.fixture
def crowded(arena: Arena) -> Arena:
    """Nodes with pods of another scheduler, and more new pods than the nodes have room for."""
    arena.nodes(NODES, pods=str(ROOM))
    existing = [
        arena.pod(f"existing{i}", scheduler="other-scheduler", nodeName=f"n{i % NODES}") for i in range(NODES * TAKEN)
    ]
    arena.cluster.bulk.create(existing)
    arena.pods(NEW, "new")
    return arena


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_no_pod_is_scheduled_before_all_assigned_pods_are_known(crowded: Arena, intake: str) -> None:
    with FaultProxy(crowded.cluster) as proxy:
        proxy.hold(is_list_of_assigned_pods)
        with crowded.running(proxy, f"--pod-intake={intake}", ready=False, warm_up=False) as operator:
            wait_until(lambda: proxy.held() > 0, 60, "the proxy holds the list of assigned pods")
            nodes = lambda: operator.metric("scheduler_cache_size", type="nodes")
            wait_until(lambda: nodes() == NODES, 60, "the operator has cached all nodes")
            time.sleep(3)  # time for a premature decision
            assert not operator.ready
            assert operator.metric("scheduler_schedule_attempts_total") == 0
            assert crowded.bound() == 0
            released = time.monotonic()
            proxy.release()
            crowded.wait_bound(FREE)
            crowded.wait_settled()
    crowded.verify()
    crowded.report(
        pods=NEW,
        faults="the list of assigned pods held",
        seconds_until_all_bound_after_its_release=f"{crowded.ledger.last_binding_at() - released:.1f}",
    )


@pytest.mark.parametrize("intake", ["watch", pytest.param("kopf", marks=pytest.mark.slow)])
def test_lists_that_expire_half_way_are_restarted(crowded: Arena, intake: str) -> None:
    with FaultProxy(crowded.cluster) as proxy:
        proxy.faults = [Faults({"410": 1.0}, is_later_page)]
        with crowded.running(proxy, f"--pod-intake={intake}", ready=False, warm_up=False) as operator:
            wait_until(lambda: proxy.injected["410"] >= 3, 60, "some lists have expired")
            assert not operator.ready
            assert crowded.bound() == 0
            repaired = time.monotonic()
            proxy.faults = []
            crowded.wait_bound(FREE)
            crowded.wait_settled()
    crowded.verify()
    crowded.report(
        pods=NEW,
        faults=dict(proxy.injected),
        seconds_until_all_bound=f"{crowded.ledger.last_binding_at() - repaired:.1f}",
    )
