"""SubGroup: a part of a pod group with a minimum of its own. A pod group is a tree of them; a flat one is a single
part.

Sources of the trees: KAI's `pkg/apis/scheduling/v2alpha2/podgroup_types.go` and
`pkg/scheduler/api/podgroup_info/subgroup_info` at v0.17.0-9-gd5bc503a; Volcano's
`staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go` and `pkg/scheduler/api/{job_info,sub_job_info}.go` at
v1.16.0-alpha.1-42-ged72c7c81; Grove's `scheduler/api/core/v1alpha1/podgang.go` and `operator/api/common/labels.go` at
fcc3b3bb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, Final, Protocol

from podwright.core.objects.closeness import ANYWHERE, HYPER_NODES, LOWEST_TIER, Closeness
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import (
    as_count,
    as_list,
    as_mapping,
    as_optional_text,
    as_positive,
    as_text,
    as_texts,
    shortened,
)
from podwright.core.objects.selectors import LabelSelector, parse_label_selector

MAX_LEVELS: Final = 16
"""How deep a tree may be."""
MAX_POLICIES: Final = 64
"""How many policies a group of Volcano may have: each pod may have to be compared with all of them."""
KAI_TOPOLOGY_API: Final = "kai.scheduler"
KAI_SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
GROVE_PART_LABEL: Final = "grove.io/podclique"
TASK_KEY: Final = "volcano.sh/task-spec"
"""An annotation, or a label, by which pods name their task to Volcano."""


class Member(Protocol):
    """What tells the part to which a pod belongs."""

    @property
    def key(self) -> str:
        """namespace/name"""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def task(self) -> str: ...


PartOf = Callable[[Member], str | None]
"""The name of the part to which a pod belongs; "" for the whole group, None for none. A part that comes with its pods
is named after the part above it, up to BELOW.
"""
BELOW: Final = "\0"


@dataclass(frozen=True, slots=True)
class SubGroup:
    """A part. Its minimum is met if so many `pods` of it and of the parts below have a node, and the minimums of so
    many `groups` directly below are met.
    """

    name: str = ""
    pods: int = 0
    groups: int = 0
    children: tuple[SubGroup, ...] = ()
    order: tuple[str, str] = ("", "")
    """Where it stands among the parts beside it; equal ones stand as given."""
    near: Closeness = ANYWHERE
    """How close together its pods are to be."""
    each: int = 0
    """Not 0: its pods are in parts that come with their pods. Each needs so many of them, `near` each other."""

    @property
    def least(self) -> int:
        """How many pods are needed at least."""
        return max(self.pods, least_together((child.least for child in self.children), self))


def least_together(of_children: Iterable[int], part: SubGroup) -> int:
    """How many pods the cheapest `part.groups` children need together. A child that is not there yet needs `part.each`,
    at least one.
    """
    cheapest = nsmallest(part.groups, of_children)
    return sum(cheapest) + (part.groups - len(cheapest)) * max(1, part.each)


# KAI


def kai_tree(spec: Mapping[str, Any]) -> SubGroup:
    """The tree of `spec.subGroups`. Raises InvalidObjectError."""
    entries: dict[str, tuple[str, Mapping[str, Any]]] = {}
    below: dict[str, list[str]] = {}
    for index, raw in enumerate(as_list(spec.get("subGroups"), "spec.subGroups")):
        where = f"spec.subGroups[{index}]"
        entry = as_mapping(raw, where)
        name = as_text(entry.get("name"), f"{where}.name")
        if name in entries:
            raise InvalidObjectError(f"{where}.name", f"{shortened(name)} is there twice")
        entries[name] = where, entry
        below.setdefault(as_optional_text(entry.get("parent"), f"{where}.parent"), []).append(name)
    for parent, names in below.items():
        if parent and parent not in entries:
            where = entries[names[0]][0]
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
            return SubGroup(name, pods=_count(entry.get("minMember"), f"{where}.minMember") or 0, near=near)
        groups = _count(entry.get("minSubGroup"), f"{where}.minSubGroup")
        children = tuple(part(child, *entries[child], level + 1) for child in names)
        return SubGroup(name, groups=len(children) if groups is None else groups, children=children, near=near)

    tree = part("", "spec", spec, 0)
    if found <= len(entries):
        raise InvalidObjectError("spec.subGroups", "parents form a circle")
    return tree


def kai_closeness(entry: Mapping[str, Any], where: str, *, leaf: bool) -> Closeness:
    """What `topologyConstraint` of a PodGroup, or of a sub-group, asks for. KAI calls slices segments: they are those of
    a `leaf`, which has no sub-groups. Raises InvalidObjectError.
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


