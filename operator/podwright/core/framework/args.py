"""Decodes plugin args and SchedulerPolicies into frozen dataclasses, and derives their schemas from the same
dataclasses.

A field `min_candidates` is `minCandidates` in YAML, unless its metadata gives a `name`. Field types: bool, int, float,
str, `int | str` (a quantity), `Literal`, `X | None`, `tuple[X, ...]`, `Sequence[X]`, `Mapping[str, X]`, `Any` and
nested dataclasses. Other metadata, which `validation.describe` builds:

* `description`: text for people;
* `schema`: JSON schema keywords, which `decode` enforces and `json_schema_of` repeats: those of `_CHECKS`, `items`,
  `properties` and `additionalProperties` with the same for each item, and lists of type set or map;
* `rules`: rules on the field's value. Rules on a whole dataclass are its class variable `RULES`;
* `keys`: the keys that a mapping may have, for the schema.

See validation.py for rules, and podwright/api/scheduler_policy.py for a dataclass that has all of these.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, Union

from podwright.core.framework.errors import raised_at
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.validation import NAMED_FORMS, Problem, Rule, cel_schema, child_path, summary
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import described

T = TypeVar("T")

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
_SCALARS: Final[Mapping[Any, tuple[str, str]]] = {
    bool: ("boolean", "true or false"),
    int: ("integer", "a whole number"),
    float: ("number", "a number"),
    str: ("string", "a string"),
}
INT32: Final[Mapping[str, Any]] = {"schema": {"minimum": -(2**31), "maximum": 2**31 - 1}}
"""Metadata of a field that is an int32 in kube-scheduler."""
_INT64: Final = range(-(2**63), 2**63)


class ArgsError(ProfileError):
    """Args that cannot be decoded. `problems` lists everything that is wrong; `where` and `problem` are the first
    entry.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(*problems[0])
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return summary(self.problems)


def decode_args(cls: type[T], raw: object, where: str, kind: str = "") -> T:
    """Decodes the `args` of a `pluginConfig` entry into the plugin's dataclass; None gives the defaults.

    `cls` is the plugin's `args_type`, `where` the path of `args`. `kind` is what `args.kind` must be when given;
    without it, the name of the dataclass. The dataclass's `validate(where)`, if it has one, yields further problems;
    that of a nested dataclass is for the outer one to call. Raises ArgsError, whatever the plugin's code raises.
    """
    if isinstance(raw, Mapping):
        expected = {"apiVersion": API_VERSION, "kind": kind or cls.__name__}
        given = {key: raw[key] for key in expected if raw.get(key) not in (None, "")}
        wrong = [
            (f"{where}.{key}", f"{_show(value)} should be {expected[key]!r}")
            for key, value in given.items()
            if value != expected[key]
        ]
        if wrong:
            raise ArgsError(wrong)
        raw = {key: value for key, value in raw.items() if key not in expected}
    try:
        return decode(cls, raw, where)
    except ArgsError:
        raise
    except BaseException as error:
        if passes_through(error):
            raise
        raise ArgsError([(where, f"cannot be checked: {described(error)} ({raised_at(error)})")]) from error


def decode(cls: type[T], raw: object, where: str) -> T:
    """Decodes a mapping with camelCase keys into a dataclass; None counts as an empty mapping.

    A null counts as not given. Raises ArgsError with all problems found: unknown keys, fields out of bounds, and a
    ValueError of the dataclass. Only without these does it check the rules and call `validate(where)`.
    """
    problems: list[Problem] = []
    value = _dataclass(cls, {} if raw is None else raw, where, problems)
    if not problems:
        problems += _broken_rules(value, where)
        problems += getattr(value, "validate", _no_problems)(where)
    if problems:
        raise ArgsError(problems)
    return typing.cast("T", value)


