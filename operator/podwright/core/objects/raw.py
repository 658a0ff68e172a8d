"""Reads raw JSON: values of the expected type, or an InvalidObjectError that names the field and the type found.

Every parser of Kubernetes objects uses these. The project's own documents (policies, configuration, requests) are
dataclasses, which `framework.args.decode` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from podwright.core.objects.errors import InvalidObjectError

T = TypeVar("T")
Raw = Mapping[str, Any]
"""An object of the API as it came. It may be malformed."""

MAX_PROBLEMS: Final = 8
"""At most this many problems of one object are kept, so that one object cannot fill the log."""


def value_at(raw: object, *path: str) -> Any:
    """The value at this path, or None. The object may be malformed."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw


def mapping_at(raw: object, *path: str) -> Mapping[str, Any]:
    """Likewise; empty if it is no object."""
    found = value_at(raw, *path)
    return found if isinstance(found, Mapping) else {}


def condition_of(raw: object, kind: str) -> Mapping[str, Any]:
    """The condition of this type in the object's status; empty without one. The object may be malformed."""
    for condition in value_at(raw, "status", "conditions") or ():
        if isinstance(condition, Mapping) and condition.get("type") == kind:
            return condition
    return {}


def as_mapping(raw: object, where: str) -> Mapping[str, Any]:
    """`raw` as a mapping; None as an empty one. Raises InvalidObjectError for anything else."""
    if type(raw) is dict:  # the usual case, and much cheaper to check than Mapping
        return raw
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise InvalidObjectError(where, f"expected an object, got {json_type(raw)}")
    return raw


def as_list(raw: object, where: str) -> Sequence[Any]:
    """`raw` as a list; None as an empty one. Raises InvalidObjectError for anything else."""
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        raise InvalidObjectError(where, f"expected a list, got {json_type(raw)}")
    return raw


def entries(raw: object, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a list, each with its path. Raises InvalidObjectError for anything else."""
    for index, item in enumerate(as_list(raw, where)):
        at = f"{where}[{index}]"
        yield at, as_mapping(item, at)


def as_positive(raw: object, where: str) -> int:
    """`raw` as a whole number. Raises InvalidObjectError for anything else and for a number below 1."""
    if type(raw) is not int or raw < 1:
        raise InvalidObjectError(where, "expected a whole number of at least 1")
    return raw


def as_labels(raw: object, where: str) -> dict[str, str]:
    """`raw` as a map of strings; None as an empty one. Raises InvalidObjectError if a value is not a string."""
    labels = as_mapping(raw, where)
    for key, value in labels.items():
        if not isinstance(value, str):
            raise InvalidObjectError(f"{where}[{key}]", f"expected a string, got {json_type(value)}")
    return dict(labels)


def as_text(raw: object, where: str) -> str:
    """A string that is not empty. Raises InvalidObjectError."""
    if not isinstance(raw, str) or not raw:
        raise InvalidObjectError(where, f"expected a text, got {shortened(raw) if raw == '' else json_type(raw)}")
    return raw


def as_optional_text(raw: object, where: str) -> str:
    """A string, or "". Raises InvalidObjectError."""
    return "" if raw is None or raw == "" else as_text(raw, where)


def as_count(raw: object, where: str) -> int:
    """A whole number, or 0. Raises InvalidObjectError."""
    if raw is None:
        return 0
    if type(raw) is not int:
        raise InvalidObjectError(where, f"expected a whole number, got {json_type(raw)}")
    return raw


def as_flag(raw: object, where: str) -> bool:
    """A boolean, or False. Raises InvalidObjectError."""
    if raw is None:
        return False
    if not isinstance(raw, bool):
        raise InvalidObjectError(where, f"expected a boolean, got {json_type(raw)}")
    return raw


def as_texts(raw: object, where: str) -> tuple[str, ...]:
    """A list of strings. Raises InvalidObjectError."""
    return tuple(as_text(item, f"{where}[{i}]") for i, item in enumerate(as_list(raw, where)))


class Problems(list[InvalidObjectError]):
    """The parts of one object that are left out because they cannot be understood, the first few of them."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__()
        self._kind = kind
        self._name = name

    def note(self, error: InvalidObjectError) -> None:
        if len(self) < MAX_PROBLEMS:
            self.append(error.in_object(self._kind, self._name))

    def items(self, raw: object, where: str, parse: Callable[[Mapping[str, Any], str], T]) -> Iterator[T]:
        """The items of a list of objects that can be parsed. `parse` raises InvalidObjectError."""
        for at, item in self.listed(raw, where):
            try:
                yield parse(as_mapping(item, at), at)
            except InvalidObjectError as error:
                self.note(error)

    def listed(self, raw: object, where: str) -> Sequence[tuple[str, Any]]:
        """The items of a list, each with its path; none if it is no list."""
        try:
            return [(f"{where}[{i}]", item) for i, item in enumerate(as_list(raw, where))]
        except InvalidObjectError as error:
            self.note(error)
            return ()

    def mapping(self, raw: object, where: str) -> Mapping[str, Any]:
        """An object, empty if it is not one."""
        try:
            return as_mapping(raw, where)
        except InvalidObjectError as error:
            self.note(error)
            return {}


def json_type(value: object) -> str:
    """The JSON type of a parsed value, with its article: `a string`, `an object`, `null`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, Mapping):
        return "an object"
    words: dict[type, str] = {int: "a number", float: "a number", str: "a string", list: "a list", tuple: "a list"}
    return words.get(type(value), f"a value of type {type(value).__name__}")


def shortened(value: object, length: int = 80) -> str:
    """`repr` of a value from an object, cut to `length` characters. Python cannot write numbers of thousands of
    digits.
    """
    if isinstance(value, int) and value.bit_length() > 4 * length:
        return f"a number of {value.bit_length()} bits"
    try:
        return repr(value)[:length]
    except ValueError:  # such a number inside a list or an object
        return f"a {type(value).__name__}"
