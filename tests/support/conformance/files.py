"""The stored conformance cases with kube-scheduler's answers: tests/conformance/cases."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "conformance" / "cases"
FILES = sorted(FOLDER.glob("*.jsonl.gz"))


def stored(name: str) -> Path:
    """The file of a group of cases."""
    return FOLDER / f"{name}.jsonl.gz"


def name_of(path: Path) -> str:
    """The group of cases in the file."""
    return path.name.removesuffix(".jsonl.gz")
