"""Reads the malformed objects of `tests/bad_input/*.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "bad_input"


@dataclass(frozen=True, slots=True)
class BadObject:
    """One file; see tests/bad_input/README.md."""

    stem: str
    about: str
    stream: str
    raw: dict[str, Any]
    error: str | None


def expand(value: Any) -> Any:
    """Replaces the shorthand for long texts and many entries."""
    if isinstance(value, list):
        return [expand(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$text" in value:
        return value["$text"] * value["times"]
    if "$entries" in value:
        return {value["$entries"].format(n): value["value"] for n in range(value["times"])}
    return {key: expand(item) for key, item in value.items()}


def read() -> list[BadObject]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        found.append(BadObject(path.stem, case["about"], case["stream"], expand(case["object"]), case["error"]))
    return found
