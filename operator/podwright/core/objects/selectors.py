"""Label selectors and node selectors.

A nil label selector matches nothing, an empty one everything. A node selector matches if one of its terms matches; an
empty term matches nothing. Sources: the Kubernetes API reference, "LabelSelector" and "NodeSelectorTerm".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.integers import int64_of
from podwright.core.objects.raw import as_labels, as_list, as_mapping, shortened

Labels = Mapping[str, str]

_LABEL_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_NODE_OPERATORS: Final = _LABEL_OPERATORS | {"Gt", "Lt"}
_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")
_BOUNDS: Final = ("Gt", "Lt")


@dataclass(frozen=True, slots=True)
class Requirement:
    """`key operator values`. `bound` is the integer of Gt and Lt; None if their value is invalid, and then nothing
    matches.
    """

    key: str
    operator: str
    values: frozenset[str]
    bound: int | None = 0

    def matches_value(self, value: str | None) -> bool:
        """True if a label with this value (None if absent) meets the requirement."""
        if value is None:
            return self.operator in ("NotIn", "DoesNotExist")
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return True
            case "DoesNotExist":
                return False
        number = int64_of(value)
        if number is None or self.bound is None:
            return False
        return number > self.bound if self.operator == "Gt" else number < self.bound

    def matches(self, labels: Labels) -> bool:
        return self.matches_value(labels.get(self.key))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LabelSelector:
    """Requirements that must all hold. `nothing` is True for the nil selector. Compared by identity, so intern it."""

    requirements: tuple[Requirement, ...]
    nothing: bool = False

    def matches(self, labels: Labels) -> bool:
        if self.nothing:
            return False
        return all(requirement.matches_value(labels.get(requirement.key)) for requirement in self.requirements)

    @property
    def empty(self) -> bool:
        """True if it matches everything."""
        return not self.requirements and not self.nothing


def value_count(selector: LabelSelector) -> int:
    """The number of values in all requirements of a selector."""
    return sum(len(requirement.values) for requirement in selector.requirements)


NOTHING: Final = LabelSelector((), nothing=True)
EVERYTHING: Final = LabelSelector(())


def all_of(selectors: Iterable[LabelSelector]) -> LabelSelector:
    """A selector of what all of these match."""
    bounds = [selector for selector in selectors if not selector.empty]
    if len(bounds) < 2:
        return bounds[0] if bounds else EVERYTHING
    if any(selector.nothing for selector in bounds):
        return NOTHING
    return LabelSelector(tuple(requirement for selector in bounds for requirement in selector.requirements))


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Label and field requirements that must all hold. A term without requirements matches no node."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, labels: Labels, name: str) -> bool:
        if not self.expressions and not self.fields:
            return False
        return all(r.matches_value(name) for r in self.fields) and all(
            r.matches_value(labels.get(r.key)) for r in self.expressions
        )


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NodeSelector:
    """Terms of which at least one must match. Compared by identity, so intern it."""

    terms: tuple[NodeSelectorTerm, ...]

    def matches(self, labels: Labels, name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)


def parse_label_selector(raw: object, where: str) -> LabelSelector:
    """A metav1.LabelSelector. Raises InvalidObjectError naming the field."""
    if raw is None:
        return NOTHING
    selector = as_mapping(raw, where)
    requirements = [
        Requirement(key, "In", frozenset((value,)))
        for key, value in as_labels(selector.get("matchLabels"), f"{where}.matchLabels").items()
    ]
    requirements += _requirements(selector, "matchExpressions", where, _LABEL_OPERATORS)
    return LabelSelector(tuple(requirements)) if requirements else EVERYTHING


def parse_node_selector(raw: object, where: str, *, allow_invalid_bounds: bool = False) -> NodeSelector:
    """A v1.NodeSelector. Raises InvalidObjectError naming the field. `allow_invalid_bounds`: see
    `parse_node_selector_term`.
    """
    terms = as_list(as_mapping(raw, where).get("nodeSelectorTerms"), f"{where}.nodeSelectorTerms")
    return NodeSelector(
        tuple(
            parse_node_selector_term(term, f"{where}.nodeSelectorTerms[{i}]", allow_invalid_bounds=allow_invalid_bounds)
            for i, term in enumerate(terms)
        )
    )


def parse_node_selector_term(raw: object, where: str, *, allow_invalid_bounds: bool = False) -> NodeSelectorTerm:
    """A v1.NodeSelectorTerm. Raises InvalidObjectError naming the field.

    `allow_invalid_bounds` accepts a Gt or Lt with a value that is not an integer, as the API server does. Such a
    requirement matches nothing.
    """
    term = as_mapping(raw, where)
    expressions = _requirements(
        term, "matchExpressions", where, _NODE_OPERATORS, allow_invalid_bounds=allow_invalid_bounds
    )
    fields = _requirements(term, "matchFields", where, _NODE_OPERATORS)
    for i, field in enumerate(fields):
        if field.key != "metadata.name":
            raise InvalidObjectError(
                f"{where}.matchFields[{i}].key", f"{shortened(field.key)} is not a valid field selector key"
            )
    return NodeSelectorTerm(expressions, fields)


_NO_REQUIREMENTS: Final[tuple[Requirement, ...]] = ()


def _requirements(
    holder: Mapping[str, Any],
    name: str,
    where: str,
    operators: frozenset[str],
    *,
    allow_invalid_bounds: bool = False,
) -> tuple[Requirement, ...]:
    """The requirements in the list `name` of a term or selector. A pod may have tens of thousands: their fields are
    named only in errors.
    """
    items = holder.get(name)
    if not items:
        as_list(items, f"{where}.{name}")
        return _NO_REQUIREMENTS
    parsed = []
    for i, item in enumerate(as_list(items, f"{where}.{name}")):
        try:
            parsed.append(_requirement(item, operators, allow_invalid_bounds=allow_invalid_bounds))
        except InvalidObjectError as error:
            raise InvalidObjectError(f"{where}.{name}[{i}]{error.where}", error.problem) from error
    return tuple(parsed)


def _requirement(raw: object, operators: frozenset[str], *, allow_invalid_bounds: bool) -> Requirement:
    """Raises InvalidObjectError whose field is relative to the requirement."""
    item = raw if type(raw) is dict else as_mapping(raw, "")
    key, operator = item.get("key"), item.get("operator")
    if not isinstance(key, str) or not key:
        raise InvalidObjectError(".key", "a key is required")
    if not isinstance(operator, str) or operator not in operators:
        raise InvalidObjectError(".operator", f"{shortened(operator)} is not a valid operator")
    values = as_list(item.get("values"), ".values")
    for value in values:
        if not isinstance(value, str):
            raise InvalidObjectError(".values", "values must be strings")
    if values:
        if operator in _WITHOUT_VALUES:
            raise InvalidObjectError(".values", f"must not be given for operator {operator}")
    elif operator in _WITH_VALUES:
        raise InvalidObjectError(".values", f"must be given for operator {operator}")
    bound: int | None = 0
    if operator in _BOUNDS:
        bound = int64_of(values[0]) if len(values) == 1 else None
        if bound is None and not (allow_invalid_bounds and len(values) == 1):
            raise InvalidObjectError(".values", f"operator {operator} takes exactly one integer")
    return Requirement(key, operator, frozenset(values), bound)
