"""Runs the code cells of a notebook in order, and gives their outputs in the notebook's own format.

`python tests/support/examples/notebook.py FILE` writes them into the file (`make notebook`). A test compares them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def outputs(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, run in one namespace."""
    names: dict[str, Any] = {}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [_run("".join(cell["source"]), number, names) for number, cell in enumerate(cells, start=1)]


def execute(path: Path) -> None:
    """Writes the outputs into the file."""
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, found) in enumerate(zip(cells, outputs(notebook), strict=True), start=1):
        cell["execution_count"], cell["outputs"] = number, found
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def _run(source: str, number: int, names: dict[str, Any]) -> list[dict[str, Any]]:
    *statements, last = ast.parse(source).body
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(statements, []), "<cell>", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        else:
            exec(compile(ast.Module([*statements, last], []), "<cell>", "exec"), names)
    found: list[dict[str, Any]] = []
    if text := printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        svg = getattr(value, "_repr_svg_", None)
        data = (
            {"text/plain": ["a picture"], "image/svg+xml": svg().splitlines(keepends=True)}
            if svg
            else {"text/plain": [repr(value)]}
        )
        found.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return found


if __name__ == "__main__":
    execute(Path(sys.argv[1]))
