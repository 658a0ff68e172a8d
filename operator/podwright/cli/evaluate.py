"""`podwright evaluate`: evaluates pods on clusters that it reads from files. It contacts no API server."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import orjson
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from podwright.core.framework.features import Features
from podwright.kube.option_values import OptionsError, parse_feature_gates
from podwright.simulator.cases import Case, CaseError, case_from_dump, read_cases, run_case
from podwright.simulator.comparison import differences

DIFFERENCES_SHOWN = 3
"""For each group of cases."""


@click.command()
@click.argument("files", nargs=-1, type=click.Path(allow_dash=True))
@click.option("--check", is_flag=True, help="Compare with the `expect` of each case. Exit with 1 on any difference.")
@click.option(
    "--pod",
    "manifest",
    type=click.Path(exists=True, dir_okay=False),
    help="A pod manifest. FILES is then one dump of `kubectl get nodes,pods,… -A -o json`, and the output is a table.",
)
@click.option("--output", type=click.Choice(["table", "json"]), default="table", help="With --pod: the output format.")
@click.option(
    "--feature-gates",
    default="",
    metavar="NAME=true,…",
    help="Feature gates to change from the defaults of Kubernetes 1.37.",
)
def evaluate(files: tuple[str, ...], *, check: bool, manifest: str | None, output: str, feature_gates: str) -> None:
    """Evaluate scheduling cases from FILES: JSON lines, also gzipped. Reads standard input if there are no FILES.

    Prints one JSON line for each case: the feasible nodes, why the other nodes were rejected, the scores, the message and
    the result of preemption. With --pod, shows on which nodes of a dumped cluster one pod can run.
    """
    try:
        features = Features(parse_feature_gates(feature_gates))
        if manifest is not None:
            _evaluate_pod(files or ("-",), manifest, features, output)
        elif check:
            sys.exit(0 if _check(files or ("-",), features) else 1)
        else:
            sys.exit(0 if _answer_all(files or ("-",), features) else 1)
    except (CaseError, OptionsError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _read_all(files: Iterable[str]) -> Iterable[Case | CaseError]:
    for path in files:
        yield from read_cases(path)


def _answer_all(files: Iterable[str], features: Features) -> bool:
    """Prints one line for each case, with an `error` if it cannot be run. Returns whether all could be run."""
    succeeded = True
    for case in _read_all(files):
        answer = _answer_of(case, features)
        succeeded = succeeded and "error" not in answer
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    return succeeded


def _answer_of(case: Case | CaseError, features: Features) -> dict[str, Any]:
    try:
        if isinstance(case, CaseError):
            raise case
        return run_case(case, features)
    except CaseError as error:
        return {"id": error.id, "error": str(error)}


@dataclass
class _Group:
    """The result of comparing a group of cases, with its first differences."""

    cases: int = 0
    agreeing: int = 0
    differences: list[str] = field(default_factory=list)


def _check(files: Iterable[str], features: Features) -> bool:
    groups: dict[str, _Group] = {}
    for case in _read_all(files):
        answer = _answer_of(case, features)
        name = answer["id"]
        expected: Case = {} if isinstance(case, CaseError) else case
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
    for column in table.columns[1:3]:
        column.justify = "right"
    for name, group in groups.items():
        table.add_row(
            name,
            str(group.cases),
            str(group.agreeing),
            escape("\n".join(group.differences)),
            style="red" if group.differences else None,
        )
    cases = sum(group.cases for group in groups.values())
    agreeing = sum(group.agreeing for group in groups.values())
    table.add_section()
    table.add_row("all", str(cases), str(agreeing), "")
    Console().print(table)


def _evaluate_pod(files: tuple[str, ...], manifest: str, features: Features, output: str) -> None:
    if len(files) != 1:
        raise CaseError("--pod takes exactly one dump")
    pod = _manifest(manifest)
    answer = run_case(case_from_dump(_dump(files[0]), pod), features)["expect"]
    if output == "json":
        sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_INDENT_2) + b"\n")
    else:
        _print_answer(answer)


def _dump(file: str) -> Any:
    try:
        return orjson.loads(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
    except orjson.JSONDecodeError as error:
        raise CaseError(f"{file}: not JSON: {error}: expected the output of kubectl get … -o json") from error


def _manifest(file: str) -> Mapping[str, Any]:
    try:
        pod = yaml.safe_load(Path(file).read_bytes())
    except yaml.YAMLError as error:
        raise CaseError(f"{file}: not one YAML document: {' '.join(str(error).split())}") from error
    if not isinstance(pod, dict) or pod.get("kind") != "Pod":
        raise CaseError(f"{file}: expected a manifest of kind Pod")
    return pod


def _print_answer(answer: Mapping[str, Any]) -> None:
    console = Console()
    totals = answer.get("total") or {}
    plugins = [plugin for plugin, scores in (answer.get("scores") or {}).items() if len({*scores.values()}) > 1]
    table = Table("node", "total", *plugins, "rejected by")
    for name in sorted(answer["nodes"], key=lambda node: (-totals.get(node, -1), node)):
        verdict = answer["nodes"][name]
        if verdict["feasible"]:
            scores = (str(answer["scores"][plugin][name]) for plugin in plugins)
            table.add_row(name, str(totals[name]), *scores, "", style="green" if name in answer["best"] else None)
        else:
            rejection = escape(f"{verdict['plugin']}: {'; '.join(verdict['reasons'])}")
            table.add_row(name, "", *("" for _ in plugins), rejection, style="dim")
    console.print(table)
    if "best" in answer:
        console.print(f"The pod would go to {' or '.join(answer['best'])}.")
    else:
        console.print(answer.get("error") or answer["message"], markup=False)
