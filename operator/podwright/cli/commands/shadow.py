"""`podwright shadow`: the reports of policies in shadow mode. Also `kubectl podwright shadow`."""

from __future__ import annotations

from typing import Any, Final

import click

from podwright.cli.flags.connection import with_connection
from podwright.cli.flags.operator import with_operator
from podwright.cli.printable import printable_texts, write
from podwright.cli.reports.shadow import lines_of
from podwright.simulator.live import LiveConnection
from podwright.simulator.operator_client import ask

PATH: Final = "/debug/shadow"
SHOWN: Final = 10


@click.group()
def shadow() -> None:
    """Show what policies with mode Shadow would have decided beside the scheduler that places the pods."""


@shadow.command()
@click.argument("policy", required=False, default="")
@with_operator("The running operator", required=True)
@with_connection
@click.option("-o", "--output", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--disagreements",
    "shown",
    type=click.IntRange(min=0),
    default=SHOWN,
    show_default=True,
    metavar="N",
    help="How many disagreements the text shows of each policy, the latest first. The operator remembers 200.",
)
def report(
    policy: str,
    *,
    operator: str,
    operator_ca: str | None,
    output: str,
    shown: int,
    **values: Any,
) -> None:
    """Report how far POLICY, or each policy with mode Shadow, agrees with the scheduler that places the pods.

    Asks the running operator, which serves this to users who may get /debug/shadow and list the pods of all namespaces.
    """
    query = {"policy": policy} if policy else {}
    found = ask(operator, PATH, query, LiveConnection(**values), ca_file=operator_ca)
    if not found:
        what = (
            f"policy {policy} is not in shadow mode"
            if policy
            else "it does not serve reports of policies in shadow mode"
        )
        raise click.ClickException(f"{operator}: {what}")
    if output == "json":
        write(found)
        return
    for line in lines_of(printable_texts(found), shown):
        click.echo(line)
