"""Reads from the API server's audit log how long pods waited: from the response to a pod's creation to the arrival of
its Binding.

The log has microsecond timestamps of the API server, so the load generator and the observer do not affect the figures.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import orjson
import yaml

from benchmarks.workloads import MEASURED_PREFIX

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods", "pods/binding"]}],
        },
        {"level": "None"},
    ],
}


class AuditLog:
    """The audit log of one run, in `folder`. It records only the creation of pods and of Bindings."""

    def __init__(self, folder: Path) -> None:
        self._policy = folder / "audit-policy.yaml"
        self._log = folder / "audit.log"
        self._policy.write_text(yaml.safe_dump(_POLICY))

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags for the API server. It writes the log in batches after it has responded, so logging delays no request.
        By default it begins a new file after 100 MB, which 60,000 pods exceed.
        """
        files = (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}", "--audit-log-maxsize=10000")
        return (*files, "--audit-log-mode=batch")

    def waits(self) -> dict[str, float]:
        """Seconds from a measured pod's creation to its Binding, by pod name. Pods without both entries are left
        out.
        """
        created: dict[str, float] = {}
        bound: dict[str, float] = {}
        for line in self._log.read_bytes().splitlines() if self._log.exists() else ():
            entry = orjson.loads(line)
            target = entry["objectRef"]
            name = target.get("name", "")
            if not name.startswith(MEASURED_PREFIX) or entry.get("responseStatus", {}).get("code") != 201:
                continue
            if target.get("subresource") == "binding":
                bound[name] = _seconds(entry["requestReceivedTimestamp"])
            else:
                created[name] = _seconds(entry["stageTimestamp"])
        return {name: bound[name] - at for name, at in created.items() if name in bound}


def percentiles_ms(waits: Mapping[str, float]) -> dict[str, float]:
    """`p50_ms` and `p99_ms` of waits in seconds. Raises ValueError without any."""
    if not waits:
        raise ValueError("no waits to summarize")
    ordered = sorted(waits.values())
    count = len(ordered)
    return {"p50_ms": 1000 * ordered[count // 2], "p99_ms": 1000 * ordered[min(count - 1, int(count * 0.99))]}


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
