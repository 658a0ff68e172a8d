"""`podwright plugin`: tools for people who write plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from podwright.cli.flags.cluster import load_options, with_policies
from podwright.cli.printable import echo
from podwright.cli.reports.suites import run_suites, with_report
from podwright.core.framework.interface import Plugin
from podwright.engine.plugins.loading import FILE_MODULE
from podwright.policies.new_plugin import PLUGINS, dashed, files_of
from podwright.policies.suite_names import PATTERNS


@click.group()
def plugin() -> None:
    """Write plugins and test them."""


@plugin.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(file_okay=False),
    metavar="DIRECTORY",
    help="Where to write the files. Default: a new directory with the plugin's name.",
)
@click.option("--filter", "filters", is_flag=True, help="It rejects nodes. This is the default.")
@click.option("--score", "scores", is_flag=True, help="It scores nodes; with --filter, both.")
@click.option("--vector", "vectors", is_flag=True, help="Add the versions for all nodes at once, which are faster.")
def new(name: str, directory: str | None, *, filters: bool, scores: bool, vectors: bool) -> None:
    """Write a plugin NAME, such as TeamNodes, with a policy that enables it and a test of both. All of it works as it
    is; change it as you need.

    Existing files are not replaced.
    """
    try:
        files = files_of(name, filters=filters or not scores, scores=scores, vectors=vectors)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    folder = Path(directory or dashed(name))
    there = [folder / path for path in files if (folder / path).exists()]
    if there:
        raise click.ClickException(f"{there[0]} exists already")
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / path).open("x", encoding="utf-8") as file:
                file.write(text)
            echo(f"wrote {folder / path}")
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    echo(f"Test it:  podwright plugin test {folder}")
    echo(f"Run it:   podwright run --plugin-dir {folder / PLUGINS}, and kubectl apply -f {folder / 'policy.yaml'}")


@plugin.command()
@click.argument("directory", default=".", type=click.Path(exists=True, file_okay=False))
@with_policies
@with_report
def test(directory: str, report: str | None, **values: Any) -> None:
    """Load the plugins of DIRECTORY (its subdirectory `plugins`, if there is one) as the operator does, and run its
    tests. Needs no cluster.

    The tests are files named test_policies.yaml or test_*.policies.yaml, also in subdirectories. Exit status 1 if a
    plugin cannot be loaded or a test fails.
    """
    folder = Path(directory)
    own = folder / PLUGINS
    values["plugin_dirs"] = (own if own.is_dir() else folder, *values["plugin_dirs"])
    options = load_options(values)
    loaded = [
        name
        for name, found in sorted(options.classes.items())
        if issubclass(found, Plugin) and found.__module__.startswith(FILE_MODULE)
    ]
    for name in loaded:
        echo(f"loaded plugin {name}")
    suites = sorted({str(path) for pattern in PATTERNS for path in folder.rglob(pattern)})
    if not suites:
        raise click.ClickException(f"{folder} has no tests: no file is named {' or '.join(PATTERNS)}")
    if not loaded:
        raise click.ClickException(f"there are no plugins: no file is named {folder / '*.py'} or {own / '*.py'}")
    run_suites(suites, options, report)
