"""`podwright extender`: a scheduler extender, which kube-scheduler calls. See docs/extender-server.md."""

from __future__ import annotations

from typing import Any

import click

from podwright.cli.flags.scheduler import flag
from podwright.extender.server.options import COMMON_OPTIONS, EXTENDER_OPTIONS, ExtenderOptions
from podwright.kube.options.options import Options
from podwright.kube.options.values import OptionsError


@click.command(
    params=[flag(option, as_kube_scheduler=False) for option in (*EXTENDER_OPTIONS, *COMMON_OPTIONS)],
)
def extender(**values: Any) -> None:
    """Answer kube-scheduler's calls of a scheduler extender, until SIGTERM, SIGINT or SIGQUIT.

    kube-scheduler schedules the pods, and calls this extender. The extender filters and scores nodes by
    SchedulerPolicies, and binds pods if asked to.
    """
    own = {option.name: values.pop(option.name) for option in EXTENDER_OPTIONS}
    try:
        options = ExtenderOptions(common=Options(asks_extenders=False, **values), **own)
    except OptionsError as error:
        raise click.UsageError(str(error)) from error
    from podwright.cli.processes import running  # noqa: PLC0415 -- not for --help
    from podwright.extender.server import process  # noqa: PLC0415 -- likewise

    running.run_process(options.common, lambda: process.run(options))
