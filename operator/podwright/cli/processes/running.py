"""Runs a process that logs until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from podwright.kube.log_format import configure_logging
from podwright.kube.options.options import Options
from podwright.kube.repeated_lines import count_repeated_lines


class LeadershipLostError(Exception):
    """The Lease was lost. The process ends and is started again, as a standby."""


def run_process(options: Options, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs the work, with logs as these options say."""
    configure_logging(
        options.logging_format, options.verbosity, options.vmodule, logging.getLevelName(options.log_level.upper())
    )
    count_repeated_lines()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(work())
