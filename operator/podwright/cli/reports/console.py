"""Prints the reports of commands: tables and texts of `rich`, whose lines are never wrapped in a pipe."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from io import StringIO
from typing import Final

import click
from rich.console import Console, RenderableType
from rich.table import Table

from podwright.cli.printable import color_system

_WIDE: Final = 10_000
"""Columns in a pipe."""


def show(parts: Iterable[RenderableType]) -> None:
    """Prints the parts, one below the other. Colours are used only on a terminal."""
    terminal = sys.stdout.isatty()
    console = Console(
        file=StringIO(),
        force_terminal=terminal,
        color_system=color_system(),
        width=shutil.get_terminal_size().columns if terminal else _WIDE,
        highlight=False,
        emoji=False,
        markup=False,
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def open_table(*columns: str) -> Table:
    """A table without lines."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
