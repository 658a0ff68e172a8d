"""The stored conformance cases with kube-scheduler's answers: tests/conformance/cases."""

import os
from collections.abc import Iterator
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


def sample(path: Path, every: int) -> Iterator[dict[str, Any]]:
    """The cases of a file, one in about `every`, chosen by their ids. PODWRIGHT_SAMPLED_CASES sets another number."""
    every = int(os.environ.get("PODWRIGHT_SAMPLED_CASES") or every)
    return (case for case in read_cases(str(path)) if crc32(case["id"].encode()) % every == 0)
