"""`podwright record`: writes down how the nodes and pods of a cluster come and go, for `podwright replay`."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from podwright.cli.flags.common import OUTPUT_FILE
from podwright.cli.flags.connection import ANNOTATIONS, OPERATOR_NAMESPACE, with_connection
from podwright.kube.signals import catch_signals
from podwright.simulator.live import LiveConnection
from podwright.simulator.replay.record import StreamRecorder
from podwright.simulator.replay.record import record as run_recording


@click.command()
@OUTPUT_FILE
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.0),
    metavar="N",
    help="End N seconds after the whole cluster was read. Default: at Ctrl-C.",
)
@with_connection
@ANNOTATIONS
@OPERATOR_NAMESPACE
def record(
    *,
    output: str,
    seconds: float | None,
    **values: Any,
) -> None:
    """Write down, as JSON lines, what a cluster has and how its nodes and pods change, until Ctrl-C.

    Reads the cluster with your own permissions, and writes nothing to it. Like snapshots, recordings have no secrets.
    """  # fmt: skip
    connection = LiveConnection(**values)

    async def run(file: Any) -> StreamRecorder:
        stop = asyncio.Event()
        catch_signals(stop)
        return await run_recording(connection, file, seconds, stop)

    duration = "" if seconds is None else f" for {seconds:g} s"
    click.echo(f"Recording{duration}. Press Ctrl-C to stop{' earlier' if duration else ''}.", err=True)
    with _opened(output) as file:
        recorder = asyncio.run(run(file))
    click.echo(f"{recorder.lines:,} lines", err=True)


@contextlib.contextmanager
def _opened(output: str) -> Iterator[Any]:
    if output == "-":
        yield sys.stdout.buffer
        with contextlib.suppress(OSError, ValueError):  # what nobody reads would fail again at the end of the process
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    with gzip.open(output, "wb") if output.endswith(".gz") else Path(output).open("wb") as file:
        yield file
