"""A result as Markdown, and the README's section on speed, which is written from a result and cannot drift from it.

`python -m benchmarks.report FILE` prints all tables; with `--readme FILE` the part of the README between the markers is written anew, from
the result that the markers then name; `--check` fails if it is not what would be written.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click

from benchmarks.results import OURS, THEIRS, Json
from benchmarks.targets import Verdict, of_scale, verdicts

_CHECKOUT = Path(__file__).parent.parent
_BEGIN = "<!-- written by make bench-table from "
_END = "<!-- end of what is written -->"
_UNITS = {
    "pods_per_s": "pods/s",
    "cpu_ms_per_pod": "CPU of the scheduler a pod",
    "peak_mb": "peak memory",
    "p99_ms": "p99 from creation to binding",
    "own p50_ms": "p50 of Podwright, ms",
    "own p99_ms": "p99 of Podwright, ms",
    "start_s": "start to first binding",
}
Row = Sequence[str]


def short(entries: list[Json], core: list[Json]) -> str:
    """What was measured on, each workload beside its targets, and the targets that belong to no single one."""
    parts = [machine_line(entries)]
    rates = [entry for entry in entries if entry["mode"] in {"backlog", "live"} and entry["workload"] != "StartUp"]
    parts.append(_table(_RATE_HEAD, (row for entry in rates for row in (_rate_row(entry), *_variant_rows(entry)))))
    others = [_other_row(entry, verdict) for entry in entries for verdict in verdicts(entry) if _stands_apart(verdict)]
    scale = [_scale_row(what, verdict) for what, verdict in of_scale(entries, core).items()]
    if others or scale:
        parts.append(_table(("", "Podwright", "kube-scheduler", "ratio", "at most", ""), [*others, *scale]))
    return "\n\n".join(parts) + "\n"


def details(entries: list[Json]) -> str:
    """Quality beside speed, and what a run costs everybody else."""
    heads = ("", *(label for _, label, _ in _DETAILS))
    rows = (
        (f"{title(entry)}, {series.replace('_', ' ')}", *(_cell(entry[series], name, f) for name, _, f in _DETAILS))
        for entry in entries
        for series in series_of(entry)
    )
    return _table(heads, rows) + "\n"


def machine_line(entries: list[Json]) -> str:
    """Where and with what it was measured, and how often."""
    machine = entries[0]["machine"]
    pairs = sorted({entry["pairs"] for entry in entries if entry["pairs"]})
    commits = ", ".join(dict.fromkeys(c for entry in entries for c in entry["machine"]["commit"].split(", ")))
    times = f"{pairs[0]} to {pairs[-1]}" if len(pairs) > 1 else f"{pairs[0] if pairs else 0}"
    return (
        f"{machine['cpus']} cores of {machine['cpu']}, {machine['memory_gb']} GB; Kubernetes {machine['kubernetes']}, "
        f"etcd {machine['etcd']}, Python {machine['python']}, Podwright {commits}. Medians of {times} pairs; in brackets "
        "the least and the greatest ratio of a pair."
    )


def title(entry: Json) -> str:
    return f"{entry['workload']}, {entry['nodes']:,} nodes" + (
        "" if entry["mode"] == "backlog" else f", {entry['mode']}"
    )


def series_of(entry: Json) -> list[str]:
    """Who ran, in the order of the result."""
    return [
        name for name, figures in entry.items() if isinstance(figures, dict) and "pods_per_s_with_events" in figures
    ]


_RATE_HEAD = (
    "a backlog of pods", "pods/s", "kube-scheduler", "decides nothing", "ratio", "at least", "",
    "CPU ms a pod", "kube-scheduler", "ratio", "at most", "",
)  # fmt: skip


def _rate_row(entry: Json) -> Row:
    found = {verdict.figure: verdict for verdict in verdicts(entry)}
    rate, cpu = found.get("pods_per_s"), found.get("cpu_ms_per_pod")
    return (
        title(entry),
        *(_cell(entry.get(series, {}), "pods_per_s", "{:,.0f}") for series in (OURS, THEIRS, "null")),
        *_judged(entry, "pods_per_s", rate),
        *(_cell(entry.get(series, {}), "cpu_ms_per_pod", "{:.2f}") for series in (OURS, THEIRS)),
        *_judged(entry, "cpu_ms_per_pod", cpu),
    )


def _variant_rows(entry: Json) -> list[Row]:
    """A row for each other way in which Podwright ran."""
    return [
        (
            f"{title(entry)}, `--pod-intake={series.removeprefix(f'{OURS}_')}`",
            _cell(entry[series], "pods_per_s", "{:,.0f}"),
            *[""] * 5,
            _cell(entry[series], "cpu_ms_per_pod", "{:.2f}"),
            *[""] * 4,
        )
        for series in series_of(entry)
        if series.startswith(f"{OURS}_")
    ]


def _judged(entry: Json, figure: str, verdict: Verdict | None) -> Row:
    """The ratio with its spread, the target, and whether it is reached."""
    if figure not in entry.get("ratio", {}):
        return "", "", ""
    least, most = entry["ratio_spread"][figure]
    ratio = f"{entry['ratio'][figure]:.2f} ({least:.2f} to {most:.2f})"
    return (ratio, f"{verdict.bound:g}", _said(verdict)) if verdict else (ratio, "", "")


def _said(verdict: Verdict) -> str:
    if verdict.at_least and verdict.found < verdict.bound and verdict.by_null:
        return f"yes: {verdict.of_null:.0%} of what deciding nothing makes"
    return "yes" if verdict.reached else "**no**"


def _stands_apart(verdict: Verdict) -> bool:
    return verdict.figure not in {"pods_per_s", "cpu_ms_per_pod"}


def _other_row(entry: Json, verdict: Verdict) -> Row:
    what = f"{_UNITS[verdict.figure]}: {title(entry)}, {entry['pods']:,} pods"
    bound, said = f"{verdict.bound:g}", _said(verdict)
    if verdict.least is None:
        return what, f"{verdict.found:.1f}", "", "", bound, said
    form = "{:,.2f}" if verdict.figure == "start_s" else "{:,.0f}"
    figures = (_cell(entry[series], verdict.figure, form) for series in (OURS, THEIRS))
    return what, *figures, f"{verdict.found:.2f} ({verdict.least:.2f} to {verdict.most:.2f})", bound, said


def _scale_row(what: str, verdict: Verdict) -> Row:
    return f"cost of a decision on 15,000 nodes to 1,500: {what}", "", "", f"{verdict.found:.2f}", "5", _said(verdict)


_DETAILS = (
    ("runs", "runs", "{:.0f}"),
    ("pods_per_s_with_events", "pods/s to the last event", "{:,.0f}"),
    ("start_s", "start, s", "{:.2f}"),
    ("p50_ms", "p50, ms", "{:,.0f}"),
    ("p99_ms", "p99, ms", "{:,.0f}"),
    ("peak_mb", "peak, MB", "{:.0f}"),
    ("api_server_cpu_ms_per_pod", "CPU ms a pod, API server", "{:.2f}"),
    ("etcd_cpu_ms_per_pod", "etcd", "{:.2f}"),
    ("requests_per_pod", "requests a pod", "{:.2f}"),
    ("events_missing", "events missing", "{:.0f}"),
    ("cpu_share_stdev", "deviation of CPU shares", "{:.3f}"),
    ("zone_skew", "zone skew", "{:.0f}"),
    ("empty_nodes", "empty nodes", "{:.0f}"),
    ("overcommitted_nodes", "over-committed", "{:.0f}"),
    ("others_cpu_share", "others' share of the machine", "{:.0%}"),
)


def _cell(figures: Json, name: str, form: str) -> str:
    return form.format(figures[name]) if name in figures else ""


def _table(head: Row, rows: Iterable[Row]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def section(result: Path, root: Path = _CHECKOUT) -> str:
    """The README's part for a result, markers included."""
    return f"{_BEGIN}{result.resolve().relative_to(root)} -->\n\n{short(*read(result))}\n{_END}"