def encode(value: Any) -> Any:
    """The reverse of `decode`: a mapping with camelCase keys, without the fields that are None."""
    if type(value) in _PLAIN:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.key, getattr(value, field.name)) for field in _fields_of(type(value)))
        return {key: encode(item) for key, item in pairs if item is not None}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def key_of(field: dataclasses.Field[Any]) -> str:
    """The field's key in YAML."""
    if "name" in field.metadata:
        return str(field.metadata["name"])
    first, *rest = field.name.strip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def json_schema_of(cls: type[Any]) -> dict[str, Any]:
    """The OpenAPI v3 schema of a dataclass, with the defaults and descriptions of its fields."""
    hints = _hints(cls)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in dataclasses.fields(cls):
        description = field.metadata.get("description")
        schema = {"description": description} if description else {}
        schema |= _merged(_schema(hints[field.name]), field.metadata.get("schema", {}))
        schema |= cel_schema(field.metadata.get("rules", ()))
        if keys := field.metadata.get("keys"):
            inner = schema.pop("additionalProperties")
            schema["properties"] = {key: {"description": text, **inner} for key, text in keys.items()}
        default = _default(field)
        if default is dataclasses.MISSING:
            required.append(key_of(field))
        elif "default" not in schema and default not in (None, (), {}) and not dataclasses.is_dataclass(default):
            schema["default"] = encode(default)
        properties[key_of(field)] = schema
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = required
    return found | cel_schema(getattr(cls, "RULES", ()))


# Decoding


def _dataclass(cls: type[Any], raw: object, where: str, problems: list[Problem]) -> Any:
    if not isinstance(raw, Mapping):
        problems.append((where, f"expected an object, got {_kind(raw)}"))
        return None
    fields = [field for field in _fields_of(cls) if field.init]
    before = len(problems)
    unknown = raw.keys() - {field.key for field in fields}
    if unknown:
        known = f"; there are {', '.join(field.key for field in fields)}" if fields else ""
        problems += [(child_path(where, str(key)), f"unknown field{known}") for key in raw if key in unknown]
    values: dict[str, Any] = {}
    for field in fields:
        given = raw.get(field.key)
        if given is not None:
            path, count = child_path(where, field.key), len(problems)
            values[field.name] = _value(field.kind, given, path, problems)
            if field.schema and len(problems) == count:
                _check(field.schema, values[field.name], path, problems)
        elif field.required:
            problems.append((child_path(where, field.key), "a value is required"))
    if len(problems) > before:
        return None
    try:
        return cls(**values)
    except ValueError as error:
        problems.append((where, str(error)))
        return None


def _value(kind: Any, raw: object, where: str, problems: list[Problem]) -> Any:
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if kind in _SCALARS:
        return _scalar(kind, raw, where, problems)
    if kind is Any or kind is object:
        return raw
    if dataclasses.is_dataclass(kind):
        return _dataclass(typing.cast("type[Any]", kind), raw, where, problems)
    if origin is Literal:
        if raw not in arguments:
            problems.append((where, f"{_show(raw)} is not one of {', '.join(map(str, arguments))}"))
        return raw
    if origin in (Union, types.UnionType):
        if {int, str} <= {*arguments}:
            return _scalar(str if isinstance(raw, str) else int, raw, where, problems)
        return _value(_not_none(kind), raw, where, problems)
    if origin in (tuple, Sequence):
        if not isinstance(raw, list | tuple):
            problems.append((where, f"expected a list, got {_kind(raw)}"))
            return ()
        return tuple(_value(arguments[0], item, f"{where}[{i}]", problems) for i, item in enumerate(raw))
    if _is_mapping(kind):
        if not isinstance(raw, Mapping):
            problems.append((where, f"expected an object, got {_kind(raw)}"))
            return {}
        inner = arguments[1] if arguments else Any
        return {str(key): _value(inner, item, child_path(where, str(key)), problems) for key, item in raw.items()}
    raise TypeError(f"{where}: args cannot have fields of type {kind}")


