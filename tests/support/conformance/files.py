"""The stored conformance cases with kube-scheduler's answers: tests/conformance/cases."""

import os
from math import ceil
from pathlib import Path
from typing import Any
from zlib import crc32

from podwright.simulator.evaluations.cases import read_cases

FOLDER = Path(__file__).parents[2] / "conformance" / "cases"
FILES = sorted(FOLDER.glob("*.jsonl.gz"))


def stored(name: str) -> Path:
    """The file of a group of cases."""
    return FOLDER / f"{name}.jsonl.gz"


def name_of(path: Path) -> str:
    """The group of cases in the file."""
    return path.name.removesuffix(".jsonl.gz")


def sample(path: Path, every: int) -> list[dict[str, Any]]:
    """One in `every` of the cases of a file, chosen by their ids. PODWRIGHT_SAMPLED_CASES sets another number."""
    every = int(os.environ.get("PODWRIGHT_SAMPLED_CASES") or every)
    cases = sorted(read_cases(str(path)), key=lambda case: crc32(case["id"].encode()))
    return cases[: ceil(len(cases) / every)]
