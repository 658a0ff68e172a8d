"""Rules for every source file: its length, a reason beside each suppressed check, and how arrays are made read-only."""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILES: Final = sorted(
    path
    for folder in ("operator", "tests", "benchmarks", "examples", "charts")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".js", ".c"} and "node_modules" not in path.parts
)
SUPPRESSION: Final = re.compile(r"# (?:noqa|type: ignore)\b")
WITH_REASON: Final = re.compile(
    r"# noqa: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)* -- \S|# type: ignore\[[a-z-]+(?:, [a-z-]+)*\]  # \S"
)


def without_reason(path: Path) -> Iterator[str]:
    """The comments of this file that suppress a check without a reason."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            suppressions = SUPPRESSION.findall(token.string) if token.type == tokenize.COMMENT else []
            if len(suppressions) > len(WITH_REASON.findall(token.string)):
                yield f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}"


def test_each_suppressed_check_has_a_reason():
    assert [found for path in FILES if path.suffix == ".py" for found in without_reason(path)] == []


def test_a_suppression_without_a_reason_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "some.py"
    file.write_text("import os  # noqa: F401\nx: int = ''  # type: ignore[assignment]\ny = 1  # noqa: E731 -- short\n")
    assert [found.split(": ", 1)[0] for found in without_reason(file)] == ["some.py:1", "some.py:2"]


def test_arrays_are_made_read_only_by_a_method():
    # An assignment to `flags.writeable` takes longer, and leaves up to 4096 names of a method in CPython's cache of
    # attributes of types.
    sources = [path for path in FILES if path.suffix == ".py" and path.is_relative_to(ROOT / "operator")]
    assert [
        str(path.relative_to(ROOT)) for path in sources if re.search(r"flags\.writeable\s*=[^=]", path.read_text())
    ] == []
