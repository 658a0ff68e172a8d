"""The port to the library that parses and type-checks expressions: `cel_expr_python`, the C++ runtime of CEL.

Only this module knows the library. It declares our types and functions to it, and gives back our tree. A field whose
type the library cannot express, such as a map of maps, is a value of type dyn to it. Where the expression names the
field from its variable on, as in `device.capacity["a"].b`, it is declared as a variable with that name and has its
type.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from cel_expr_python import cel
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from podwright.core.cel import types
from podwright.core.cel.checking.checked import read_tree, unwrap_any
from podwright.core.cel.checking.declarations import COMPARISONS, LIST_EXTENSION, TO_DURATION, TO_STRING, Overload
from podwright.core.cel.checking.tree import Comprehension, Ident, Select, TreeNode, children
from podwright.core.cel.errors import CelError, Issue
from podwright.core.cel.types import Type

MAX_TEXT: Final = 16_384
"""Code points of an expression. Kubernetes' selectors have at most 10,240."""

_EXTENSIONS: Final = ("bindings", "optional", "sets", "two-var-comprehensions")
_EXCLUDED: Final = ("_<_", "_<=_", "_>_", "_>=_", "string", "duration")
"""Functions of the library that `COMPARISONS`, `TO_STRING` and `TO_DURATION` declare as cel-go does."""
_CONFIGURED: Final = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}
_PLAIN: Final = {
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "uint": cel.Type.UINT,
    "double": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
    "bytes": cel.Type.BYTES,
    "dyn": cel.Type.DYN,
    "any": cel.Type.DYN,
    "google.protobuf.Duration": cel.Type.DURATION,
    "google.protobuf.Timestamp": cel.Type.TIMESTAMP,
}
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bool": _Field.TYPE_BOOL,
    "int": _Field.TYPE_INT64,
    "uint": _Field.TYPE_UINT64,
    "double": _Field.TYPE_DOUBLE,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}
_WELL_KNOWN: Final = {
    "dyn": "google.protobuf.Value",
    "any": "google.protobuf.Value",
    "google.protobuf.Duration": "google.protobuf.Duration",
    "google.protobuf.Timestamp": "google.protobuf.Timestamp",
}
_STANDARD_FILES: Final = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
_FIRST_LINE: Final = re.compile(r"^(?:[A-Z_]+: )?ERROR: [^:\n]*:(-?\d+):(-?\d+): (.*?)(?: \[[A-Z_]+\])?$", re.MULTILINE)
_NESTING: Final = re.compile(r"recursion limit exceeded\. limit: (\d+)|max recursion depth of (\d+)")
_LEVELS: Final = (
    "each parenthesis, each macro and each term of a sum is a level; && and || may have any number of terms"
)
_ERROR_TYPE: Final = "*error*"
"""The type of what has an error already: an issue that names it only follows from another one."""
_IN_STRUCT: Final = re.compile(r"^(undefined field '.*') not found in struct '.*'$")


