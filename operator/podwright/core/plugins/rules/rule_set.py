"""RuleSet: the filters and scores of a policy, checked and ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from podwright.core.cel_columns.reads import Reads
from podwright.core.framework.status import Code
from podwright.core.objects.dataclass import dataclass
from podwright.core.plugins.rules.owner import RuleOwner

if TYPE_CHECKING:
    from podwright.core.plugins.rules.expression import Expression
    from podwright.core.state.columns.table import NodeTable

MOST_WORK: Final = 60_000_000
"""The cost limit of a policy's rules for a new pod, in CEL's cost units: about the 60 s that a child process has."""
Normalization = Literal["None", "Max", "MinMax"]


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter. `reason`: why it rejects a node."""

    name: str
    expression: Expression
    reason: str
    owner: RuleOwner

    @property
    def code(self) -> Code:
        """Evicting pods may help only if the expression reads something about placed pods."""
        usage = self.expression.reads.usage
        return Code.UNSCHEDULABLE if usage else Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def failure(self, text: str) -> str:
        """The reason for a node for which the expression has an error."""
        return f"node(s) failed rule {self.name}: {text}"


@dataclass(frozen=True, slots=True)
class RuleScore:
    """A score."""

    name: str
    expression: Expression
    owner: RuleOwner
    weight: int = 1
    normalize: Normalization = "None"


class RuleWork(NamedTuple):
    """The estimated work of a rule: `each`, in units of CEL, this many `times`."""

    rule: str
    each: int
    times: int

    @property
    def cost(self) -> int:
        return self.each * self.times


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The args of the plugin: rules, in the order in which they run."""

    filters: tuple[Filter, ...] = ()
    scores: tuple[RuleScore, ...] = ()

    def work(self, table: NodeTable) -> tuple[RuleWork, ...]:
        """The estimated work of each rule for a new pod on these nodes."""
        return tuple(RuleWork(name, *each.work(table)) for name, each in self._expressions)

    @property
    def owners(self) -> Sequence[RuleOwner]:
        """The owners of the rules, each once."""
        return tuple({rule.owner: None for rule in self.filters} | {rule.owner: None for rule in self.scores})

    @property
    def reads(self) -> Reads:
        """The data of nodes and placed pods that the rules read."""
        return reduce(or_, (each.reads for _, each in self._expressions), Reads(0))

    @property
    def filtering_signals(self) -> frozenset[str]:
        """The signals that filters read."""
        return frozenset[str]().union(*(rule.expression.signals for rule in self.filters))

    @property
    def reads_time(self) -> bool:
        """True if any rule reads the time."""
        return any(each.times for _, each in self._expressions)

    @property
    def interpreted(self) -> Mapping[str, str]:
        """The rules that are evaluated for each node, with the reason."""
        return {name: each.interpreted for name, each in self._expressions if each.interpreted}

    @property
    def _expressions(self) -> list[tuple[str, Expression]]:
        """By the names of their rules."""
        named = [(rule.name, rule.expression) for rule in self.filters]
        return named + [(rule.name, rule.expression) for rule in self.scores]
