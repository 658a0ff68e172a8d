"""The operator starts while its first lists are late, or expire half-way: nothing is decided on half a picture."""

from __future__ import annotations

import time

import pytest

from podwright.testing import wait_until
from support.faults.kit import Arena
from support.faults.proxy import FaultProxy, Faults, is_later_page, is_list_of_assigned_pods

NODES = 60
ROOM, TAKEN = 12, 10
"""Pods that a node has room for, and those that are there already: more than a page of a list in all."""
FREE = NODES * (ROOM - TAKEN)
NEW = FREE + 20


@pytest.fixture
def crowded(arena: Arena) -> Arena:
    """Nodes on which somebody else has placed much, and more new pods than there is room for."""
    arena.nodes(NODES, pods=str(ROOM))
    there = [arena.pod(f"there{i}", scheduler="somebody-else", nodeName=f"n{i % NODES}") for i in range(NODES * TAKEN)]
    arena.cluster.bulk.create(there)
    arena.pods(NEW, "new")
    return arena


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_nothing_is_decided_before_all_assigned_pods_are_known(crowded: Arena, intake: str) -> None:
    with FaultProxy(crowded.cluster) as proxy:
        proxy.hold(is_list_of_assigned_pods)
        with crowded.running(proxy, f"--pod-intake={intake}", ready=False, warm=False) as operator:
            wait_until(lambda: proxy.held() > 0, 60, "the list of assigned pods is on its way")
            nodes = lambda: operator.metric("scheduler_cache_size", type="nodes")  # noqa: E731
            wait_until(lambda: nodes() == NODES, 60, "all nodes are known")
            time.sleep(3)  # for a decision that must not come
            assert not operator.ready
            assert operator.metric("scheduler_schedule_attempts_total") == 0
            assert crowded.bound() == 0
            released = time.monotonic()
            proxy.release()
            crowded.wait_bound(FREE)
            crowded.wait_calm()
    crowded.verify()
    crowded.tell(
        pods=NEW,
        faults="the list of assigned pods held back",
        seconds_until_all_bound_after_its_release=f"{crowded.ledger.latest() - released:.1f}",
    )


@pytest.mark.parametrize("intake", ["watch", pytest.param("kopf", marks=pytest.mark.slow)])
def test_lists_that_expire_half_way_are_begun_again(crowded: Arena, intake: str) -> None:
    with FaultProxy(crowded.cluster) as proxy:
        proxy.faults = [Faults({"410": 1.0}, is_later_page)]
        with crowded.running(proxy, f"--pod-intake={intake}", ready=False, warm=False) as operator:
            wait_until(lambda: proxy.injected["410"] >= 3, 60, "some lists have expired")
            assert not operator.ready
            assert crowded.bound() == 0
            healed = time.monotonic()
            proxy.faults = []
            crowded.wait_bound(FREE)
            crowded.wait_calm()
    crowded.verify()
    crowded.tell(
        pods=NEW,
        faults=dict(proxy.injected),
        seconds_until_all_bound=f"{crowded.ledger.latest() - healed:.1f}",
    )