def _scalar(kind: Any, raw: object, where: str, problems: list[Problem]) -> Any:
    fits = type(raw) is kind or (kind is float and type(raw) is int)
    too_large = fits and kind is int and raw not in _INT64
    if not fits or too_large:
        problems.append((where, f"expected {_SCALARS[kind][1]}{' of 64 bits' * too_large}, got {_kind(raw)}"))
    return raw


def _check(schema: Mapping[str, Any], value: Any, where: str, problems: list[Problem]) -> None:
    """Checks a value against schema keywords. Keywords that are for another type than that of the value do not
    apply.
    """
    for keyword, bound in schema.items():
        if keyword not in _CHECKS:
            continue
        applies, test = _CHECKS[keyword]
        if isinstance(value, applies) and (problem := test(value, bound)):
            problems.append((where, problem))
            return  # values that are too large are not checked any further
    for key, inner in schema.get("properties", {}).items() if isinstance(value, Mapping) else ():
        if value.get(key) is not None:
            _check(inner, value[key], child_path(where, key), problems)
    if "items" in schema and isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check(schema["items"], item, f"{where}[{i}]", problems)
    if "additionalProperties" in schema:
        for key, item in value.items():
            _check(schema["additionalProperties"], item, child_path(where, key), problems)
    if schema.get("x-kubernetes-list-type") == "set":
        problems += [(f"{where}[{i}]", f"{_show(item)} is listed twice") for i, item in _repeated(value)]
    if keys := schema.get("x-kubernetes-list-map-keys"):
        names = [tuple(encode(item).get(key) for key in keys) for item in value]
        problems += [(f"{where}[{i}].{keys[0]}", f"{_show(name[0])} is listed twice") for i, name in _repeated(names)]


def _repeated(items: Sequence[Any]) -> list[tuple[int, Any]]:
    """(index, item) of each item that an earlier one equals."""
    seen: set[Any] = set()
    found: list[tuple[int, Any]] = []
    for i, item in enumerate(items):
        if item in seen:
            found.append((i, item))
        seen.add(item)
    return found


_NUMBER, _LIST = (int, float), (list, tuple)
_CHECKS: Final[Mapping[str, tuple[Any, Callable[[Any, Any], str | None]]]] = {
    "minimum": (_NUMBER, lambda v, bound: None if v >= bound else f"{v} is less than {bound}"),
    "maximum": (_NUMBER, lambda v, bound: None if v <= bound else f"{v} is greater than {bound}"),
    "minLength": (str, lambda v, bound: None if len(v) >= bound else _too("short", len(v), bound, "characters")),
    "maxLength": (str, lambda v, bound: None if len(v) <= bound else _too("long", len(v), bound, "characters")),
    "minItems": (_LIST, lambda v, bound: None if len(v) >= bound else _too("few", len(v), bound, "entries")),
    "maxItems": (_LIST, lambda v, bound: None if len(v) <= bound else _too("many", len(v), bound, "entries")),
    "maxProperties": (Mapping, lambda v, bound: None if len(v) <= bound else _too("many", len(v), bound, "entries")),
    "pattern": (str, lambda v, bound: None if re.search(_anchored(bound), v) else _misshapen(v, bound)),
}
"""By keyword: the types of values to which it applies, and what is wrong with a value, None if nothing."""


def _anchored(pattern: str) -> str:
    """The pattern with a final `$` that, as in the API server, does not match before a line break."""
    return f"{pattern[:-1]}\\Z" if pattern.endswith("$") else pattern


def _misshapen(value: str, pattern: str) -> str:
    named = NAMED_FORMS.get(pattern)
    return f"{_show(value)} does not have the form {pattern}" if named is None else f"{_show(value)} is not {named}"


def _too(what: str, count: int, bound: int, unit: str) -> str:
    limit = "minimum" if what in ("short", "few") else "maximum"
    return f"too {what}: {count} {unit}, the {limit} is {bound}"


