"""Helpers for flags, and flags that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

Flag = Callable[[Any], Any]
_TO_READ: Final = click.Path(exists=True, dir_okay=False)


def together(*flags: Flag) -> Flag:
    """Adds flags to a command, in this order."""

    def add(command: Any) -> Any:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return add


def repeated(*names: str, metavar: str, about: str, **more: Any) -> Flag:
    """A flag that may be given several times."""
    return click.option(*names, multiple=True, metavar=metavar, help=f"{about} Can be repeated.", **more)


def file_to_read(*names: str, about: str) -> Flag:
    """A flag that names a file."""
    return click.option(*names, type=_TO_READ, metavar="FILE", help=about)


def files_to_read(*names: str, about: str) -> Flag:
    """A flag that names a file, and may be given several times."""
    return repeated(*names, metavar="FILE", about=about, type=_TO_READ)


def output_format(*formats: str, about: str = "The output format.") -> Flag:
    """The flag `-o` for the format of what a command prints. The first format is the default."""
    return click.option("-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help=about)


OUTPUT_FILE = click.option(
    "-o", "--output", default="-", metavar="FILE", help="Where to write. `.gz` packs it. Default: standard output."
)
