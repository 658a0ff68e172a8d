"""Prints the test files that import, directly or not, what has changed in git: `python -m support.changed_tests main`.

A text that names a module counts as an import, because the commands are imported by name. A changed file that is no
module, such as a page of the docs, counts as imported where a text names it or its folder.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PREFIXES = ("operator/", "tests/", "")
"""Where modules are found: `podwright.x` below `operator`, `support.x` below `tests`, `benchmarks.x` at the top."""


def changed_files(root: Path, since: str) -> set[str]:
    """The files that differ from the commit at which the branch left `since`, with those that git does not know."""

    def git(*args: str) -> list[str]:
        done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    (base,) = git("merge-base", since, "HEAD")
    return {*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")}


def affected_by(root: Path, changed: Iterable[str]) -> list[str]:
    """The test files below `root` that these files can affect. A changed conftest.py affects all tests beside and below
    it.
    """
    files = {
        str(path.relative_to(root)): path
        for top in ("operator", "tests", "benchmarks")
        for path in (root / top).rglob("*.py")
    }
    modules = {_module(file): file for file in files}
    mentions = {file: {*_mentions(file, path)} for file, path in files.items()}
    importers = _importers(mentions, modules)
    found: set[str] = set()
    waiting = [*changed]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found.add(file)
        if file.endswith("conftest.py"):
            folder = file.removesuffix("conftest.py")
            waiting += [each for each in files if each.startswith(folder)]
        named = {Path(file).name, Path(file).parent.name}
        waiting += (
            importers.get(file, ()) if file in files else [each for each, texts in mentions.items() if named & texts]
        )
    return sorted(file for file in found if file in files and Path(file).name.startswith("test_"))


def _module(file: str) -> str:
    prefix = next(each for each in PREFIXES if file.startswith(each))
    return file.removeprefix(prefix).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _importers(mentions: Mapping[str, set[str]], modules: Mapping[str, str]) -> Mapping[str, set[str]]:
    """By file: the files that import it. To import a module runs its packages, too."""
    found: dict[str, set[str]] = {}
    for file, names in mentions.items():
        for name in names:
            parts = name.split(".")
            for count in range(1, len(parts) + 1):
                target = modules.get(".".join(parts[:count]))
                if target is not None:
                    found.setdefault(target, set()).add(file)
    return found


def _mentions(file: str, path: Path) -> Iterator[str]:
    """The names of modules that it imports, and all texts in it."""
    package = _module(file).split(".")[: None if path.name == "__init__.py" else -1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *filter(None, [node.module])])
            yield from (f"{name}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


if __name__ == "__main__":
    here = Path(__file__).parents[2]
    print("\n".join(affected_by(here, changed_files(here, sys.argv[1]))))
