"""Taints and tolerations. Source: the Kubernetes documentation, "Taints and Tolerations"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.integers import decimal_of
from podwright.core.objects.raw import as_mapping, entries, shortened

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"

_EFFECTS: Final = frozenset({NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE})
_OPERATORS: Final = frozenset({"", "Equal", "Exists", "Lt", "Gt"})
_FEW_TOLERATIONS: Final = 8
_MANAGED: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node or of a device."""

    key: str
    value: str
    effect: str

    @property
    def prevents(self) -> bool:
        """True if it keeps pods that do not tolerate it away."""
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)

    @property
    def managed(self) -> bool:
        """True if the control plane sets and removes the taint."""
        return self.key.startswith(_MANAGED)

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod or of a request for devices."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint, *, compare: bool = False) -> bool:
        """True if the toleration matches the taint.

        An empty effect matches all effects, an empty key (with Exists) all keys. `compare` enables the operators Lt and
        Gt (feature gate TaintTolerationComparisonOperators); without it they match nothing.
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
        bound, value = decimal_of(self.value), decimal_of(taint.value)
        if bound is None or value is None:
            return False
        return value < bound if self.operator == "Lt" else value > bound


class _Index:
    """Many tolerations by what they match. Each entry is (key, effect), with the value where that matters; "" means
    all.
    """

    __slots__ = ("_above", "_all_values", "_below", "_one_value")

    def __init__(self, items: Iterable[Toleration]) -> None:
        self._all_values: set[tuple[str, str]] = set()
        self._one_value: set[tuple[str, str, str]] = set()
        self._above: dict[tuple[str, str], int] = {}
        """The least number of Gt."""
        self._below: dict[tuple[str, str], int] = {}
        """The greatest number of Lt."""
        for item in items:
            where = (item.key, item.effect)
            if item.operator == "Exists":
                self._all_values.add(where)
            elif item.operator in ("", "Equal"):
                self._one_value.add((*where, item.value))
            elif (bound := decimal_of(item.value)) is not None:
                if item.operator == "Gt":
                    self._above[where] = min(bound, self._above.get(where, bound))
                else:
                    self._below[where] = max(bound, self._below.get(where, bound))

    def tolerate(self, taint: Taint, *, compare: bool) -> bool:
        places = ((taint.key, taint.effect), (taint.key, ""), ("", taint.effect), ("", ""))
        if any(where in self._all_values or (*where, taint.value) in self._one_value for where in places):
            return True
        number = decimal_of(taint.value) if compare else None
        if number is None:
            return False
        return any(
            number > self._above.get(where, number) or number < self._below.get(where, number) for where in places
        )


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Tolerations:
    """A pod's tolerations. Compared by identity, so intern it."""

    items: tuple[Toleration, ...]
    _index: _Index | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.items) > _FEW_TOLERATIONS:
            object.__setattr__(self, "_index", _Index(self.items))

    def tolerate(self, taint: Taint, *, compare: bool = False) -> bool:
        if self._index is not None:
            return self._index.tolerate(taint, compare=compare)
        return any(item.tolerates(taint, compare=compare) for item in self.items)


def parse_taints(raw: object, where: str) -> tuple[Taint, ...]:
    """A node's spec.taints. Raises InvalidObjectError naming the field."""
    return tuple(parse_taint(taint, at) for at, taint in entries(raw, where))


def parse_taint(raw: object, where: str) -> Taint:
    """A v1.Taint. Raises InvalidObjectError naming the field."""
    taint = as_mapping(raw, where)
    effect = taint.get("effect")
    if not isinstance(effect, str) or effect not in _EFFECTS:
        raise InvalidObjectError(f"{where}.effect", f"{shortened(effect)} is not a taint effect")
    return Taint(str(taint.get("key", "")), str(taint.get("value") or ""), effect)


def parse_tolerations(raw: object, where: str) -> Tolerations:
    """A pod's spec.tolerations. Raises InvalidObjectError naming the field."""
    tolerations = []
    for at, toleration in entries(raw, where):
        operator = toleration.get("operator") or ""
        effect = toleration.get("effect") or ""
        if not isinstance(operator, str) or operator not in _OPERATORS:
            raise InvalidObjectError(f"{at}.operator", f"{shortened(operator)} is not a valid operator")
        if not isinstance(effect, str) or (effect and effect not in _EFFECTS):
            raise InvalidObjectError(f"{at}.effect", f"{shortened(effect)} is not a taint effect")
        tolerations.append(
            Toleration(str(toleration.get("key") or ""), operator, str(toleration.get("value") or ""), effect)
        )
    return Tolerations(tuple(tolerations))
