"""`podwright run`: the scheduler itself. Its flags come from the definitions in `kube/options.py`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from podwright.core.framework.registry import RegistryError
from podwright.kube.log_format import make_safe
from podwright.kube.option_values import SWITCH, OptionsError, ValueType
from podwright.kube.options import OPTIONS, Option, Options

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class _Value(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.3
    """The value of an option, parsed as the environment's would be."""

    envvar_list_splitter = os.pathsep

    def __init__(self, value_type: ValueType) -> None:
        self.name = value_type.placeholder
        self._type = value_type

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._type.parse(value)
        except OptionsError as error:
            return self.fail(str(error), param, ctx)

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        return [part for part in super().split_envvar_value(rv) if part]


def _flag(option: Option) -> click.Option:
    switch: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if option.type is SWITCH else {}
    return click.Option(
        [option.flag, option.name],
        type=_Value(option.type),
        metavar=option.type.placeholder,
        default=option.default,
        show_default=bool(option.default),
        **switch,
        multiple=option.repeatable,
        envvar=option.variable,
        help=option.help,
    )


@click.command(params=[_flag(option) for option in OPTIONS])
def run(**values: Any) -> None:
    """Schedule pods until SIGTERM, SIGINT or SIGQUIT.

    Each option can also be set by an environment variable: PODWRIGHT_POD_INTAKE for --pod-intake, PODWRIGHT_PLUGIN_DIRS for --plugin-dir.
    """
    try:
        options = Options(**values)
    except OptionsError as error:
        raise click.UsageError(str(error)) from error
    from podwright.cli import scheduler  # noqa: PLC0415 -- not for --help
    from podwright.kube.client.errors import AccessError, ConfigError  # noqa: PLC0415
    from podwright.kube.repeated_lines import count_repeated_lines  # noqa: PLC0415

    logging.basicConfig(level=options.log_level.upper(), format=LOG_FORMAT, stream=sys.stderr)
    make_safe(logging.getLogger())
    count_repeated_lines()
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(scheduler.run(options))
    except (AccessError, ConfigError, RegistryError, OSError, scheduler.LeadershipLostError) as error:
        raise click.ClickException(str(error)) from error
