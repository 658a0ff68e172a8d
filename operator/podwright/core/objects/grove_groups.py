"""PodGangs of Grove (`scheduler.grove.io/v1alpha1`), and how their pods name their pod groups.

Sources: Grove's `scheduler/api/core/v1alpha1/podgang.go` and `operator/api/common/labels.go` at fcc3b3bb.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podwright.core.objects.closeness import Closeness
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import as_mapping, as_optional_text, as_text, as_texts, entries, shortened
from podwright.core.objects.sub_groups import Member, PartOf, SubGroup, count_of

GROVE_PART_LABEL: Final = "grove.io/podclique"


def grove_tree(spec: Mapping[str, Any]) -> tuple[SubGroup, PartOf]:
    """The tree of a PodGang: its pod groups, those of a `topologyConstraintGroupConfigs` below a part of their own. All
    of them are needed. Pods belong to the group that refers to them, else to that which their label names. Raises
    InvalidObjectError.
    """
    parts: dict[str, SubGroup] = {}
    by_pod: dict[str, str] = {}
    for where, entry in entries(spec.get("podgroups"), "spec.podgroups"):
        name = as_text(entry.get("name"), f"{where}.name")
        if name in parts:
            raise InvalidObjectError(f"{where}.name", f"{shortened(name)} is there twice")
        pods = count_of(entry.get("minReplicas"), f"{where}.minReplicas") or 0
        parts[name] = SubGroup(name, pods=pods, near=packed(entry, where))
        for _, named in entries(entry.get("podReferences"), f"{where}.podReferences"):
            by_pod[f"{named.get('namespace')}/{named.get('name')}"] = name
    names, set_names, children = frozenset(parts), set[str](), []
    configs = spec.get("topologyConstraintGroupConfigs")
    for where, entry in entries(configs, "spec.topologyConstraintGroupConfigs"):
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
    """Parses `topologyConstraint.packConstraint`. Raises InvalidObjectError."""
    constraint = as_mapping(entry.get("topologyConstraint"), f"{where}.topologyConstraint")
    pack, at = constraint.get("packConstraint"), f"{where}.topologyConstraint.packConstraint"
    labels = as_mapping(pack, at)
    required = as_optional_text(labels.get("required"), f"{at}.required")
    preferred = as_optional_text(labels.get("preferred"), f"{at}.preferred")
    return Closeness((required,) if required else (), preferred)


def reused_gang(spec: Mapping[str, Any], namespace: str) -> str:
    """The name of the gang whose room this gang takes over. Empty if the spec names no gang, or one of another
    namespace. Raises InvalidObjectError.
    """
    where = "spec.reuseReservationRef"
    named = as_mapping(spec.get("reuseReservationRef"), where)
    name, there = (as_optional_text(named.get(key), f"{where}.{key}") for key in ("name", "namespace"))
    return name if there in ("", namespace) else ""
