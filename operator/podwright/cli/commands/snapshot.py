"""`podwright snapshot`: writes down everything about a cluster that scheduling depends on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import click

from podwright.api.workload_grouping import GROUPING_KIND
from podwright.cli.flags.cluster import defined_signals
from podwright.cli.flags.common import OUTPUT_FILE
from podwright.cli.flags.connection import ANNOTATIONS, OPERATOR_NAMESPACE, with_connection
from podwright.cli.printable import echo
from podwright.core.objects.watched_kinds import NODE_KIND, POD_KIND
from podwright.core.objects.wording import first_of
from podwright.kube.options.values import SIGNALS
from podwright.simulator.live import LiveConnection, snapshot_of
from podwright.simulator.made_groups import ReadOwners, kind_of
from podwright.simulator.params import kept_in
from podwright.simulator.redaction import KNOWN_KINDS, redacted
from podwright.simulator.snapshot import read_snapshot, write_snapshot

SHOWN_MISSING: Final = 50
"""How many kinds and ConfigMaps that are missing are listed."""


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@OUTPUT_FILE
@with_connection
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Read only this namespace. Can be repeated. For callers that may not list the pods of all namespaces.",
)
@ANNOTATIONS
@OPERATOR_NAMESPACE
@click.option(
    "--signals",
    type=click.Path(exists=True, dir_okay=False),
    metavar=SIGNALS.placeholder,
    help=(
        "The file of `podwright run --signals`. The sources are asked once, from here and with your own permissions, "
        "and "
        "the numbers become part of the snapshot."
    ),
)
def snapshot(
    files: tuple[str, ...],
    *,
    output: str,
    signals: str | None,
    **values: Any,
) -> None:
    """Write down everything about a cluster that scheduling depends on, without secrets, for `podwright simulate`.

    Reads the cluster with your own permissions, as kubectl does, and writes nothing to it. What you may not list is
    left out and named. Of the ConfigMaps, the snapshot has those that policies name in `paramsFrom`, with the keys that
    their rules read. With FILES, which are outputs of `kubectl get … -o json`, writes a snapshot of these instead.
    """
    if files and signals is not None:
        raise click.UsageError("--signals asks the sources of a running cluster, so it cannot be used with FILES")
    if files:
        found = read_snapshot(files)
        read = ReadOwners.by(found.of_kind(GROUPING_KIND))
        known = [raw for raw in found.objects if raw["kind"] in KNOWN_KINDS or kind_of(raw) in read.kinds]
        keep = (*values["annotations"], *read.annotations)
        kept = [redacted(str(raw["kind"]), raw, keep, named=read.named.get(kind_of(raw))) for raw in known]
        config_maps, missing = kept_in(found, values["operator_namespace"])
        taken = replace(found, objects=[*kept, *config_maps], missing=missing)
    else:
        taken = snapshot_of(LiveConnection(**values, signals=defined_signals(signals)))
    write_snapshot(taken, output)
    counts = Counter(str(raw["kind"]) for raw in taken.objects)
    others = len(taken.objects) - counts[NODE_KIND.kind] - counts[POD_KIND.kind]
    click.echo(f"{counts[NODE_KIND.kind]:,} nodes, {counts[POD_KIND.kind]:,} pods, {others:,} other objects", err=True)
    for line in first_of((f"without {name}: {why}" for name, why in taken.missing.items()), SHOWN_MISSING):
        echo(line, err=True)
