"""Ten thousand unschedulable pods wait while nodes send heartbeats. The heartbeats must cost little CPU and cause no
attempts.

After five minutes the queue retries every unschedulable pod once, in one burst. The test therefore lasts longer than
that, and measures the CPU use of quiet intervals, which have no attempts, separately.
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
from support.faults.arena import Arena

NODES = 1_000
PODS = 10_000
SECONDS = 340.0
"""Longer than the queue keeps an unschedulable pod without a retry."""
INTERVAL = 10.0
"""Seconds. An interval without attempts is a quiet one."""
MIN_QUIET = 15
SENDERS = 4
EACH_SENDS_EVERY = 0.04
"""Seconds: in total 100 heartbeats per second, and one per node in ten seconds."""


def conditions(beat: int) -> list[dict[str, Any]]:
    """Node conditions as a kubelet sends them with each heartbeat."""
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


class CpuUse:
    """CPU time and scheduling attempts of an operator, by interval."""

    def __init__(self, operator: kit.Operator) -> None:
        self._operator = operator
        self._began, self._used, self._attempts = self._now()
        self.attempts = self.quiet_intervals = 0
        self._quiet_seconds = self._quiet_use = 0.0
        self._first = self._began, self._used

    def _now(self) -> tuple[float, float, int]:
        attempts = self._operator.metric("scheduler_schedule_attempts_total")
        return time.monotonic(), cpu_seconds(self._operator.process.pid), int(attempts)

    def measure_interval(self) -> None:
        """Wait for one interval and add its figures."""
        time.sleep(INTERVAL)
        now, used, attempts = self._now()
        if attempts == self._attempts:
            self.quiet_intervals += 1
            self._quiet_seconds += now - self._began
            self._quiet_use += used - self._used
        self.attempts += attempts - self._attempts
        self._began, self._used, self._attempts = now, used, attempts

    @property
    def quiet_share(self) -> float:
        """The used share of a core in quiet intervals."""
        return self._quiet_use / self._quiet_seconds

    @property
    def overall_share(self) -> float:
        """The used share of a core in all intervals."""
        began, used = self._first
        return (self._used - used) / (self._began - began)


def all_marked_unschedulable(arena: Arena) -> bool:
    return all(kit.condition(raw).get("reason") == "Unschedulable" for raw in kit.pods(arena.cluster))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("intake", ["kopf", "watch"])
def test_heartbeats_of_nodes_cause_no_attempts_of_10000_unschedulable_pods(arena: Arena, intake: str) -> None:
    nodes, sent = arena.nodes(NODES, cpu="1"), list[int]()
    # After this many pods, more partly used pages remain than other tests allow (docs/adr/0007-memory-goes-back.md).
    with arena.running(None, f"--pod-intake={intake}", check_resident=False) as operator:
        arena.pods(PODS, cpu="2")
        waiting = lambda: operator.metric("scheduler_pending_pods", queue="unschedulable")
        wait_until(lambda: waiting() == PODS, 120, "all pods are in the unschedulable queue")
        wait_until(lambda: all_marked_unschedulable(arena), 300, "all pods are marked Unschedulable")
        measured, ends = CpuUse(operator), time.monotonic() + SECONDS
        senders = [
            threading.Thread(target=send, args=(arena, nodes[first::SENDERS], ends, sent)) for first in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        while time.monotonic() < ends:
            measured.measure_interval()
        for sender in senders:
            sender.join()
        assert waiting() == PODS
        arena.wait_settled()
        arena.verify()
        assert measured.attempts == PODS, "each pod is retried once after five minutes, and at no other time"
        assert measured.quiet_intervals >= MIN_QUIET
        assert measured.quiet_share < 0.05
        arena.empty(operator)
    arena.report(
        unschedulable_pods=PODS,
        nodes=NODES,
        faults=f"{sum(sent)} heartbeats",
        attempts=measured.attempts,
        share_of_a_core_in_quiet_intervals=f"{measured.quiet_share:.1%}",
        and_overall=f"{measured.overall_share:.1%}",
        seconds_measured=f"{SECONDS:g}",
    )
