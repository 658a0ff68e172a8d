"""Random conformance cases about what a pod requests: pod-level resources, overhead, sidecars and in-place resize.

A case depends only on its seed and number. All quantities are in canonical notation, as the API server serves them:
kube-scheduler counts the overhead of pod-level requests in another notation several times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

_CPU: Final = ("0", "1n", "1500u", "1m", "10m", "100m", "250m", "500m", "1", "1500m", "2", "4")
_MEMORY: Final = (
    *("0", "100u", "1500m", "1500000", "1Mi", "16Mi", "64Mi"),
    *("200Mi", "512Mi", "600Mi", "1Gi", "2Gi", "3000Mi", "1G"),
)
_DEVICES: Final = "example.com/foo"
_HUGE_PAGES: Final = "hugepages-2Mi"
_CONTAINER_COUNTS: Final = (1, 1, 2, 3)

Object = dict[str, Any]


def pod_resources_cases(seed: int, count: int) -> Iterator[Object]:
    """Yields `count` cases of the group `pod-resources`, without expectations."""
    for number in range(count):
        yield _Generator(random.Random(f"{seed}/{number}")).case(f"pod-resources/{seed}-{number}")


class _Generator:
    """Makes the objects of one case."""

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def case(self, name: str) -> Object:
        nodes = [self._node(f"n{i}") for i in range(self._one_of((2, 3, 4)))]
        pods = [self._pod(f"p{i}", self._one_of(nodes)["metadata"]["name"]) for i in range(self._one_of((0, 1, 2, 4)))]
        case = {"id": name, "group": "pod-resources", "nodes": nodes, "pods": pods, "pod": self._pod("pending")}
        if self._happens(0.4):
            case["pluginConfig"] = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": self._scoring_strategy()}}]
        return case

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def _one_of(self, choices: Sequence[Any]) -> Any:
        return self._random.choice(choices)

    def _scoring_strategy(self) -> Object:
        resources = [{"name": "cpu", "weight": self._one_of((1, 3))}, {"name": "memory", "weight": 1}]
        if self._happens(0.4):
            resources.append({"name": _DEVICES, "weight": 2})
        return {"type": self._one_of(("LeastAllocated", "MostAllocated")), "resources": resources}

    def _node(self, name: str) -> Object:
        allocatable = {
            "cpu": self._one_of(("2", "3920m", "8", "16")),
            "memory": self._one_of(("4Gi", "8154M", "16Gi", "32Gi")),
            "pods": "110",
            _DEVICES: self._one_of(("0", "1", "8")),
            _HUGE_PAGES: self._one_of(("0", "64Mi", "1Gi")),
        }
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        return {"metadata": metadata, "status": {"allocatable": allocatable}}

    def _amounts(self, usual: float = 0.7, devices: float = 0.0, huge_pages: float = 0.0) -> dict[str, str]:
        """A list of resources; each argument is the probability of a resource, `usual` that of cpu and of memory."""
        likely = (("cpu", usual, _CPU), ("memory", usual, _MEMORY))
        unusual = ((_DEVICES, devices, ("1", "2")), (_HUGE_PAGES, huge_pages, ("2Mi", "64Mi")))
        return {
            resource: self._one_of(choices)
            for resource, probability, choices in (*likely, *unusual)
            if self._happens(probability)
        }

    def _pod(self, name: str, node: str = "") -> Object:
        """A pod that runs on `node`, or a pending one."""
        spec: Object = {"priority": 0, "containers": self._containers("c", self._one_of(_CONTAINER_COUNTS))}
        if self._happens(0.4):
            spec["initContainers"] = self._containers("i", self._one_of((1, 2, 3)))
            for container in spec["initContainers"]:
                if self._happens(0.5):
                    container["restartPolicy"] = "Always"
        if self._happens(0.45):
            spec["overhead"] = self._amounts() or {"cpu": "10m"}
        if self._happens(0.6) and (requests := self._amounts(usual=0.6, huge_pages=0.1)):
            spec["resources"] = {"requests": requests}
        pod: Object = {"metadata": {"name": name, "namespace": "default", "uid": f"default.{name}"}, "spec": spec}
        status = self._resize(spec) if self._happens(0.6 if node else 0.25) else {}
        if node:
            spec["nodeName"], status["phase"] = node, "Running"
        return {**pod, "status": status} if status else pod

    def _containers(self, prefix: str, count: int) -> list[Object]:
        containers: list[Object] = [{"name": f"{prefix}{i}"} for i in range(count)]
        for container in containers:
            if self._happens(0.75) and (requests := self._amounts(devices=0.1, huge_pages=0.05)):
                container["resources"] = {"requests": requests}
        return containers

    def _resize(self, spec: Object) -> Object:
        """The status of a pod whose resources were resized in place, or are being resized."""
        status: Object = {}
        if self._happens(0.6):
            status["containerStatuses"] = [self._container_status(each) for each in spec["containers"]]
        if spec.get("initContainers") and self._happens(0.5):
            status["initContainerStatuses"] = [self._container_status(each) for each in spec["initContainers"]]
        if self._happens(0.3):
            status["allocatedResources"] = self._amounts(huge_pages=0.1)
        if self._happens(0.3):
            status["resources"] = {"requests": self._amounts(huge_pages=0.1)} if self._happens(0.8) else {}
        if self._happens(0.25):
            reason = self._one_of(("Infeasible", "Deferred"))
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
        return status

    def _container_status(self, container: Object) -> Object:
        status: Object = {"name": container["name"]}
        if self._happens(0.4):
            status["allocatedResources"] = self._amounts()
        if self._happens(0.4):
            status["resources"] = {"requests": self._amounts()}
        return status