# Grove


def grove_tree(spec: Mapping[str, Any]) -> tuple[SubGroup, PartOf]:
    """The tree of a PodGang: its pod groups, those of a `topologyConstraintGroupConfigs` below a part of their own. All
    of them are needed. Pods belong to the group that refers to them, else to that which their label names. Raises
    InvalidObjectError.
    """
    parts: dict[str, SubGroup] = {}
    by_pod: dict[str, str] = {}
    for index, raw in enumerate(as_list(spec.get("podgroups"), "spec.podgroups")):
        where = f"spec.podgroups[{index}]"
        entry = as_mapping(raw, where)
        name = as_text(entry.get("name"), f"{where}.name")
        if name in parts:
            raise InvalidObjectError(f"{where}.name", f"{shortened(name)} is there twice")
        pods = _count(entry.get("minReplicas"), f"{where}.minReplicas") or 0
        parts[name] = SubGroup(name, pods=pods, near=packed(entry, where))
        for number, item in enumerate(as_list(entry.get("podReferences"), f"{where}.podReferences")):
            named = as_mapping(item, f"{where}.podReferences[{number}]")
            by_pod[f"{named.get('namespace')}/{named.get('name')}"] = name
    names, set_names, children = frozenset(parts), set[str](), []
    configs = "spec.topologyConstraintGroupConfigs"
    for index, raw in enumerate(as_list(spec.get("topologyConstraintGroupConfigs"), configs)):
        where = f"{configs}[{index}]"
        entry = as_mapping(raw, where)
        named_groups = as_texts(entry.get("podGroupNames"), f"{where}.podGroupNames")
        if unknown := next((name for name in named_groups if name not in parts), None):
            raise InvalidObjectError(f"{where}.podGroupNames", f"there is no other pod group {shortened(unknown)}")
        below = tuple(parts.pop(name) for name in dict.fromkeys(named_groups))
        set_name = f"{as_text(entry.get('name'), f'{where}.name')} (set)"
        if set_name in set_names:
            raise InvalidObjectError(f"{where}.name", f"{shortened(entry['name'])} is there twice")
        set_names.add(set_name)
        children.append(SubGroup(set_name, groups=len(below), children=below, near=packed(entry, where)))
    children += parts.values()
    tree = SubGroup(groups=len(children), children=tuple(children))

    def part_of(pod: Member) -> str | None:
        name = by_pod.get(pod.key) or pod.labels.get(GROVE_PART_LABEL, "")
        return name if name in names else None

    return tree, part_of


def packed(entry: Mapping[str, Any], where: str) -> Closeness:
    """What `topologyConstraint.packConstraint` asks for."""
    constraint = as_mapping(entry.get("topologyConstraint"), f"{where}.topologyConstraint")
    pack, at = constraint.get("packConstraint"), f"{where}.topologyConstraint.packConstraint"
    labels = as_mapping(pack, at)
    required = as_optional_text(labels.get("required"), f"{at}.required")
    preferred = as_optional_text(labels.get("preferred"), f"{at}.preferred")
    return Closeness((required,) if required else (), preferred)


def leaves_of(tree: SubGroup) -> Iterator[SubGroup]:
    """The parts without parts below."""
    if not tree.children:
        yield tree
    for child in tree.children:
        yield from leaves_of(child)


def _count(value: object, where: str) -> int | None:
    if value is None or (type(value) is int and value == 0):
        return value
    return as_positive(value, where)


# Volcano


