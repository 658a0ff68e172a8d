"""What was missed for good: objects that go while watches are broken, watches that begin again from long ago, lost events.

The first is made good by the new list, the last by the audits, within minutes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from podwright.testing import wait_until
from support.control_plane.operator_process import Operator
from support.faults.kit import Arena
from support.faults.proxy import FaultProxy, Faults, Watch, is_watch

NODES_PATH, PODS_PATH = "/api/v1/nodes", "/api/v1/pods"
BEFORE_AN_AUDIT = 30
"""Seconds: less than it takes until an audit, which would make good as well what a list has left out."""


def on(arena: Arena, node_name: str) -> list[str]:
    """The pods of a node, by name."""
    return [b.pod.name for b in list(arena.ledger.bindings.values()) if b.node_name == node_name]


def remove(arena: Arena, pods: Iterable[str] = (), nodes: Iterable[str] = ()) -> None:
    bodies = [arena.pod(name) for name in pods]
    arena.cluster.bulk.delete(bodies)
    for name in nodes:
        arena.cluster.client.request("DELETE", f"{NODES_PATH}/{name}")


@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_what_goes_while_watches_are_broken_is_forgotten_with_the_next_list(arena: Arena, intake: str) -> None:
    """Two nodes go with all their pods, three are emptied, and some of the pods that wait go."""
    arena.nodes(20, pods="5")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        arena.pods(100)
        arena.wait_bound(100)
        arena.pods(40, "waits")
        waiting = lambda: operator.metric("scheduler_pending_pods", queue="unschedulable")  # noqa: E731
        wait_until(lambda: waiting() == 40, 60, "the others wait")
        proxy.faults = [Faults({"410": 1.0}, is_watch)]
        assert proxy.close_watches() > 0
        gone = ["n0", "n1"]
        emptied = [pod for name in [*gone, "n2", "n3", "n4"] for pod in on(arena, name)]
        assert len(emptied) == 25
        remove(arena, [*emptied, *(f"waits{i}" for i in range(5))], gone)
        refused = proxy.injected["410"]
        wait_until(lambda: proxy.injected["410"] > refused + 3, 60, "watches are refused, and lists made")
        proxy.faults = []
        began = time.monotonic()
        arena.wait_bound(115, BEFORE_AN_AUDIT)
        arena.wait_calm()
        arena.nodes(1, first=20, pods="100")
        arena.wait_bound(135)
        arena.wait_calm()
    arena.verify()
    arena.tell(
        pods=140,
        faults=dict(proxy.injected),
        seconds_until_all_bound=f"{arena.ledger.latest() - began:.1f}",
    )


@pytest.mark.parametrize("intake", ["watch", pytest.param("kopf", marks=pytest.mark.slow)])
def test_watches_that_begin_again_from_long_ago_change_nothing_in_the_end(arena: Arena, intake: str) -> None:
    """Everything comes a second time in its old order: what is gone comes and goes again, what changed changes back and forth."""
    small = {"status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "8"}}}
    bodies = arena.nodes(10, pods="12")
    replayed = Counter[str]()

    def count(watch: Watch, line: bytes) -> Sequence[bytes]:
        if proxy.rewind_to and b'"DELETED"' in line and (watch.path == NODES_PATH or b'"nodeName"' in line):
            replayed[watch.path] += 1
        return (line,)

    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        long_ago = arena.cluster.client.get(NODES_PATH, limit="1")["metadata"]["resourceVersion"]
        arena.nodes(2, first=10, pods="12")
        arena.pods(60)
        arena.wait_bound(60)
        remove(arena, [*on(arena, "n1"), *on(arena, "n2")], ["n1", "n2"])
        arena.cluster.client.patch(bodies[3], small, "status")
        arena.pods(5, "huge", cpu="100")
        arena.wait_calm()
        remove(arena, (f"huge{i}" for i in range(5)))
        proxy.tamper, proxy.rewind_to = count, long_ago
        began = time.monotonic()
        assert proxy.close_watches() > 0
        wait_until(lambda: replayed[NODES_PATH] >= 2 and replayed[PODS_PATH] >= 10, 60, "what went goes once more")
        proxy.rewind_to = ""
        left = len([b for b in arena.ledger.bindings if b not in arena.ledger.gone])
        wait_until(lambda: known(operator, "pods") == left and known(operator, "nodes") == 10, 60, "all is as it was")
        arena.pods(40, "later")
        arena.wait_calm()
        arena.nodes(1, first=12, pods="100")
        arena.pods(20, "last")
        arena.wait_bound(120)
        arena.wait_calm()
    arena.verify()
    arena.tell(
        pods=125,
        faults=dict(proxy.injected) | {"deletions that came again": replayed.total()},
        seconds_until_all_bound=f"{arena.ledger.latest() - began:.1f}",
    )


def known(operator: Operator, what: str) -> float:
    return operator.metric("scheduler_cache_size", type=what)


class Loss:
    """Loses what is told of some objects, by their names."""

    def __init__(self, added: Sequence[str], deleted: Sequence[str]) -> None:
        self._lost = {b'"ADDED"': added, b'"DELETED"': deleted}
        self.counted = Counter[str]()

    def __call__(self, _watch: Watch, line: bytes) -> Sequence[bytes]:
        for kind, names in self._lost.items():
            for name in names:
                if kind in line[:40] and f'"name":"{name}"'.encode() in line:
                    self.counted[f"{kind.decode()} of {name}"] += 1
                    return ()
        return (line,)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_lost_events_of_bound_pods_and_of_nodes_are_made_good(arena: Arena, intake: str) -> None:
    """A bound pod and a node go, and a node comes, and no watch tells of it; nothing else happens to any of them.

    The node is full when it goes. With room on it pods would be bound there until it is known to be gone, which cannot be helped.
    """
    arena.nodes(20, pods="5")
    with FaultProxy(arena.cluster) as proxy, arena.running(proxy, f"--pod-intake={intake}") as operator:
        arena.pods(100)
        arena.wait_bound(100)
        arena.pods(4, "waits")
        arena.wait_calm()
        gone, left = on(arena, "n0")[0], on(arena, "n1")
        proxy.tamper = loss = Loss(added=["n20"], deleted=[gone, "n1"])
        remove(arena, [gone], ["n1"])
        arena.nodes(1, first=20, pods="2")
        began = time.monotonic()
        # One in the place of the pod that is gone, and two on the new node.
        arena.wait_bound(103, 200)
        took = arena.ledger.latest() - began
        wait_until(lambda: known(operator, "nodes") == 20, 200, "the node that is gone is forgotten")
        remove(arena, left)
        wait_until(lambda: known(operator, "pods") == 97, 60, "the pods that were on it are forgotten")
        arena.wait_calm()
        assert arena.bound() == 103
        arena.nodes(1, first=21, pods="2")
        arena.wait_bound(104)
        arena.wait_calm()
    arena.verify()
    assert len(loss.counted) == 3
    arena.tell(pods=104, faults=f"{loss.counted.total()} events lost", seconds_until_made_good=f"{took:.1f}")
