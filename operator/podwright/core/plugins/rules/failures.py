"""RuleFailures: which rules of a policy had errors, how often, and the last one of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class RuleFailure:
    """How many attempts had an error of the rule, and the last one: the node and what was wrong."""

    count: int = 0
    node: str = ""
    text: str = ""


class RuleFailures:
    """See the module. There is at most one entry for each rule."""

    def __init__(self) -> None:
        self._by_rule: dict[str, RuleFailure] = {}
        self.listener: Callable[[str], None] | None = None
        """Called with the rule's name for each attempt in which it had an error."""

    def add(self, rule: str, node: str, text: str) -> None:
        """The rule had an error on this node, and perhaps on others."""
        found = self._by_rule.get(rule)
        if found is None:
            found = self._by_rule[rule] = RuleFailure()
        found.count += 1
        found.node, found.text = node, text
        if self.listener is not None:
            self.listener(rule)

    @property
    def by_rule(self) -> Mapping[str, RuleFailure]:
        """The failures by the rule's name."""
        return self._by_rule
