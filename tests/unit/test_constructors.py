"""Working parts take few things: no constructor has more than six parameters."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import podwright

MOST: Final = 6


def constructors() -> dict[str, int]:
    """The number of parameters of each constructor, by file and class."""
    root = Path(podwright.__file__).parent
    return {
        f"{path.relative_to(root)}:{cls.name}": len(method.args.args) - 1 + len(method.args.kwonlyargs)
        for path in root.rglob("*.py")
        for cls in ast.walk(ast.parse(path.read_text()))
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    }


def test_no_constructor_has_more_than_six_parameters():
    counts = constructors()
    assert counts["engine/engine.py:Engine"] == 5
    assert {name: count for name, count in counts.items() if count > MOST} == {}
