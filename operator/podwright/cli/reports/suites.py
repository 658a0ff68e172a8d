"""Runs tests of policies and prints the results, for `podwright policy test` and `podwright plugin test`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from podwright.cli.printable import echo
from podwright.kube.log_format import printable
from podwright.kube.plugins.guarded import guarded_plugins
from podwright.policies.cases import read_suite, run_case
from podwright.policies.junit import junit
from podwright.simulator.loaded import LoadOptions

with_report: Final = click.option(
    "--junit",
    "report",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Also write the results as JUnit XML, for CI systems.",
)


def run_suites(files: Sequence[str], options: LoadOptions, report: str | None) -> None:
    """Runs the tests in these files. A plugin that does not return is stopped, as in the operator. `report`: where to
    write the results as JUnit XML.

    Raises SuiteError, OSError, ProfileError and PluginError for files that cannot be used, and SystemExit if a test
    fails.
    """
    results: dict[str, list[tuple[str, list[str]]]] = {}
    with guarded_plugins() as guard:
        options = replace(options, guard=guard)
        for file in files:
            results[file] = [(case.name, [*run_case(case, options)]) for case in read_suite(Path(file))]
    if report is not None:
        Path(report).write_text(junit(results), encoding="utf-8")
    failed = 0
    for file, cases in results.items():
        for name, wrong in cases:
            failed += bool(wrong)
            echo(f"{'FAILED' if wrong else 'passed'} {file}: {printable(name)}")
            for line in "\n".join(wrong).splitlines():
                echo(f"    {line}")
    click.echo(f"{sum(map(len, results.values())) - failed} passed, {failed} failed")
    if failed:
        raise SystemExit(1)
