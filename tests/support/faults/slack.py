"""How late everything is on a machine that is busy: measured all the time, so that it can be told from our own lateness.

A small write to the API server, over and over, shows how long one takes at the moment, by us and by API server and etcd. Of each
operator the kernel tells how long it was ready to run and had to wait for a processor (/proc/PID/schedstat, Linux only).
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
"""How far before a moment its slack is looked for."""
_NAME = "fault-tests-slack"
_PATH = "/api/v1/namespaces/kube-system/configmaps"


@dataclass(frozen=True)
class Sample:
    """From `begun` to `ended` a write took; `waited`: seconds that operators waited for a processor meanwhile."""

    begun: float
    ended: float
    waited: float


class Slack:
    """See the module. `pids` are the operators to look at."""

    def __init__(self, cluster: ControlPlane, stop: threading.Event) -> None:
        self._cluster = cluster
        self._stop = stop
        self._samples: list[Sample] = []
        self.pids: list[int] = []

    def start(self) -> threading.Thread:
        """Measures until the stop."""
        thread = threading.Thread(target=self._run, name="slack", daemon=True)
        thread.start()
        return thread

    def before(self, moment: float) -> float:
        """Seconds by which the machine was late shortly before a moment of the monotonic clock."""
        near = [s for s in list(self._samples) if s.begun <= moment and s.ended >= moment - REACH_SECONDS]
        return max((s.ended - s.begun for s in near), default=0.0) + sum(s.waited for s in near)

    @property
    def worst(self) -> float:
        """The latest that the machine was."""
        return max((self.before(s.ended) for s in list(self._samples)), default=0.0)

    def _run(self) -> None:
        begun, waited = time.monotonic(), self._waited()
        while not self._stop.is_set():
            # Without an answer the write is taken to go on.
            with contextlib.suppress(Exception):
                self._write()
                ended, total = time.monotonic(), self._waited()
                self._samples.append(Sample(begun, ended, max(0.0, total - waited)))
                begun, waited = ended + PAUSE_SECONDS, total
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
        """Seconds that all operators together have waited for a processor."""
        total = 0.0
        for pid in self.pids:
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        return total