class Checker:
    """Parses and type-checks the expressions of one environment."""

    def __init__(self, variables: Mapping[str, Type], overloads: Iterable[Overload]) -> None:
        self._overloads = (*COMPARISONS, *TO_STRING, *TO_DURATION, *overloads)
        parts = (part for o in self._overloads for part in (*o.parameters, o.result))
        self._pool = _pool([*variables.values(), *parts])
        self._variables = variables
        self._paths = dict(_paths(variables))
        self._loose = {name: _library_type(kind) for name, kind in variables.items()}
        inexact = {path: kind for path, kind in self._paths.items() if "." in path and _is_field(kind)}
        self._exact = {path: _library_type(kind) for path, kind in self._paths.items() if path not in inexact}
        self._environment = lru_cache(maxsize=4)(self._new_environment)

    def check(self, text: str) -> TreeNode:
        """The tree of an expression. Raises CelError."""
        if len(text) > MAX_TEXT:
            reason = f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_TEXT}"
            raise CelError(Issue(0, 0, reason))
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise CelError(Issue(1, error.start + 1, "the expression has a code point that is no character")) from None
        has_paths = self._exact.keys() != self._loose.keys()
        try:
            node = self._compiled(text, exact=True)
        except CelError:
            if not has_paths:
                raise
            with contextlib.suppress(CelError):
                node = self._compiled(text, exact=False)
                if self._is_misread(node, text):
                    return node
            raise
        if has_paths and self._is_misread(node, text):
            return self._compiled(text, exact=False)
        return node

    def _compiled(self, text: str, *, exact: bool) -> TreeNode:
        environment = self._environment(exact=exact, sort_by="sortBy(" in text)
        try:
            data = environment.compile(text).serialize()
        except RuntimeError as error:
            raise CelError(*_issues(str(error))) from None
        return read_tree(unwrap_any(data), self._paths if exact else {})

    def _new_environment(self, *, exact: bool, sort_by: bool) -> cel.Env:
        """`exact` declares the paths of fields, `sort_by` the library's own list functions with their macro."""
        overloads = self._overloads if sort_by else (*self._overloads, *LIST_EXTENSION)
        config = {
            "name": "podwright",
            "stdlib": {"exclude_functions": [{"name": name} for name in _EXCLUDED]},
            "extensions": [{"name": name} for name in (*_EXTENSIONS, *(("lists",) if sort_by else ()))],
            "functions": _functions(overloads),
        }
        variables = self._exact if exact else self._loose
        return cel.NewEnv(self._pool, config=cel.NewEnvConfigFromYaml(json.dumps(config)), variables=variables)

    def _is_misread(self, root: TreeNode, text: str) -> bool:
        """True if `exact` would misread a path as a variable: below a macro's variable of that name, or in `has()`."""
        stack = [root]
        while stack:
            node = stack.pop()
            if (
                isinstance(node, Comprehension)
                and {node.variable, node.second, node.accumulator} & self._variables.keys()
            ):
                return True
            if isinstance(node, Select) and text[node.offset : node.offset + 1] == "(" and _path(node) in self._exact:
                return True
            stack += children(node)
        return False


def _path(node: TreeNode) -> str:
    """`a.b.c`, if the node is that; else something that is no path."""
    if isinstance(node, Select):
        return f"{_path(node.operand)}.{node.field}"
    return node.name if isinstance(node, Ident) else ""


def _issues(text: str) -> Iterator[Issue]:
    if nesting := _NESTING.search(text):
        yield Issue(0, 0, f"the expression is nested more than {nesting[1] or nesting[2]} levels deep: {_LEVELS}")
        return
    found = _FIRST_LINE.findall(text)
    causes = [each for each in found if _ERROR_TYPE not in each[2]]
    for line, column, message in causes or found:
        yield Issue(max(0, int(line)), max(0, int(column)), _IN_STRUCT.sub(r"\1", message))
    if not found:
        yield Issue(
            0, 0, text.splitlines()[0].removeprefix("INVALID_ARGUMENT: ") if text else "the expression is refused"
        )


def _library_type(kind: Type) -> object:
    if kind.name in _PLAIN:
        return _PLAIN[kind.name]
    parameters = [_library_type(parameter) for parameter in kind.parameters]
    if kind.name == "list":
        return cel.Type.List(*parameters)
    if kind.name == "map":
        return cel.Type.Map(*parameters)
    if kind.is_object:
        return cel.Type(kind.name)
    return cel.Type.AbstractType(kind.name, parameters)


def _functions(overloads: Iterable[Overload]) -> list[object]:
    """The declarations of functions in the library's configuration."""
    by_name: dict[str, list[object]] = {}
    for overload in overloads:
        args = [_configured(kind) for kind in overload.parameters]
        target = {"target": args.pop(0)} if overload.is_method else {}
        declared = {"id": overload.id, **target, "args": args, "return": _configured(overload.result)}
        by_name.setdefault(overload.function, []).append(declared)
    return [{"name": name, "overloads": found} for name, found in by_name.items()]


