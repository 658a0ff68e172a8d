"""docs/troubleshooting.md: each text that it explains is in the code, and each section says what to look at, why, and
what to do.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import podwright

DOCUMENT = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL))
TEXTS = [title.strip("`") for title in SECTIONS if title.startswith("`")]
QUOTED_IN_RUNBOOK = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text()


@cache
def literals():
    """All texts of the program, each f-string and each sum of texts as one, with … for what is filled in."""
    found = set()
    for path in Path(podwright.__file__).parent.rglob("*.py"):
        for part in ast.walk(ast.parse(path.read_text())):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                found.add(re.sub(r"%[-\w.]*[srdgf]", "…", part.value))
            elif isinstance(part, ast.JoinedStr):
                found.add("".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in part.values))
    return found


def is_in_the_code(text):
    fragments = [fragment for fragment in text.split("…") if fragment.strip()]
    pattern = re.compile(".*".join(map(re.escape, fragments)), re.DOTALL)
    return any(pattern.search(literal) for literal in literals())


@pytest.mark.parametrize("text", TEXTS)
def test_each_text_is_in_the_code(text):
    assert is_in_the_code(text)


def test_a_text_that_nobody_writes_is_not_found():
    assert not is_in_the_code("the scheduler is … out to lunch")
    assert len(TEXTS) >= 20


@pytest.mark.parametrize("title", SECTIONS)
def test_each_section_says_what_to_look_at_why_and_what_to_do(title):
    section = SECTIONS[title]
    assert re.search(r"\*\*See:\*\*.*^    \S.*\*\*Cause:\*\*.*\*\*Do:\*\*", section, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach lease",
        "attempting to acquire leader lease",
        "have not reached version",
        "RBAC does not let us … it",
        "and all other pods waited for it",
        "raised an exception",
        "trying again",
        "restarting it",
        "the server keeps its certificate",
    ],
)
def test_texts_in_the_runbook_are_in_the_code(text):
    shown = text.replace("…", "list")
    assert f"`{shown}`" in QUOTED_IN_RUNBOOK
    assert is_in_the_code(text)
