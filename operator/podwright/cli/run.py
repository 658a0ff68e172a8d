"""`podwright run`: the scheduler itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from typing import Any

import click

from podwright.core.framework.registry import RegistryError
from podwright.kube.options import (
    Options,
    OptionsError,
    parse_address,
    parse_duration,
    parse_feature_gates,
    parse_scheduler_name,
)

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def _feature_gates(_context: click.Context, _parameter: click.Parameter, value: str) -> dict[str, bool]:
    try:
        return parse_feature_gates(value)
    except OptionsError as error:
        raise click.BadParameter(str(error)) from error


def _address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    try:
        return value and ":".join(map(str, parse_address(value)))
    except OptionsError as error:
        raise click.BadParameter(str(error)) from error


def _duration(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    try:
        return parse_duration(value)
    except OptionsError as error:
        raise click.BadParameter(str(error)) from error


def _scheduler_name(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        return parse_scheduler_name(value)
    except OptionsError as error:
        raise click.BadParameter(str(error)) from error


@click.command(context_settings={"auto_envvar_prefix": "PODWRIGHT", "show_default": True})
@click.option("--kubeconfig", help="Path of a kubeconfig; else KUBECONFIG, ~/.kube/config or the pod's account.")
@click.option("--context", help="Context of the kubeconfig; else its current one.")
@click.option(
    "--scheduler-name",
    default="podwright",
    callback=_scheduler_name,
    help="The spec.schedulerName that the built-in policy serves.",
)
@click.option(
    "--pod-intake",
    type=click.Choice(["kopf", "watch"]),
    default="kopf",
    help="How pending pods come in: Kopf's handlers, or a watch of our own.",
)
@click.option("--feature-gates", default="", callback=_feature_gates, help="Name=true|false, separated by commas.")
@click.option(
    "--plugin-dir",
    "plugin_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="A folder of plugin files (*.py); may be given again.",
)
@click.option("--queue-sort", default="PrioritySort", help="The plugin that orders the queue, of all policies.")
@click.option(
    "--pod-initial-backoff-seconds",
    type=click.IntRange(1),
    default=1,
    help="The backoff after a pod's first failed attempt; it doubles with each further one.",
)
@click.option("--pod-max-backoff-seconds", type=click.IntRange(1), default=10, help="The longest backoff.")
@click.option(
    "--pod-max-in-unschedulable-pods-duration",
    default="5m",
    callback=_duration,
    help="After so long a pod that nothing has helped is tried again all the same.",
)
@click.option("--health-address", callback=_address, help="host:port for /healthz, /livez, /readyz and /metrics.")
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=20.0,
    help="Seconds for bindings under way at the end, the last 3 (at most half) for events and statuses.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    help="What is logged.",
)
def run(log_level: str, **options: Any) -> None:
    """Schedule pods, until SIGTERM or SIGINT."""
    try:
        chosen = Options(**options)
    except OptionsError as error:
        raise click.UsageError(str(error)) from error
    from podwright.cli import scheduler  # noqa: PLC0415 -- not for --help
    from podwright.kube.client.access import AccessError  # noqa: PLC0415
    from podwright.kube.client.credentials import ConfigError  # noqa: PLC0415

    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(scheduler.run(chosen))
    except (AccessError, ConfigError, RegistryError, OSError) as error:
        raise click.ClickException(str(error)) from error
