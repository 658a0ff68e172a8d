"""RuleSet: the filters and scores of a policy, checked and ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Literal

from podwright.core.cel_columns.reads import Reads
from podwright.core.framework.status import Code
from podwright.core.plugins.rules.owner import Owner

if TYPE_CHECKING:
    from podwright.core.plugins.rules.expression import Expression

Normalization = Literal["None", "Max", "MinMax"]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter. `reason`: why it rejects a node."""

    name: str
    expression: Expression
    reason: str
    owner: Owner

    @property
    def code(self) -> Code:
        """Evicting pods may help only if the expression reads something about placed pods."""
        usage = self.expression.reads.usage
        return Code.UNSCHEDULABLE if usage else Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def failure(self, text: str) -> str:
        """The reason for a node for which the expression has an error."""
        return f"node(s) failed rule {self.name}: {text}"


@dataclass(frozen=True, slots=True)
class Score:
    """A score."""

    name: str
    expression: Expression
    owner: Owner
    weight: int = 1
    normalize: Normalization = "None"


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The args of the plugin: rules, in the order in which they run."""

    filters: tuple[Filter, ...] = ()
    scores: tuple[Score, ...] = ()

    @property
    def owners(self) -> Sequence[Owner]:
        """The owners of the rules, each once."""
        return tuple({rule.owner: None for rule in self.filters} | {rule.owner: None for rule in self.scores})

    @property
    def reads(self) -> Reads:
        """What all rules together read of nodes and placed pods."""
        expressions = [*(rule.expression for rule in self.filters), *(rule.expression for rule in self.scores)]
        return reduce(or_, (each.reads for each in expressions), Reads(0))

    @property
    def filtering_signals(self) -> frozenset[str]:
        """The signals that filters read."""
        return frozenset[str]().union(*(rule.expression.signals for rule in self.filters))

    @property
    def reads_time(self) -> bool:
        """True if any rule reads the time."""
        expressions = [*(rule.expression for rule in self.filters), *(rule.expression for rule in self.scores)]
        return any(each.times for each in expressions)

    @property
    def interpreted(self) -> Mapping[str, str]:
        """The rules that are evaluated for each node, with the reason."""
        named = [(rule.name, rule.expression) for rule in self.filters]
        named += [(rule.name, rule.expression) for rule in self.scores]
        return {name: each.interpreted for name, each in named if each.interpreted}
