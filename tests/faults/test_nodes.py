"""Nodes and policies change while pods are scheduled."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from typing import Any

from support.control_plane import operator_process as kit
from support.faults.arena import OURS, Arena

PODS = 400
TAINT = {"key": "out-of-order", "effect": "NoSchedule"}


def disturb(arena: Arena, bodies: list[dict[str, Any]], stop: threading.Event, done: Counter[str]) -> None:
    """Delete, taint, shrink and re-create random nodes until `stop` is set. Then restore all nodes."""
    randomness, client = random.Random(7), arena.cluster.client
    small = {"cpu": "1", "memory": "4Gi", "pods": "4"}
    while not stop.is_set():
        body = randomness.choice(bodies)
        action = randomness.choice(["deleted", "tainted", "shrunk", "re-created"])
        done[action] += 1
        if action == "deleted":
            client.delete(body)
        elif action == "tainted":
            arena.retry(lambda body=body: client.patch(body, {"spec": {"taints": [TAINT]}}))
        elif action == "shrunk":
            change = {"status": {"allocatable": small, "capacity": small}}
            arena.retry(lambda body=body, change=change: client.patch(body, change, "status"))
        else:
            client.delete(body)
            arena.retry(lambda body=body: client.create(body))
        stop.wait(0.02)
    for body in bodies:
        arena.retry(lambda body=body: client.create(body))
        arena.retry(lambda body=body: client.patch(body, {"spec": {"taints": None}}))
        arena.retry(lambda body=body: client.patch(body, {"status": body["status"]}, "status"))
    client.close()


def test_pods_are_scheduled_while_nodes_are_deleted_tainted_shrunk_and_re_created(arena: Arena) -> None:
    bodies, stop, done = arena.nodes(40, pods="12"), threading.Event(), Counter[str]()
    disturbing = threading.Thread(target=disturb, args=(arena, bodies, stop, done), name="disturbing")
    with arena.running(None, "--pod-intake=watch"):
        disturbing.start()
        try:
            with arena.creating_pods(PODS, 60):
                pass
        finally:
            stop.set()
            disturbing.join()
        restored = time.monotonic()
        arena.wait_settled()
    arena.verify(disturbed=True)
    arena.report(
        pods=PODS,
        faults=dict(done),
        noticed_within_seconds=arena.ledger.noticed_within({OURS}),
        seconds_to_recover=f"{max(0.0, arena.ledger.last_binding_at() - restored):.1f}",
    )


def test_pods_are_scheduled_while_policies_change(arena: Arena) -> None:
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
        with arena.creating_pods(PODS, 80) as creating:
            while creating.is_alive():
                strategy = next(kinds)
                done[strategy or "deleted"] += 1
                if not strategy:
                    client.delete(body(""))
                elif strategy == "NoSuchStrategy":
                    bad = {
                        "spec": {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "No"}]}}}
                    }
                    arena.retry(lambda bad=bad: client.patch(body(""), bad))
                else:
                    whole = {"spec": {"strategy": {"type": strategy}, "plugins": None}}
                    arena.retry(lambda strategy=strategy: client.create(body(strategy)))
                    arena.retry(lambda whole=whole: client.patch(body(""), whole))
                time.sleep(0.05)
        created = time.monotonic()
        arena.wait_bound(PODS)
        arena.wait_settled()
    arena.verify()
    decided = Counter(kit.decision(raw)["policy"] for raw in kit.pods(arena.cluster, arena.namespace))
    assert decided["changing"] > 0
    arena.report(
        pods=PODS,
        faults=dict(done),
        pods_by_policy=dict(decided),
        seconds_to_recover=f"{max(0.0, arena.ledger.last_binding_at() - created):.1f}",
    )
