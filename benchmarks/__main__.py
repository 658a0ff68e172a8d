"""`python -m benchmarks`: run each workload with each scheduler in turn, then print and save the figures."""

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from benchmarks.measurement import Settings
from benchmarks.report import PEERS, queues
from benchmarks.results import OURS, THEIRS, Journal, machine, summarize
from benchmarks.run_plan import Plan, Run, execute, prepare_all, resized
from benchmarks.schedulers import KUBE_SCHEDULER, NULL, NULL_WITHOUT_EVENTS, Series, podwright, with_rules, with_standby
from benchmarks.summary_table import summary_table
from benchmarks.targets import of_queues
from benchmarks.workloads import SETS, Workload, choose, load
from podwright.testing import Binaries, BinariesMissingError, BuildError, ProcessError

_SERIES = (OURS, THEIRS, "null")
_INTAKES = ("podwright_kopf", "podwright_watch")
_STANDBY = "podwright_standby"
_RULES = "podwright_rules"
_WITHOUT_EVENTS = "podwright_without_events"
_RESULTS = Path(__file__).parent / "results"


@click.command()
@click.option(
    "--set",
    "label",
    type=click.Choice(list(SETS)),
    default="thin",
    show_default=True,
    help=f"The set of workload sizes to run. {'; '.join(f'{name}: {meaning}' for name, meaning in SETS.items())}.",
)
@click.option("--quick", is_flag=True, help="Short for --set quick: the everyday workloads.")
@click.option(
    "--workload", "names", multiple=True, help="Run only workloads of this name, at their sizes in the set. Repeatable."
)
@click.option(
    "--size", "sizes", multiple=True, help="Run these sizes instead of the set's, for example 5000Nodes. Repeatable."
)
@click.option("--nodes", type=int, help="Number of nodes; overrides the workload's file.")
@click.option("--pods", type=int, help="Number of measured pods; overrides the workload's file.")
@click.option("--pairs", default=1, show_default=True, help="Number of rounds; the schedulers take turns in each.")
@click.option(
    "--series",
    multiple=True,
    default=_SERIES,
    show_default=True,
    metavar="NAME[:TIMES]",
    help=f"A scheduler to run, and at most how many rounds it takes part in: {', '.join((*_SERIES, *_INTAKES, _STANDBY, _RULES, _WITHOUT_EVENTS, NULL_WITHOUT_EVENTS.name))}. Repeatable.",
)
@click.option("--mode", type=click.Choice(["backlog", "live", "both"]), default="backlog", show_default=True)
@click.option(
    "--rate", default=0.0, help="Pods created per second in live mode; 0: as fast as the API server accepts them."
)
@click.option("--fsync", is_flag=True, help="Let etcd wait until writes are on disk.")
@click.option(
    "--podwright-argument", "arguments", multiple=True, help="An extra argument for `podwright run`. Repeatable."
)
@click.option(
    "--output", type=click.Path(path_type=Path), default=_RESULTS / "latest.json", help="The file for the summary."
)
@click.option(
    "--resume",
    is_flag=True,
    help="Keep the runs of earlier commands with the same output, and make only the missing ones.",
)
@click.option(
    "--redo",
    type=float,
    help="With --resume: repeat runs during which other processes used more than this share of the machine.",
)
@click.option("--minutes", default=0.0, help="Start no run after this many minutes; 0: no limit.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder that keeps prepared clusters for later commands.")
@click.option("--prepare", is_flag=True, help="Prepare the clusters in the --data folder, and run nothing.")
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
    redo: float | None,
    minutes: float,
    data: Path | None,
    prepare: bool,
) -> None:
    """Compare Podwright with kube-scheduler on a real control plane."""
    try:
        workloads = choose(load(), "quick" if quick else label, names, sizes)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    chosen = [resized(workload, nodes, pods) for workload in workloads]
    modes = ("backlog", "live") if mode == "both" else (mode,)
    settings = [Settings(each == "backlog", rate if each == "live" else 0.0, fsync) for each in modes]
    plan = Plan(chosen, settings, [_series(text, pairs, arguments) for text in series], minutes)
    binaries = Binaries()
    for name in ("etcd", "kube-apiserver", "kubectl", "kube-scheduler"):
        binaries.path(name)
    with ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podwright-bench-")))
        folder.mkdir(parents=True, exist_ok=True)
        if prepare:
            prepare_all(plan, binaries, folder)
            return
        journal = Journal(output.with_suffix(".runs.jsonl"), resume=resume)
        if redo is not None:
            click.echo(f"{journal.drop_disturbed(redo)} disturbed runs dropped", err=True)
        if failures := _run(plan, journal, binaries, folder, output):
            sys.exit("\n".join(failures))


def _series(text: str, pairs: int, arguments: Sequence[str]) -> tuple[Series, int]:
    """The series of NAME or NAME:TIMES, and the number of rounds that it takes part in."""
    name, _, times = text.partition(":")
    ours = podwright(tuple(arguments))
    known = {
        OURS: ours,
        THEIRS: KUBE_SCHEDULER,
        "null": NULL,
        _WITHOUT_EVENTS: podwright(("--scheduled-events-per-second=0", *arguments), _WITHOUT_EVENTS),
        NULL_WITHOUT_EVENTS.name: NULL_WITHOUT_EVENTS,
        _STANDBY: with_standby(ours, _STANDBY),
        _RULES: with_rules(ours, _RULES),
    }
    for intake in _INTAKES:
        known[intake] = podwright((f"--pod-intake={intake.removeprefix('podwright_')}", *arguments), intake)
    if name not in known or (times and not times.isdecimal()):
        raise click.BadParameter(f"{text}: NAME or NAME:TIMES, NAME being one of {', '.join(known)}")
    return known[name], min(pairs, int(times)) if times else pairs


def _run(plan: Plan, journal: Journal, binaries: Binaries, folder: Path, output: Path) -> list[str]:
    this_machine = machine(binaries.versions)

    def save(_run: Run | None = None) -> None:
        output.write_text(json.dumps(summarize(journal.records, this_machine), indent=1) + "\n")

    failures = execute(plan, journal, binaries, folder, save)
    save()
    _print(plan, journal)
    click.echo(f"saved to {output}")
    return failures


def _print(plan: Plan, journal: Journal) -> None:
    console = Console(width=110)
    measured: list[tuple[Workload, str]] = [
        (each, settings.mode) for each in plan.workloads for settings in plan.settings_for(each)
    ]
    for workload, mode in measured:
        for entry in summarize(journal.records_of(workload, mode), {}):
            console.print(summary_table(entry))
    entries = summarize(journal.records, {})
    if of_queues(entries):
        click.echo(f"{queues(entries)}\n\n{PEERS}")


if __name__ == "__main__":
    try:
        main()
    except (BinariesMissingError, BuildError, ProcessError) as error:
        sys.exit(f"error: {error}")
