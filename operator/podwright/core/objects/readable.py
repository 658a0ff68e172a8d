"""Parses assigned pods and nodes, which count even if parts of them cannot be understood.

A pod that has a node takes room there, and a node has its capacity, whatever else their objects say. So a part that
cannot be understood is left out, and reported. What counts is read amount by amount and port by port: one malformed
amount does not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.objects.node import Node, parse_node
from podwright.core.objects.pod import PodInfo, parse_host_ports, parse_pod
from podwright.core.objects.raw import Problems, Raw, as_labels, as_mapping
from podwright.core.objects.resources import parse_amounts, resource_list
from podwright.core.objects.taints import parse_taint

T = TypeVar("T")

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
_POD_PARTS: Final = (
    ("metadata", "creationTimestamp"),
    ("metadata", "ownerReferences"),
    ("spec", "priority"),
    ("spec", "schedulingGroup"),
    ("spec", "nodeSelector"),
    ("spec", "affinity", "nodeAffinity"),
    ("spec", "affinity", "podAffinity", _REQUIRED),
    ("spec", "affinity", "podAffinity", _PREFERRED),
    ("spec", "affinity", "podAntiAffinity", _REQUIRED),
    ("spec", "affinity", "podAntiAffinity", _PREFERRED),
    ("spec", "topologySpreadConstraints"),
    ("spec", "tolerations"),
    ("spec", "volumes"),
    ("spec", "schedulingGates"),
    ("spec", "resourceClaims"),
    ("status", "startTime"),
    ("status", "conditions"),
    ("status", "resourceClaimStatuses"),
    ("status", "containerStatuses"),
    ("status", "initContainerStatuses"),
    ("status", "allocatedResources"),
    ("status", "resources"),
)
"""The parts of a pod that are left out if the pod cannot be parsed with them."""
_NODE_PARTS: Final = (("status", "images"), ("status", "declaredFeatures"), ("status", "conditions"))


def parse_assigned_pod(raw: Raw) -> tuple[PodInfo, Sequence[InvalidObjectError]]:
    """A v1.Pod that has a node, without the parts that cannot be understood, and why they cannot.

    Raises InvalidObjectError if the pod has no name.
    """
    try:
        return parse_pod(raw), ()
    except Exception:  # noqa: BLE001 -- whatever is wrong, the pod takes room
        return _Reading("Pod", raw).pod()


def parse_known_node(raw: Raw) -> tuple[Node, Sequence[InvalidObjectError]]:
    """A v1.Node without the parts that cannot be understood, and why they cannot. An amount that is left out counts as
    0.

    Raises InvalidObjectError if the node has no name.
    """
    try:
        return parse_node(raw), ()
    except Exception:  # noqa: BLE001 -- whatever is wrong, the node is there
        return _Reading("Node", raw).node()


class _Reading:
    """Reads one object part by part."""

    def __init__(self, kind: str, raw: Raw) -> None:
        self._raw = raw
        self._metadata = as_mapping(raw.get("metadata"), "metadata")
        namespace = self._metadata.get("namespace") or "default"
        name = self._metadata.get("name")
        self._problems = Problems(kind, str(name) if kind == "Node" else f"{namespace}/{name}")

    def pod(self) -> tuple[PodInfo, Problems]:
        spec, status = (self._problems.mapping(self._raw.get(field), field) for field in ("spec", "status"))
        counted = {
            "metadata": self._identity(),
            "spec": {
                **{key: str(spec[key]) for key in ("nodeName", "schedulerName", "preemptionPolicy") if spec.get(key)},
                "containers": list(self._containers(spec, "containers")),
                "initContainers": list(self._containers(spec, "initContainers")),
                "overhead": self._amounts(spec.get("overhead"), "spec.overhead"),
                "resources": self._resources(spec.get("resources"), "spec.resources"),
            },
            "status": {key: str(status[key]) for key in ("phase", "nominatedNodeName") if status.get(key)},
        }
        return self._with_parts(counted, _POD_PARTS, parse_pod), self._problems

    def node(self) -> tuple[Node, Problems]:
        spec, status = (self._problems.mapping(self._raw.get(field), field) for field in ("spec", "status"))
        taints = self._problems.listed(spec.get("taints"), "spec.taints")
        counted = {
            "metadata": self._identity(),
            "spec": {
                "unschedulable": spec.get("unschedulable"),
                "taints": [taint for where, taint in taints if self._readable(parse_taint, taint, where)],
            },
            "status": {"allocatable": self._entries(status.get("allocatable"), "status.allocatable", resource_list)},
        }
        return self._with_parts(counted, _NODE_PARTS, parse_node), self._problems

    def _with_parts(self, counted: dict[str, Any], paths: Sequence[Sequence[str]], parse: Callable[[Raw], T]) -> T:
        """Parses what counts with every further part with which that succeeds."""
        for path in paths:
            value: Any = self._raw
            for key in path:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value is not None:
                more = _with(counted, path, value)
                if self._readable(lambda candidate, _where: parse(candidate), more, ".".join(path)):
                    counted = more
        return parse(counted)

    def _readable(self, parse: Callable[[Any, str], object], value: Any, where: str) -> bool:
        try:
            parse(value, where)
        except InvalidObjectError as error:
            self._problems.note(error)
        except Exception as error:  # noqa: BLE001 -- see parse_assigned_pod
            self._problems.note(InvalidObjectError(where, described(error)))
        else:
            return True
        return False

    # What counts

    def _identity(self) -> dict[str, Any]:
        given = self._metadata
        metadata: dict[str, Any] = {key: str(given[key]) for key in _IDENTITY if given.get(key)}
        for field in ("labels", "annotations"):
            metadata[field] = self._entries(given.get(field), f"metadata.{field}", as_labels)
        return metadata

    def _containers(self, spec: Raw, field: str) -> Iterator[dict[str, Any]]:
        for where, item in self._problems.listed(spec.get(field), f"spec.{field}"):
            if not self._readable(as_mapping, item, where):
                continue
            container = as_mapping(item, where)
            ports = self._problems.listed(container.get("ports"), f"{where}.ports")
            yield {
                **{key: str(container[key]) for key in ("name", "image", "restartPolicy") if container.get(key)},
                "resources": self._resources(container.get("resources"), f"{where}.resources"),
                "ports": [port for at, port in ports if self._readable(parse_host_ports, [port], at)],
            }

    def _resources(self, raw: object, where: str) -> dict[str, Any]:
        requests = self._problems.mapping(raw, where).get("requests")
        return {"requests": self._amounts(requests, f"{where}.requests")}

    def _amounts(self, raw: object, where: str) -> dict[str, Any]:
        return self._entries(raw, where, parse_amounts)

    def _entries(self, raw: object, where: str, parse: Callable[[Any, str], object]) -> dict[str, Any]:
        """The entries of a map that can be read."""
        entries = self._problems.mapping(raw, where)
        return {key: v for key, v in entries.items() if self._readable(parse, {key: v}, where)}


def _with(raw: Raw, path: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy of an object with another value at this path."""
    key, *rest = path
    inner = raw.get(key)
    return {**raw, key: _with(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value}
