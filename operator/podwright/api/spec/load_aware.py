"""Strategy LoadAware, and the args of its plugin: they may use only signals that the policy names, and that measure a
resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from podwright.api.kube_scheduler_configuration import PluginArgs
from podwright.api.spec.signals import Definitions
from podwright.api.spec.strategy import Strategy
from podwright.core.framework.validation import Problem, Rule
from podwright.core.plugins.load_aware import LoadAware

PLUGIN: Final = LoadAware.name
NEEDS_SIGNALS: Final = Rule(
    cel="!has(self.strategy) || self.strategy.type != 'LoadAware' || (has(self.signals) && size(self.signals) > 0)",
    holds=lambda self: self.strategy is None or self.strategy.type != "LoadAware" or bool(self.signals),
    message="is required with strategy type LoadAware",
    path=".signals",
    reason="FieldValueRequired",
)
"""A rule of specs that have a strategy and signals."""


class Spec(Protocol):
    """The spec of a policy, as far as it says which signals it uses."""

    @property
    def strategy(self) -> Strategy | None: ...
    @property
    def plugin_config(self) -> Sequence[PluginArgs]: ...
    @property
    def signals(self) -> Sequence[str]: ...


def load_problems(spec: Spec, defined: Definitions) -> list[Problem]:
    """The problems of signals by whose loads the strategy scores. `defined`: all signals that the spec names."""
    problems = []
    for where, name in _named(spec):
        if name not in spec.signals:
            problems.append((where, f"signal {name!r} is not among spec.signals"))
        elif not defined[name].resource:
            problems.append((where, f"signal {name!r} measures no resource: its definition in --signals needs one"))
    return problems


def _named(spec: Spec) -> Iterator[tuple[str, str]]:
    strategy = spec.strategy
    if strategy is not None and strategy.type == PLUGIN:
        if strategy.signals:
            yield from ((f"spec.strategy.signals[{i}].name", each.name) for i, each in enumerate(strategy.signals))
        else:
            yield from ((f"spec.signals[{i}]", name) for i, name in enumerate(spec.signals))
    for i, entry in enumerate(spec.plugin_config):
        given = entry.args.get("signals") if entry.name == PLUGIN else None
        for j, each in enumerate(given if isinstance(given, Sequence) else ()):
            name = each.get("name") if isinstance(each, Mapping) else None
            if isinstance(name, str):
                yield f"spec.pluginConfig[{i}].args.signals[{j}].name", name
