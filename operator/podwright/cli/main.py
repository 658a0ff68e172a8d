"""The command `podwright` (and `kubectl podwright`): its subcommands, each in a module of its own."""

from __future__ import annotations

import click

from podwright import __version__
from podwright.cli.demo import demo
from podwright.cli.evaluate import evaluate
from podwright.cli.run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="podwright")
def main() -> None:
    """A Kubernetes scheduler that people program instead of compile."""


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


main.add_command(demo)
main.add_command(evaluate)
main.add_command(run)


if __name__ == "__main__":
    main(prog_name="podwright")
