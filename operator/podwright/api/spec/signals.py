"""`spec.signals` of a policy: the names of the signals that it uses. The operator's configuration defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from podwright.core.framework.args import ArgsError
from podwright.core.framework.validation import SET, Problem, declared
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.similar_names import did_you_mean
from podwright.core.state.signals import SignalDefinition

SIGNAL_NAME: Final = "^[a-z][a-zA-Z0-9]{0,62}$"
MAX_SIGNALS: Final = 32
"""How many signals there may be."""
Definitions = Mapping[str, SignalDefinition]
"""The signals that the operator's configuration defines, by name."""


def signal_names(description: str) -> Any:
    """A field with names of signals."""
    return declared(
        description,
        default=(),
        maxItems=MAX_SIGNALS,
        items={"minLength": 1, "maxLength": 63, "pattern": SIGNAL_NAME},
        **SET,
    )


@dataclass(frozen=True, slots=True)
class GivenSignals:
    """The signals that a policy may use, among all that are defined."""

    names: tuple[str, ...] = ()
    defined: Definitions = field(default_factory=dict)


NO_SIGNALS: Final = GivenSignals()


def named_signals(names: Sequence[str], defined: Definitions, where: str) -> GivenSignals:
    """The signals that a policy names. Raises ArgsError for each that is not defined."""
    problems: list[Problem] = []
    for i, name in enumerate(names):
        if name not in defined:
            hint = did_you_mean(name, defined)
            problem = f"signal {name!r} is not defined; only the operator's option --signals defines signals{hint}"
            problems.append((f"{where}[{i}]", problem))
    if problems:
        raise ArgsError(problems)
    return GivenSignals(tuple(names), defined)
