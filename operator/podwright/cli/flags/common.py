"""What flags of several commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Flag = Callable[[Any], Any]


def together(*flags: Flag) -> Flag:
    """Adds flags to a command, in this order."""

    def add(command: Any) -> Any:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return add


def output_format(*formats: str, about: str = "The output format.") -> Flag:
    """The flag `-o` for the format of what a command prints. The first format is the default."""
    return click.option("-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help=about)


OUTPUT_FILE = click.option(
    "-o", "--output", default="-", metavar="FILE", help="Where to write. `.gz` packs it. Default: standard output."
)
