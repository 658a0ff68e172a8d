"""`podwright evaluate`: evaluates pods on clusters that it reads from files. It contacts no API server."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from podwright.cli.flags.cluster import load_options
from podwright.cli.flags.common import file_to_read, together
from podwright.cli.flags.policies import emulated_version, feature_gates, policy_flags
from podwright.cli.printable import color_system, plain, printable_texts, write, write_answers
from podwright.cli.reports.pod import report
from podwright.core.framework.features import NEWEST_MINOR, OLDEST_MINOR, Features
from podwright.core.objects.dataclass import dataclass
from podwright.kube.options.values import MINOR, parse_feature_gates
from podwright.simulator.evaluations.cases import CaseError, answered, run_case
from podwright.simulator.evaluations.comparison import differences
from podwright.simulator.evaluations.dump import dump_kinds, evaluate_pod
from podwright.simulator.loaded import LoadOptions
from podwright.simulator.manifests import read_manifests
from podwright.simulator.snapshot import read_snapshot

DIFFERENCES_SHOWN = 3
"""For each group of cases."""


_with_policies = together(
    *policy_flags(
        "The file of `podwright run --signals`. Nodes have the numbers of their annotations and of `values`.",
        when="With --pod",
    )
)


@click.command()
@click.argument("files", nargs=-1, type=click.Path(allow_dash=True))
@click.option("--check", is_flag=True, help="Compare with the `expect` of each case. Exit with 1 on any difference.")
@file_to_read(
    "--pod",
    "manifest",
    about="A pod manifest. FILES is then one dump of `kubectl get nodes,pods,… -A -o json`, and the output is a table.",
)
@click.option("--output", type=click.Choice(["table", "json"]), default="table", help="With --pod: the output format.")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --pod: show only the N best feasible nodes and the first N of the others, and count the rest.",
)
@click.option(
    "--kinds",
    is_flag=True,
    help=(
        "Print the kinds of --emulated-version that a dump should contain, for `kubectl get`, and exit. FILES is then "
        "nothing, or the "
        "output of `kubectl api-resources -o name`: kinds that are not in it are left out."
    ),
)
@_with_policies
@feature_gates("--emulated-version")
@emulated_version(
    f"Use the feature gates of this version, from 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}.", f"1.{NEWEST_MINOR}"
)
def evaluate(
    files: tuple[str, ...],
    *,
    check: bool,
    manifest: str | None,
    output: str,
    top: int | None,
    kinds: bool,
    **values: Any,
) -> None:
    """Show where a pod would go in a dumped cluster, or answer scheduling cases. Reads standard input if there are no
    FILES.

    With --pod, FILES is one dump of a cluster: shows on which of its nodes the pod can run, and which of its
    SchedulerPolicies decides about the pod.

    Without --pod, FILES are scheduling cases: JSON lines, also gzipped. Prints one JSON line for each case: the
    feasible nodes, why the other nodes were rejected, the scores, the message and the result of preemption.
    """
    if kinds:
        served = [name for file in files for name in _text(file).split()]
        click.echo(",".join(dump_kinds(MINOR.parse(values["emulated_version"]), served)))
        return
    features = Features(parse_feature_gates(values["feature_gates"]), MINOR.parse(values["emulated_version"]))
    if manifest is not None:
        options = replace(load_options(values), features=features)
        _evaluate_pod(files or ("-",), manifest, options, output, top)
    elif check:
        sys.exit(0 if _check(files or ("-",), features) else 1)
    else:
        answers = answered(files or ("-",), partial(run_case, features=features))
        sys.exit(0 if write_answers(answer for _, answer in answers) else 1)


@dataclass(slots=True)
class _Group:
    """The result of comparing a group of cases, with its first differences."""

    cases: int = 0
    agreeing: int = 0
    differences: list[str] = field(default_factory=list)


def _check(files: Iterable[str], features: Features) -> bool:
    groups: dict[str, _Group] = {}
    for expected, answer in answered(files, partial(run_case, features=features)):
        name = answer["id"]
        group = groups.setdefault(str(expected.get("group") or name.partition("/")[0]), _Group())
        group.cases += 1
        difference = answer.get("error") or next(differences(answer, expected), None)
        if difference is None:
            group.agreeing += 1
        elif len(group.differences) < DIFFERENCES_SHOWN:
            group.differences.append(f"{name}: {difference}")
    _print_groups(groups)
    return bool(groups) and all(group.agreeing == group.cases for group in groups.values())


def _print_groups(groups: Mapping[str, _Group]) -> None:
    table = Table("group", "cases", "agreeing", "first differences")
    for column in table.columns:
        column.overflow = "fold"
    for column in table.columns[1:3]:
        column.justify = "right"
    for name, group in groups.items():
        table.add_row(
            plain(name),
            str(group.cases),
            str(group.agreeing),
            "\n".join(map(plain, group.differences)),
            style="red" if group.differences else None,
        )
    cases = sum(group.cases for group in groups.values())
    agreeing = sum(group.agreeing for group in groups.values())
    table.add_section()
    table.add_row("all", str(cases), str(agreeing), "")
    Console(color_system=color_system()).print(table)


def _evaluate_pod(files: tuple[str, ...], manifest: str, options: LoadOptions, output: str, top: int | None) -> None:
    if len(files) != 1:
        raise CaseError("--pod takes exactly one dump")
    answer = evaluate_pod(read_snapshot(files), _manifest(manifest), options)
    if output == "json":
        write(answer)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in report(printable_texts(answer), width, top):
        click.echo(line)


def _text(file: str) -> str:
    with click.open_file(file, encoding="utf-8", errors="replace") as content:
        return str(content.read())


def _manifest(file: str) -> Mapping[str, Any]:
    (pod, *others) = read_manifests(file)
    if others or pod["kind"] != "Pod":
        raise CaseError(f"{file}: expected one manifest of kind Pod")
    return _with_requests(pod)


def _with_requests(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod with its limits as requests where it has none, as the API server would store it."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    from podwright.sandbox.pods import requests_from_limits  # noqa: PLC0415 -- the sandbox imports a server

    lists = {field: spec[field] for field in ("containers", "initContainers") if isinstance(spec.get(field), list)}
    changed = {
        field: [requests_from_limits(each) if isinstance(each, dict) else each for each in containers]
        for field, containers in lists.items()
    }
    return {**pod, "spec": {**spec, **changed}}
