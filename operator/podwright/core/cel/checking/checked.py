"""Reads a serialized `cel.expr.CheckedExpr` into a tree.

The message is read field by field, since deep expressions exceed the nesting that protobuf's parser allows. Source of
the numbers: `cel/expr/checked.proto` and `cel/expr/syntax.proto` of cel-spec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from math import isinf
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.checking.tree import (
    Call,
    Comprehension,
    Const,
    Entry,
    Ident,
    ListExpr,
    MapExpr,
    Select,
    TreeNode,
)
from podwright.core.cel.errors import CelError, Issue
from podwright.core.cel.types import Type
from podwright.core.cel.values import Uint, Value
from podwright.core.objects.dataclass import dataclass

MAX_DEPTH: Final = 200
"""Levels of a tree. Evaluation needs a frame of the Python stack for each."""

_PRIMITIVES: Final = (types.DYN, types.BOOL, types.INT, types.UINT, types.DOUBLE, types.STRING, types.BYTES)
_WELL_KNOWN: Final = (types.DYN, types.ANY, types.TIMESTAMP, types.DURATION)
_NO_BYTES: Final = memoryview(b"")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Each field of a message: its number, its value if it is a varint, its bytes otherwise."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield tag >> 3, number, _NO_BYTES
        else:
            size = 8 if kind == 1 else 4
            if kind == 2:
                size, at = _varint(data, at)
            yield tag >> 3, 0, data[at : at + size]
            at += size


def _parts(data: memoryview) -> dict[int, list[tuple[int, memoryview]]]:
    found: dict[int, list[tuple[int, memoryview]]] = {}
    for number, value, content in _fields(data):
        found.setdefault(number, []).append((value, content))
    return found


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _text(content: memoryview) -> str:
    return str(content, "utf-8")


def _type(data: memoryview, depth: int = 0) -> Type:
    if depth > MAX_DEPTH:
        raise CelError(Issue(0, 0, f"a type is nested more than {MAX_DEPTH} levels deep"))
    for number, value, content in _fields(data):
        match number:
            case 2:
                return types.NULL
            case 3 | 4:
                return _PRIMITIVES[value]
            case 5:
                return _WELL_KNOWN[value]
            case 6:
                return Type("list", tuple([_type(part, depth + 1) for _, _, part in _fields(content)]))
            case 7:
                return Type("map", tuple([_type(part, depth + 1) for _, _, part in _fields(content)]))
            case 9:
                return Type(_text(content), is_object=True)
            case 10:
                return types.DYN
            case 11:
                return Type("type", (_type(content, depth + 1),))
            case 14:
                parts = _parts(content)
                return Type(_text(parts[1][0][1]), tuple(_type(part, depth + 1) for _, part in parts.get(2, ())))
    return types.DYN


def _constant(data: memoryview) -> Value:
    for number, value, content in _fields(data):
        match number:
            case 2:
                return bool(value)
            case 3:
                return _signed(value)
            case 4:
                return Uint(value)
            case 5:
                return struct.unpack("<d", content)[0]
            case 6:
                return _text(content)
            case 7:
                return bytes(content)
    return None


@dataclass(frozen=True)
class _Reference:
    name: str
    overloads: tuple[str, ...]


_GO_OVERLOADS: Final = {
    "list_range": "lists_range",
    "list_duration_sort": "list_google.protobuf.Duration_sort",
    "list_timestamp_sort": "list_google.protobuf.Timestamp_sort",
    "list_duration_sortByAssociatedKeys": "list_google.protobuf.Duration_sortByAssociatedKeys",
    "list_timestamp_sortByAssociatedKeys": "list_google.protobuf.Timestamp_sortByAssociatedKeys",
}
"""The ids of cel-go where the library has others."""


def _overload(found: tuple[int, memoryview]) -> str:
    name = _text(found[1])
    return _GO_OVERLOADS.get(name, name)


class _Reader:
    def __init__(self, data: bytes, paths: Mapping[str, Type]) -> None:
        self._paths = paths
        self._types: dict[int, Type] = {}
        self._references: dict[int, _Reference] = {}
        self._offsets: dict[int, int] = {}
        self.root = _NO_BYTES
        for number, _, content in _fields(memoryview(data)):
            match number:
                case 2:
                    key, value = self._entry(content)
                    parts = _parts(value)
                    name = _text(parts[1][0][1]) if 1 in parts else ""
                    self._references[key] = _Reference(name, tuple(map(_overload, parts.get(3, ()))))
                case 3:
                    key, value = self._entry(content)
                    self._types[key] = _type(value)
                case 4:
                    self.root = content
                case 5:
                    self._positions(content)

    @staticmethod
    def _entry(data: memoryview) -> tuple[int, memoryview]:
        key, value = 0, _NO_BYTES
        for number, found, content in _fields(data):
            if number == 1:
                key = _signed(found)
            else:
                value = content
        return key, value

    def _positions(self, data: memoryview) -> None:
        for number, _, content in _fields(data):
            if number == 4:
                key = place = 0
                for part, value, _content in _fields(content):
                    if part == 1:
                        key = value
                    else:
                        place = value
                self._offsets[key] = place

    def node(self, data: memoryview, depth: int) -> TreeNode:
        """One frame of the Python stack for each level of the tree."""
        if depth > MAX_DEPTH:
            raise CelError(Issue(0, 0, f"the expression is nested more than {MAX_DEPTH} levels deep"))
        id_, kind, content = 0, 0, _NO_BYTES
        for number, value, part in _fields(data):
            if number == 2:
                id_ = _signed(value)
            else:
                kind, content = number, part
        type_ = self._types.get(id_, types.DYN)
        offset = self._offsets.get(id_, -1)
        below = depth + 1
        if kind == 3:
            value = _constant(content)
            if value.__class__ is float and isinf(value):
                raise CelError(Issue(0, offset, "invalid double literal"))
            return Const(type_, offset, value)
        if kind in (4, 5) and id_ in self._references:
            return self._named(self._references[id_].name, type_, offset)
        parts = _parts(content)
        match kind:
            case 4:
                return Ident(type_, offset, _text(parts[1][0][1]))
            case 5:
                is_test = 3 in parts and bool(parts[3][0][0])
                return Select(type_, offset, self.node(parts[1][0][1], below), _text(parts[2][0][1]), is_test)
            case 6:
                args = [self.node(part, below) for _, part in parts.get(1, ())]
                args += [self.node(part, below) for _, part in parts.get(3, ())]
                reference = self._references.get(id_)
                overloads = reference.overloads if reference else ()
                if overloads == ("list_flatten",):
                    type_ = args[0].type.parameters[0]  # the library says list(dyn)
                return Call(type_, offset, _text(parts[2][0][1]), tuple(args), overloads)
            case 7:
                elements = tuple([self.node(part, below) for _, part in parts.get(1, ())])
                return ListExpr(type_, offset, elements, _indices(parts.get(2, ())))
            case 8:
                if 1 in parts:
                    raise CelError(
                        Issue(0, offset, f"values of type {_text(parts[1][0][1])} cannot be written as literals")
                    )
                return MapExpr(
                    type_, offset, tuple(self._entry_of(_parts(part), below) for _, part in parts.get(2, ()))
                )
            case 9:
                return Comprehension(
                    type_,
                    offset,
                    _text(parts[1][0][1]) if 1 in parts else "",
                    _text(parts[8][0][1]) if 8 in parts else "",
                    self.node(parts[2][0][1], below),
                    _text(parts[3][0][1]),
                    self.node(parts[4][0][1], below),
                    self.node(parts[5][0][1], below),
                    self.node(parts[6][0][1], below),
                    self.node(parts[7][0][1], below),
                )
        raise CelError(Issue(0, 0, "the expression has a part of an unknown kind"))

    def _entry_of(self, parts: dict[int, list[tuple[int, memoryview]]], depth: int) -> Entry:
        is_optional = 5 in parts and bool(parts[5][0][0])
        return Entry(self.node(parts[3][0][1], depth), self.node(parts[4][0][1], depth), is_optional)

    def _named(self, name: str, type_: Type, offset: int) -> TreeNode:
        if type_.name == "type" and type_.parameters:
            return Const(type_, offset, Type(type_.parameters[0].name))
        if "." not in name or name not in self._paths:
            return Ident(type_, offset, name)
        root, *fields = name.split(".")
        found: TreeNode = Ident(self._paths[root], offset, root)
        path = root
        for field in fields:
            path = f"{path}.{field}"
            found = Select(self._paths[path], offset, found, field, is_test=False)
        return found


def _indices(found: Iterable[tuple[int, memoryview]]) -> frozenset[int]:
    indices = set()
    for value, content in found:
        if not content:
            indices.add(value)
        at = 0
        while at < len(content):
            number, at = _varint(content, at)
            indices.add(number)
    return frozenset(indices)


def read_tree(data: bytes, paths: Mapping[str, Type]) -> TreeNode:
    """The tree of a CheckedExpr. `paths` has the type of each declared path of fields, as `device` and
    `device.capacity`.

    Raises CelError if the tree is too deep.
    """
    reader = _Reader(data, paths)
    return reader.node(reader.root, 0)


def unwrap_any(data: bytes) -> bytes:
    """The message inside a `google.protobuf.Any`."""
    for number, _, content in _fields(memoryview(data)):
        if number == 2:
            return bytes(content)
    return data
