"""The flags of `podwright run` and of `podwright kube-scheduler`, made of the definitions in
`kube/options/options.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click

from podwright import __version__
from podwright.kube.options.definitions import Option
from podwright.kube.options.former_flags import ACCEPTED, REFUSED
from podwright.kube.options.options import OPTIONS
from podwright.kube.options.values import SWITCH, OptionsError, ValueType

_RELEASE: Final = re.compile(r"v\d+\.\d+\.\d+.*")


class SchedulerCommand(click.Command):
    """A command whose flags may be written with underscores, as kube-scheduler's."""

    def __init__(self, name: str, *, as_kube_scheduler: bool, callback: Callable[..., None]) -> None:
        params = [flag(option, as_kube_scheduler=as_kube_scheduler) for option in OPTIONS]
        super().__init__(
            name,
            params=[*params, _version_flag(), *_former_flags()],
            callback=callback,
            help=callback.__doc__,
            context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
        )


class _Value(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.3
    """The value of an option, parsed as the environment's would be."""

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
        return [rv] if self._type.joined else [part for part in rv.split(self._type.separator) if part]


class _JoinedOption(click.Option):
    """An option whose texts are joined by commas before they are parsed."""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        if value is None:
            return None
        return self.type.convert(",".join(value), self, ctx)


def flag(option: Option, *, as_kube_scheduler: bool) -> click.Option:
    """The flag of an option. `as_kube_scheduler`: with the defaults of `podwright kube-scheduler`."""
    switch: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if option.type is SWITCH else {}
    default = option.as_kube_scheduler if as_kube_scheduler else option.default
    joined = option.type.joined
    return (_JoinedOption if joined else click.Option)(
        [option.flag, *filter(None, [option.short]), option.name],
        type=_Value(option.type),
        metavar=option.type.placeholder,
        default=[default] if joined and default is not None else default,
        show_default=default or False,
        **switch,
        multiple=joined or option.repeatable,
        envvar=option.variable,
        help=option.help,
    )


def _version_flag() -> click.Option:
    def show(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        if value is None or _RELEASE.fullmatch(value):
            return  # kube-scheduler reports such a version as its own
        if value.lower() not in ("true", "raw"):
            raise click.BadParameter(f"{value!r} is neither true, raw nor a version such as v1.37.2")
        click.echo(f"Podwright {__version__}")
        ctx.exit()

    return click.Option(
        ["--version"],
        is_flag=False,
        flag_value="true",
        is_eager=True,
        expose_value=False,
        callback=show,
        metavar="[true|raw]",
        help="Print the version and exit.",
    )


def _former_flags() -> Iterator[click.Option]:
    """Hidden flags for those that kube-scheduler once had."""

    def check(_ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        flag = param.opts[0]
        if value is not None and value not in ACCEPTED.get(flag, ()):
            raise click.UsageError(f"{flag} is not a flag any more: {REFUSED[flag]}")

    for flag in REFUSED:
        yield click.Option([flag], is_flag=False, flag_value="true", expose_value=False, hidden=True, callback=check)
