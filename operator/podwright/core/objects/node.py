"""Node: the fields of a v1.Node that the scheduler uses."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

from podwright.core.objects.compaction import cleared_regularly
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.frozen import FrozenDict
from podwright.core.objects.quantity import MAX_INT64
from podwright.core.objects.raw import as_labels, as_list, as_mapping
from podwright.core.objects.resources import PODS, resource_list
from podwright.core.objects.taints import Taint, parse_taints

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label with the node's host name, which the kubelet sets."""
MOST_PODS: Final = 2**31 - 1
"""A node takes no more pods, so that sums over all nodes are an int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One version of a node. Immutable.

    `allocatable` is in milli-CPU and whole units; `images` maps every name of every image to its size in bytes.
    """

    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Mapping[str, int]
    images: Mapping[str, int]
    declared_features: frozenset[str] = frozenset()
    resource_version: str = ""
    terminating: bool = False
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Condition type to status, such as `Ready` to `True`."""


MANY_IMAGES: Final = 256
"""A node with more names of images has them as `ManyImages`. By default, a kubelet reports 50 images."""


class ManyImages(Mapping[str, int]):
    """Names and sizes of many images, in a small part of a dictionary's memory: the sorted names as one text, with
    where each ends.
    """

    __slots__ = ("_ends", "_sizes", "_text")

    def __init__(self, images: Mapping[str, int]) -> None:
        names = sorted(images)
        self._text = "".join(names)
        self._ends = array("q", accumulate(map(len, names)))
        self._sizes = array("q", map(images.__getitem__, names))

    def __getitem__(self, name: str) -> int:
        at = bisect_left(range(len(self)), name, key=self._name)
        if at == len(self) or self._name(at) != name:
            raise KeyError(name)
        return self._sizes[at]

    def __iter__(self) -> Iterator[str]:
        return map(self._name, range(len(self)))

    def __len__(self) -> int:
        return len(self._sizes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ManyImages):
            return NotImplemented
        return (self._text, self._ends, self._sizes) == (other._text, other._ends, other._sizes)

    __hash__ = None  # type: ignore[assignment]  # as a dict

    def _name(self, at: int) -> str:
        return self._text[self._ends[at - 1] if at else 0 : self._ends[at]]


def parse_node(raw: Mapping[str, Any]) -> Node:
    """A v1.Node. A node without a status has no allocatable resources.

    Raises InvalidObjectError naming the node and the field.
    """
    metadata = as_mapping(raw.get("metadata"), "metadata")
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidObjectError("metadata.name", "a name is required", kind="Node", name="?")
    try:
        return _parse(raw, metadata, name)
    except InvalidObjectError as error:
        raise error.in_object("Node", name) from error


def _conditions(raw: Any) -> dict[str, str]:
    """Skips invalid conditions, because no built-in plugin reads them."""
    found = raw if isinstance(raw, list) else ()
    return {
        str(condition["type"]): str(condition.get("status") or "")
        for condition in found
        if isinstance(condition, Mapping) and condition.get("type")
    }


_shared: Final[Callable[[str], str]] = cleared_regularly(lru_cache(maxsize=4096)(str))
"""The name of an image, which the nodes that have the image share."""


def _parse(raw: Mapping[str, Any], metadata: Mapping[str, Any], name: str) -> Node:
    spec = as_mapping(raw.get("spec"), "spec")
    status = as_mapping(raw.get("status"), "status")
    images: dict[str, int] = {}
    for index, item in enumerate(as_list(status.get("images"), "status.images")):
        image = item if type(item) is dict else as_mapping(item, f"status.images[{index}]")
        size = image.get("sizeBytes") or 0
        if not isinstance(size, int) or abs(size) > MAX_INT64:
            raise InvalidObjectError(f"status.images[{index}].sizeBytes", "expected a whole number of 64 bits")
        names = image.get("names")
        for image_name in names if type(names) is list else as_list(names, f"status.images[{index}].names"):
            images.setdefault(_shared(str(image_name)), size)
    allocatable = resource_list(status.get("allocatable"), "status.allocatable")
    if allocatable.get(PODS, 0) > MOST_PODS:
        allocatable[PODS] = MOST_PODS
    return Node(
        name=name,
        uid=str(metadata.get("uid") or ""),
        labels=FrozenDict(as_labels(metadata.get("labels"), "metadata.labels")),
        annotations=FrozenDict(as_labels(metadata.get("annotations"), "metadata.annotations")),
        taints=parse_taints(spec.get("taints"), "spec.taints"),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=FrozenDict(allocatable),
        images=FrozenDict(images) if len(images) <= MANY_IMAGES else ManyImages(images),
        declared_features=frozenset(str(f) for f in as_list(status.get("declaredFeatures"), "status.declaredFeatures")),
        resource_version=str(metadata.get("resourceVersion") or ""),
        terminating=bool(metadata.get("deletionTimestamp")),
        conditions=FrozenDict(_conditions(status.get("conditions"))),
    )
