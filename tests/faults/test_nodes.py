"""Nodes and policies change while pods are on their way."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from typing import Any

from support.control_plane import operator_process as kit
from support.faults.kit import OURS, Arena

PODS = 400
TAINT = {"key": "out-of-order", "effect": "NoSchedule"}


def disturb(arena: Arena, bodies: list[dict[str, Any]], stop: threading.Event, done: Counter[str]) -> None:
    """Deletes, taints, shrinks, re-creates and mends nodes at random until told to stop; then all are as they were."""
    chance, client = random.Random(7), arena.cluster.client
    small = {"cpu": "1", "memory": "4Gi", "pods": "4"}
    while not stop.is_set():
        body = chance.choice(bodies)
        what = chance.choice(["deleted", "tainted", "shrunk", "re-created"])
        done[what] += 1
        if what == "deleted":
            client.delete(body)
        elif what == "tainted":
            arena.insist(lambda body=body: client.patch(body, {"spec": {"taints": [TAINT]}}))
        elif what == "shrunk":
            change = {"status": {"allocatable": small, "capacity": small}}
            arena.insist(lambda body=body, change=change: client.patch(body, change, "status"))
        else:
            client.delete(body)
            arena.insist(lambda body=body: client.create(body))
        stop.wait(0.02)
    for body in bodies:
        arena.insist(lambda body=body: client.create(body))
        arena.insist(lambda body=body: client.patch(body, {"spec": {"taints": None}}))
        arena.insist(lambda body=body: client.patch(body, {"status": body["status"]}, "status"))
    client.close()


def test_nodes_are_deleted_tainted_shrunk_and_re_created_under_load(arena: Arena) -> None:
    bodies, stop, done = arena.nodes(40, pods="12"), threading.Event(), Counter[str]()
    disturbing = threading.Thread(target=disturb, args=(arena, bodies, stop, done), name="disturbing")
    with arena.running(None, "--pod-intake=watch"):
        disturbing.start()
        try:
            with arena.filling(PODS, 60):
                pass
        finally:
            stop.set()
            disturbing.join()
        mended = time.monotonic()
        arena.wait_calm()
    arena.verify(disturbed=True)
    arena.tell(
        pods=PODS,
        faults=dict(done),
        noticed_within_seconds=arena.ledger.noticed_within({OURS}),
        seconds_to_recover=f"{max(0.0, arena.ledger.latest() - mended):.1f}",
    )


def test_policies_change_while_pods_are_in_flight(arena: Arena) -> None:
    arena.nodes(40, pods="12")
    client = arena.cluster.client
    kinds = itertools.cycle(["NodeName", "MostAllocated", "LeastAllocated", "Random", "NoSuchStrategy", ""])
    done: Counter[str] = Counter()

    def body(strategy: str) -> dict[str, Any]:
        return {
            "apiVersion": "podwright.dev/v1alpha1",
            "kind": "SchedulerPolicy",
            "metadata": {"name": "changing"},
            "spec": {"strategy": {"type": strategy}},
        }

    with arena.running(None, "--pod-intake=kopf"):
        with arena.filling(PODS, 80) as filling:
            while filling.is_alive():
                strategy = next(kinds)
                done[strategy or "deleted"] += 1
                if not strategy:
                    client.delete(body(""))
                elif strategy == "NoSuchStrategy":
                    bad = {
                        "spec": {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "No"}]}}}
                    }
                    arena.insist(lambda bad=bad: client.patch(body(""), bad))
                else:
                    whole = {"spec": {"strategy": {"type": strategy}, "plugins": None}}
                    arena.insist(lambda strategy=strategy: client.create(body(strategy)))
                    arena.insist(lambda whole=whole: client.patch(body(""), whole))
                time.sleep(0.05)
        filled = time.monotonic()
        arena.wait_bound(PODS)
        arena.wait_calm()
    arena.verify()
    decided = Counter(kit.decision(raw)["policy"] for raw in kit.pods(arena.cluster, arena.namespace))
    assert decided["changing"] > 0
    arena.tell(
        pods=PODS,
        faults=dict(done),
        pods_by_policy=dict(decided),
        seconds_to_recover=f"{max(0.0, arena.ledger.latest() - filled):.1f}",
    )
