"""`podwright explain`: why a pod waits, or why it is on its node, and the least change that would help. Also `kubectl podwright explain`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import click
import orjson
import yaml

from podwright.cli.flags.cluster import defined_signals, load_options, namespace_in, with_cluster
from podwright.cli.flags.operator import with_operator
from podwright.cli.printable import printable_texts
from podwright.cli.reports.explanation import Report
from podwright.core.framework.errors import PluginError
from podwright.core.framework.profile import ProfileError
from podwright.kube.log_format import one_line
from podwright.simulator.explain.from_operator import ask_about, from_answer, joined
from podwright.simulator.explain.results import Explanation, WorkloadExplanation, as_object
from podwright.simulator.explain.targets import Target, TargetError, explain_target, parse_target
from podwright.simulator.live import Connection, snapshot_of
from podwright.simulator.loaded import load
from podwright.simulator.operator_client import OperatorError
from podwright.simulator.snapshot import SnapshotError, read_snapshot

FORMATS: Final = ("table", "wide", "json", "yaml")


@click.command(short_help="Explain why a pod waits, and what would help.")
@click.argument("target", metavar="KIND/NAME")
@with_cluster
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="The namespace. Without this flag that of the kubeconfig's context, as for kubectl; in FILES, `default`.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="The output format. `wide` also has the nearest nodes, all scores and the scheduler's message.",
)
@with_operator("Also ask a running operator")
@click.option(
    "--changes/--no-changes",
    default=True,
    help="Whether to search for changes that would help. Without them, the command takes less time.",
)
def explain(
    target: str,
    *,
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    output: str,
    operator: str | None,
    operator_ca: str | None,
    changes: bool,
    **values: Any,
) -> None:
    """Explain why a pod waits or why it is on its node, and prove what would help.

    KIND/NAME is a pod, a deployment, a replicaset, a statefulset, a daemonset, a job or a podgroup, as in `explain pod/web-0`.

    Reads the cluster from FILES (see `podwright snapshot`), or from its API server with your own permissions, and
    writes nothing to it. Each change that is shown has been tried on a copy of the cluster's state: the scheduler would
    place the pod.
    """
    connection = Connection(
        kubeconfig=kubeconfig,
        context=context,
        messages=True,
        operator_namespace=values["operator_namespace"],
        signals=defined_signals(values["signals"]),
    )
    try:
        wanted = parse_target(target, namespace_in(namespace, files, kubeconfig, context))
        answer = _answer(operator, operator_ca, wanted, connection)
        found = _explained(wanted, files, connection, values, answer=answer, changes=changes)
    except (OperatorError, SnapshotError, TargetError, ProfileError, PluginError, OSError) as error:
        raise click.ClickException(str(error)) from error
    _show(found, output)


def _answer(url: str | None, ca_file: str | None, wanted: Target, connection: Connection) -> Mapping[str, Any] | None:
    """The operator's answer; None if there is no operator to ask, or if a workload is to be explained."""
    if url is None or wanted.kind != "Pod":
        return None
    return ask_about(url, wanted.namespace, wanted.name, connection, ca_file=ca_file)


def _explained(
    wanted: Target,
    files: tuple[str, ...],
    connection: Connection,
    values: dict[str, Any],
    *,
    answer: Mapping[str, Any] | None,
    changes: bool,
) -> Explanation | WorkloadExplanation:
    try:
        snapshot = read_snapshot(files) if files else snapshot_of(connection)
    except SnapshotError as error:
        if not answer:
            raise
        click.echo(one_line(f"Without the cluster: {error}"), err=True)
        return from_answer(answer, wanted.namespace, wanted.name)
    cluster = load(snapshot, load_options(values, snapshot))
    found = explain_target(cluster, snapshot, wanted, changes=changes)
    for note in cluster.missing_notes:
        click.echo(one_line(f"{note[0].upper()}{note[1:]}"), err=True)
    return joined(found, answer) if answer is not None and isinstance(found, Explanation) else found


def _show(found: Explanation | WorkloadExplanation, output: str) -> None:
    if output == "json":
        sys.stdout.buffer.write(orjson.dumps(as_object(found), option=orjson.OPT_INDENT_2) + b"\n")
    elif output == "yaml":
        click.echo(yaml.safe_dump(as_object(found), sort_keys=False, allow_unicode=True), nl=False)
    else:
        Report(wide=output == "wide").show(printable_texts(found))
