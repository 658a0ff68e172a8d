"""Measures how much a busy machine delays everything, so that tests do not blame the operator for it.

A thread writes a small object to the API server again and again, and measures how long each write takes. The kernel
reports how long each operator was ready to run but waited for a CPU (/proc/PID/schedstat, Linux only).
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from podwright.testing import ControlPlane

PAUSE_SECONDS = 0.1
REACH_SECONDS = 2.0
"""`MachineDelay.before` covers this much time before a moment."""
_NAME = "fault-tests-delay"
_PATH = "/api/v1/namespaces/kube-system/configmaps"


@dataclass(frozen=True)
class Sample:
    """A write that took from `started` to `ended`. `waited`: seconds that operators waited for a CPU meanwhile."""

    started: float
    ended: float
    waited: float


class MachineDelay:
    """Measures until `stop` is set. Times are seconds of the monotonic clock."""

    def __init__(self, cluster: ControlPlane, stop: threading.Event) -> None:
        self._cluster = cluster
        self._stop = stop
        self._samples: list[Sample] = []
        self._pids: list[int] = []

    def add_operator(self, pid: int) -> None:
        """Include the CPU waiting time of this process from now on."""
        self._pids.append(pid)

    def start(self) -> threading.Thread:
        """Start the measuring thread."""
        thread = threading.Thread(target=self._run, name="machine delay", daemon=True)
        thread.start()
        return thread

    def before(self, moment: float) -> float:
        """Seconds of delay by the machine shortly before a moment."""
        near = [s for s in list(self._samples) if s.started <= moment and s.ended >= moment - REACH_SECONDS]
        return max((s.ended - s.started for s in near), default=0.0) + sum(s.waited for s in near)

    @property
    def worst(self) -> float:
        """The longest delay so far, in seconds."""
        return self.worst_since(0.0)

    def worst_since(self, moment: float) -> float:
        """The longest delay since a moment, in seconds."""
        return max((self.before(s.ended) for s in list(self._samples) if s.ended >= moment), default=0.0)

    def _run(self) -> None:
        started, waited = time.monotonic(), self._waited()
        while not self._stop.is_set():
            # A failed write is counted as part of the next one.
            with contextlib.suppress(Exception):
                self._write()
                ended, total = time.monotonic(), self._waited()
                self._samples.append(Sample(started, ended, max(0.0, total - waited)))
                started, waited = ended + PAUSE_SECONDS, total
            self._stop.wait(PAUSE_SECONDS)
        self._cluster.client.close()

    def _write(self) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": _NAME, "namespace": "kube-system"}}
        body["data"] = {"at": str(time.monotonic())}
        status, _ = self._cluster.client.raw("PUT", f"{_PATH}/{_NAME}", body)
        if status == 404:
            status, _ = self._cluster.client.raw("POST", _PATH, body)
        if status >= 300:
            raise ConnectionError(f"HTTP {status}")

    def _waited(self) -> float:
        """Seconds that all operators together have waited for a CPU."""
        total = 0.0
        for pid in self._pids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        return total
