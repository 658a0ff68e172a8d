"""The flags that name a running operator."""

from __future__ import annotations

import click

from podwright.cli.flags.common import Flag, file_to_read, together


def with_operator(what: str, *, required: bool = False) -> Flag:
    """Adds `--operator` and `--operator-ca`. `what`: the beginning of the help."""
    return together(
        click.option(
            "--operator",
            envvar="PODWRIGHT_OPERATOR",
            metavar="URL",
            required=required,
            help=f"{what}: https://HOST:PORT, or http://127.0.0.1:PORT behind `kubectl port-forward`.",
        ),
        file_to_read(
            "--operator-ca",
            about="The authorities of the operator's certificate, in PEM. Default: those of the API server.",
        ),
    )
