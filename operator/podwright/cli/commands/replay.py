"""`podwright replay`: compares several policies on the same stream of pods."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from podwright.cli.flags.cluster import load_options, with_gathering, with_policies
from podwright.cli.flags.common import file_to_read, output_format
from podwright.cli.printable import color_system, echo, plain, write
from podwright.core.objects.wording import counted, first_of
from podwright.simulator.manifests import ManifestError, read_manifests
from podwright.simulator.replay import run as replays
from podwright.simulator.replay.meter import Prices
from podwright.simulator.replay.plots import plots
from podwright.simulator.replay.recording import read_recording
from podwright.simulator.replay.run import BUILT_IN, SAMPLES, ReplayCandidate, ReplayOptions
from podwright.simulator.replay.scorecard import Scorecard
from podwright.simulator.replay.stream import ReplayStream
from podwright.simulator.replay.tables import markdown, queue_rows, rows
from podwright.simulator.replay.task_lists import (
    GPU,
    GPU_SHARE,
    UNITS_PER_GPU,
    filling_stream,
    read_nodes,
    read_tasks,
    stream_of,
)
from podwright.simulator.snapshot import read_snapshot

PROGRESS_SECONDS: Final = 10.0
MOST_GANGS: Final = 10
"""How many gangs that wait the table names for each policy."""


@click.command()
@click.argument("stream", type=click.Path(exists=True, dir_okay=False))
@file_to_read("--nodes", "nodes", about="The nodes: a list as CSV, or a snapshot. A recording has its own.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE",
    help="SchedulerPolicies, RebalancePolicies, and SchedulingQueues in place of those of the stream, to replay under, "
    f"or `{BUILT_IN}` "
    "for kube-scheduler's default profile. Repeat it to compare.",
)
@click.option(
    "--every-nth-node",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Use only every nth node, so that pods have to wait.",
)
@click.option(
    "--fill",
    type=click.FloatRange(min=0.0, min_open=True, max=10.0),
    metavar="SHARE",
    help="Ignore the times: tasks come in a random order until they have requested this share of the resource, and no "
    "task leaves.",
)
@click.option(
    "--gpu-shares",
    is_flag=True,
    help=f"Tasks of a list request shares of GPUs as {GPU_SHARE}, {UNITS_PER_GPU} for each GPU. Default: whole ones.",
)
@click.option(
    "--resource",
    default="",
    metavar="NAME",
    help="The resource whose fragmentation is measured. Default: GPUs or their shares if nodes have any, else cpu.",
)
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="[LABEL=VALUE:]PRICE",
    help="What a node costs per hour, for all nodes or for those with this label. Can be repeated.  [default: 1]",
)
@click.option(
    "--samples",
    type=click.IntRange(2, 10_000),
    default=SAMPLES,
    show_default=True,
    metavar="N",
    help="How many points the plots have.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Decides among nodes with equal scores, and the order of --fill.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Write scorecard.md, scorecard.json and the plots there.",
)
@output_format("table", "json", "yaml")
@with_gathering
@with_policies
def replay(
    *,
    stream: str,
    nodes: str | None,
    policies: tuple[str, ...],
    every_nth_node: int,
    fill: float | None,
    gpu_shares: bool,
    resource: str,
    prices: tuple[str, ...],
    samples: int,
    seed: int,
    out: str | None,
    output: str,
    **values: Any,
) -> None:
    """Compare policies: replay the same stream of pods under each of them, and show the scorecards side by side.

    STREAM is a recording (`podwright record`, JSON lines) or a list of tasks (CSV); files that end with .gz are
    unpacked. The scheduler's own code decides, on a simulated clock.
    """  # fmt: skip
    load = load_options(values)
    resource = resource or (GPU_SHARE if gpu_shares else "")
    found = _stream(stream, nodes, every_nth_node, fill, seed, resource, shares=gpu_shares)
    for problem in found.problems[:10]:
        echo(f"Problem: {problem}", err=True)
    options = ReplayOptions(load=load, prices=_prices(prices), resource=resource, samples=samples, seed=seed)
    candidates = [_candidate(path) for path in policies or (BUILT_IN,)]
    with _progress() as progress:
        cards = replays.replay(found, candidates, options, progress)
    if out:
        _write_all(cards, Path(out))
    for note in dict.fromkeys(f"{card.policy}: {note}" for card in cards for note in card.notes):
        echo(f"Note: {note}", err=True)
    _show(cards, output)


def _stream(
    path: str, nodes: str | None, every: int, fill: float | None, seed: int, resource: str, *, shares: bool
) -> ReplayStream:
    initial = (
        []
        if nodes is None
        else read_nodes(nodes, shares=shares)
        if _is_csv(nodes)
        else [*read_snapshot([nodes]).objects]
    )
    if not _is_csv(path):
        if fill is not None:
            raise click.UsageError("--fill needs a list of tasks")
        if shares:
            raise click.UsageError("--gpu-shares needs a list of tasks")
        found = read_recording(path, initial)
        return _thinned(found, every)
    if nodes is None:
        raise click.UsageError("a list of tasks needs --nodes")
    kept = [*_every_nth_node(initial, every)]
    tasks = read_tasks(path, shares=shares)
    return stream_of(kept, tasks) if fill is None else filling_stream(kept, tasks, fill, seed, resource or GPU)


def _thinned(stream: ReplayStream, every: int) -> ReplayStream:
    if every == 1:
        return stream
    initial = [*_every_nth_node(stream.initial, every)]
    return ReplayStream(
        initial=initial, events=stream.events, start=stream.start, end=stream.end, problems=stream.problems
    )


def _every_nth_node(objects: Sequence[Any], every: int) -> Iterator[Any]:
    number = 0
    for raw in objects:
        if raw.get("kind") == "Node":
            number += 1
            if number % every != 1 and every > 1:
                continue
        yield raw


def _is_csv(path: str) -> bool:
    return path.removesuffix(".gz").endswith(".csv")


def _candidate(path: str) -> ReplayCandidate:
    if path == BUILT_IN:
        return ReplayCandidate(BUILT_IN)
    manifests = read_manifests(path)
    for raw in manifests:
        if raw.get("kind") not in (kinds := ("SchedulerPolicy", "SchedulingQueue", "RebalancePolicy")):
            raise ManifestError(f"{raw.where}: expected one of {', '.join(kinds)}, got {raw.get('kind')}")
    return ReplayCandidate(Path(path).stem, manifests)


def _prices(texts: Sequence[str]) -> Prices:
    default, by_label = 1.0, {}
    for text in texts:
        selector, _, amount = text.rpartition(":")
        try:
            price = float(amount)
        except ValueError:
            price = -1.0
        label, equals, value = selector.partition("=")
        if not 0 <= price < float("inf") or (selector and not (label and equals)):
            raise click.UsageError(f"--price: {text!r} is not of the form 2.5 or label=value:2.5")
        if selector:
            by_label[label, value] = price
        else:
            default = price
    return Prices(default, by_label)


@contextmanager
def _progress() -> Iterator[replays.Progress]:
    """A bar for each policy on a terminal, and elsewhere a line every `PROGRESS_SECONDS`."""
    began = said = time.monotonic()

    def say(name: str, done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= PROGRESS_SECONDS:
            said = now
            echo(f"{name}: {done:,} of {total:,} events, {now - began:.0f} s", err=True)

    if not sys.stderr.isatty():
        yield say
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, color_system=color_system())) as bars:
        tasks: dict[str, Any] = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(plain(name), total=total)
            bars.update(tasks[name], completed=done)

        yield show


def _show(cards: Sequence[Scorecard], output: str) -> None:
    if output != "table":
        write([card.as_dict() for card in cards], output)
    else:
        console = Console(width=None if sys.stdout.isatty() else 200, color_system=color_system())
        for given in filter(None, (rows(cards), queue_rows(cards))):
            header, *body = given
            table = Table(*map(plain, header))
            for column in table.columns[1:]:
                column.justify = "right"
            for row in body:
                table.add_row(*map(plain, row))
            console.print(table)
        for card in cards:
            if card.gangs:
                echo(f"{card.policy}: {counted(len(card.gangs), 'gang')} left waiting at the end")
                for line in first_of(card.gangs, MOST_GANGS):
                    echo(f"  {line}")
        for card in cards:
            echo(f"{card.policy}: {card.attempts:,} attempts in {card.cpu_seconds:.1f} s of CPU time", err=True)


def _write_all(cards: Sequence[Scorecard], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scorecard.md").write_text(markdown(cards), encoding="utf-8")
    figures = [_figures(card) for card in cards]
    (folder / "scorecard.json").write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2) + b"\n")
    for name, drawing in plots(cards).items():
        (folder / name).write_text(drawing, encoding="utf-8")


def _figures(card: Scorecard) -> dict[str, Any]:
    """The scorecard without the data of the plots, and without figures that differ from run to run."""
    figures = card.as_dict()
    for data in ("samples", "cpuSeconds", "queueSamples"):
        figures.pop(data, None)
    for waiting in (figures["waiting"], *(queue["waiting"] for queue in figures.get("queues", ()))):
        del waiting["curve"]
    return figures
