"""A benchmark result as Markdown and as a picture.

`python -m benchmarks.report FILE` prints all tables. With `--readme FILE` it writes three things from the result, so
that none of them can drift from it: ten rows between the markers in the README, the picture `docs/speed.svg`, and all
tables as `NAME.md` beside the result. `--check` writes nothing, and fails if one of the three is out of date.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import click

from benchmarks.chart import Pair, chart
from benchmarks.results import OURS, THEIRS, Json
from benchmarks.targets import Verdict, of_queues, of_scale, verdicts, with_kubelets

_CHECKOUT = Path(__file__).parent.parent
_BEGIN = "<!-- written by make bench-table from "
_END = "<!-- end of what is written -->"
_UNITS = {
    "pods_per_s": "pods/s",
    "cpu_ms_per_pod": "CPU of the scheduler per pod",
    "peak_mb": "peak memory",
    "p99_ms": "p99 from creation to binding",
    "own p50_ms": "p50 of Podwright, ms",
    "own p99_ms": "p99 of Podwright, ms",
    "start_s": "start to first binding",
}
Row = Sequence[str]
PEERS = (
    "The figures of peers are those that they publish, from larger machines: KAI's are the example results of its scale "
    "suite (2026-07-03, a cluster of five nodes, 5 CPUs for the scheduler alone), Volcano's those of "
    "songmingming0827/kube-scheduling-perf (2026-08, 32 CPUs, 8 of them for each component)."
)
PICTURE = Path("docs", "speed.svg")
QUEUES = Path("benchmarks", "results", "queues.json")
"""The results of `make bench ARGS="--set queues --output …"`. Their table is in benchmarks/README.md."""
SUMMARY = (
    ("SchedulingBasic", 1000, "plain pods"),
    ("SchedulingBasic", 5000, "plain pods"),
    ("SchedulingNodeAffinity", 1000, "node affinity"),
    ("SchedulingPodAffinity", 1000, "required pod affinity, by zone"),
    ("SchedulingPreferredPodAffinity", 1000, "preferred pod affinity"),
    ("SchedulingPodAntiAffinity", 1000, "required anti-affinity, by hostname"),
    ("SpreadZoneAndHostname", 1000, "hard spread, by zone and hostname"),
    ("PreferredSpreadZoneAndHostname", 1000, "soft spread, by zone and hostname"),
    ("SchedulingDaemonset", 1001, "DaemonSet pods"),
    ("PreemptionBasic", 1000, "each pod preempts others"),
)
"""The README's ten rows: scheduler_perf's workload, how many nodes, and what its pods ask for."""


def summary(entries: list[Json]) -> str:
    """The README's table: rate and CPU beside kube-scheduler's, for each workload of `SUMMARY` that the result has."""
    heads = ("pods", "workload", "Podwright, pods/s", "kube-scheduler, pods/s", "relative rate", "relative CPU per pod")
    rows = (
        (
            what,
            f"{entry['workload']}, {entry['nodes']:,} nodes",
            *(_cell(entry[series], "pods_per_s", "{:,.0f}") for series in (OURS, THEIRS)),
            f"{entry['ratio']['pods_per_s']:.2f}x",
            f"{entry['ratio']['cpu_ms_per_pod']:.2f}x",
        )
        for what, entry in _summarised(entries)
    )
    ratios = "Relative rate and relative CPU are Podwright's figure divided by kube-scheduler's: the median over the pairs of runs."
    return f"{_table(heads, rows)}\n\n{ratios}\n\n{machine_line(entries)}\n"


def picture(entries: list[Json]) -> str:
    """The summary's rates as an SVG document."""
    return chart(
        [
            Pair(
                f"{what}, {entry['nodes']:,} nodes",
                entry[OURS]["pods_per_s"],
                entry[THEIRS]["pods_per_s"],
                entry["ratio"]["pods_per_s"],
            )
            for what, entry in _summarised(entries)
        ]
    )


def _summarised(entries: list[Json]) -> list[tuple[str, Json]]:
    """The entries of the summary, in its order. A workload that is created live counts where it has no backlog mode."""
    found = {
        (entry["workload"], entry["nodes"]): entry
        for entry in reversed(entries)
        if entry["mode"] in {"backlog", "live"} and "pods_per_s" in entry.get("ratio", {})
    }
    return [(what, found[name, nodes]) for name, nodes, what in SUMMARY if (name, nodes) in found]


