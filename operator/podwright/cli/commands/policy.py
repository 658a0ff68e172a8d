"""`podwright policy`: tools for people who write policies."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from podwright.cli.flags.cluster import clusters_of, load_options, with_cluster, with_policies
from podwright.cli.flags.common import file_to_read, output_format
from podwright.cli.printable import echo
from podwright.cli.reports.suites import run_suites, with_report
from podwright.kube.log_format import printable
from podwright.kube.options.values import EXTENDERS
from podwright.policies.diff import difference, pods_of
from podwright.policies.diff import with_policies as snapshot_with
from podwright.policies.findings import sarif
from podwright.policies.lint import lint as findings_of
from podwright.simulator.manifests import read_manifests


@click.group()
def policy() -> None:
    """Check policies before they are applied."""


@policy.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@with_policies
@output_format(
    "text",
    "sarif",
    about="text: file:line:column: level: message. sarif: SARIF 2.1.0, which code hosts show beside the lines.",
)
@file_to_read(
    "--extenders", about="The file of `podwright run --extenders`. A policy that names another extender is an error."
)
def lint(files: tuple[str, ...], output: str, extenders: str | None, **values: Any) -> None:
    """Check the policies, queues and other objects of Podwright in FILES, without a cluster, as the
    operator would. Objects of other API groups are ignored.

    Exit status 1 if the operator would refuse one. Warnings and notes do not change the status.
    """
    options = load_options(values)
    if extenders is not None:
        defined = EXTENDERS.parse(extenders)
        options = replace(options, settings=replace(options.settings, extenders=defined, asks_extenders=True))
    findings = findings_of(files, options)
    if output == "sarif":
        click.echo(json.dumps(sarif(findings), indent=2))
    else:
        for finding in findings:
            echo(str(finding))
    if any(finding.level == "error" for finding in findings):
        raise SystemExit(1)


@policy.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@with_policies
@with_report
def test(files: tuple[str, ...], report: str | None, **values: Any) -> None:
    """Run the tests of policies in FILES: which nodes pods get, which nodes are rejected, and in which words. Needs no
    cluster.

    Exit status 1 if a test fails.
    """
    run_suites(files, load_options(values), report)


_POLICY_FILE: Any = {"multiple": True, "type": click.Path(exists=True, dir_okay=False), "metavar": "FILE"}


@policy.command()
@with_cluster
@click.option("--old", **_POLICY_FILE, help="Policies to compare with, in place of the cluster's. Can be repeated.")
@click.option("--new", required=True, **_POLICY_FILE, help="The changed policies. Can be repeated.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def diff(old: tuple[str, ...], new: tuple[str, ...], output: str, **values: Any) -> None:
    """Show which pods of a cluster would go elsewhere under other policies, and why.

    Reads the cluster from FILES (see `podwright snapshot`), or from its API server with your own permissions. Changes
    nothing. Each pod is decided about as if it were recreated, while the others stay where they are. Exit status 1
    if a policy is not accepted.
    """
    changes = [[raw for file in files for raw in read_manifests(file)] for files in (old, new)]
    before, after = clusters_of(values, lambda found: [snapshot_with(found, change) for change in changes])
    named = {str((raw.get("metadata") or {}).get("name")) for raw in changes[1]}
    for refused in after.refused:
        if refused.name.rpartition("/")[2] in named:
            raise click.ClickException(f"policy {refused.name}: {refused.message}")
    for note in dict.fromkeys((*before.params_notes, *after.params_notes)):
        echo(f"Note: {note}", err=True)
    pods = [*pods_of(before)]
    found = [each for pod in pods if (each := difference(before, after, pod)) is not None]
    if output == "json":
        fields = ("pod", "node", "why")
        click.echo(
            json.dumps(
                {
                    "pods": len(pods),
                    "differences": [
                        {
                            **{field: getattr(each, field) for field in fields},
                            **{
                                side: {"policy": answer.policy, "best": sorted(answer.best), "message": answer.message}
                                for side, answer in (("before", each.before), ("after", each.after))
                            },
                        }
                        for each in found
                    ],
                },
                indent=2,
            )
        )
        return
    for each in found:
        click.echo(printable(f"{each.pod}{f' (on {each.node})' if each.node else ' (pending)'}"))
        for name, text in (("before", str(each.before)), ("after", str(each.after)), ("why", each.why)):
            if text:
                click.echo(f"  {name + ':':8}{printable(text)}")
    click.echo(f"{len(found):,} of {len(pods):,} pods would go elsewhere")
