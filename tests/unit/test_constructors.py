"""Calls of the constructors of working parts fill at most two parameters by position."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import podwright

MOST_BY_POSITION: Final = 2
ROOT: Final = Path(podwright.__file__).parent
FOLDERS: Final = ("engine", "kube", "controllers", "core/state", "core/queue")
"""The packages whose classes are working parts, value objects aside."""
VALUE_BASES: Final = ("NamedTuple", "Enum", "Protocol", "Error", "Exception")
TREES: Final = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def classes(tree: ast.AST) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def is_value(cls: ast.ClassDef) -> bool:
    """Frozen dataclasses, named tuples, enums, protocols and exceptions are no working parts."""
    frozen = any("dataclass" in text and "frozen=True" in text for text in map(ast.unparse, cls.decorator_list))
    return frozen or any(word in ast.unparse(base) for base in cls.bases for word in VALUE_BASES)


def parts() -> dict[str, set[str]]:
    """The modules that define working parts, by the class's name."""
    found: dict[str, set[str]] = {}
    for path, tree in TREES.items():
        if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
            for cls in classes(tree):
                if not is_value(cls):
                    found.setdefault(cls.name, set()).add(path)
    return found


def imported(tree: ast.AST) -> dict[str, str]:
    """The modules from which names are imported, by name."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


def calls_by_position(path: str, tree: ast.AST, working: dict[str, set[str]]) -> Iterator[str]:
    """The calls in this file that fill more than two parameters of a working part by position."""
    origin = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > MOST_BY_POSITION:
            name = node.func.id
            package = f"{origin.get(name, '').removeprefix('podwright.').replace('.', '/')}"
            # A package may re-export a class of one of its modules.
            here = {path, f"{package}.py"}
            if any(where in here or (package and where.startswith(f"{package}/")) for where in working.get(name, ())):
                yield f"{path}:{node.lineno} {name}"


def test_no_call_fills_more_than_two_parameters_of_a_working_part_by_position():
    working = parts()
    assert {"Engine", "SchedulingQueue", "BindingCycle", "PodEvictor"} <= working.keys()
    assert "Waits" not in working, "a value object"
    assert [call for path, tree in TREES.items() for call in calls_by_position(path, tree, working)] == []


def test_a_call_by_position_is_found():
    tree = ast.parse("from podwright.core.queue import QueuedPod\nQueuedPod(pod, 1.0, 2.0)\nQueuedPod(pod, 1.0)")
    assert list(calls_by_position("engine/new.py", tree, parts())) == ["engine/new.py:2 QueuedPod"]
