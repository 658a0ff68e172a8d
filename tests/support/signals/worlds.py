"""Signals on a cluster whose time stands still unless a test moves it."""

from __future__ import annotations

from collections.abc import Mapping

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.state.cache import Cache
from podwright.core.state.signals import SignalDefinition, Signals
from podwright.core.state.signals.signals import Sample

WALL = 1_800_000_000.0


class Time:
    """A steady clock at 1000 s, and a wall clock beside it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def steady(self) -> float:
        return self.now

    def wall(self) -> float:
        return WALL + self.now


def cache_with(*definitions: SignalDefinition, time: Time | None = None) -> tuple[Cache, Time]:
    time = time or Time()
    return Cache(signals=Signals(definitions, clock=time.steady, wall=time.wall)), time


def node(name: str, cpu: str = "10", memory: str = "100Gi", **annotations: str):
    return parse_node(
        {
            "metadata": {
                "name": name,
                "annotations": {key.replace("_", "-"): text for key, text in annotations.items()},
            },
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
        }
    )


def pod(name: str, cpu: str = "1", node_name: str = "", start: str | None = None) -> PodInfo:
    status = {"startTime": start} if start else {}
    return parse_pod(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"nodeName": node_name, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
            "status": status,
        }
    )


def samples(values: Mapping[str, float], age: float = 0.0) -> dict[str, Sample]:
    return {name: Sample(value, age) for name, value in values.items()}
