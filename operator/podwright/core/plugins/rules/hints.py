"""Which cluster events may help a pod that a rule rejected: changes of what its filters read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel_columns.reads import Reads
from podwright.core.framework.cluster_events import (
    ASSIGNED_POD,
    NODE,
    POD,
    SIGNAL,
    TIME,
    Action,
    ClusterEvent,
    EventHint,
    Hint,
)
from podwright.core.objects.node import Node
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.plugins.rules.params import CONFIG_MAP
from podwright.core.plugins.rules.rule_set import Filter, RuleSet
from podwright.core.plugins.rules.subject import RuleSubject
from podwright.core.state.nodeinfo import NodeInfo

if TYPE_CHECKING:
    from podwright.core.plugins.rules.expression import Expression

_NODE_ACTIONS: Final = {
    Reads.LABELS: Action.UPDATE_NODE_LABEL,
    Reads.ANNOTATIONS: Action.UPDATE_NODE_ANNOTATION,
    Reads.TAINTS: Action.UPDATE_NODE_TAINT,
    Reads.UNSCHEDULABLE: Action.UPDATE_NODE_TAINT,
    Reads.CONDITIONS: Action.UPDATE_NODE_CONDITION,
    Reads.ALLOCATABLE: Action.UPDATE_NODE_ALLOCATABLE,
    Reads.IMAGES: Action.UPDATE_NODE_IMAGES,
    Reads.USAGE: Action.UPDATE_NODE_ALLOCATABLE,
}
_POD_CHANGES: Final = (
    Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_POD_SCALE_UP
)
MAX_ASKED: Final = 64
"""How many different pods are compared with a change of a node. For further pods, the change counts as helpful."""


class RuleHints:
    """See the module. A change of a node helps if the node passes all filters that depend on the node alone. Changes of
    signals help if some node passes each filter that reads signals. A minute helps if what filters read of the time has
    another value than before.
    """

    def __init__(
        self,
        rules: RuleSet,
        subject: Callable[[PodInfo, RuleOwner], RuleSubject],
        passes_anywhere: Callable[[PodInfo, Filter], bool],
    ) -> None:
        self._rules = rules
        self._subject = subject
        self._passes_anywhere = passes_anywhere
        self._of_signals = [rule for rule in rules.filters if rule.expression.signals]
        self._alone = [rule for rule in rules.filters if not rule.expression.reads.usage]
        self._node: Node | None = None
        self._known: dict[Hashable, Hint] = {}

    def hints(self) -> Sequence[EventHint]:
        """The events, with a function for those of nodes."""
        filters = self._rules.filters
        reads = Reads(0)
        for rule in filters:
            reads |= rule.expression.reads
        actions = Action.ADD
        for part, action in _NODE_ACTIONS.items():
            if reads & part:
                actions |= action
        if reads & Reads.PLACED:
            actions |= Action.DELETE
        found = [EventHint(ClusterEvent(NODE, actions), self._node_hint), EventHint(ClusterEvent(POD, Action.UPDATE))]
        if reads.usage:
            found.append(EventHint(ClusterEvent(ASSIGNED_POD, _POD_CHANGES)))
        if any(rule.expression.reads_namespace for rule in filters):
            found.append(EventHint(ClusterEvent("Namespace", Action.ALL)))
        if self._of_signals:
            found.append(EventHint(ClusterEvent(SIGNAL, Action.ALL), self._signal_hint))
        if any(rule.expression.times for rule in filters):
            found.append(EventHint(ClusterEvent(TIME, Action.ALL), self._time_hint))
        if any(owner.params_from for owner in self._rules.owners):
            found.append(EventHint(ClusterEvent(CONFIG_MAP, Action.ALL), self._params_hint))
        return found

    def _signal_hint(self, pod: PodInfo, _before: object, _after: object) -> Hint:
        return Hint.QUEUE if all(self._passes_anywhere(pod, rule) for rule in self._of_signals) else Hint.SKIP

    def _time_hint(self, _pod: PodInfo, before: int, after: int) -> Hint:
        times = (part for rule in self._rules.filters for part in rule.expression.times)
        return Hint.QUEUE if any(part.key(before) != part.key(after) for part in times) else Hint.SKIP

    def _params_hint(self, _pod: PodInfo, before: object, after: object) -> Hint:
        wanted = {owner.params_from for owner in self._rules.owners}
        for raw in (before, after):
            metadata = raw.get("metadata") if isinstance(raw, dict) else None
            if isinstance(metadata, dict) and (metadata.get("namespace"), metadata.get("name")) in wanted:
                return Hint.QUEUE
        return Hint.SKIP

    def _node_hint(self, pod: PodInfo, _before: Node | None, after: Node | None) -> Hint:
        if after is None:
            return Hint.QUEUE
        if self._node is not after:
            self._node = after
            self._known.clear()
        asked = [(rule.expression, self._subject(pod, rule.owner)) for rule in self._alone]
        key = tuple([expression.key(subject) for expression, subject in asked])
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_ASKED:
                return Hint.QUEUE
            known = self._known[key] = Hint.QUEUE if _passes(asked, after) else Hint.SKIP
        return known


def _passes(asked: Sequence[tuple[Expression, RuleSubject]], node: Node) -> bool:
    info = NodeInfo(node.name)
    info.node = node
    for expression, subject in asked:
        try:
            if expression.evaluate(subject, info) is not True:
                return False
        except EvaluationError:
            return False
    return True
