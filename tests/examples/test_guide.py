"""Every snippet of docs/writing-a-plugin.md is in the file that it names, and every link leads to a file."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "writing-a-plugin.md"
TEXT = GUIDE.read_text()
SNIPPET = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)```", re.DOTALL)
SNIPPETS = [(m["file"], m["language"], m["text"]) for m in SNIPPET.finditer(TEXT)]


@pytest.mark.parametrize(
    "file, text", [pytest.param(f, t, id=f"snippet {i} of {f}") for i, (f, _, t) in enumerate(SNIPPETS)]
)
def test_a_snippet_is_part_of_its_file(file, text):
    assert file is not None, f"this snippet names no file:\n{text}"
    assert dedent(text) in dedent((ROOT / file).read_text()) or text in (ROOT / file).read_text()


def test_the_guide_has_snippets():
    assert len(SNIPPETS) > 8


def test_links_lead_to_files():
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert targets
    assert [target for target in targets if not (GUIDE.parent / target).exists()] == []
