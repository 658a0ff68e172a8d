"""Reads SchedulingQueues from files: the example, and the invalid ones with their wrong field; and makes some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from podwright.kube.kinds import Resource
from support.objects.policies import QUEUE_CRD as CRD
from support.objects.policies import ROOT, each, load, wrong_field

EXAMPLES = tuple(ROOT / "manifests" / "examples" / "queues" / name for name in ("teams.yaml", "flavors.yaml"))
BAD = tuple(sorted((ROOT / "tests" / "bad_input" / "queues").glob("*.yaml")))

__all__ = ["BAD", "CRD", "EXAMPLES", "each", "examples", "load", "other_queue", "queue", "wrong_field"]


def examples() -> list[dict[str, Any]]:
    """The queues of the examples."""
    return [raw for path in EXAMPLES for raw in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def queue(name: str, generation: int = 1, **spec: Any) -> dict[str, Any]:
    """A SchedulingQueue."""
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
    return {"apiVersion": "podwright.dev/v1alpha1", "kind": "SchedulingQueue", "metadata": metadata, "spec": spec}


def other_queue(resource: Resource, name: str, status: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A queue of another API. A spec that is only `spec=x` is x."""
    metadata = {"name": name, "uid": f"uid-{name}", "generation": 1}
    raw = {"apiVersion": f"{resource.group}/{resource.version}", "kind": resource.kind, "metadata": metadata}
    return {**raw, "spec": spec.get("spec", spec), **({} if status is None else {"status": status})}
