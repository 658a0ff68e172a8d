"""Objects are deleted while watches are broken, watches restart from an old version, and watch events are lost.

A relist detects what happened while a watch was broken. Audits detect lost events within minutes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from podwright.testing import processes, wait_until
from support.control_plane.operator_process import Operator
from support.faults.arena import Arena
from support.faults.proxy import FaultProxy, Faults, Watch, is_watch

NODES_PATH, PODS_PATH = "/api/v1/nodes", "/api/v1/pods"
BEFORE_AN_AUDIT = 30
"""Seconds: too short for an audit, so that only the relist can have detected the deletions."""


def pods_on(arena: Arena, node_name: str) -> list[str]:
    """The names of the pods that were bound to a node."""
    return [b.pod.name for b in list(arena.ledger.bindings.values()) if b.node_name == node_name]


def remove(arena: Arena, pods: Iterable[str] = (), nodes: Iterable[str] = ()) -> None:
    bodies = [arena.pod(name) for name in pods]
    arena.cluster.bulk.delete(bodies)
    for name in nodes:
        arena.cluster.client.request("DELETE", f"{NODES_PATH}/{name}")


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_a_relist_drops_objects_that_were_deleted_while_watches_were_broken(arena: Arena, intake: str) -> None:
    """Two nodes are deleted with all their pods, three nodes lose theirs, and some pending pods are deleted."""
    arena.nodes(20, pods="5")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        arena.pods(100)
        arena.wait_bound(100)
        arena.pods(40, "waits")
        waiting = lambda: operator.metric("scheduler_pending_pods", queue="unschedulable")
        wait_until(lambda: waiting() == 40, 60, "the other pods are unschedulable")
        proxy.faults = [Faults({"410": 1.0}, is_watch)]
        assert proxy.close_watches() > 0
        deleted_nodes = ["n0", "n1"]
        deleted_pods = [pod for name in [*deleted_nodes, "n2", "n3", "n4"] for pod in pods_on(arena, name)]
        assert len(deleted_pods) == 25
        remove(arena, nodes=deleted_nodes)
        known = lambda: operator.metric("scheduler_cache_size", type="nodes")
        wait_until(lambda: known() == 18, 60, "the nodes are gone")  # else pods may go to these once theirs are gone
        remove(arena, [*deleted_pods, *(f"waits{i}" for i in range(5))])
        rejected = proxy.injected["410"]
        wait_until(lambda: proxy.injected["410"] > rejected + 3, 60, "watches are rejected, and the operator relists")
        proxy.faults = []
        started = time.monotonic()
        arena.wait_bound(115, BEFORE_AN_AUDIT / processes.patience)
        arena.wait_settled()
        arena.nodes(1, first=20, pods="100")
        arena.wait_bound(135)
        arena.wait_settled()
    arena.verify()
    arena.report(
        pods=140,
        faults=dict(proxy.injected),
        seconds_until_all_bound=f"{arena.ledger.last_binding_at() - started:.1f}",
    )


@pytest.mark.parametrize("intake", ["watch", pytest.param("kopf", marks=pytest.mark.slow)])
def test_replayed_events_of_watches_from_an_old_version_leave_the_state_correct(arena: Arena, intake: str) -> None:
    """All events are delivered again in their old order: deleted objects are re-created and deleted, and changes are
    undone and redone.
    """
    small = {"status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "8"}}}
    bodies = arena.nodes(10, pods="12")
    replayed = Counter[str]()

    def count(watch: Watch, line: bytes) -> Sequence[bytes]:
        if proxy.rewind_to and b'"DELETED"' in line and (watch.path == NODES_PATH or b'"nodeName"' in line):
            replayed[watch.path] += 1
        return (line,)

    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        old_version = arena.cluster.client.get(NODES_PATH, limit="1")["metadata"]["resourceVersion"]
        arena.nodes(2, first=10, pods="12")
        arena.pods(60)
        arena.wait_bound(60)
        remove(arena, [*pods_on(arena, "n1"), *pods_on(arena, "n2")], ["n1", "n2"])
        arena.cluster.client.patch(bodies[3], small, "status")
        arena.pods(5, "huge", cpu="100")
        arena.wait_settled()
        remove(arena, (f"huge{i}" for i in range(5)))
        proxy.tamper, proxy.rewind_to = count, old_version
        started = time.monotonic()
        assert proxy.close_watches() > 0
        wait_until(lambda: replayed[NODES_PATH] >= 2 and replayed[PODS_PATH] >= 10, 60, "the deletions are replayed")
        proxy.rewind_to = ""
        remaining = len([b for b in arena.ledger.bindings if b not in arena.ledger.deleted_at])
        wait_until(
            lambda: cached(operator, "pods") == remaining and cached(operator, "nodes") == 10,
            60,
            "the cache is correct again",
        )
        arena.pods(40, "later")
        arena.wait_settled()
        arena.nodes(1, first=12, pods="100")
        arena.pods(20, "last")
        arena.wait_bound(120)
        arena.wait_settled()
    arena.verify()
    arena.report(
        pods=125,
        faults=dict(proxy.injected) | {"replayed deletions": replayed.total()},
        seconds_until_all_bound=f"{arena.ledger.last_binding_at() - started:.1f}",
    )


def cached(operator: Operator, what: str) -> float:
    return operator.metric("scheduler_cache_size", type=what)


class Loss:
    """Drops the watch events of some objects, by name."""

    def __init__(self, added: Sequence[str], deleted: Sequence[str]) -> None:
        self._names = {b'"ADDED"': added, b'"DELETED"': deleted}
        self.dropped = Counter[str]()

    def __call__(self, _watch: Watch, line: bytes) -> Sequence[bytes]:
        for kind, names in self._names.items():
            for name in names:
                if kind in line[:40] and f'"name":"{name}"'.encode() in line:
                    self.dropped[f"{kind.decode()} of {name}"] += 1
                    return ()
        return (line,)


@pytest.mark.slow
@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_audits_detect_lost_events_of_bound_pods_and_nodes(arena: Arena, intake: str) -> None:
    """A bound pod and a node are deleted, and a node is created. The watches lose these events, and no other events
    follow.

    The deleted node is full. Otherwise the operator could not avoid binding pods to it until an audit.
    """
    arena.nodes(20, pods="5")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        arena.pods(100)
        arena.wait_bound(100)
        arena.pods(4, "waits")
        arena.wait_settled()
        deleted_pod, orphans = pods_on(arena, "n0")[0], pods_on(arena, "n1")
        proxy.tamper = loss = Loss(added=["n20"], deleted=[deleted_pod, "n1"])
        remove(arena, [deleted_pod], ["n1"])
        arena.nodes(1, first=20, pods="2")
        started = time.monotonic()
        # One pod takes the place of the deleted pod, and two fit on the new node.
        arena.wait_bound(103, 200)
        took = arena.ledger.last_binding_at() - started
        wait_until(lambda: cached(operator, "nodes") == 20, 200, "the operator has dropped the deleted node")
        remove(arena, orphans)
        wait_until(lambda: cached(operator, "pods") == 97, 60, "the operator has dropped the pods of that node")
        arena.wait_settled()
        assert arena.bound() == 103
        arena.nodes(1, first=21, pods="2")
        arena.wait_bound(104)
        arena.wait_settled()
    arena.verify()
    assert len(loss.dropped) == 3
    arena.report(pods=104, faults=f"{loss.dropped.total()} events lost", seconds_until_repaired=f"{took:.1f}")
