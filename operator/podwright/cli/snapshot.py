"""`podwright snapshot`: writes down everything about a cluster that scheduling depends on."""

from __future__ import annotations

from collections import Counter

import click

from podwright.cli.printable import echo
from podwright.core.objects.watched_kinds import NODE_KIND, POD_KIND
from podwright.simulator.live import Connection, snapshot_of
from podwright.simulator.redaction import KNOWN_KINDS, redacted
from podwright.simulator.snapshot import Snapshot, SnapshotError, read_snapshot, write_snapshot


@click.command(short_help="Write down what scheduling in a cluster depends on.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "-o", "--output", default="-", metavar="FILE", help="Where to write. `.gz` packs it. Default: standard output."
)
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="The kubeconfig, found as kubectl finds it.")
@click.option("--context", help="A context of the kubeconfig, instead of the current one.")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Read only this namespace. Can be repeated. For callers that may not list the pods of all namespaces.",
)
@click.option(
    "--annotation",
    "annotations",
    multiple=True,
    metavar="PATTERN",
    help="Keep annotations whose names match, for plugins and rules that read them. Can be repeated. Others are left out.",
)
def snapshot(
    files: tuple[str, ...],
    *,
    output: str,
    kubeconfig: str | None,
    context: str | None,
    namespaces: tuple[str, ...],
    annotations: tuple[str, ...],
) -> None:
    """Write down everything about a cluster that scheduling depends on, without secrets, for `podwright simulate`.

    Reads the cluster with your own permissions, as kubectl does, and writes nothing to it. What you may not list is left out and named.
    With FILES, which are outputs of `kubectl get … -o json`, writes a snapshot of these instead.
    """
    try:
        if files:
            found = read_snapshot(files)
            known = [raw for raw in found.objects if raw["kind"] in KNOWN_KINDS]
            kept = [redacted(str(raw["kind"]), raw, annotations) for raw in known]
            taken = Snapshot(objects=kept, missing=found.missing, taken_at=found.taken_at, minor=found.minor)
        else:
            taken = snapshot_of(
                Connection(kubeconfig=kubeconfig, context=context, namespaces=namespaces, annotations=annotations)
            )
        write_snapshot(taken, output)
    except (SnapshotError, OSError) as error:
        raise click.ClickException(str(error)) from error
    counts = Counter(str(raw["kind"]) for raw in taken.objects)
    others = len(taken.objects) - counts[NODE_KIND.kind] - counts[POD_KIND.kind]
    click.echo(f"{counts[NODE_KIND.kind]:,} nodes, {counts[POD_KIND.kind]:,} pods, {others:,} other objects", err=True)
    for kind, why in taken.missing.items():
        echo(f"without {kind}: {why}", err=True)
