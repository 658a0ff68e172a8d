"""Ten thousand pods that fit nowhere wait while nodes send their heartbeats: what that costs, and that none is tried for it.

After five minutes each is tried once more in any case, all in one burst; so it is measured for longer than that, and what quiet
stretches cost is told apart.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from podwright.testing import wait_until
from support.control_plane import operator_process as kit
from support.faults.kit import Arena

NODES = 1_000
PODS = 10_000
SECONDS = 340.0
"""Longer than a pod waits untried, with the time until somebody looks."""
STRETCH = 10.0
"""Seconds: with an attempt in it a stretch is not a quiet one."""
FEWEST_QUIET = 15
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


class Quiet:
    """CPU time and attempts of an operator, stretch by stretch."""

    def __init__(self, operator: kit.Operator) -> None:
        self._operator = operator
        self._began, self._used, self._tried = self._now()
        self.tried = self.stretches = 0
        self._quiet_seconds = self._quiet_use = 0.0
        self._first = self._began, self._used

    def _now(self) -> tuple[float, float, int]:
        tried = self._operator.metric("scheduler_schedule_attempts_total")
        return time.monotonic(), cpu_seconds(self._operator.process.pid), int(tried)

    def stretch(self) -> None:
        """Since the last one."""
        time.sleep(STRETCH)
        now, used, tried = self._now()
        if tried == self._tried:
            self.stretches += 1
            self._quiet_seconds += now - self._began
            self._quiet_use += used - self._used
        self.tried += tried - self._tried
        self._began, self._used, self._tried = now, used, tried

    @property
    def share(self) -> float:
        """Of a core, in quiet stretches."""
        return self._quiet_use / self._quiet_seconds

    @property
    def overall(self) -> float:
        began, used = self._first
        return (self._used - used) / (self._began - began)


def told(arena: Arena) -> bool:
    return all(kit.condition(raw).get("reason") == "Unschedulable" for raw in kit.pods(arena.cluster))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_ten_thousand_pods_wait_while_nodes_send_their_heartbeats(arena: Arena, intake: str) -> None:
    nodes, sent = arena.nodes(NODES, cpu="1"), list[int]()
    # After so many pods more pages are kept than other faults may leave (docs/adr/0007-memory-goes-back.md).
    with arena.running(None, f"--pod-intake={intake}", pages=False) as operator:
        arena.pods(PODS, cpu="2")
        waiting = lambda: operator.metric("scheduler_pending_pods", queue="unschedulable")  # noqa: E731
        wait_until(lambda: waiting() == PODS, 120, "all pods wait")
        wait_until(lambda: told(arena), 300, "all pods were told why they wait")
        measured, ends = Quiet(operator), time.monotonic() + SECONDS
        senders = [
            threading.Thread(target=send, args=(arena, nodes[first::SENDERS], ends, sent)) for first in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        while time.monotonic() < ends:
            measured.stretch()
        for sender in senders:
            sender.join()
        assert waiting() == PODS
        arena.wait_calm()
        arena.verify()
        assert measured.tried == PODS, "each pod is tried once more after five minutes, and for nothing else"
        assert measured.stretches >= FEWEST_QUIET
        assert measured.share < 0.05
        arena.emptied(operator)
    arena.tell(
        pods_that_wait=PODS,
        nodes=NODES,
        faults=f"{sum(sent)} heartbeats",
        attempts=measured.tried,
        share_of_a_core_in_quiet_stretches=f"{measured.share:.1%}",
        and_overall=f"{measured.overall:.1%}",
        seconds_measured=f"{SECONDS:g}",
    )
