"""`python -m benchmarks`: run workloads with each scheduler in turn, and print and keep the figures."""

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console

from benchmarks.cluster import Prepared, prepare
from benchmarks.results import OURS, THEIRS, Journal, Key, Record, machine, summarize
from benchmarks.run import RunFailed, Settings, measure
from benchmarks.schedulers import KUBE_SCHEDULER, NULL, Series, podwright
from benchmarks.table import table
from benchmarks.workloads import CreateNodes, Workload, load
from podwright.testing import Binaries, BinariesMissingError, BuildError, ProcessError

_SERIES = (OURS, THEIRS, "null")
_INTAKES = ("podwright_kopf", "podwright_watch")
_RESULTS = Path(__file__).parent / "results"
_RUN_LABELS = ("smoke", "thin", "quick", "full")


@dataclass(frozen=True, slots=True)
class Plan:
    """What the command line asks for."""

    workloads: list[Workload]
    modes: list[str]
    pairs: int
    series: list[Series]
    settings: Settings


@click.command()
@click.option("--set", "label", type=click.Choice(_RUN_LABELS), default="thin", show_default=True, help="Which sizes.")
@click.option("--quick", is_flag=True, help="The same as --set quick: the workloads for every day.")
@click.option("--workload", "names", multiple=True, help="Only workloads of this name; may be given again.")
@click.option("--size", "sizes", multiple=True, help="These sizes instead of the set's, 5000Nodes, say.")
@click.option("--nodes", type=int, help="So many nodes, whatever the workload's file says.")
@click.option("--pods", type=int, help="So many measured pods.")
@click.option("--pairs", default=1, show_default=True, help="How often each scheduler runs, in turn.")
@click.option(
    "--series", multiple=True, type=click.Choice(_SERIES + _INTAKES), help="Who runs; the first three if not given."
)
@click.option("--mode", type=click.Choice(["backlog", "live", "both"]), default="backlog", show_default=True)
@click.option("--rate", default=0.0, help="Pods a second in live mode; 0: as fast as they are taken.")
@click.option("--fsync", is_flag=True, help="Let etcd wait for the disk.")
@click.option("--podwright-argument", "arguments", multiple=True, help="A further argument of `podwright run`.")
@click.option("--output", type=click.Path(path_type=Path), default=_RESULTS / "latest.json", help="The summary's file.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run with the same output was broken off.")
def main(
    label: str,
    quick: bool,
    names: tuple[str, ...],
    sizes: tuple[str, ...],
    nodes: int | None,
    pods: int | None,
    pairs: int,
    series: tuple[str, ...],
    mode: str,
    rate: float,
    fsync: bool,
    arguments: tuple[str, ...],
    output: Path,
    resume: bool,
) -> None:
    """Set Podwright beside kube-scheduler on a real control plane."""
    chosen = [
        _resized(workload, nodes, pods)
        for workload in load()
        if (not names or workload.name in names)
        and (workload.size in sizes if sizes else ("quick" if quick else label) in workload.labels)
    ]
    if not chosen:
        raise click.UsageError("no workload is chosen")
    everyone = {OURS: podwright(arguments), THEIRS: KUBE_SCHEDULER, "null": NULL}
    for name in _INTAKES:
        everyone[name] = podwright((f"--pod-intake={name.removeprefix('podwright_')}", *arguments), name)
    plan = Plan(
        chosen,
        ["backlog", "live"] if mode == "both" else [mode],
        pairs,
        [everyone[name] for name in series or _SERIES],
        Settings(pods_per_second=rate, fsync=fsync),
    )
    journal = Journal(output.with_suffix(".runs.jsonl"), resume=resume)
    failures = _run(plan, journal, output)
    if failures:
        sys.exit("\n".join(failures))


def _run(plan: Plan, journal: Journal, output: Path) -> list[str]:
    console = Console(width=110)
    binaries = Binaries()
    for name in ("etcd", "kube-apiserver", "kubectl", "kube-scheduler"):
        binaries.path(name)
    described = machine(binaries.versions)
    failures: list[str] = []
    for workload in plan.workloads:
        for mode in plan.modes:
            for failure in _run_workload(plan, workload, mode, journal, binaries):
                failures.append(failure)
                console.print(failure, style="red", markup=False)
            output.write_text(json.dumps(summarize(journal.records, described), indent=1) + "\n")
            entries = summarize(journal.of(workload, mode), described)
            for entry in entries:
                console.print(table(entry))
    console.print(f"kept in {output}")
    return failures


def _run_workload(plan: Plan, workload: Workload, mode: str, journal: Journal, binaries: Binaries) -> Iterator[str]:
    keys = [
        (Key(workload.name, workload.size, mode, pair, series.name), series)
        for pair in range(plan.pairs)
        for series in plan.series
    ]
    due = [(key, series) for key, series in keys if not journal.has(key)]
    if not due:
        return
    settings = replace(plan.settings, backlog=mode == "backlog")
    with tempfile.TemporaryDirectory(prefix="podwright-bench-") as folder:
        click.echo(f"{workload.title}, {mode}: preparing {workload.nodes} nodes …", err=True)
        prepared = prepare(workload, Path(folder), binaries, backlog=settings.backlog)
        for key, series in due:
            failure = _run_one(key, series, prepared, settings, journal, binaries)
            if failure:
                yield failure


def _run_one(
    key: Key, series: Series, prepared: Prepared, settings: Settings, journal: Journal, binaries: Binaries
) -> str | None:
    try:
        figures = measure(series, prepared, settings, binaries)
    except (RunFailed, ProcessError) as error:
        return f"{prepared.workload.title}, {key.mode}, {series.name}: {error}"
    journal.append(Record(key, prepared.workload.nodes, figures))
    click.echo(
        f"  {key.pair + 1}. {series.name}: {figures['pods_per_s']:.0f} pods/s, "
        f"{figures['cpu_ms_per_pod']:.2f} ms of CPU a pod, {figures['peak_mb']:.0f} MB; "
        f"others took {figures['others_cpu_share']:.0%} of the machine",
        err=True,
    )
    return None


def _resized(workload: Workload, nodes: int | None, pods: int | None) -> Workload:
    if nodes is not None:
        largest = max(op.count for op in workload.preparation if isinstance(op, CreateNodes))
        preparation = tuple(
            replace(op, count=nodes) if isinstance(op, CreateNodes) and op.count == largest else op
            for op in workload.preparation
        )
        workload = replace(workload, preparation=preparation, size=f"{nodes}Nodes")
    if pods is not None:
        workload = replace(
            workload, measured=replace(workload.measured, count=pods), size=f"{workload.size}_{pods}Pods"
        )
    return workload


if __name__ == "__main__":
    try:
        main()
    except (BinariesMissingError, BuildError, ProcessError) as error:
        sys.exit(f"error: {error}")