@dataclass(frozen=True, slots=True)
class _Policy:
    """An entry of `spec.subGroupPolicy`: the pods with these labels, in one part for each value of `keys`."""

    name: str
    selector: LabelSelector | None
    keys: Sequence[str]

    def part_of(self, labels: Mapping[str, str]) -> str:
        """Empty for a pod that does not belong to it."""
        if not self.keys or (self.selector is not None and not self.selector.matches(labels)):
            return ""
        values = [labels.get(key, "") for key in self.keys]
        return BELOW.join((self.name, *values)) if all(values) else ""


def volcano_closeness(entry: Mapping[str, Any], where: str) -> Closeness:
    """What `networkTopology` of a PodGroup, or of a policy for its sub-groups, asks for: one HyperNode of as low a tier
    as possible. As in Volcano, `hard` without a highest tier bounds nothing. Raises InvalidObjectError.
    """
    at = f"{where}.networkTopology"
    if entry.get("networkTopology") is None:
        return ANYWHERE
    asked = as_mapping(entry["networkTopology"], at)
    mode, highest = asked.get("mode") or "hard", asked.get("highestTierAllowed")
    name = as_optional_text(asked.get("highestTierName"), f"{at}.highestTierName")
    if mode not in ("hard", "soft"):
        raise InvalidObjectError(f"{at}.mode", f"{shortened(mode)} is neither hard nor soft")
    if name and highest is not None:
        raise InvalidObjectError(at, "highestTierAllowed and highestTierName exclude each other")
    tier = f"named {name}" if name else "" if highest is None else as_count(highest, f"{at}.highestTierAllowed")
    return Closeness((f"tier {tier}",) if mode == "hard" and tier != "" else (), LOWEST_TIER, HYPER_NODES)


def volcano_tree(spec: Mapping[str, Any], pods: int) -> tuple[SubGroup, PartOf | None]:
    """The parts by `subGroupPolicy`, else by `minTaskMember`, of a group that needs so many `pods`. Without any, no
    PartOf. Raises InvalidObjectError.

    As in Volcano, tasks have no minimums if their sum is more than `minMember`.
    """
    policies: list[_Policy] = []
    parts: list[SubGroup] = []
    listed = as_list(spec.get("subGroupPolicy"), "spec.subGroupPolicy")
    if len(listed) > MAX_POLICIES:
        raise InvalidObjectError("spec.subGroupPolicy", f"has {len(listed)} entries, at most {MAX_POLICIES} are read")
    for index, raw in enumerate(listed):
        where = f"spec.subGroupPolicy[{index}]"
        entry = as_mapping(raw, where)
        selector = entry.get("labelSelector")
        policy = _Policy(
            name=as_optional_text(entry.get("name"), f"{where}.name") or str(index),
            selector=None if selector is None else parse_label_selector(selector, f"{where}.labelSelector"),
            keys=as_texts(entry.get("matchLabelKeys"), f"{where}.matchLabelKeys"),
        )
        if any(each.name == policy.name for each in parts):
            raise InvalidObjectError(f"{where}.name", f"{shortened(policy.name)} is there twice")
        size = entry.get("subGroupSize")
        groups = _count(entry.get("minSubGroups"), f"{where}.minSubGroups") or 0
        policies.append(policy)
        each = 1 if size is None else as_positive(size, f"{where}.subGroupSize")
        parts.append(SubGroup(policy.name, groups=groups, each=each, near=volcano_closeness(entry, where)))
    if policies:
        tree = SubGroup(pods=pods, groups=len(parts), children=tuple(parts))
        return tree, lambda pod: next(filter(None, (policy.part_of(pod.labels) for policy in policies)), "")
    raw_tasks = as_mapping(spec.get("minTaskMember"), "spec.minTaskMember")
    counts = {name: _count(count, f"spec.minTaskMember.{name}") or 0 for name, count in raw_tasks.items()}
    tasks = tuple(SubGroup(name, pods=count) for name, count in counts.items() if count)
    total = sum(task.pods for task in tasks)
    if not tasks or (pods and total > pods):
        return SubGroup(pods=pods), None
    names = frozenset(task.name for task in tasks)
    tree = SubGroup(pods=max(pods, total), groups=len(tasks), children=tasks)
    return tree, lambda pod: name if (name := pod.task or pod.labels.get(TASK_KEY, "")) in names else ""
