"""The files of conformance cases with kube-scheduler's answers, in the folder PODWRIGHT_CONFORMANCE or beside the checkout."""

import os
from pathlib import Path

_FOLDER = Path(os.environ.get("PODWRIGHT_CONFORMANCE") or Path(__file__).parents[3].parent / "shared" / "conformance")
FILES = sorted([*_FOLDER.glob("*.jsonl.gz"), *_FOLDER.glob("devices/*.jsonl.gz")])
NEXT_FILES = sorted((_FOLDER / "next").glob("*.jsonl.gz"))
"""Cases that were found later: pod-level requests together with overhead."""


def name_of(path: Path) -> str:
    """The group of cases in the file."""
    return path.name.removesuffix(".jsonl.gz")
