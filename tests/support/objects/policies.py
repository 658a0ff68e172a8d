"""Reads policies from files: the examples, and the invalid ones with their expected error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CRD = ROOT / "crds" / "podwright.dev_schedulerpolicies.yaml"
LOCAL_CRD = ROOT / "crds" / "podwright.dev_localschedulerpolicies.yaml"
QUEUE_CRD = ROOT / "crds" / "podwright.dev_schedulingqueues.yaml"
EXAMPLES = tuple(sorted((ROOT / "manifests" / "examples" / "policies").glob("*.yaml")))
BAD = tuple(sorted((ROOT / "tests" / "bad_input" / "policies").glob("*.yaml")))


def load(path: Path) -> dict[str, Any]:
    """The object in a file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def wrong_field(path: Path) -> str:
    """The invalid field, from the first line of the file, for example `# expect: spec.precedence`."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# expect: ")


def each(paths: tuple[Path, ...]) -> list[Any]:
    """Test parameters of the files, with their names as ids."""
    return [pytest.param(path, id=path.stem.replace("-", " ")) for path in paths]
