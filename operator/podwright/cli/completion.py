"""`kubectl_complete-podwright`: completes `kubectl podwright …`. kubectl runs the program of this name, with the words
so far.

The last line is a colon and cobra's directive for the shell: 4, not to complete names of files, or 0.
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete

from podwright.cli.main import main


def complete() -> None:
    """Prints a line for each completion, with its help after a tab."""
    *words, last = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "podwright", "").get_completions(words, last)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(":0" if any(item.type != "plain" for item in found) else ":4")
