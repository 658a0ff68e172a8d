"""`podwright explain`: why a pod waits, or why it is on its node, and the least change that would help. Also `kubectl
podwright explain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import click

from podwright.cli.flags.cluster import connection_of, load_options, namespace_in, with_cluster
from podwright.cli.flags.common import output_format
from podwright.cli.flags.operator import with_operator
from podwright.cli.printable import printable_texts, write
from podwright.cli.reports.console import show
from podwright.cli.reports.explanation import report
from podwright.kube.kinds import KUEUE_WORKLOAD
from podwright.kube.log_format import one_line
from podwright.kueue.explain import explain_workload
from podwright.simulator.explain.from_operator import ask_about, from_answer, joined
from podwright.simulator.explain.results import Explanation, WorkloadExplanation, as_object
from podwright.simulator.explain.targets import (
    Target,
    explain_selected,
    explain_target,
    kind_of,
    kinds_like,
    parse_target,
)
from podwright.simulator.live import LiveConnection, snapshot_of
from podwright.simulator.loaded import LoadedCluster, load
from podwright.simulator.snapshot import Snapshot, SnapshotError, read_snapshot

FORMATS: Final = ("table", "wide", "json", "yaml")


class _ExplainCommand(click.Command):
    """Takes KIND NAME for KIND/NAME, as kubectl does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [param for param in self.params if isinstance(param, click.Option)]
        with_value = {opt for param in options if not param.is_flag for opt in param.opts}
        for index, (word, name) in enumerate(pairwise(args)):
            if kind_of(word) and (not index or args[index - 1] not in with_value):
                if not name.startswith("-") and "/" not in name and not Path(name).exists():
                    args = [*args[:index], f"{word}/{name}", *args[index + 2 :]]
                break
        return super().parse_args(ctx, args)


@click.command(cls=_ExplainCommand)
@click.argument("target", metavar="KIND/NAME", shell_complete=lambda _ctx, _param, typed: kinds_like(typed))
@with_cluster
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="The namespace. Without this flag that of the kubeconfig's context, as for kubectl; in FILES, `default`.",
)
@output_format(
    *FORMATS, about="The output format. `wide` also has the nearest nodes, all scores and the scheduler's message."
)
@click.option("-A", "--all-namespaces", is_flag=True, help="With `pods` as the target: those of all namespaces.")
@click.option(
    "-l", "--selector", default="", metavar="SELECTOR", help="With `pods` as the target: those with these labels."
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
    namespace: str | None,
    output: str,
    operator: str | None,
    operator_ca: str | None,
    changes: bool,
    all_namespaces: bool,
    selector: str,
    **values: Any,
) -> None:
    """Explain why a pod waits or why it is on its node, and prove what would help.

    KIND/NAME is a pod, a deployment, a replicaset, a statefulset, a daemonset, a job, a podgroup, a queue or a workload
    of Kueue, as in `explain pod/web-0` or `explain pod web-0`; `pods` with -A or -l is all pods that these flags
    select.

    Reads the cluster from FILES (see `podwright snapshot`), or from its API server with your own permissions, and
    writes nothing to it. Each change that is shown has been tried on a copy of the cluster's state: the scheduler would
    place the pod.
    """
    connection = connection_of(values, messages=True)
    own = namespace_in(namespace, files, connection.kubeconfig, connection.context)
    found: Explanation | WorkloadExplanation
    if all_namespaces or selector:
        if kind_of(target) != "Pod":
            raise click.UsageError(f"-A and -l select pods: expected `pods`, got {target!r}")
        snapshot, cluster = _loaded(files, connection, values)
        found = explain_selected(cluster, snapshot, "" if all_namespaces else own, selector, changes=changes)
        _say_what_is_missing(cluster)
    else:
        wanted = parse_target(target, own)
        answer = _answer(operator, operator_ca, wanted, connection)
        found = _explained(wanted, files, connection, values, answer=answer, changes=changes)
    _show(found, output)


def _answer(
    url: str | None, ca_file: str | None, wanted: Target, connection: LiveConnection
) -> Mapping[str, Any] | None:
    """The operator's answer; None if there is no operator to ask, or if a workload is to be explained."""
    if url is None or wanted.kind != "Pod":
        return None
    return ask_about(url, wanted.namespace, wanted.name, connection, ca_file=ca_file)


def _explained(
    wanted: Target,
    files: tuple[str, ...],
    connection: LiveConnection,
    values: dict[str, Any],
    *,
    answer: Mapping[str, Any] | None,
    changes: bool,
) -> Explanation | WorkloadExplanation:
    try:
        snapshot, cluster = _loaded(files, connection, values)
    except SnapshotError as error:
        if not answer:
            raise
        click.echo(one_line(f"Without the cluster: {error}"), err=True)
        return from_answer(answer, wanted.namespace, wanted.name)
    explained = explain_workload if wanted.kind == KUEUE_WORKLOAD.kind else explain_target
    found = explained(cluster, snapshot, wanted, changes=changes)
    _say_what_is_missing(cluster)
    return joined(found, answer) if answer is not None and isinstance(found, Explanation) else found


def _loaded(
    files: tuple[str, ...], connection: LiveConnection, values: dict[str, Any]
) -> tuple[Snapshot, LoadedCluster]:
    """Raises SnapshotError."""
    snapshot = read_snapshot(files) if files else snapshot_of(connection)
    return snapshot, load(snapshot, load_options(values, snapshot))


def _say_what_is_missing(cluster: LoadedCluster) -> None:
    for note in cluster.missing_notes:
        click.echo(one_line(f"{note[0].upper()}{note[1:]}"), err=True)


def _show(found: Explanation | WorkloadExplanation, output: str) -> None:
    if output in ("json", "yaml"):
        write(as_object(found), output)
    else:
        show(report(printable_texts(found), wide=output == "wide"))
