"""docs/architecture.md says what each package imports. This compares it with the code.

import-linter checks the layers, and that there is no circle (`make lint`).
"""

import re
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `([\w.]+)` \| [^|]+ \| ([^|]*)\|$", re.MULTILINE)
DOCUMENTED = {
    package: set(re.findall(r"[\w.]+", imports))
    for package, imports in ROW.findall((ROOT / "docs" / "architecture.md").read_text())
}


@cache
def graph():
    return grimp.build_graph("podwright")


def imported_by(package):
    """The packages that a package imports: siblings for one with a dot in its name, top-level packages otherwise."""
    depth = package.count(".") + 2
    parent = f"podwright.{package}".rpartition(".")[0]
    found = set()
    for module in {f"podwright.{package}"} | graph().find_descendants(f"podwright.{package}"):
        for target in graph().find_modules_directly_imported_by(module):
            name = ".".join(target.split(".")[:depth])
            if name.startswith(f"{parent}.") and name != f"podwright.{package}":
                found.add(name.removeprefix("podwright."))
    return found - {"__version__"}


@pytest.mark.parametrize("package", DOCUMENTED)
def test_the_documented_imports_of_a_package_are_those_in_the_code(package):
    assert DOCUMENTED[package] == imported_by(package)


def test_every_package_is_documented():
    top = {name.split(".")[1] for name in graph().find_children("podwright") if not name.split(".")[1].startswith("_")}
    nested = {
        name.removeprefix("podwright.")
        for parent in ("kube", "engine", "core")
        for name in graph().find_children(f"podwright.{parent}")
        if graph().find_children(name)
    }
    assert top - {"core"} | nested <= DOCUMENTED.keys()
