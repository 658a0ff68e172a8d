"""PodTopologySpreadArgs, with kube-scheduler's defaults and validation, and the System default constraints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Literal

from podwright.core.framework.args import INT32
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.node import HOSTNAME

ZONE: Final = "topology.kubernetes.io/zone"

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")


@dataclass(frozen=True)
class DefaultConstraint:
    """A v1.TopologySpreadConstraint for pods that have none of their own. Each pod gets its own selector."""

    max_skew: int = field(metadata=INT32)
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: Mapping[str, Any] | None = None
    min_domains: int | None = field(default=None, metadata=INT32)
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    match_label_keys: tuple[str, ...] = ()

    def validate(self, where: str) -> Iterator[tuple[str, str]]:
        if self.max_skew <= 0:
            yield f"{where}.maxSkew", f"Invalid value: {self.max_skew}: not in valid range (0, inf)"
        if not self.topology_key:
            yield f"{where}.topologyKey", "Required value: can not be empty"
        elif not _is_label_key(self.topology_key):
            yield f"{where}.topologyKey", f'Invalid value: "{self.topology_key}": not a qualified name'
        if self.label_selector is not None:
            problem = "Forbidden: constraint must not define a selector, as they deduced for each pod"
            yield f"{where}.labelSelector", problem


@dataclass(frozen=True)
class PodTopologySpreadArgs:
    """`defaultConstraints` apply to pods without constraints. `defaultingType` System means a built-in list."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: str = "System"

    def __post_init__(self) -> None:
        if not self.defaulting_type:
            object.__setattr__(self, "defaulting_type", "System")

    def validate(self, where: str) -> Iterator[tuple[str, str]]:
        if self.defaulting_type not in ("System", "List"):
            supported = 'supported values: "System", "List"'
            yield f"{where}.defaultingType", f'Unsupported value: "{self.defaulting_type}": {supported}'
        if self.defaulting_type == "System" and self.default_constraints:
            problem = 'Invalid value: "System": when .defaultConstraints are not empty'
            yield f"{where}.defaultingType", problem
        seen = set()
        for i, constraint in enumerate(self.default_constraints):
            yield from constraint.validate(f"{where}.defaultConstraints[{i}]")
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in seen:
                yield f"{where}.defaultConstraints[{i}]", f'Duplicate value: "{{{pair[0]}, {pair[1]}}}"'
            seen.add(pair)

    @property
    def constraints(self) -> tuple[DefaultConstraint, ...]:
        """The constraints of pods that have none of their own."""
        return SYSTEM_DEFAULTS if self.defaulting_type == "System" else self.default_constraints


SYSTEM_DEFAULTS: Final = (
    DefaultConstraint(3, HOSTNAME, "ScheduleAnyway"),
    DefaultConstraint(5, ZONE, "ScheduleAnyway"),
)


def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.match(prefix)):
        return False
    return bool(_NAME.match(name))
