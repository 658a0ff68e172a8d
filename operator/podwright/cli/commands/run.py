"""`podwright run`: the scheduler itself. Its flags come from the definitions in `kube/options/options.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from podwright.cli.flags.scheduler import SchedulerCommand
from podwright.cli.imports import uncollected
from podwright.kube.options.options import Options
from podwright.kube.options.values import OptionsError


def start(values: dict[str, Any], *, as_kube_scheduler: bool) -> None:
    """Runs the scheduler with these values of the options. Raises UsageError."""
    try:
        options = Options(as_kube_scheduler=as_kube_scheduler, **values)
    except OptionsError as error:
        raise click.UsageError(str(error)) from error
    with uncollected():
        from podwright.cli.processes import running, scheduler  # noqa: PLC0415 -- not for --help

    async def work() -> None:
        if options.write_config_to:
            from podwright.cli.processes.written_configuration import write_configuration  # noqa: PLC0415 -- only here

            write_configuration(options, Path(options.write_config_to))
        else:
            await scheduler.run(options)

    running.run_process(options, work)


def _run(**values: Any) -> None:
    """Schedule pods until SIGTERM, SIGINT or SIGQUIT.

    Each option can also be set by an environment variable: PODWRIGHT_POD_INTAKE for --pod-intake, PODWRIGHT_PLUGIN_DIRS
    for --plugin-dir.
    """
    start(values, as_kube_scheduler=False)


run = SchedulerCommand("run", as_kube_scheduler=False, callback=_run)
