"""Results for a terminal. Names and messages in them come from clusters and files of others: an escape sequence could
change what the terminal shows.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, cast

import click
import orjson
import yaml

from podwright.kube.log_format import printable

T = TypeVar("T")


def echo(text: str, *, err: bool = False) -> None:
    """Prints a text of one or more lines, in which everything that is not printable has escape sequences."""
    for line in text.split("\n"):
        click.echo(printable(line), err=err)


def write(value: Any, output: str = "json") -> None:
    """Prints a value as JSON or YAML."""
    if output == "yaml":
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    else:
        sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")


def write_answers(answers: Iterable[Mapping[str, Any]]) -> bool:
    """Prints a line of JSON for each. Returns whether none has an `error`."""
    succeeded = True
    for answer in answers:
        succeeded = succeeded and "error" not in answer
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    return succeeded


def color_system() -> Literal["auto"] | None:
    """For consoles of `rich`: None, which also means nothing bold, if the variable NO_COLOR is set."""
    return None if os.environ.get("NO_COLOR") else "auto"


def plain(text: str) -> str:
    """The text for a table of `rich`: printable, and without markup."""
    from rich.markup import escape  # noqa: PLC0415 -- commands without tables start faster

    return escape(printable(text))


def printable_texts(value: T) -> T:
    """Returns the value with escape sequences for everything that is not printable, as in Python's literals. `value`:
    texts, numbers, enumerations, and dataclasses, mappings, lists and tuples of these.
    """
    return cast(T, _printable(value))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{each.name: _printable(getattr(value, each.name)) for each in dataclasses.fields(value)}
        )
    if isinstance(value, Mapping):
        return {_printable(key): _printable(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_printable, value))
    return [*map(_printable, value)] if isinstance(value, list) else value
