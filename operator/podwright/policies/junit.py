"""Results of tests as JUnit XML, which CI systems read."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Final

Results = Mapping[str, Sequence[tuple[str, Sequence[str]]]]
"""By file: the name of each test, and what was not as expected."""

_ALLOWED: Final = frozenset("\t\n")


def junit(results: Results) -> str:
    """One test suite for each file."""
    root = ET.Element("testsuites")
    for file, cases in results.items():
        failed = sum(bool(wrong) for _, wrong in cases)
        suite = ET.SubElement(
            root, "testsuite", name=_text(file), tests=str(len(cases)), failures=str(failed), errors="0", skipped="0"
        )
        for name, wrong in cases:
            case = ET.SubElement(suite, "testcase", classname=_text(file), name=_text(name))
            if wrong:
                failure = ET.SubElement(case, "failure", message=_text(wrong[0]))
                failure.text = _text("\n".join(wrong))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _text(text: str) -> str:
    """Without the characters that XML cannot have."""
    return "".join(
        c if c in _ALLOWED or (c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF) else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )
