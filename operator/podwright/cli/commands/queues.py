"""`podwright queues`: the tree of queues, or with `--shares` the answers to cases of fair shares."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from podwright.cli.flags.cluster import with_source
from podwright.cli.flags.common import output_format
from podwright.cli.printable import printable_texts, write, write_answers
from podwright.cli.reports.console import show
from podwright.cli.reports.queues import queue_resources, queue_table, usage_table
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.similar_names import did_you_mean
from podwright.kube.client.errors import status_of
from podwright.kube.kinds import QUEUE, QUEUE_VIEW, Resource
from podwright.kube.log_format import one_line
from podwright.kube.queues.kinds import QUEUE_KINDS
from podwright.simulator.evaluations.cases import answered
from podwright.simulator.evaluations.queue_shares import answer
from podwright.simulator.live import LiveConnection
from podwright.simulator.queue_objects import queue_kind_of
from podwright.simulator.queue_rows import QueueRow, rows_from, rows_of_views
from podwright.simulator.snapshot import SnapshotError, read_snapshot

if TYPE_CHECKING:
    from podwright.kube.client.api_client import ApiReader


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
@output_format("table", "json")
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

    Reads SchedulingQueues, and the queues of KAI and Volcano, from the API server with your own permissions, with
    the status that the operator writes, or from FILES (see `podwright snapshot`). With --shares, the command
    contacts no API server: it prints one JSON line for each case, with the share of each queue, and an error for an
    invalid one, with which the exit status is 1.
    """
    if shares:
        sys.exit(0 if write_answers(each for _, each in answered(shares, answer)) else 1)
    rows = _rows(files, LiveConnection(**values), namespace)
    if output == "json":
        write({"queues": [row.as_json() for row in rows]})
    elif not rows:
        click.echo("There are no queues.")
    else:
        shown = resources or queue_resources(rows)
        _say_what_no_queue_has(rows, resources)
        found = printable_texts(rows)
        show([usage_table(found, shown[0]) if usage else queue_table(found, shown)])


def _rows(files: Sequence[str], connection: LiveConnection, namespace: str | None) -> Sequence[QueueRow]:
    if files and namespace is not None:
        raise click.UsageError("-n reads the API server: FILES have no QueueViews")
    if files:
        return rows_from(raw for raw in read_snapshot(files).objects if queue_kind_of(raw) is not None)
    with connection.reader() as reader:
        if namespace is not None:
            return rows_of_views(_listed(reader, QUEUE_VIEW, namespace))
        return rows_from([raw for kind in QUEUE_KINDS for raw in _listed(reader, kind.resource)])


def _say_what_no_queue_has(rows: Sequence[QueueRow], resources: Sequence[str]) -> None:
    used = [name for row in rows if row.usage is not None for name in row.usage.hours]
    known = dict.fromkeys([*(each.resource for row in rows for each in row.resources), *used])
    for name in resources:
        if name not in known:
            click.echo(one_line(f"No queue names or has {name}{did_you_mean(name, known)}"), err=True)


def _listed(reader: ApiReader, resource: Resource, namespace: str | None = None) -> Sequence[dict[str, Any]]:
    """Lists queues of another API; empty if they are not served or you may not list them."""
    path = resource.collection if namespace is None else resource.collection_in(namespace)
    about = {"apiVersion": f"{resource.group}/{resource.version}", "kind": resource.kind}
    try:
        return [{**about, **raw} for raw in reader.objects_at(path)]
    except ClusterError as error:
        problem = str(error)
        if status_of(error) == 404:
            problem = f"the API server does not serve {resource.plural}.{resource.group}"
        elif status_of(error) != 403:
            raise
        elif resource is QUEUE:
            problem += ". With -n NAMESPACE you see the queues that a namespace uses"
        if resource in (QUEUE, QUEUE_VIEW):
            raise SnapshotError(problem) from error
        if status_of(error) == 403:
            click.echo(problem, err=True)
        return []
