"""Closeness: how close together the pods of a group, or of a part of it, are to be, by node labels.

The labels are levels of a topology, such as zone, block, rack and host. A Topology object lists them, the coarsest
first (`core.state.topologies`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError


@dataclass(frozen=True, slots=True)
class Closeness:
    """See the module. Without anything, pods may be anywhere."""

    required: tuple[str, ...] = ()
    """All pods are on nodes that have the same value of each of these labels."""
    preferred: str = ""
    """The pods should be in one domain of this label; else in one of the next coarser level that is allowed, in as few
    domains of this label as possible.
    """
    topology: str = ""
    """The Topology whose levels these labels are, as `group of its API/name`; empty: the first that has them."""
    slice_level: str = ""
    """Each `slice_size` pods are in one domain of this label. Empty: there are no slices."""
    slice_size: int = 0
    index_label: str = ""
    """A label of pods with their number, which says in which slice they are; empty: one of `INDEX_LABELS`."""

    @property
    def binds(self) -> bool:
        """True if pods may not be anywhere."""
        return bool(self.required or self.slice_level)

    def slice_of(self, labels: Mapping[str, str]) -> int | None:
        """In which slice a pod with these labels is; None if it has no number."""
        keys = (self.index_label,) if self.index_label else INDEX_LABELS
        number = next((value for key in keys if (value := labels.get(key, "")).isdecimal()), "")
        return int(number[:MOST_DIGITS]) // self.slice_size if number else None

    def __bool__(self) -> bool:
        return self.binds or bool(self.preferred)


HYPER_NODES: Final = "topology.volcano.sh/hypernodes"
"""The Topology that Volcano's HyperNodes are. Its levels are not labels but tiers, `tier 2` or `tier named rack`, each
with those below it.
"""
LOWEST_TIER: Final = "the lowest tier"
INDEX_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "kueue.x-k8s.io/pod-group-pod-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "training.kubeflow.org/replica-index",
    "apps.kubernetes.io/pod-index",
)
"""Labels by which controllers number their pods."""
MOST_DIGITS: Final = 18
"""How many leading digits of a pod's number count."""
ANYWHERE: Final = Closeness()

KUEUE_API: Final = "kueue.x-k8s.io"
WISHES: Final = (
    f"{KUEUE_API}/podset-required-topology",
    f"{KUEUE_API}/podset-preferred-topology",
    f"{KUEUE_API}/podset-slice-required-topology",
    f"{KUEUE_API}/podset-slice-size",
    f"{KUEUE_API}/pod-group-pod-index-label",
)
"""Kueue's annotations of pods. Source: apis/kueue/v1beta2/topology_types.go of Kueue v0.19.2."""
Wish = tuple[str, ...]
"""The values of WISHES; () if a pod has none of them."""


def wish_of(annotations: object) -> Wish:
    """Reads the WISHES among a pod's annotations, which may be of any type."""
    if not isinstance(annotations, Mapping) or annotations.keys().isdisjoint(WISHES):
        return ()
    values: list[Any] = [annotations.get(key) for key in WISHES]
    return tuple(value if isinstance(value, str) else "" for value in values)


@lru_cache(256)
def closeness_of(wish: Wish) -> Closeness:
    """As Kueue reads it: what is required counts before what is preferred, and slices need a level and a size. Raises
    InvalidObjectError naming the annotation.
    """
    if not wish:
        return ANYWHERE
    required, preferred, level, size, index_label = wish
    if not (level and size):
        level = size = ""
    if size and not (size.isascii() and size.isdigit() and 0 < int(size[:10]) < 1 << 31 and len(size) <= 10):
        raise InvalidObjectError(f"metadata.annotations[{WISHES[3]}]", "expected a number from 1 on")
    return Closeness(
        (required,) if required else (), "" if required else preferred, "", level, int(size or 0), index_label
    )
