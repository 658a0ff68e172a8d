"""How long pods waited, by the API server's own clock: from its answer to a pod's creation until the pod's Binding reached it.

The audit log says so for each request to the microsecond, so neither the load generator nor the observer is part of what is measured.
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
    """The audit log of one run, in `folder`: creations of pods and Bindings, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._policy = folder / "audit-policy.yaml"
        self._log = folder / "audit.log"
        self._policy.write_text(yaml.safe_dump(_POLICY))

    @property
    def flags(self) -> tuple[str, ...]:
        """The API server's; a line is written behind the answer to its request and does not delay it."""
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}", "--audit-log-mode=batch")

    def waits(self) -> dict[str, float]:
        """Seconds from a measured pod's creation to its Binding, by the pod's name; pods that miss either are left out."""
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
    """`p50_ms` and `p99_ms` of waits in seconds. Raises ValueError if there are none."""
    if not waits:
        raise ValueError("nothing has waited")
    ordered = sorted(waits.values())
    count = len(ordered)
    return {"p50_ms": 1000 * ordered[count // 2], "p99_ms": 1000 * ordered[min(count - 1, int(count * 0.99))]}


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
