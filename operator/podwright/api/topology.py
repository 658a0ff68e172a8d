"""Topology v1alpha1: which node labels are the levels of the cluster's network, the coarsest first.

Each field is declared once, in the dataclasses below: `parse_topology` decodes and validates with them, and
podwright/api/crd.py derives the CustomResourceDefinition from them. core/state/topologies.py finds the domains.
`levels_of` reads the Topology of Kueue and that of KAI, whose `spec.levels` has the same form, and `parse_hyper_node`
the HyperNode of Volcano.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from podwright.api.own_objects import CheckedStatus, accepted, checked_status, conditions, read_object
from podwright.api.policy_status import ACTIVE, Condition, UntimedCondition
from podwright.api.scheduler_policy import identity_of
from podwright.core.framework.validation import Problem, declared, unique_by
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import as_count, as_list, as_mapping, as_optional_text, as_text, entries, shortened
from podwright.core.objects.resources import is_qualified_name
from podwright.core.objects.selectors import LabelSelector, parse_label_selector
from podwright.core.objects.sub_groups import MAX_LEVELS
from podwright.core.state.hyper_nodes import HyperNode
from podwright.core.state.topologies import DomainLevel

TOPOLOGY_KIND: Final = "Topology"
TOPOLOGY_PLURAL: Final = "topologies"
HYPER_NODE_KIND: Final = "HyperNode"
MAX_PATTERNS: Final = 64
"""How many patterns a HyperNode may have."""


@dataclass(frozen=True, slots=True)
class TopologyLevel:
    node_label: str = declared(
        "The key of a node label. Nodes with the same value of it, and of the labels of the levels above, are one "
        "domain.",
        minLength=1,
        maxLength=316,
    )


@dataclass(frozen=True, slots=True)
class TopologySpec:
    levels: tuple[TopologyLevel, ...] = declared(
        "The levels, the coarsest first: zone, block, rack, host.",
        minItems=1,
        maxItems=MAX_LEVELS,
        **unique_by("nodeLabel"),
    )

    def validate(self, where: str) -> Iterator[Problem]:
        for index, level in enumerate(self.levels):
            if not is_qualified_name(level.node_label):
                yield f"{where}.levels[{index}].nodeLabel", f"{level.node_label!r} is not a label key"


@dataclass(frozen=True, slots=True)
class TopologyCondition(Condition):
    type: str = declared("Accepted (the topology is valid) or Active (nodes have its labels).", maxLength=316)
    reason: str = declared("Accepted: Accepted, Invalid. Active: Labelled, LabelsMissing, NotAccepted.", maxLength=1024)


@dataclass(frozen=True, slots=True)
class LevelStatus:
    node_label: str = declared("The label of the level.", maxLength=316)
    domains: int = declared("How many domains the level has.", format="int32", minimum=0)
    nodes: int = declared("How many nodes are in a domain of the level.", format="int32", minimum=0)


@dataclass(frozen=True, slots=True)
class TopologyStatus(CheckedStatus):
    conditions: tuple[TopologyCondition, ...] = conditions()
    levels: tuple[LevelStatus, ...] = declared("The levels as they are in force.", default=(), maxItems=MAX_LEVELS)


def parse_topology(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels of the levels. Raises InvalidObjectError naming the topology and every field that is wrong."""
    return read_object(
        raw, TOPOLOGY_KIND, TopologySpec, lambda found: tuple(level.node_label for level in found.spec.levels)
    )


