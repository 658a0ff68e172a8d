"""PodGroups of KAI (`scheduling.run.ai/v2alpha2`), how their pods name their sub-groups, and what only KAI gives pods.

Sources: KAI's `pkg/apis/scheduling/v2alpha2/podgroup_types.go`, `pkg/scheduler/api/podgroup_info/subgroup_info` and
`pkg/common/constants/constants.go` at v0.17.0-9-gd5bc503a.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from podwright.core.objects.closeness import ANYWHERE, Closeness
from podwright.core.objects.durations import parse_duration
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import as_mapping, as_optional_text, as_positive, as_text, entries, shortened
from podwright.core.objects.sub_groups import MAX_LEVELS, Member, PartOf, SubGroup, Terms, count_of, leaves_of

KAI_SCHEDULER: Final = "kai-scheduler"
_GPU_PARTS: Final = ("gpu-fraction", "gpu-memory")
"""Annotations by which pods ask KAI for a part of a GPU. Their requests say nothing of it."""
KAI_TOPOLOGY_API: Final = "kai.scheduler"
KAI_SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
KAI_STALENESS_SECONDS: Final = 60.0
"""The default of KAI's scheduler (`cmd/scheduler/app/options/options.go`)."""


def gpu_part(annotations: object) -> tuple[str, ...]:
    """The field by which a pod of KAI's scheduler asks for a part of a GPU, which holds it back like a scheduling gate;
    empty if none does.
    """
    given = annotations if isinstance(annotations, Mapping) else {}
    return tuple(f"metadata.annotations[{key}]" for key in _GPU_PARTS if given.get(key))[:1]


def kai_terms(spec: Mapping[str, Any]) -> Terms:
    """A minimum of 0 asks for no gang."""
    if spec.get("subGroups"):
        tree = kai_tree(spec)
        return tree, kai_part(tree)
    count = spec.get("minMember")
    if count == 0 and type(count) is int:
        return SubGroup(), None
    return SubGroup(pods=as_positive(1 if count is None else count, "spec.minMember")), None


def kai_tree(spec: Mapping[str, Any]) -> SubGroup:
    """The tree of `spec.subGroups`. Raises InvalidObjectError."""
    known: dict[str, tuple[str, Mapping[str, Any]]] = {}
    below: dict[str, list[str]] = {}
    for where, entry in entries(spec.get("subGroups"), "spec.subGroups"):
        name = as_text(entry.get("name"), f"{where}.name")
        if name in known:
            raise InvalidObjectError(f"{where}.name", f"{shortened(name)} is there twice")
        known[name] = where, entry
        below.setdefault(as_optional_text(entry.get("parent"), f"{where}.parent"), []).append(name)
    for parent, names in below.items():
        if parent and parent not in known:
            where = known[names[0]][0]
            raise InvalidObjectError(f"{where}.parent", f"there is no sub-group {shortened(parent)}")
    found = 0

    def part(name: str, where: str, entry: Mapping[str, Any], level: int) -> SubGroup:
        nonlocal found
        found += 1
        names = below.get(name, ())
        if level > MAX_LEVELS:
            raise InvalidObjectError(where, f"it is below more than {MAX_LEVELS} others")
        near = kai_closeness(entry, where, leaf=not names)
        if not names:
            return SubGroup(name, pods=count_of(entry.get("minMember"), f"{where}.minMember") or 0, near=near)
        groups = count_of(entry.get("minSubGroup"), f"{where}.minSubGroup")
        children = tuple(part(child, *known[child], level + 1) for child in names)
        return SubGroup(name, groups=len(children) if groups is None else groups, children=children, near=near)

    tree = part("", "spec", spec, 0)
    if found <= len(known):
        raise InvalidObjectError("spec.subGroups", "parents form a circle")
    return tree


def kai_closeness(entry: Mapping[str, Any], where: str, *, leaf: bool) -> Closeness:
    """Parses `topologyConstraint` of a PodGroup or a sub-group. KAI calls slices segments. Only a `leaf`, which has no
    sub-groups, can have them. Raises InvalidObjectError.
    """
    at = f"{where}.topologyConstraint"
    constraint = as_mapping(entry.get("topologyConstraint"), at)
    if not constraint:
        return ANYWHERE

    def text(name: str) -> str:
        return as_optional_text(constraint.get(name), f"{at}.{name}")

    required, topology = text("requiredTopologyLevel"), text("topology")
    level = text("segmentRequiredTopologyLevel") if leaf else ""
    return Closeness(
        required=(required,) if required else (),
        preferred=text("preferredTopologyLevel"),
        topology=f"{KAI_TOPOLOGY_API}/{topology}" if topology else "",
        slice_level=level,
        slice_size=as_positive(constraint.get("segmentSize"), f"{at}.segmentSize") if level else 0,
        index_label=text("podIndexLabel"),
    )


def kai_part(tree: SubGroup) -> PartOf:
    """KAI does not schedule pods that name no leaf."""
    leaves = frozenset(leaf.name for leaf in leaves_of(tree))

    def part_of(pod: Member) -> str | None:
        name = pod.labels.get(KAI_SUB_GROUP_LABEL, "")
        return name if name in leaves else None

    return part_of


def is_firm(preemptibility: object) -> bool | None:
    if preemptibility not in (None, "", "preemptible", "non-preemptible"):
        raise InvalidObjectError("spec.preemptibility", "expected preemptible or non-preemptible")
    return preemptibility == "non-preemptible" if preemptibility else None


def kai_seconds(spec: Mapping[str, Any], name: str, default: float) -> float:
    text = as_optional_text(spec.get(name), f"spec.{name}")
    try:
        return parse_duration(text) if text else default
    except ValueError as error:
        raise InvalidObjectError(f"spec.{name}", f"{shortened(text)} is not a duration") from error


def stale_after(spec: Mapping[str, Any]) -> float:
    """Negative: for ever."""
    seconds = kai_seconds(spec, "stalenessGracePeriod", KAI_STALENESS_SECONDS)
    return inf if seconds < 0 else seconds
