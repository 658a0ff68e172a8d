"""The files of a benchmark: a journal with one line per run, appended when the run ends, and a summary as a JSON list.

Several commands may share a journal if all but the first use `--resume`. A summary's entry is one workload. It has the
median of each figure for each scheduler. `ratio` is the median over the pairs of Podwright's figure divided by
kube-scheduler's, and `ratio_spread` the smallest and largest such ratio.
"""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.workloads import Workload
from podwright.testing import Versions

Json = dict[str, Any]
OURS = "podwright"
THEIRS = "kube_scheduler"
_ORDER = (OURS, THEIRS, "null")
RATIOS = ("pods_per_s", "cpu_ms_per_pod", "peak_mb", "p50_ms", "p99_ms", "start_s")
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Key:
    """Identifies a run within a journal."""

    workload: str
    size: str
    mode: str
    pair: int
    series: str


@dataclass(frozen=True, slots=True)
class Record:
    """A completed run."""

    key: Key
    nodes: int
    figures: dict[str, float]
    commit: str = ""


class Journal:
    """The completed runs, in a file with one JSON object per line. An incomplete last line is ignored."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        self.records: list[Record] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().rpartition("\n")[0].splitlines() if resume and path.exists() else []
        for line in map(json.loads, lines):
            self.records.append(Record(Key(**line["key"]), line["nodes"], line["figures"], line.get("commit", "")))
        path.write_text("".join(f"{line}\n" for line in lines))

    def has(self, key: Key) -> bool:
        return any(record.key == key for record in self.records)

    def drop_disturbed(self, share: float) -> int:
        """Drop the runs during which other processes used more than this share of the machine. Returns their number."""
        kept = [record for record in self.records if record.figures.get("others_cpu_share", 0.0) <= share]
        dropped = len(self.records) - len(kept)
        self.records = kept
        self._path.write_text("".join(_line(record) for record in kept))
        return dropped

    def append(self, record: Record) -> None:
        self.records.append(record)
        with self._path.open("a") as file:
            file.write(_line(record))

    def records_of(self, workload: Workload, mode: str) -> list[Record]:
        return [
            record
            for record in self.records
            if (record.key.workload, record.key.size, record.key.mode) == (workload.name, workload.size, mode)
        ]


def _line(record: Record) -> str:
    return json.dumps(asdict(record)) + "\n"


def summarize(records: Iterable[Record], machine: Json) -> list[Json]:
    """The summary's entries, in the order in which the workloads were first run."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.key.workload, record.key.size, record.key.mode), []).append(record)
    return [_entry(group, machine) for group in groups.values()]


def _entry(records: list[Record], machine: Json) -> Json:
    key = records[0].key
    by_series: dict[str, dict[int, dict[str, float]]] = {}
    for record in records:
        by_series.setdefault(record.key.series, {})[record.key.pair] = record.figures
    entry: Json = {
        "workload": key.workload,
        "size": key.size,
        "mode": key.mode,
        "nodes": records[0].nodes,
        "pods": int(records[0].figures["pods"]),
        "pairs": sum(pair in by_series.get(THEIRS, {}) for pair in by_series.get(OURS, {})),
    }
    for series in sorted(by_series, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER)):
        runs = by_series[series]
        names = list(dict.fromkeys(name for run in runs.values() for name in run))
        entry[series] = {name: _median([run[name] for run in runs.values() if name in run]) for name in names}
        entry[series]["runs"] = len(runs)
    entry |= _ratios(by_series.get(OURS, {}), by_series.get(THEIRS, {}))
    commits = ", ".join(dict.fromkeys(record.commit for record in records if record.commit))
    entry["machine"] = {**machine, "commit": commits} if commits else machine
    return entry


def _ratios(ours: dict[int, dict[str, float]], theirs: dict[int, dict[str, float]]) -> Json:
    pairs = [(ours[pair], theirs[pair]) for pair in ours if pair in theirs]
    if not pairs:
        return {}
    ratios = {
        name: [mine[name] / other[name] for mine, other in pairs]
        for name in RATIOS
        if all(mine.get(name, 0) > 0 and other.get(name, 0) > 0 for mine, other in pairs)
    }
    return {
        "ratio": {name: _median(values) for name, values in ratios.items()},
        "ratio_spread": {name: [_rounded(min(values)), _rounded(max(values))] for name, values in ratios.items()},
    }


def _median(values: list[float]) -> float:
    return _rounded(statistics.median(values))


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def machine(versions: Versions) -> Json:
    """The machine and the versions that the figures were measured with."""
    model = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    memory_kb = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": model,
        "memory_gb": round(memory_kb / 1024**2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "kubernetes": versions.kubernetes,
        "etcd": versions.etcd,
        "commit": commit(),
    }


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def commit() -> str:
    """The commit under test, with `-dirty` if tracked files other than results differ from it."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "..", ":(exclude)results")
    return (_git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    here = Path(__file__).parent
    return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=False).stdout.strip()
