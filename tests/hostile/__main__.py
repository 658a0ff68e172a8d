"""`python -m tests.hostile`: the table of hostile objects, in process and side by side with kube-scheduler."""

import asyncio

import click

from support.hostile.harness import NODES, PLACED, measure
from support.hostile.rows import ROWS
from support.hostile.side_by_side import SCHEDULERS, compare
from support.hostile.table import Table, render


@click.command()
@click.option("--only", default="", help="Only the rows with this text in their name.")
@click.option("--nodes", default=NODES, show_default=True, help="Nodes of the cluster in process.")
@click.option("--placed", default=PLACED, show_default=True, help="Placed pods of the cluster in process.")
@click.option("--in-process", is_flag=True, help="Leave out the comparison on a real API server.")
@click.option("--side-by-side", is_flag=True, help="Leave out the measurements in process.")
def main(only: str, nodes: int, placed: int, *, in_process: bool, side_by_side: bool) -> None:
    """Measure the cost of hostile pods."""
    rows = [row for row in ROWS if only in row.name]
    if not side_by_side:
        table = Table()
        for row in rows:
            table.measured(row.name, asyncio.run(measure(row, nodes, placed)))
        click.echo(f"CPU time in process, {nodes:,} nodes, {placed:,} placed pods")
        click.echo("\n".join(table.lines()))
    if not in_process:
        live = [row for row in rows if row.live]
        found = compare(live, lambda line: click.echo(line, err=True))
        click.echo("\nTime from creation to the Binding or the condition, 1,000 nodes of a real API server")
        cells = [[row.name, *(found[row.name].get(scheduler, "") for scheduler in SCHEDULERS)] for row in live]
        click.echo("\n".join(render(("object", *SCHEDULERS), cells)))


if __name__ == "__main__":
    main()
