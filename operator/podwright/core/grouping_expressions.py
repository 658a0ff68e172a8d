"""Compiles the expressions of a grouping. In a module of its own, because CEL takes long to import, and most clusters
have no grouping.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from podwright.core.cel.environment import Environment, Program
from podwright.core.cel.errors import CelError, Issue
from podwright.core.cel.types import DYN, INT, STRING, Type, list_of, map_of, object_of

_POD: Final = object_of(
    "podwright.GroupedPod",
    {
        "name": STRING,
        "namespace": STRING,
        "labels": map_of(STRING, STRING),
        "annotations": map_of(STRING, STRING),
    },
)


@cache
def _environment() -> Environment:
    object_ = map_of(STRING, DYN)
    return Environment({"owner": object_, "owners": list_of(object_), "pod": _POD})


def compile_key(text: str) -> Program:
    """Raises CelError unless the text is an expression whose value may be a string."""
    return _compiled(text, STRING)


def compile_min_count(text: str) -> Program:
    """Raises CelError unless the text is an expression whose value may be a whole number."""
    return _compiled(text, INT)


def _compiled(text: str, wanted: Type) -> Program:
    program = _environment().compile(text)
    if program.result_type.name not in (wanted.name, DYN.name):
        raise CelError(Issue(0, 0, f"must evaluate to {wanted}, not {program.result_type}"))
    return program
