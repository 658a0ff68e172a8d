"""PolicyRules: the filters and scores that a policy has as expressions in CEL.

A filter rejects each node for which its expression is not true; an error also rejects the node. The first filter that
rejects a node gives the reason. A score is added to those of the plugins, times its weight; an error counts as 0.
Results are columns that are kept by what the expressions read of the pod, and refreshed for nodes that change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from operator import and_, attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from podwright.core.cel.errors import EvaluationError
from podwright.core.cel_columns.counts import CHANGES, PodCountChange
from podwright.core.cel_columns.kept import kept_columns
from podwright.core.cel_columns.reads import Reads
from podwright.core.cel_columns.vectors import shortened
from podwright.core.cel_columns.views import NodeViews
from podwright.core.framework.cluster_events import EventHint
from podwright.core.framework.interface import (
    MAX_SCORE,
    Bools,
    CycleState,
    EnqueueExtensions,
    Feasible,
    FilterPlugin,
    FilterResult,
    Handle,
    Int64s,
    Plugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from podwright.core.framework.status import SKIP, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.rules.groups import Failing, FilterGroup, RuleVerdict, ScoreGroup, failing_of
from podwright.core.plugins.rules.hints import RuleHints
from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.plugins.rules.params import Params, Unreadable
from podwright.core.plugins.rules.rule_set import Filter, Normalization, RuleScore, RuleSet
from podwright.core.plugins.rules.subject import RuleSubject
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo


class PolicyRules(
    Plugin, PreFilterPlugin, PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions
):
    """See the module. Only a policy's `rules` enable it, with a RuleSet as its args."""

    name = "PolicyRules"
    reason = "PolicyRule"
    scope = Scope.NODE_PODS  # or as wide as the rules of a policy need

    def __init__(self, args: RuleSet | None, handle: Handle) -> None:
        super().__init__(args, handle)
        self.rules = args or RuleSet()
        self.greatest_score = MAX_SCORE * sum(rule.weight for rule in self.rules.scores)
        self.params = {owner: Params(owner, handle.cache.store) for owner in self.rules.owners}
        self.rule_failed: Callable[[str, str, str], object] = lambda _rule, _node, _text: None
        """Called with a rule, a node and an error for each attempt in which the rule had one there, and perhaps on
        others.
        """
        self._reads_time = self.rules.reads_time
        self._kept = kept_columns(handle.cache)
        self._views = views = NodeViews(handle.cache.table, self.rules.reads)
        filters, scores = _by_reads(self.rules.filters), _by_reads(self.rules.scores)
        self._filter_groups = [FilterGroup(each, self._kept, views) for each in filters[:2] if each]
        self._score_groups = [ScoreGroup(each, self._kept, views) for each in scores[:2] if each]
        self._other_filters, self._other_scores = filters[2], scores[2]
        self.scope = _scope(self.rules.reads)  # type: ignore[misc]  # a ClassVar, which depends on the rules here

    def params_problem(self, unreadable: Unreadable) -> str:
        """Returns the problems of the ConfigMaps that the rules take params from; "" without problems."""
        return "; ".join(filter(None, (params.problem(unreadable) for params in self.params.values())))

    def hints(self) -> Sequence[EventHint]:
        return RuleHints(self.rules, self._subject, self._passes_anywhere).hints()

    def _passes_anywhere(self, pod: PodInfo, rule: Filter) -> bool:
        """True if any node passes the filter."""
        column = rule.expression.column(self._subject(pod, rule.owner), self._kept)
        return bool(np.any(column.passing & self.handle.cache.table.valid))

    def _subject(self, pod: PodInfo, owner: RuleOwner) -> RuleSubject:
        minute = int(self.handle.now() // 60) if self._reads_time else 0
        return RuleSubject(pod, owner, self.params[owner].current(), self.handle.cache, minute)

    def _subjects(self, pod: PodInfo) -> Mapping[RuleOwner, RuleSubject]:
        return {owner: self._subject(pod, owner) for owner in self.params}

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        if not self.rules.filters:
            return SKIP
        state.data[self.name] = _CycleState(self._subjects(pod))
        return None

    def filter(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> Status | None:
        of_pod: _CycleState = state.data[self.name]
        changes = {CHANGES: of_pod.changes}
        for rule in self.rules.filters:
            try:
                if rule.expression.evaluate(of_pod.subjects[rule.owner], node, changes) is not True:
                    return Status(rule.code, (rule.reason,))
            except EvaluationError as error:
                return Status(rule.code, (rule.failure(shortened(str(error))),))
        return None

    def filter_all(self, state: CycleState, _pod: PodInfo, _table: NodeTable) -> FilterResult | None:
        subjects = state.data[self.name].subjects
        oks: list[Bools] = []
        verdicts: list[RuleVerdict] = []
        for group in self._filter_groups:
            found = group.get(subjects)
            self._failed(self.rules.filters, found.failing)
            oks.append(found.value.ok)
            verdicts += found.value.verdicts
        for position, rule in self._other_filters:
            column = rule.expression.column(subjects[rule.owner], self._kept, self._views.of)
            self._failed(self.rules.filters, failing_of(position, column))
            oks.append(column.passing)
            verdicts.append(RuleVerdict.of(position, column))
        if not oks:
            return None
        return FilterResult(reduce(and_, oks), lambda: _explained(self.rules.filters, verdicts))

    def verdict_key(self, pod: PodInfo) -> Hashable | None:
        if self.scope > Scope.NODE_PODS or self.rules.filtering_signals:
            return None
        subjects = self._subjects(pod)
        return tuple([rule.expression.key(subjects[rule.owner]) for rule in self.rules.filters])

    def add_pod(self, state: CycleState, _pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state.data[self.name].changes.append(PodCountChange(added, node.present.labels, 1))

    def remove_pod(self, state: CycleState, _pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state.data[self.name].changes.append(PodCountChange(removed, node.present.labels, -1))

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, _feasible: Feasible) -> Status | None:
        if not self.rules.scores:
            return SKIP
        state.data.setdefault(self.name, _CycleState(self._subjects(pod)))
        return None

    def score(self, state: CycleState, _pod: PodInfo, node: NodeInfo) -> int:
        """The sum for one node as if it were the only feasible one."""
        subjects: Mapping[RuleOwner, RuleSubject] = state.data[self.name].subjects
        total = 0
        for rule in self.rules.scores:
            try:
                value = rule.expression.number(subjects[rule.owner], node)
            except EvaluationError:
                continue
            scores = scaled(np.array([value]), np.ones(1, np.bool_), rule.normalize)
            total += rule.weight * int(scores[0])
        return total

    def score_all(self, state: CycleState, _pod: PodInfo, feasible: Feasible) -> Int64s:
        subjects: Mapping[RuleOwner, RuleSubject] = state.data[self.name].subjects
        total: Int64s | None = None
        for group in self._score_groups:
            found = group.get(subjects)
            self._failed(self.rules.scores, found.failing)
            total = found.value if total is None else total + found.value
        total = np.zeros(len(feasible), np.int64) if total is None else feasible.take(total)
        for position, rule in self._other_scores:
            bounded = rule.normalize == "None"
            column = rule.expression.scores(subjects[rule.owner], self._kept, self._views.of, bounded=bounded)
            self._failed(self.rules.scores, failing_of(position, column))
            scores = feasible.take(column.vec.data)
            if not bounded:
                scores = scaled(scores, feasible.take(column.sound), rule.normalize)
            total = total + rule.weight * scores  # not in place: results are kept
        return total

    def _failed(self, rules: Sequence[Filter | RuleScore], failing: Sequence[Failing]) -> None:
        """Rules have an error on a node, which is reported once for each attempt."""
        for position, row, text in failing:
            self.rule_failed(rules[position].name, self.handle.cache.table.names[row], text)


class _CycleState:
    """The pod as the expressions see it, and what a dry run has changed."""

    __slots__ = ("changes", "subjects")

    def __init__(self, subjects: Mapping[RuleOwner, RuleSubject], changes: Sequence[PodCountChange] = ()) -> None:
        self.subjects = subjects
        self.changes = list(changes)

    def clone(self) -> _CycleState:
        return _CycleState(self.subjects, self.changes)


R = TypeVar("R", Filter, RuleScore)


def _by_reads(rules: Sequence[R]) -> tuple[Sequence[tuple[int, R]], Sequence[tuple[int, R]], Sequence[tuple[int, R]]]:
    """Rules with their positions: those that read nodes alone, those that read the usage of nodes, too, and all
    others.
    """
    nodes: list[tuple[int, R]] = []
    usage: list[tuple[int, R]] = []
    others: list[tuple[int, R]] = []
    for position, rule in enumerate(rules):
        reads = rule.expression.reads
        if reads & Reads.PLACED or (isinstance(rule, RuleScore) and rule.normalize != "None"):
            others.append((position, rule))
        else:
            (usage if reads.usage else nodes).append((position, rule))
    return nodes, usage, others


def _scope(reads: Reads) -> Scope:
    if reads & Reads.PLACED:
        return Scope.CLUSTER
    return Scope.NODE_PODS if reads & Reads.USAGE else Scope.NODE


def scaled(values: NDArray[np.float64], sound: Bools, normalize: Normalization) -> Int64s:
    """int64[feasible] from 0 to 100. `values`: float64[feasible]; `sound`: those that are no errors, which count as
    0.
    """
    if normalize == "None":
        found = np.clip(values, 0, MAX_SCORE)
    else:
        least = float(np.min(values, initial=np.inf, where=sound)) if normalize == "MinMax" else 0.0
        greatest = float(np.max(values, initial=-np.inf, where=sound))
        width = greatest / 2 - least / 2  # halves, because the difference may be too great for a double
        if not 0 < width < np.inf:
            return np.zeros(len(values), np.int64)
        found = np.clip((values / 2 - least / 2) / width, 0, 1) * MAX_SCORE
    scores: Int64s = np.where(sound, found, 0).astype(np.int64)
    return scores


def _explained(
    filters: Sequence[Filter], verdicts: Sequence[RuleVerdict]
) -> tuple[NDArray[np.int32], Sequence[Status]]:
    """int32[nodes] codes of the first filter that rejects each node, and the statuses. A code stands for a filter and
    its error.
    """
    size = len(verdicts[0].passing)
    codes = np.zeros(size, np.int32)
    statuses: list[Status] = []
    open_ = np.ones(size, np.bool_)
    for position, passing, errors, texts in sorted(verdicts, key=attrgetter("position")):
        rule = filters[position]
        rejected = open_ & ~passing
        codes[rejected] = len(statuses)
        statuses.append(Status(rule.code, (rule.reason,)))
        if errors is not None:
            for code in np.unique(errors[rejected & (errors != 0)]).tolist():
                codes[rejected & (errors == code)] = len(statuses)
                statuses.append(Status(rule.code, (rule.failure(texts.text(code)),)))
        open_ &= passing
    return codes, statuses
