"""Findings of `podwright policy lint`, as text and as SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final, Literal

from podwright import __version__
from podwright.core.objects.dataclass import dataclass

Level = Literal["error", "warning", "note"]

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something about a policy file. `line` and `column` count from 1; `rule`: the reason, as in the condition
    Accepted, or YAML.
    """

    file: str
    line: int
    column: int
    level: Level
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.level}: {self.message} [{self.rule}]"


def sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as a SARIF log of one run."""
    rules = sorted({finding.rule for finding in findings})
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "podwright", "version": __version__, "rules": [{"id": rule} for rule in rules]}
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, rules) for finding in findings],
            }
        ],
    }


def _result(finding: Finding, rules: Sequence[str]) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": PurePath(finding.file).as_posix()},
        "region": {"startLine": finding.line, "startColumn": finding.column},
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place}],
    }
