"""`podwright admission-check`: answers Kueue's checks whether the pods of a Workload fit now. See docs/kueue.md."""

from __future__ import annotations

from typing import Any

import click

from podwright.cli.flags.scheduler import flag
from podwright.cli.imports import uncollected
from podwright.kube.options.options import Options
from podwright.kube.options.values import OptionsError
from podwright.kueue.options import CHECK_LEASE, CHECK_OPTIONS, COMMON_OPTIONS, CheckOptions


@click.command(params=[flag(option, as_kube_scheduler=False) for option in (*CHECK_OPTIONS, *COMMON_OPTIONS)])
def admission_check(**values: Any) -> None:
    """Answer Kueue's admission checks until SIGTERM, SIGINT or SIGQUIT.

    For each Workload that has quota and names a check of ours, it decides whether all pods fit now, holds their place,
    and says so to Kueue. It schedules no pods.
    """
    own = {option.name: values.pop(option.name) for option in CHECK_OPTIONS}
    values["leader_elect_resource_name"] = values["leader_elect_resource_name"] or CHECK_LEASE
    try:
        options = CheckOptions(common=Options(asks_extenders=False, pod_intake="watch", **values), **own)
    except OptionsError as error:
        raise click.UsageError(str(error)) from error
    with uncollected():
        from podwright.cli.processes import running, scheduler  # noqa: PLC0415 -- not for --help
        from podwright.kueue.runtime import CheckRuntime  # noqa: PLC0415 -- likewise

    common = options.common
    running.run_process(
        common, lambda: scheduler.run(common, lambda: CheckRuntime(options), "podwright.kueue.handlers")
    )