def _broken_rules(value: Any, where: str) -> Iterator[Problem]:
    """Checks the rules of a dataclass, of its fields and of everything in them."""
    if type(value) in _PLAIN:
        return
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for rule in getattr(value, "RULES", ()):
            yield from rule.problems(value, where)
        for field in _fields_of(type(value)):
            inner = getattr(value, field.name)
            if not field.rules and type(inner) in _PLAIN:
                continue
            path = child_path(where, field.key)
            for rule in field.rules:
                yield from rule.problems(inner, path)
            yield from _broken_rules(inner, path)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _broken_rules(item, child_path(where, str(key)))
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _broken_rules(item, f"{where}[{i}]")


def _no_problems(_where: str) -> list[Problem]:
    return []


# The schema


def _schema(kind: Any) -> dict[str, Any]:
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if kind in _SCALARS:
        schema = {"type": _SCALARS[kind][0]}
        return schema | {"format": "int64"} if kind is int else schema
    if kind is Any or kind is object:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if dataclasses.is_dataclass(kind):
        return json_schema_of(typing.cast("type[Any]", kind))
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"x-kubernetes-int-or-string": True} if {int, str} <= {*arguments} else _schema(_not_none(kind))
    if origin in (tuple, Sequence):
        return {"type": "array", "items": _schema(arguments[0])}
    if _is_mapping(kind):
        inner = arguments[1] if arguments else Any
        if inner is Any:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return {"type": "object", "additionalProperties": _schema(inner)}
    raise TypeError(f"args cannot have fields of type {kind}")


def _merged(schema: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    merged = schema | dict(extra)
    for key in ("items", "additionalProperties"):
        if key in schema and key in extra:
            merged[key] = _merged(schema[key], extra[key])
    return merged


# Types


_PLAIN: Final = frozenset((str, int, float, bool, type(None)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """The decoder's description of a field of a dataclass."""

    name: str
    key: str
    kind: Any
    schema: Mapping[str, Any]
    rules: Sequence[Rule]
    required: bool
    init: bool


_FIELDS: Final = "_podwright_fields"
_HINTS: Final = "_podwright_hints"
"""Attributes of a class that cache its fields and hints. So they go with the class: plugins can be reloaded."""


def _fields_of(cls: type[Any]) -> Sequence[_Field]:
    known: Sequence[_Field] | None = cls.__dict__.get(_FIELDS)
    if known is None:
        known = tuple(_read_fields(cls))
        setattr(cls, _FIELDS, known)
    return known


def _read_fields(cls: type[Any]) -> Iterator[_Field]:
    hints = _hints(cls)
    for field in dataclasses.fields(cls):
        yield _Field(
            name=field.name,
            key=key_of(field),
            kind=hints[field.name],
            schema=field.metadata.get("schema", {}),
            rules=tuple(field.metadata.get("rules", ())),
            required=field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
            init=field.init,
        )


def _hints(cls: type[Any]) -> dict[str, Any]:
    known: dict[str, Any] | None = cls.__dict__.get(_HINTS)
    if known is None:
        known = typing.get_type_hints(cls)
        setattr(cls, _HINTS, known)
    return known


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _not_none(kind: Any) -> Any:
    inner = [argument for argument in typing.get_args(kind) if argument is not type(None)]
    if len(inner) != 1:
        raise TypeError(f"args cannot have fields of type {kind}")
    return inner[0]


def _is_mapping(kind: Any) -> bool:
    origin = typing.get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Mapping)


# Words


def _kind(raw: object) -> str:
    if isinstance(raw, Mapping):
        return "an object"
    if isinstance(raw, list | tuple):
        return "a list"
    if raw is None:
        return "null"
    words = {kind: words for kind, (_, words) in _SCALARS.items()}.get(type(raw), type(raw).__name__)
    return words if isinstance(raw, bool) else f"{words.removeprefix('a ')} {_show(raw)}"


def _show(raw: object) -> str:
    return f"{raw!r:.60}"
