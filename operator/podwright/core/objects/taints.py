"""Taints and tolerations. Source: the Kubernetes documentation, "Taints and Tolerations"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.selectors import as_list, as_mapping

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

_EFFECTS: Final = frozenset({NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE})
_OPERATORS: Final = frozenset({"", "Equal", "Exists", "Lt", "Gt"})


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint, *, compare: bool = False) -> bool:
        """Whether the toleration matches the taint.

        An empty effect matches all effects, an empty key (with Exists) all keys. `compare` enables the operators Lt and Gt (feature
        gate TaintTolerationComparisonOperators); without it they match nothing.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if self.operator == "Exists":
            return True
        if not compare:
            return False
        try:
            bound, value = int(self.value), int(taint.value)
        except ValueError:
            return False
        return value < bound if self.operator == "Lt" else value > bound


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Tolerations:
    """A pod's tolerations. Compared by identity, so intern it."""

    items: tuple[Toleration, ...]

    def tolerate(self, taint: Taint, *, compare: bool = False) -> bool:
        return any(item.tolerates(taint, compare=compare) for item in self.items)


def parse_taints(raw: object, where: str) -> tuple[Taint, ...]:
    """A node's spec.taints. Raises InvalidObjectError naming the field."""
    taints = []
    for index, item in enumerate(as_list(raw, where)):
        taint = as_mapping(item, f"{where}[{index}]")
        effect = taint.get("effect")
        if effect not in _EFFECTS:
            raise InvalidObjectError(f"{where}[{index}].effect", f"{effect!r} is not a taint effect")
        taints.append(Taint(str(taint.get("key", "")), str(taint.get("value") or ""), str(effect)))
    return tuple(taints)


def parse_tolerations(raw: object, where: str) -> Tolerations:
    """A pod's spec.tolerations. Raises InvalidObjectError naming the field."""
    tolerations = []
    for index, item in enumerate(as_list(raw, where)):
        toleration = as_mapping(item, f"{where}[{index}]")
        operator = toleration.get("operator") or ""
        effect = toleration.get("effect") or ""
        if operator not in _OPERATORS:
            raise InvalidObjectError(f"{where}[{index}].operator", f"{operator!r} is not a valid operator")
        if effect and effect not in _EFFECTS:
            raise InvalidObjectError(f"{where}[{index}].effect", f"{effect!r} is not a taint effect")
        tolerations.append(
            Toleration(str(toleration.get("key") or ""), operator, str(toleration.get("value") or ""), effect)
        )
    return Tolerations(tuple(tolerations))
