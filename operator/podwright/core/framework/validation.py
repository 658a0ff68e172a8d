"""Validation rules that are written once: CEL for the API server and its Python twin for the operator, side by side.

A dataclass that args.py decodes lists its rules in a class variable `RULES`; `describe` lists those of a field's value.
`decode` checks them, `json_schema_of` puts them into the schema.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass

Problem = tuple[str, str]
"""(field path, what is wrong with it)"""
SHOWN_PROBLEMS: Final = 10
"""How many problems a message names."""


def summary(problems: Sequence[Problem]) -> str:
    """The problems in a text of bounded length."""
    texts = [f"{where:.500}: {problem:.2000}" for where, problem in problems[:SHOWN_PROBLEMS]]
    more = len(problems) - len(texts)
    return "; ".join([*texts, *([f"and {more} more"] if more else ())])


QUANTITY_FORM: Final = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,3})?$"
DURATION_FORM: Final = r"^(0|([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$"
NAMED_FORMS: Final = {
    QUANTITY_FORM: "a quantity of 0 or more, such as 8 or 500m",
    DURATION_FORM: "a duration of 0 or more, such as 90s or 1h30m",
}
"""Patterns that messages call by their name."""

# Schema keywords: what makes the entries of a list distinct.
ATOMIC: Final[Mapping[str, Any]] = {"x-kubernetes-list-type": "atomic"}
SET: Final[Mapping[str, Any]] = {"x-kubernetes-list-type": "set"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Something that must hold for a value, beyond the bounds of its fields.

    `cel` is the rule for the API server, where `self` is the value; without it, only the operator checks the rule. Its
    Python twin is either `holds`, which is true for a valid value, or `violations`, which yields the path of each
    violation, relative to the value. `path` is the path for the API server, and for `holds`.

    `message` says what is wrong. It may name fields, as in "not {self.type}", if `fallback` says the same without them.
    `reason` is the API server's reason, such as FieldValueRequired.
    """

    message: str
    fallback: str = ""
    path: str = ""
    cel: str = ""
    holds: Callable[[Any], bool] | None = None
    violations: Callable[[Any], Iterable[str]] | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.holds is None) == (self.violations is None):
            raise TypeError(f"rule {self.message!r} needs either holds or violations")

    def problems(self, value: Any, where: str) -> Iterator[Problem]:
        """The violations in `value`, whose path is `where`."""
        message = self.message.format(self=value) if self.fallback else self.message
        for path in self._violations(value):
            yield where + path, message

    def _violations(self, value: Any) -> Iterable[str]:
        if self.violations is not None:
            return self.violations(value)
        return () if self.holds is None or self.holds(value) else (self.path,)

    def schema(self) -> dict[str, str]:
        """The entry of `x-kubernetes-validations`."""
        found = {"rule": self.cel}
        if self.fallback:
            found |= {"messageExpression": _cel_text(self.message), "message": self.fallback}
        else:
            found["message"] = self.message
        if self.path:
            found["fieldPath"] = self.path
        return found | {"reason": self.reason} if self.reason else found


def key_path(key: str) -> str:
    """The path from an object to its entry `key`: ".key", or "[key]" if the key is not an identifier. Long keys are
    cut.
    """
    return f".{key:.80}" if key.isidentifier() else f"[{key:.80}]"


def path_text(path: Iterable[str]) -> str:
    """The path of the entry that these keys lead to, from the root."""
    return "".join(map(key_path, path)).removeprefix(".")


def child_path(where: str, key: str) -> str:
    """The path of the entry `key` of the object at `where`; "" is the root."""
    return where + key_path(key) if where else key


def describe(
    description: str, *, rules: Iterable[Rule] = (), keys: Mapping[str, str] | None = None, **schema: Any
) -> dict[str, Any]:
    """Metadata of a dataclass field: its description, JSON schema keywords, rules on its value.

    `keys` is for a mapping: the keys that it may have, each with its description.
    """
    return {"description": description, "schema": schema, "rules": tuple(rules), "keys": keys}


def declared(
    description: str,
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    rules: Iterable[Rule] = (),
    keys: Mapping[str, str] | None = None,
    **schema: Any,
) -> Any:
    """A dataclass field with such metadata. Without a default, a value is required."""
    given: dict[str, Any] = {"default": default, "default_factory": default_factory}
    return field(**given, metadata=describe(description, rules=rules, keys=keys, **schema))


def whole_number(description: str, minimum: int, maximum: int, *, default: Any = MISSING) -> Any:
    """The same, with a number of at most 32 bits."""
    return declared(description, default=default, format="int32", minimum=minimum, maximum=maximum)


def unique_by(key: str) -> Mapping[str, Any]:
    """Schema keywords of a list in which no two entries have the same `key`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def cel_schema(rules: Iterable[Rule]) -> dict[str, Any]:
    """Returns the schema keyword for the rules that the API server checks; empty without such rules."""
    found = [rule.schema() for rule in rules if rule.cel]
    return {"x-kubernetes-validations": found} if found else {}


def _cel_text(template: str) -> str:
    """The CEL expression for a message, for example 'not ' + self.type for "not {self.type}"."""
    parts: list[str] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        if literal:
            parts.append(f"'{literal}'")
        if name:
            parts.append(name)
    return " + ".join(parts)
