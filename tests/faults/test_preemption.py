"""Pods preempt while the requests that mark and delete their victims fail."""

from __future__ import annotations

import time

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.arena import Arena
from support.faults.proxy import CUT, RESPONSE_LOST, FaultProxy, Faults, is_write

NODES = 12


def test_failing_requests_cause_no_extra_victims(arena: Arena) -> None:
    """Each node is full with two pods of 2 CPUs, and each preemptor needs the room of one of them."""
    cluster = arena.cluster
    cluster.client.add_priority_class("faults-high", 9)
    arena.nodes(NODES)
    with FaultProxy(cluster) as proxy, arena.running(proxy, "--pod-intake=watch"):
        arena.pods(2 * NODES, "low", cpu="2")
        arena.wait_bound(2 * NODES)
        proxy.faults = [Faults({CUT: 0.1, RESPONSE_LOST: 0.1, "500": 0.1, "429": 0.05}, is_write)]
        started = time.monotonic()
        arena.pods(NODES, "high", cpu="2", priorityClassName="faults-high")

        def all_bound() -> bool:
            for raw in kit.pods(cluster, arena.namespace):  # there is no kubelet to end them
                if raw["metadata"].get("deletionTimestamp"):
                    cluster.client.delete(arena.pod(raw["metadata"]["name"]))
            return arena.bound() == 3 * NODES

        wait_until(all_bound, 60, "the preemptors are bound")
        proxy.faults = []
        arena.wait_settled()
    arena.verify()
    remaining = [raw["metadata"]["name"] for raw in kit.pods(cluster, arena.namespace)]
    assert sum(name.startswith("low") for name in remaining) == NODES
    preempted = kit.events(cluster, arena.namespace, "Preempted")
    assert len({event["regarding"]["uid"] for event in preempted}) <= NODES
    arena.report(
        pods=3 * NODES,
        victims=NODES,
        faults=dict(proxy.injected),
        seconds_until_all_bound=f"{arena.ledger.last_binding_at() - started:.1f}",
    )