def levels_of(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels of the levels of a Topology of Kueue or KAI. Raises InvalidObjectError."""
    levels = as_list(as_mapping(raw.get("spec"), "spec").get("levels"), "spec.levels")
    if not 0 < len(levels) <= MAX_LEVELS:
        raise InvalidObjectError("spec.levels", f"has {len(levels)} entries, 1 to {MAX_LEVELS} are read")
    labels = [as_text(as_mapping(each, "spec.levels").get("nodeLabel"), "spec.levels.nodeLabel") for each in levels]
    return tuple(dict.fromkeys(labels))


def parse_hyper_node(raw: Mapping[str, Any]) -> HyperNode:
    """The HyperNode. As in Volcano, an empty `labelMatch` picks no node. Raises InvalidObjectError naming it and the
    field.
    """
    try:
        return _hyper_node(as_mapping(raw.get("spec"), "spec"))
    except InvalidObjectError as error:
        raise error.in_object(HYPER_NODE_KIND, identity_of(raw)[0]) from error


def _hyper_node(spec: Mapping[str, Any]) -> HyperNode:
    nodes, members = set[str](), set[str]()
    patterns, selectors = list[str](), list[LabelSelector]()
    for at, member in entries(spec.get("members"), "spec.members"):
        kind, where = member.get("type"), f"{at}.selector"
        selector = as_mapping(member.get("selector"), where)
        exact = as_mapping(selector.get("exactMatch"), f"{where}.exactMatch")
        if kind not in ("Node", HYPER_NODE_KIND):
            raise InvalidObjectError(f"{at}.type", f"{shortened(kind)} is neither Node nor HyperNode")
        if exact or kind == HYPER_NODE_KIND:
            picked = nodes if kind == "Node" else members
            picked.add(as_text(exact.get("name"), f"{where}.exactMatch.name"))
        elif selector.get("regexMatch") is not None:
            if len(patterns) == MAX_PATTERNS:
                raise InvalidObjectError(where, f"at most {MAX_PATTERNS} patterns are read")
            found = as_mapping(selector["regexMatch"], f"{where}.regexMatch").get("pattern")
            patterns.append(_pattern(found, f"{where}.regexMatch.pattern"))
        elif selector.get("labelMatch"):
            selectors.append(parse_label_selector(selector["labelMatch"], f"{where}.labelMatch"))
    return HyperNode(
        tier=as_count(spec.get("tier"), "spec.tier"),
        tier_name=as_optional_text(spec.get("tierName"), "spec.tierName"),
        nodes=frozenset(nodes),
        patterns=tuple(dict.fromkeys(patterns)),
        selectors=tuple(each for each in selectors if not each.empty),
        members=frozenset(members),
    )


def _pattern(raw: object, where: str) -> str:
    from podwright.core.cel.errors import EvaluationError  # noqa: PLC0415 -- patterns are rare
    from podwright.core.cel.library.regexes import check_pattern  # noqa: PLC0415 -- as above

    pattern = as_text(raw, where)
    try:
        check_pattern(pattern)
    except EvaluationError as error:
        raise InvalidObjectError(where, str(error)) from error
    return pattern


def status_of(
    levels: Sequence[DomainLevel] | None,
    nodes: int,
    *,
    generation: int,
    problem: str,
    previous: Mapping[str, Any],
    now: str,
) -> dict[str, Any]:
    """The status of a topology. `levels`: those in force, None without any. `nodes`: their number. `problem`: of this
    generation, "" without one. `now`: an RFC 3339 time.
    """
    found = [(level.label, len(level), int((level.codes >= 0).sum())) for level in levels or ()]
    lacking = next((f"{nodes - have} of {nodes} nodes lack {label}" for label, _, have in found if have < nodes), "")
    if not found:
        active = UntimedCondition(ACTIVE, False, "NotAccepted", "The topology is not valid, and has no domains.")
    elif lacking:
        text = f"{lacking} or a label of a level above, and are in no domain of that level."
        active = UntimedCondition(ACTIVE, found[-1][1] > 0, "LabelsMissing", text)
    else:
        active = UntimedCondition(ACTIVE, True, "Labelled", "All nodes have all labels.")
    return {
        **checked_status((accepted("topology", problem), active), generation=generation, previous=previous, now=now),
        "levels": [{"nodeLabel": label, "domains": domains, "nodes": have} for label, domains, have in found],
    }
