"""The types of CEL, as a checked tree and declarations of variables use them.

A type is immutable and compares by its name and parameters. `fields` and `size` only describe declarations: the fields
of an object type, and the greatest size of a value, which the estimate of the cost needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Final

from podwright.core.objects.dataclass import dataclass

_NO_FIELDS: Final[Mapping[str, Type]] = MappingProxyType({})


@dataclass(frozen=True)
class Type:
    """A type. `name` is as in CEL's error messages: `int`, `list`, `map`, `kubernetes.Quantity`.

    `is_object` says that the type has fields and can be compared with null, as messages can. `size` is the greatest
    number of code points, bytes or elements of a value, None if it has no bound.
    """

    name: str
    parameters: tuple[Type, ...] = ()
    is_object: bool = field(default=False, compare=False)
    fields: Mapping[str, Type] = field(default_factory=lambda: _NO_FIELDS, compare=False, hash=False)
    size: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    def sized(self, size: int) -> Type:
        """The same type with a bound for the size of its values."""
        return replace(self, size=size)


BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DYN: Final = Type("dyn")
ANY: Final = Type("any")
ERROR: Final = Type("error")
DURATION: Final = Type("google.protobuf.Duration")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
TYPE: Final = Type("type")
LIST: Final = Type("list")
MAP: Final = Type("map")
OPTIONAL: Final = Type("optional_type")

QUANTITY: Final = Type("kubernetes.Quantity", is_object=True)
SEMVER: Final = Type("kubernetes.Semver", is_object=True)
URL: Final = Type("kubernetes.URL", is_object=True)
FORMAT: Final = Type("kubernetes.NamedFormat", is_object=True)
IP: Final = Type("net.IP")
CIDR: Final = Type("net.CIDR")

A: Final = Type("A")
"""A parameter of the overloads of generic functions."""


def list_of(element: Type, size: int | None = None) -> Type:
    """A list, of at most `size` elements."""
    return Type("list", (element,), size=size)


def map_of(key: Type, value: Type, size: int | None = None) -> Type:
    """A map, of at most `size` entries."""
    return Type("map", (key, value), size=size)


def optional_of(value: Type) -> Type:
    """An optional value."""
    return Type("optional_type", (value,))


def object_of(name: str, fields: Mapping[str, Type]) -> Type:
    """An object with typed fields. A field that is not listed is an error in every expression. `name` has a dot:
    `podwright.Pod`.
    """
    return Type(name, is_object=True, fields=MappingProxyType(dict(fields)))
