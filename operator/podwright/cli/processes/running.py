"""Runs a process that logs until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import click

from podwright.core.framework.registry import RegistryError
from podwright.kube.client.errors import AccessError, ConfigError
from podwright.kube.log_format import configure_logging
from podwright.kube.options.options import Options
from podwright.kube.repeated_lines import count_repeated_lines


class LeadershipLostError(Exception):
    """The Lease was lost. The process ends and is started again, as a standby."""


def run_process(options: Options, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs the work, with logs as these options say. Raises ClickException."""
    configure_logging(
        options.logging_format, options.verbosity, options.vmodule, logging.getLevelName(options.log_level.upper())
    )
    count_repeated_lines()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(work())
    except (AccessError, ConfigError, RegistryError, OSError, LeadershipLostError) as error:
        raise click.ClickException(str(error)) from error
