"""Ten thousand pods that fit nowhere wait while nodes send their heartbeats: what that costs, and that none is tried for it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import operator_kit as kit
from fault_kit import Arena
from podwright.testing import wait_until

NODES = 1_000
PODS = 10_000
SECONDS = 60.0
SENDERS = 4
EACH_SENDS_EVERY = 0.04
"""Seconds: a hundred heartbeats a second in all, from each node one in ten seconds."""


def conditions(beat: int) -> list[dict[str, Any]]:
    """As a kubelet sends them with every heartbeat."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_700_000_000 + beat))
    kinds = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    return [
        {
            "type": kind,
            "status": status,
            "reason": "KubeletSaysSo",
            "message": "kubelet is well",
            "lastHeartbeatTime": at,
        }
        for kind, status in kinds.items()
    ]


def send(arena: Arena, nodes: list[dict[str, Any]], until: float, sent: list[int]) -> None:
    beat, due = 0, time.monotonic()
    while (now := time.monotonic()) < until:
        time.sleep(max(0.0, due - now))
        due += EACH_SENDS_EVERY
        body = nodes[beat % len(nodes)]
        arena.cluster.client.patch(body, {"status": {"conditions": conditions(beat)}}, "status")
        beat += 1
    sent.append(beat)
    arena.cluster.client.close()


def told(arena: Arena) -> bool:
    return all(kit.condition(raw).get("reason") == "Unschedulable" for raw in kit.pods(arena.cluster))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_ten_thousand_pods_wait_while_nodes_send_their_heartbeats(arena: Arena, intake: str) -> None:
    nodes = arena.nodes(NODES, cpu="1")
    arena.pods(PODS, cpu="2")
    with arena.running(None, f"--pod-intake={intake}", warm=False) as operator:
        waiting = lambda: operator.metric("scheduler_pending_pods", queue="unschedulable")  # noqa: E731
        attempts = lambda: operator.metric("scheduler_schedule_attempts_total", result="unschedulable")  # noqa: E731
        wait_until(lambda: waiting() == PODS, 120, "all pods wait")
        wait_until(lambda: told(arena), 300, "all pods were told why they wait")
        pid, sent = operator.process.pid, list[int]()
        tried, began, used = attempts(), time.monotonic(), cpu_seconds(operator.process.pid)
        ends = began + SECONDS
        senders = [
            threading.Thread(target=send, args=(arena, nodes[first::SENDERS], ends, sent)) for first in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        share = (cpu_seconds(pid) - used) / (time.monotonic() - began)
        assert attempts() == tried
        assert waiting() == PODS
        assert share < 0.05
    arena.delete_pods()
    arena.tell(pods_that_wait=PODS, nodes=NODES, heartbeats=sum(sent), share_of_a_core=f"{share:.1%}")