def _configured(kind: Type) -> object:
    if kind == types.A:
        return {"type_name": "A", "is_type_param": True}
    found: dict[str, object] = {"type_name": _CONFIGURED.get(kind.name, kind.name)}
    if kind.parameters:
        found["params"] = [_configured(parameter) for parameter in kind.parameters]
    return found


def _paths(variables: Mapping[str, Type]) -> Iterator[tuple[str, Type]]:
    """Every path of fields from a variable on, with its type."""
    stack = list(variables.items())
    while stack:
        path, kind = stack.pop()
        yield path, kind
        stack += ((f"{path}.{name}", field) for name, field in kind.fields.items())


def _is_field(kind: Type) -> bool:
    """True if a field of a message can have the type exactly."""
    if kind.name == "list":
        return not kind.parameters[0].parameters
    if kind.name == "map":
        return kind.parameters[0].name in ("string", "int", "uint", "bool") and not kind.parameters[1].parameters
    return not kind.parameters


def _objects(kinds: Iterable[Type]) -> dict[str, Type]:
    found: dict[str, Type] = {}
    stack = list(kinds)
    while stack:
        kind = stack.pop()
        stack += kind.parameters
        if kind.is_object and (kind.name not in found or not found[kind.name].fields):
            found[kind.name] = kind
            stack += kind.fields.values()
    return found


def _pool(kinds: Iterable[Type]) -> object:
    """The descriptors of all object types."""
    pool = descriptor_pool.DescriptorPool()
    for module in _STANDARD_FILES:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    packages: dict[str, list[Type]] = {}
    for name, kind in sorted(_objects(kinds).items()):
        packages.setdefault(name.rpartition(".")[0], []).append(kind)
    files = [_file(package, found) for package, found in packages.items()]
    for file in files:
        own = {f"{file.package}.{message.name}" for message in file.message_type}
        used = {f.type_name[1:] for m in file.message_type for n in (m, *m.nested_type) for f in n.field if f.type_name}
        file.dependency.extend(
            sorted(
                {other.name for other in files for m in other.message_type if f"{other.package}.{m.name}" in used - own}
            )
        )
    added: set[str] = set()
    while files:
        ready = [file for file in files if all(name in added or name.startswith("google/") for name in file.dependency)]
        if not ready:
            raise ValueError("object types of different packages refer to each other")
        for file in ready:
            pool.AddSerializedFile(file.SerializeToString())
            added.add(file.name)
            files.remove(file)
    return pool


def _file(package: str, kinds: list[Type]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    file.dependency.extend(module.DESCRIPTOR.name for module in _STANDARD_FILES)
    for kind in kinds:
        message = file.message_type.add(name=kind.name.rpartition(".")[2])
        for number, (name, type_) in enumerate(kind.fields.items(), 1):
            _add_field(message, f".{kind.name}", name, number, type_)
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, scope: str, name: str, number: int, kind: Type) -> None:
    label = _Field.LABEL_OPTIONAL
    if not _is_field(kind):
        kind = types.DYN if kind.name == "list" else types.map_of(types.STRING, types.DYN)
    if kind.name == "list":
        kind, label = kind.parameters[0], _Field.LABEL_REPEATED
    if kind.name == "map":
        entry = message.nested_type.add(name="".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add_field(entry, "", "key", 1, kind.parameters[0])
        _add_field(entry, "", "value", 2, kind.parameters[1])
        message.field.add(
            name=name,
            number=number,
            type=_Field.TYPE_MESSAGE,
            label=_Field.LABEL_REPEATED,
            type_name=f"{scope}.{entry.name}",
        )
        return
    if kind.name in _SCALARS:
        message.field.add(name=name, number=number, type=_SCALARS[kind.name], label=label)
        return
    type_name = _WELL_KNOWN.get(kind.name, kind.name if kind.is_object else "google.protobuf.Value")
    message.field.add(name=name, number=number, type=_Field.TYPE_MESSAGE, label=label, type_name=f".{type_name}")
