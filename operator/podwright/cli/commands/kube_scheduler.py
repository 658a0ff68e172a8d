"""`podwright kube-scheduler`: the scheduler in the place of kube-scheduler, with its flags and its defaults. The
command itself allows the process to serve `default-scheduler` and to take kube-scheduler's Lease. Everything else is as
with `podwright run`: see run.py next.
"""

from __future__ import annotations

from typing import Any

from podwright.cli.commands.run import start
from podwright.cli.flags.scheduler import SchedulerCommand


def _kube_scheduler(**values: Any) -> None:
    """Schedule pods in the place of kube-scheduler.

    Runs until SIGTERM, SIGINT or SIGQUIT. Takes the flags of kube-scheduler with its defaults: serves
    default-scheduler, takes the Lease kube-system/kube-scheduler, and serves health and metrics over HTTPS on port
    10259. It also takes the options of `podwright run`.
    """
    start(values, as_kube_scheduler=True)


kube_scheduler = SchedulerCommand("kube-scheduler", as_kube_scheduler=True, callback=_kube_scheduler)
