"""`podwright queues`: the tree of queues, or with `--shares` the answers to cases of fair shares."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
import orjson
from rich.console import RenderableType

from podwright.cli.flags.cluster import with_source
from podwright.cli.printable import color_system, printable_texts
from podwright.cli.reports.queues import queue_resources, queue_table, usage_table
from podwright.core.framework.interface import ClusterError
from podwright.kube.client.errors import ConfigError, status_of
from podwright.kube.kinds import QUEUE, QUEUE_VIEW
from podwright.simulator.evaluations.cases import CaseError, read_cases
from podwright.simulator.evaluations.queue_shares import answer
from podwright.simulator.live import LiveConnection
from podwright.simulator.queue_rows import QueueRow, rows_from, rows_of_views
from podwright.simulator.snapshot import SnapshotError, read_snapshot

_WIDE: Final = 10_000
"""Columns in a pipe."""


@click.command()
@with_source
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Only the queues that this namespace uses, as its QueueViews show them. For that, you need rights in the "
    "namespace only.",
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME",
    help="The resource to show. Can be repeated. By default the extended resource that most queues name, or CPU.",
)
@click.option(
    "--usage",
    is_flag=True,
    help="Show what queues and their users have used: the GPU-hours, or the hours of the first --resource.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="The output format.",
)
@click.option(
    "--shares",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Instead: answer cases of fair shares, JSON lines with one case each. `.gz` is unpacked, `-` is standard "
        "input. Can be repeated.",
)  # fmt: skip
def queues(
    *,
    files: tuple[str, ...],
    shares: tuple[str, ...],
    namespace: str | None,
    resources: tuple[str, ...],
    usage: bool,
    output: str,
    **values: Any,
) -> None:
    """Show the tree of queues: what each is guaranteed, has and may have, and what its pods wait for.

    With -n NAMESPACE, only the queues that a namespace uses, which needs no rights outside of it.

    Reads SchedulingQueues from the API server with your own permissions, with the status that the operator writes, or
    from FILES (see `podwright snapshot`). With --shares, the command contacts no API server: it prints one JSON line
    for each case, with the share of each queue, and an error for an invalid one, with which the exit status is 1.
    """
    if shares:
        sys.exit(_answer(shares))
    try:
        rows = _rows(files, LiveConnection(**values), namespace)
    except (SnapshotError, ConfigError, ClusterError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if output == "json":
        found = [row.as_json() for row in rows]
        sys.stdout.buffer.write(orjson.dumps({"queues": found}, option=orjson.OPT_INDENT_2) + b"\n")
    elif not rows:
        click.echo("There are no queues.")
    else:
        shown = resources or queue_resources(rows)
        _show(usage_table(printable_texts(rows), shown[0]) if usage else queue_table(printable_texts(rows), shown))


def _rows(files: Sequence[str], connection: LiveConnection, namespace: str | None) -> Sequence[QueueRow]:
    kind, rows_of = (QUEUE, rows_from) if namespace is None else (QUEUE_VIEW, rows_of_views)
    if files and namespace is not None:
        raise click.UsageError("-n reads the API server: FILES have no QueueViews")
    if files:
        return rows_from(read_snapshot(files).of_kind(kind.kind))
    with connection.reader() as reader:
        try:
            return rows_of(
                [*reader.objects_at(kind.collection if namespace is None else kind.collection_in(namespace))]
            )
        except ClusterError as error:
            if status_of(error) == 404:
                raise SnapshotError(f"the API server does not serve {kind.plural}.{kind.group}") from error
            if status_of(error) == 403 and namespace is None:
                raise SnapshotError(f"{error}. With -n NAMESPACE you see the queues that a namespace uses") from error
            raise


def _show(table: RenderableType) -> None:
    from rich.console import Console  # noqa: PLC0415 -- commands without tables start faster

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    console = Console(width=width, color_system=color_system(), highlight=False, emoji=False, markup=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def _answer(files: Sequence[str]) -> bool:
    """Prints the answers to the cases. Returns whether one is invalid."""
    failed = False
    for path in files:
        for case in read_cases(path):
            try:
                if isinstance(case, CaseError):
                    raise case
                line = answer(case)
            except CaseError as error:
                failed = True
                line = {"id": error.id, "error": str(error)}
            sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
    return failed
