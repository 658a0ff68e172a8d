"""Orders and executes the runs of a benchmark: rounds over all workloads, in which the schedulers take turns.

An interrupted benchmark therefore has about as many pairs of each workload, and drift of the machine affects all
workloads alike.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from benchmarks.measurement import Settings, measure
from benchmarks.prepared_cluster import Prepared, prepare
from benchmarks.results import OURS, Journal, Key, Record, commit
from benchmarks.schedulers import Series
from benchmarks.workloads import CreateNodes, Workload
from podwright.testing import Binaries


@dataclass(frozen=True, slots=True)
class Plan:
    """The requested runs: each series with its number of rounds, and a limit in `minutes` (0: none)."""

    workloads: list[Workload]
    settings: list[Settings]
    series: list[tuple[Series, int]]
    minutes: float = 0.0

    def settings_for(self, workload: Workload) -> list[Settings]:
        """The settings for a workload. A workload that is `only_live` is measured live instead of as a backlog."""
        if not workload.only_live:
            return self.settings
        return list(dict.fromkeys(replace(settings, backlog=False) for settings in self.settings))

    def rounds(self) -> Iterator["Run"]:
        """All runs, in order."""
        for pair in range(max(times for _, times in self.series)):
            for workload in self.workloads:
                for settings in self.settings_for(workload):
                    for series, times in self.series:
                        if pair < times and (not workload.only_ours or series.name.startswith(OURS)):
                            yield Run(workload, settings, series, pair)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a plan."""

    workload: Workload
    settings: Settings
    series: Series
    pair: int

    @property
    def key(self) -> Key:
        return Key(self.workload.name, self.workload.size, self.settings.mode, self.pair, self.series.name)

    @property
    def title(self) -> str:
        return f"{self.workload.title}, {self.settings.mode}, {self.pair + 1}. {self.series.name}"


def execute(
    plan: Plan, journal: Journal, binaries: Binaries, folder: Path, on_done: Callable[[Run], None]
) -> list[str]:
    """Make the runs that the journal lacks, and append each when it ends. Returns messages about failures.

    `folder` holds the prepared data.
    """
    end = time.monotonic() + 60 * plan.minutes if plan.minutes else float("inf")
    failures: list[str] = []
    for run in plan.rounds():
        if journal.has(run.key):
            continue
        if time.monotonic() > end:
            return [*failures, f"{plan.minutes:g} minutes are over: continue with --resume"]
        try:
            journal.append(_execute_run(run, _prepared(run, folder, binaries), binaries))
        except Exception as error:  # noqa: BLE001 -- one failed run must not end the whole benchmark
            failures.append(f"{run.title}: {type(error).__name__}: {error}")
            click.secho(failures[-1], fg="red", err=True)
        on_done(run)
    return failures


def prepare_all(plan: Plan, binaries: Binaries, folder: Path) -> None:
    """Prepare the data that the plan's runs start from, in `folder`."""
    for run in plan.rounds():
        _prepared(run, folder, binaries)


def _prepared(run: Run, folder: Path, binaries: Binaries) -> Prepared:
    started = time.monotonic()
    prepared = prepare(run.workload, folder, binaries, backlog=run.settings.backlog)
    if (took := time.monotonic() - started) > 1:
        click.echo(f"{run.workload.title}: prepared {run.workload.nodes} nodes in {took:.0f} s", err=True)
    return prepared


def _execute_run(run: Run, prepared: Prepared, binaries: Binaries) -> Record:
    figures = measure(run.series, prepared, run.settings, binaries)
    click.echo(
        f"{time.strftime('%H:%M:%S')} {run.title}: {figures['pods_per_s']:.0f} pods/s, "
        f"{figures['cpu_ms_per_pod']:.2f} ms of CPU per pod, {figures['peak_mb']:.0f} MB, "
        f"p99 {figures['p99_ms']:.0f} ms, the last after {figures['last_s']:.1f} s; took {figures['run_s']:.0f} s; "
        f"others used {figures['others_cpu_share']:.0%} of the machine",
        err=True,
    )
    return Record(run.key, run.workload.nodes, figures, commit())


def resized(workload: Workload, nodes: int | None, pods: int | None) -> Workload:
    """The workload with another number of nodes or measured pods, and a size named after them."""
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