def short(entries: list[Json], core: list[Json]) -> str:
    """The machine, each workload beside its targets, and the targets that belong to no single workload."""
    parts = [machine_line(entries)]
    no_rates = {"StartUp", *with_kubelets()}
    rates = [entry for entry in entries if entry["mode"] in {"backlog", "live"} and entry["workload"] not in no_rates]
    parts.append(_table(_RATE_HEAD, (row for entry in rates for row in (_rate_row(entry), *_variant_rows(entry)))))
    others = [_other_row(entry, verdict) for entry in entries for verdict in verdicts(entry) if _stands_apart(verdict)]
    scale = [_scale_row(what, verdict) for what, verdict in of_scale(entries, core).items()]
    if others or scale:
        parts.append(
            _table(("", "Podwright", "kube-scheduler", "ratio", "target, at most", "reached"), [*others, *scale])
        )
    if of_queues(entries):
        parts += [queues(entries), PEERS]
    return "\n\n".join(parts) + "\n"


def queues(entries: list[Json]) -> str:
    """Returns the table of the targets of queues, beside the figures that peers publish."""
    heads = (
        "queues of teams",
        "Podwright",
        "target",
        "reached",
        "peer",
        "events missing",
        "others used of the machine",
    )
    rows = []
    for promise in of_queues(entries):
        found = promise.verdict
        form = "{:.2f}" if found.found < 10 else "{:,.1f}" if found.found < 100 else "{:,.0f}"
        at = f"{'at least' if found.at_least else 'at most'} {found.bound:,g}"
        target = (at, _said(found)) if found.bound else ("", "")
        rest = promise.peer, f"{promise.missing:,.0f}", f"{promise.others:.0%}"
        rows.append((promise.what, form.format(found.found), *target, *rest))
    return _table(heads, rows)


def details(entries: list[Json]) -> str:
    """The quality of placements, and what each run cost the API server and etcd."""
    heads = ("", *(label for _, label, _ in _DETAILS))
    rows = (
        (f"{title(entry)}, {series.replace('_', ' ')}", *(_cell(entry[series], name, f) for name, _, f in _DETAILS))
        for entry in entries
        for series in series_of(entry)
    )
    return _table(heads, rows) + "\n"


def machine_line(entries: list[Json]) -> str:
    """The machine, the versions, and the number of runs."""
    machine = entries[0]["machine"]
    pairs = sorted({entry["pairs"] for entry in entries if entry["pairs"]})
    unit = "pairs of runs" if pairs else "runs"
    pairs = pairs or sorted({int(entry[OURS]["runs"]) for entry in entries})
    commits = ", ".join(dict.fromkeys(c for entry in entries for c in entry["machine"]["commit"].split(", ")))
    cpus = " or ".join(dict.fromkeys(entry["machine"]["cpu"] for entry in entries))
    times = f"{pairs[0]} to {pairs[-1]}" if len(pairs) > 1 else f"{pairs[0]}"
    return (
        f"{machine['cpus']} cores of {cpus}, {machine['memory_gb']} GB; Kubernetes {machine['kubernetes']}, "
        f"etcd {machine['etcd']}, Python {machine['python']}, Podwright at {commits}. Medians of {times} {unit}."
    )


def title(entry: Json) -> str:
    return f"{entry['workload']}, {entry['nodes']:,} nodes" + (
        "" if entry["mode"] == "backlog" else f", {entry['mode']}"
    )


def series_of(entry: Json) -> list[str]:
    """The schedulers that ran, in the order of the result."""
    return [
        name for name, figures in entry.items() if isinstance(figures, dict) and "pods_per_s_with_events" in figures
    ]