def read(result: Path) -> tuple[list[Json], list[Json]]:
    """A result and, if it lies beside it as NAME-core.json, that of the core alone."""
    core = result.with_name(f"{result.stem}-core.json")
    return json.loads(result.read_text()), json.loads(core.read_text()) if core.exists() else []


def rewritten(text: str, make: Callable[[Path], str], result: Path | None = None, root: Path = _CHECKOUT) -> str:
    """The README's text with its section made anew, of the result that it names if no other is given.

    Raises ValueError for a text without the markers.
    """
    before, begin, rest = text.partition(_BEGIN)
    inside, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError("the markers of the benchmark's section are missing")
    named = root / inside.split(" -->", 1)[0]
    return before + make(result or named) + after


@click.command()
@click.argument("result", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@click.option("--readme", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Write the section in it.")
@click.option("--check", is_flag=True, help="Only see whether it is up to date.")
def main(result: Path | None, readme: Path | None, check: bool) -> None:
    """Tables of a benchmark's result."""
    if readme is None:
        if result is None:
            raise click.UsageError("which result?")
        entries, core = read(result)
        click.echo(f"{short(entries, core)}\n{details(entries)}")
        return
    text = readme.read_text()
    new = rewritten(text, section, result)
    if check and new != text:
        sys.exit(f"{readme} is out of date: make bench-table")
    readme.write_text(new)


if __name__ == "__main__":
    main()
