"""How one option of a scheduler process is defined: as a field of a dataclass, see `options.py` next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields, replace
from typing import Any, Final

from podwright.core.objects.dataclass import dataclass
from podwright.kube.options.values import OptionsError, ValueType

PREFIX: Final = "PODWRIGHT_"


@dataclass(frozen=True, slots=True)
class Option:
    """The definition of one option.

    `default`: the value as a user would write it, None for none; `as_kube_scheduler`: likewise for `podwright
    kube-scheduler`. `repeatable`: the flag can be given several times, and the variable is a list separated by
    `type.separator`; the value is a tuple. `short`: another flag of one letter, or empty. `under_kopf`: False if plain
    `kopf run` has a flag of its own for it.

    `no_effect`: why a flag of kube-scheduler has no effect here, empty if it has one. `already`: the value that says
    what Podwright does anyway, so that it needs no warning; None for none.
    """

    type: ValueType
    help: str
    default: str | None = None
    as_kube_scheduler: str | None = None
    flag: str = ""
    short: str = ""
    repeatable: bool = False
    under_kopf: bool = True
    no_effect: str = ""
    already: str | None = None
    name: str = ""

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    def parse(self, text: str) -> Any:
        """The value of a variable's text. Raises OptionsError, which names the variable."""
        try:
            if self.repeatable:
                return tuple(self.type.parse(part) for part in text.split(self.type.separator) if part)
            return self.type.parse(text)
        except OptionsError as error:
            raise OptionsError(f"{self.variable}: {error}") from error

    def warning(self, value: Any) -> str:
        """The warning about a value without effect; "" without a warning."""
        if not self.no_effect or value is None or (self.already is not None and value == self.type.parse(self.already)):
            return ""
        return f"{self.flag} has no effect: {self.no_effect}"

    def value(self) -> Any:
        """The default."""
        if self.default is None:
            return () if self.repeatable else None
        return self.type.parse(self.default)


def option(
    type: ValueType,  # noqa: A002 -- as in click
    help: str,  # noqa: A002 -- likewise
    *,
    default: str | None = None,
    as_kube_scheduler: str | None = None,
    **others: Any,
) -> Any:
    """A field of the options. `as_kube_scheduler`: if it is another default. `others`: those of Option; `flag` is only
    needed where it is not the field's name.
    """
    made = Option(type, help, default, default if as_kube_scheduler is None else as_kube_scheduler, **others)
    return field(default_factory=made.value, metadata={"option": made})


def without_effect(type: ValueType, why: str, *, already: str | None = None) -> Any:  # noqa: A002 -- as in click
    """A field for a flag of kube-scheduler that has no effect here. Its value is None if it is not given."""
    text = f"Accepted as in kube-scheduler, without effect: {why}."
    return field(default=None, metadata={"option": Option(type, text, no_effect=why, already=already)})


def definitions(options: type[Any]) -> Sequence[Option]:
    """The options that are fields of a dataclass."""
    found = ((each.name, each.metadata["option"]) for each in fields(options) if each.metadata)
    return [replace(made, name=name, flag=made.flag or f"--{name.replace('_', '-')}") for name, made in found]