_RATE_HEAD = (
    "a backlog of pods", "pods/s", "kube-scheduler", "null scheduler", "ratio", "target, at least", "reached",
    "CPU ms per pod", "kube-scheduler", "ratio", "target, at most", "reached",
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
    """A row for each further configuration of Podwright."""
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
    """The ratio with its spread over the pairs, the target, and whether the ratio reaches it."""
    if figure not in entry.get("ratio", {}):
        return "", "", ""
    least, most = entry["ratio_spread"][figure]
    ratio = f"{entry['ratio'][figure]:.2f} ({least:.2f} to {most:.2f})"
    return (ratio, f"{verdict.bound:g}", _said(verdict)) if verdict else (ratio, "", "")


def _said(verdict: Verdict) -> str:
    if verdict.at_least and verdict.found < verdict.bound and verdict.by_null:
        return f"yes: {verdict.of_null:.0%} of the null scheduler"
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
    return (
        f"cost of a decision on 15,000 nodes, divided by that on 1,500: {what}",
        "",
        "",
        f"{verdict.found:.2f}",
        "5",
        _said(verdict),
    )


_DETAILS = (
    ("runs", "runs", "{:.0f}"),
    ("pods_per_s_with_events", "pods/s to the last event", "{:,.0f}"),
    ("start_s", "start, s", "{:.2f}"),
    ("p50_ms", "p50, ms", "{:,.0f}"),
    ("p99_ms", "p99, ms", "{:,.0f}"),
    ("peak_mb", "peak, MB", "{:.0f}"),
    ("api_server_cpu_ms_per_pod", "CPU ms per pod, API server", "{:.2f}"),
    ("etcd_cpu_ms_per_pod", "etcd", "{:.2f}"),
    ("requests_per_pod", "requests per pod", "{:.2f}"),
    ("events_missing", "events missing", "{:.0f}"),
    ("cpu_share_stdev", "deviation of CPU shares", "{:.3f}"),
    ("zone_skew", "zone skew", "{:.0f}"),
    ("empty_nodes", "empty nodes", "{:.0f}"),
    ("overcommitted_nodes", "over-committed", "{:.0f}"),
    ("others_cpu_share", "share of the machine used by others", "{:.0%}"),
)


def _cell(figures: Json, name: str, form: str) -> str:
    return form.format(figures[name]) if name in figures else ""


def _table(head: Row, rows: Iterable[Row]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def section(result: Path, root: Path = _CHECKOUT, text: Callable[[list[Json]], str] = summary) -> str:
    """A document's section for a result, with its markers."""
    entries, _ = read(result)
    return f"{_BEGIN}{result.resolve().relative_to(root)} -->\n\n{text(entries)}\n{_END}"


def of_teams(entries: list[Json]) -> str:
    """The section on queues in benchmarks/README.md."""
    return f"{queues(entries)}\n\n{machine_line(entries)}\n"


def full(result: Path) -> str:
    """All tables of a result, as a page of their own."""
    entries, core = read(result)
    head = f"# Podwright {result.stem} beside kube-scheduler\n\nWritten by `make bench-table` from {result.name}."
    spread = "A ratio is Podwright's figure divided by kube-scheduler's. In brackets: the least and the greatest ratio of a pair."
    return f"{head} {spread}\n\n{short(entries, core)}\n## Quality and cost\n\n{details(entries)}"


def read(result: Path) -> tuple[list[Json], list[Json]]:
    """A result, and the result of the core alone where it lies beside it as NAME-core.json."""
    core = result.with_name(f"{result.stem}-core.json")
    return json.loads(result.read_text()), json.loads(core.read_text()) if core.exists() else []


def rewritten(text: str, make: Callable[[Path], str], result: Path | None = None, root: Path = _CHECKOUT) -> str:
    """The README's text with a new section, from `result` or, without it, from the result that the section names.

    Raises ValueError for a text without the markers.
    """
    before, begin, rest = text.partition(_BEGIN)
    inside, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError("the markers of the benchmark's section are missing")
    return before + make(result or root / inside.split(" -->", 1)[0]) + after


def documents(readme: Path, result: Path | None = None, root: Path = _CHECKOUT) -> dict[Path, str]:
    """Every file that is written from a result, with its text. Without `result`, from the one that the README names."""
    text = readme.read_text()
    chosen = result or root / text.partition(_BEGIN)[2].split(" -->", 1)[0]
    new = rewritten(text, section, result)
    found = {readme: new, root / PICTURE: picture(read(chosen)[0]), chosen.with_suffix(".md"): full(chosen)}
    if (measured := root / QUEUES).exists():
        page = root / "benchmarks" / "README.md"
        found[page] = rewritten(page.read_text(), partial(section, root=root, text=of_teams), measured)
    return found


@click.command()
@click.argument("result", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@click.option(
    "--readme",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Write the section in this file, the picture and the page with all tables.",
)
@click.option("--check", is_flag=True, help="Write nothing; fail if one of them is out of date.")
def main(result: Path | None, readme: Path | None, check: bool) -> None:
    """Print or write the tables of a benchmark result."""
    if readme is None:
        if result is None:
            raise click.UsageError("name a result, or a README with --readme")
        entries, core = read(result)
        click.echo(f"{short(entries, core)}\n{details(entries)}")
        return
    for path, text in documents(readme, result).items():
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path} is out of date: run make bench-table")


if __name__ == "__main__":
    main()
