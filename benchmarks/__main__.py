"""`python -m benchmarks`: run workloads with each scheduler in turn, and print and keep the figures."""

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console

from benchmarks.plan import Plan, Run, carry_out, prepare_all, resized
from benchmarks.results import OURS, THEIRS, Journal, machine, summarize
from benchmarks.run import Settings
from benchmarks.schedulers import KUBE_SCHEDULER, NULL, Series, podwright
from benchmarks.table import table
from benchmarks.workloads import Workload, load
from podwright.testing import Binaries, BinariesMissingError, BuildError, ProcessError

_SERIES = (OURS, THEIRS, "null")
_INTAKES = ("podwright_kopf", "podwright_watch")
_RESULTS = Path(__file__).parent / "results"
_RUN_LABELS = ("smoke", "thin", "quick", "full", "start", "scale")


@click.command()
@click.option("--set", "label", type=click.Choice(_RUN_LABELS), default="thin", show_default=True, help="Which sizes.")
@click.option("--quick", is_flag=True, help="The same as --set quick: the workloads for every day.")
@click.option("--workload", "names", multiple=True, help="Only workloads of this name; may be given again.")
@click.option("--size", "sizes", multiple=True, help="These sizes instead of the set's, 5000Nodes, say.")
@click.option("--nodes", type=int, help="So many nodes, whatever the workload's file says.")
@click.option("--pods", type=int, help="So many measured pods.")
@click.option("--pairs", default=1, show_default=True, help="How often each scheduler runs, in turn.")
@click.option(
    "--series",
    multiple=True,
    default=_SERIES,
    show_default=True,
    metavar="NAME[:TIMES]",
    help=f"Who runs, in how many of the pairs at most; of {', '.join(_SERIES + _INTAKES)}. May be given again.",
)
@click.option("--mode", type=click.Choice(["backlog", "live", "both"]), default="backlog", show_default=True)
@click.option("--rate", default=0.0, help="Pods a second in live mode; 0: as fast as they are taken.")
@click.option("--fsync", is_flag=True, help="Let etcd wait for the disk.")
@click.option("--podwright-argument", "arguments", multiple=True, help="A further argument of `podwright run`.")
@click.option("--output", type=click.Path(path_type=Path), default=_RESULTS / "latest.json", help="The summary's file.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run with the same output was broken off, or add.")
@click.option(
    "--redo", type=float, help="With --resume: run again where others took more than this share of the machine."
)
@click.option("--minutes", default=0.0, help="Begin no run after so many minutes; 0: without end.")
@click.option("--data", type=click.Path(path_type=Path), help="Keep prepared clusters in this folder, and take them.")
@click.option("--prepare", is_flag=True, help="Only fill the --data folder.")
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
    """Set Podwright beside kube-scheduler on a real control plane."""
    chosen = [
        resized(workload, nodes, pods)
        for workload in load()
        if (not names or workload.name in names)
        and (workload.size in sizes if sizes else ("quick" if quick else label) in workload.labels)
    ]
    if not chosen:
        raise click.UsageError("no workload is chosen")
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
            click.echo(f"{journal.drop_disturbed(redo)} disturbed runs are forgotten", err=True)
        if failures := _run(plan, journal, binaries, folder, output):
            sys.exit("\n".join(failures))


def _series(text: str, pairs: int, arguments: Sequence[str]) -> tuple[Series, int]:
    """NAME or NAME:TIMES."""
    name, _, times = text.partition(":")
    everyone = {OURS: podwright(tuple(arguments)), THEIRS: KUBE_SCHEDULER, "null": NULL}
    for intake in _INTAKES:
        everyone[intake] = podwright((f"--pod-intake={intake.removeprefix('podwright_')}", *arguments), intake)
    if name not in everyone or (times and not times.isdecimal()):
        raise click.BadParameter(f"{text}: NAME or NAME:TIMES, NAME being one of {', '.join(everyone)}")
    return everyone[name], min(pairs, int(times)) if times else pairs


def _run(plan: Plan, journal: Journal, binaries: Binaries, folder: Path, output: Path) -> list[str]:
    described = machine(binaries.versions)

    def keep(_run: Run | None = None) -> None:
        output.write_text(json.dumps(summarize(journal.records, described), indent=1) + "\n")

    failures = carry_out(plan, journal, binaries, folder, keep)
    keep()
    _print(plan, journal)
    click.echo(f"kept in {output}")
    return failures


def _print(plan: Plan, journal: Journal) -> None:
    console = Console(width=110)
    asked: list[tuple[Workload, str]] = [(each, settings.mode) for each in plan.workloads for settings in plan.of(each)]
    for workload, mode in asked:
        for entry in summarize(journal.of(workload, mode), {}):
            console.print(table(entry))


if __name__ == "__main__":
    try:
        main()
    except (BinariesMissingError, BuildError, ProcessError) as error:
        sys.exit(f"error: {error}")
