"""The framework: runs the plugins of one profile at each extension point.

Each call of a plugin stands in a `try` of its own, because a function around it would take longer than some plugins do.
`contract` turns an exception or a wrong answer into a PluginError with the plugin's name. `measured` times the points.
Filters and scores run over all nodes at once if the plugin has `filter_all` or `score_all`. Otherwise, and where only a
few nodes matter, they run node by node. `BuiltPlugins` builds the plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, cast
from weakref import proxy

import numpy as np

from podwright.core.framework import contract, kept_totals
from podwright.core.framework.built_plugins import BuiltPlugins
from podwright.core.framework.contract import call, failed, status_of
from podwright.core.framework.diagnosis import NodeDiagnosis, Stage
from podwright.core.framework.errors import PluginError, ReportException
from podwright.core.framework.interface import (
    Bools,
    CycleState,
    Feasible,
    FilterPlugin,
    FilterResult,
    FollowUp,
    Handle,
    Int64s,
    Plugin,
    PostFilterResult,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    ScorePlugin,
    WholeNumbers,
)
from podwright.core.framework.kept_totals import KeptTotals, Parts, added_up
from podwright.core.framework.observer import NO_OBSERVER, Observer
from podwright.core.framework.pre_filter_outcome import ANYWHERE, PreFilterOutcome, nowhere
from podwright.core.framework.profile import Classes, Point, Profile
from podwright.core.framework.status import SKIP, Code, Status, unschedulable
from podwright.core.framework.verdict_cache import NodeVerdicts, VerdictCache
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.pod import PodInfo
from podwright.core.state.columns.table import NodeTable
from podwright.core.state.nodeinfo import NodeInfo


class Framework(BuiltPlugins):
    """Runs the plugins of one profile."""

    def __init__(
        self,
        profile: Profile,
        classes: Classes,
        handle: Handle,
        observer: Observer = NO_OBSERVER,
        report_exception: ReportException | None = None,
    ) -> None:
        """`observer` learns of every attempt. `report_exception` receives every exception that a plugin raises.

        Raises ProfileError for a profile that cannot work, and PluginError for a plugin that cannot be built.
        """
        super().__init__(profile, classes, handle, report_exception)
        self.observer = observer
        self._trusted = frozenset(name for name, plugin in self.plugins.items() if contract.is_in_tree(plugin))
        """Plugins whose arrays are not checked in each decision. Tests check them."""
        self._verdicts: VerdictCache[Status | None] = VerdictCache()
        greatest = sum(self.weights[plugin.name] * plugin.greatest_score for plugin in self.score_plugins)
        self._total_type = np.int16 if greatest <= np.iinfo(np.int16).max else np.int64
        self._totals = handle.cache.extension(KeptTotals, KeptTotals)
        self.measured: Framework | None = None
        """The same framework for measured attempts, once there was one. See `measured`."""
        for plugin in self.plugins.values():
            if isinstance(plugin, Plugin):
                contract.attach(plugin, proxy(self))  # no cycle, which would outlive the policy
        observer.framework_built(self.plugin_names)

    # Queue

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Runs PreEnqueue. The first rejection, or None if the pod may be scheduled."""
        for plugin in self.pre_enqueue_plugins:
            try:
                answer = plugin.pre_enqueue(pod)
            except BaseException as error:
                raise failed(plugin, Point.PRE_ENQUEUE, error) from error
            if answer is not None and (status := status_of(plugin, Point.PRE_ENQUEUE, answer)) is not None:
                return status
        return None

    def tells_gate(self, plugin: str, pod: PodInfo) -> bool:
        """True if an event on the pod says why this plugin kept it out of the active queue."""
        for each in self.pre_enqueue_plugins:
            if each.name == plugin:
                return bool(call(each, Point.PRE_ENQUEUE, each.tells_gate, pod))
        return False

    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        return self.sorter()(pod, queued_at)

    def sorter(self) -> Callable[[PodInfo, float], Any]:
        """`sort_key`, for a queue that may outlive this framework."""
        (plugin,) = self.queue_sort_plugins

        def sort_key(pod: PodInfo, queued_at: float) -> Any:
            try:
                return plugin.sort_key(pod, queued_at)
            except BaseException as error:
                raise failed(plugin, Point.QUEUE_SORT, error) from error

        return sort_key

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterOutcome:
        """Runs the PreFilter plugins until one rejects the pod as UnschedulableAndUnresolvable. What refuses pods in
        all profiles comes last, because preemption may need what the plugins found.
        """
        names: frozenset[str] | None = None
        narrowed_by: list[str] = []
        rejection: Status | None = None
        for disabled, check in self.disabled_checks:
            verdict = call(disabled, Point.PRE_FILTER, check, pod, self.handle.cache)
            if (status := status_of(disabled, Point.PRE_FILTER, verdict)) is not None:
                return PreFilterOutcome(status, None, ())
        for plugin in self.pre_filter_plugins:
            try:
                answer = plugin.pre_filter(state, pod)
            except BaseException as error:
                raise failed(plugin, Point.PRE_FILTER, error) from error
            if answer is SKIP:  # the frequent answers need no check
                state.skip_filter.add(plugin.name)
                continue
            if answer is None or (answer := contract.pre_filter_answer(plugin, answer)) is None:
                continue
            if isinstance(answer, PreFilterResult):
                if answer.node_names is None:
                    continue
                narrowed_by.append(plugin.name)
                names = answer.node_names if names is None else names & answer.node_names
                if not names:
                    return PreFilterOutcome(nowhere(narrowed_by), names, tuple(narrowed_by))
            elif answer.code is Code.SKIP:
                state.skip_filter.add(plugin.name)
            elif answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFilterOutcome(answer, None, ())
            elif answer.code is Code.UNSCHEDULABLE:
                rejection = answer
            else:
                raise PluginError(plugin.name, Point.PRE_FILTER.key, answer.message or answer.code.text)
        refusals = self.handle.cache.refusals
        for refusing, check in refusals.items() if refusals else ():
            if (refusal := check(pod)) is not None:
                return PreFilterOutcome(refusal.by(refusing), None, ())
        if rejection is None and names is None:
            return ANYWHERE
        return PreFilterOutcome(rejection, names, tuple(sorted(narrowed_by)))

    def filter_all(self, state: CycleState, pod: PodInfo, table: NodeTable, diagnosis: NodeDiagnosis) -> Bools:
        """Runs the filters over all candidates of the diagnosis. bool[nodes]: the nodes that pass.

        The rejections are added to the diagnosis as stages.
        """
        considered = diagnosis.considered
        alive = table.valid if considered is None else diagnosis.considered_rows(considered)
        count = diagnosis.candidate_count
        for plugin in self.filter_plugins:
            if plugin.name in state.skip_filter or not count:
                continue
            try:
                if plugin.filter_all is not None:
                    state.left = alive
                    answer = plugin.filter_all(state, pod, table)
                elif plugin.loop is not None:
                    answer = plugin.loop(state, self._filter_each, plugin, pod, alive)
                else:
                    answer = self._filter_each(plugin, state, pod, alive)
            except BaseException as error:
                raise failed(plugin, Point.FILTER, error) from error
            result = answer if plugin.name in self._trusted else contract.filter_result(plugin, answer, table.size)
            if result is None:
                continue
            after = alive & result.ok
            left = int(np.count_nonzero(after))
            if left < count:
                diagnosis.stages.append(Stage(plugin.name, alive, after, result))
                alive, count = after, left
        state.left = None
        rules = self.handle.cache.place_rules
        if rules is not None and count and (refused := rules.refuse_all(pod)) is not None:
            after = alive & refused.ok
            diagnosis.stages.append(Stage(rules.plugin, alive, after, refused))
            alive = after
        return alive

    def _filter_each(self, plugin: FilterPlugin, state: CycleState, pod: PodInfo, alive: Bools) -> FilterResult | None:
        cache = self.handle.cache
        codes = np.zeros(len(alive), np.int32)
        statuses: list[Status] = [Status(Code.SUCCESS)]
        known: dict[Status, int] = {}
        for slot in np.flatnonzero(alive):
            status = self._filter_one(plugin, state, pod, cache.node_at(int(slot)))
            if status is None:
                continue
            if status not in known:
                known[status] = len(statuses)
                statuses.append(status)
            codes[slot] = known[status]
        if not known:
            return None
        return FilterResult(codes == 0, lambda: (codes, statuses))

    @staticmethod
    def _filter_one(plugin: FilterPlugin, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        try:
            answer = plugin.filter(state, pod, node)
        except BaseException as error:
            raise failed(plugin, Point.FILTER, error) from error
        if answer is None:
            return None
        status = status_of(plugin, Point.FILTER, answer)
        if status is not None and not status.rejected:
            raise PluginError(plugin.name, Point.FILTER.key, status.message or status.code.text)
        return status

    def filter_node(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, plugins: Sequence[FilterPlugin] | None = None
    ) -> Status | None:
        """Runs the filters on one node, or only these. The first rejection, or None."""
        for plugin in self.filter_plugins if plugins is None else plugins:
            if plugin.name in state.skip_filter:
                continue
            if (status := self._filter_one(plugin, state, pod, node)) is not None:
                return status
        return None

    def filter_node_with_nominated(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Runs `filter_node` with the pods of equal or higher priority that are nominated to the node, then without
        them.

        The pod must pass both: a nominated pod may never arrive, so the node must also be feasible without it.
        """
        others = self.nominated_before(pod, node.name)
        leaving = self.handle.cache.nominator.leaving_for(pod, node, others) if others else ()
        status = self.filter_crowded_node(state, pod, node, others, leaving=leaving) if others else None
        return self.filter_node(state, pod, node) if status is None else status

    def filter_crowded_node(
        self,
        state: CycleState,
        pod: PodInfo,
        node: NodeInfo,
        others: Sequence[PodInfo],
        plugins: Sequence[FilterPlugin] | None = None,
        *,
        leaving: Sequence[PodInfo] = (),
    ) -> Status | None:
        """Runs `filter_node` with these other pods on the node, too, and without those that are `leaving` it."""
        crowded, with_them = node.clone(), state.clone()
        for other in leaving:
            crowded.remove(other)
            self.remove_pod(with_them, pod, other, crowded)
        for other in others:
            crowded.add(other)
            self.add_pod(with_them, pod, other, crowded)
        return self.filter_node(with_them, pod, crowded, plugins)

    def verdict_key(self, state: CycleState, pod: PodInfo) -> Hashable | None:
        """Returns the key of verdicts on a node: all that they depend on besides the node, its pods and those nominated
        to it.

        None: a filter for this pod does not allow its verdicts to be cached.
        """
        if not self.beyond_node <= state.skip_filter:
            return None
        keys = []
        for plugin in self.filter_plugins:
            if plugin.name not in state.skip_filter:
                key = contract.verdict_key_of(plugin, pod)
                if key is None:
                    return None
                keys.append(key)
        return (*keys, pod.priority, frozenset(state.skip_filter))

    def prepare(self, pods: Iterable[PodInfo]) -> None:
        """Lets filters compute what a plan of these members of a pod group needs, where the attempt can still pause.
        Raises PluginError.
        """
        preparing = [plugin for plugin in self.filter_plugins if type(plugin).prepare is not FilterPlugin.prepare]
        for pod in pods if preparing else ():
            for plugin in preparing:
                call(plugin, Point.FILTER, plugin.prepare, pod)

    def clear_cached_verdicts(self) -> None:
        """Clears the verdict cache, and the caches of PostFilter plugins."""
        self._verdicts.clear()
        for plugin in self.post_filter_plugins:
            contract.contained(plugin, Point.POST_FILTER, plugin.clear_cache)

    def cached_verdicts(self, key: Hashable | None) -> NodeVerdicts[Status | None] | None:
        """The cached verdicts on crowded nodes for `key`, which holds everything that they depend on; None for None."""
        return self._verdicts.of(key)

    def nominated_before(self, pod: PodInfo, node_name: str) -> Sequence[PodInfo]:
        """The pods nominated to the node that this pod must leave room for."""
        return self.handle.cache.nominator.before(pod, node_name)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Updates the state of PreFilter after a dry run added `added` to `node`."""
        for plugin in self.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                try:
                    answer = plugin.add_pod(state, pod, added, node)
                except BaseException as error:
                    raise failed(plugin, Point.PRE_FILTER, error) from error
                if answer is not None:
                    self._adjusted(plugin, answer)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Updates the state of PreFilter after a dry run removed `removed` from `node`."""
        for plugin in self.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                try:
                    answer = plugin.remove_pod(state, pod, removed, node)
                except BaseException as error:
                    raise failed(plugin, Point.PRE_FILTER, error) from error
                if answer is not None:
                    self._adjusted(plugin, answer)

    @staticmethod
    def _adjusted(plugin: PreFilterPlugin, answer: Any) -> None:
        status = status_of(plugin, Point.PRE_FILTER, answer)
        if status is not None:
            raise PluginError(plugin.name, Point.PRE_FILTER.key, status.message or status.code.text)

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: NodeDiagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Runs the PostFilter plugins until one returns Success, UnschedulableAndUnresolvable or an error."""
        result: PostFilterResult | None = None
        reasons: list[str] = []
        rejected_by = ""
        for plugin in self.post_filter_plugins:
            answer = call(plugin, Point.POST_FILTER, plugin.post_filter, state, pod, diagnosis)
            found, status = contract.post_filter_answer(plugin, answer)
            if status.code in (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                return found, status
            if not status.rejected:
                return None, status
            result = found or result
            reasons += status.reasons
            rejected_by = rejected_by or plugin.name
        return result, unschedulable(*reasons).by(rejected_by)

    def group_waits(self, state: CycleState, pod: PodInfo) -> Sequence[FollowUp]:
        """The follow-ups for a member of a pod group if the group is not placed."""
        return [
            each
            for plugin in self.post_filter_plugins
            for each in call(plugin, Point.POST_FILTER, plugin.group_waits, state, pod)
        ]

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, feasible: Feasible) -> None:
        """Runs the PreScore plugins; `score` calls this. A plugin that returns Skip does not score."""
        for plugin in self.pre_score_plugins:
            try:
                answer = plugin.pre_score(state, pod, feasible)
            except BaseException as error:
                raise failed(plugin, Point.PRE_SCORE, error) from error
            if answer is None:
                continue
            if answer is not SKIP and (answer := status_of(plugin, Point.PRE_SCORE, answer)) is None:
                continue
            if answer.code is not Code.SKIP:
                raise PluginError(plugin.name, Point.PRE_SCORE.key, answer.message or answer.code.text)
            state.skip_score.add(plugin.name)

    def score(
        self,
        state: CycleState,
        pod: PodInfo,
        feasible: Feasible,
        details: dict[str, WholeNumbers] | None = None,
        by_row: bool = False,
    ) -> WholeNumbers:
        """[feasible]: the weighted sum of the scores of all plugins, as int16 if the weights allow it, or else as
        int64. Fills `details` with each plugin's normalised scores. Valid until the cache changes.

        `by_row`: if Score sets the state's `best`, the sums may be [nodes]; those of infeasible nodes are less than all
        others.
        """
        self.pre_score(state, pod, feasible)
        length = len(feasible)
        parts: list[tuple[Any, int]] = []
        constant = 0
        kept = length >= kept_totals.KEPT_SIZE and details is None
        kept = kept and (feasible.all_rows or (by_row and feasible.alive is not None))
        rows = Feasible.whole(feasible.table) if kept and not feasible.all_rows else feasible
        state.best = None
        for plugin in self.score_plugins:
            if plugin.name in state.skip_score:
                continue
            scores: Any
            trusted = plugin.name in self._trusted
            keeps = kept and trusted and plugin.keeps_scores
            try:
                if plugin.score_all is not None:
                    scores = plugin.score_all(state, pod, rows if keeps else feasible)
                elif plugin.loop is not None:
                    scores = plugin.loop(state, self._score_each, plugin, pod, feasible)
                else:
                    scores = self._score_each(plugin, state, pod, feasible)
                if not trusted:
                    scores = contract.scores_of(plugin, scores, length)
                if plugin.normalize is not None and not (plugin.zero_stays and type(scores) is int and not scores):
                    if type(scores) is int and not plugin.normalizes_numbers:
                        scores = np.full(length, scores, np.int64)
                    scores = plugin.normalize(state, pod, scores, feasible)
                    if not trusted:
                        scores = contract.scores_of(plugin, scores, length)
                if not trusted:
                    contract.check_range(plugin, scores)
            except BaseException as error:
                raise failed(plugin, Point.SCORE, error) from error
            weight = self.weights[plugin.name]
            if type(scores) is int:
                constant += weight * scores
            else:
                if kept and not keeps:
                    kept, parts = False, _taken(feasible, parts)
                parts.append((scores, weight))
            if details is not None:
                details[plugin.name] = np.full(length, scores, np.int64) if type(scores) is int else scores
        if not parts:
            return cast("WholeNumbers", np.full(length, constant, self._total_type))
        if kept:
            many_gaps = (feasible.table.size - length) * kept_totals.SHARED_GAPS > feasible.table.size
            rules = (pod.node_affinity, pod.tolerations) if many_gaps else None
            known = self._totals.get(parts, constant, self._total_type, rules)
            if known is not None:
                known.update(feasible.table.usage_changes, feasible.alive)
                state.best = known
                return known.total
            parts = _taken(feasible, parts)
        return added_up(parts, constant, self._total_type)

    def _score_each(self, plugin: ScorePlugin, state: CycleState, pod: PodInfo, feasible: Feasible) -> Int64s:
        node_at = self.handle.cache.node_at
        answers = (plugin.score(state, pod, node_at(int(slot))) for slot in feasible.slots)
        return np.fromiter((contract.score_of(plugin, answer) for answer in answers), np.int64, len(feasible))

    # Reserve and permit

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Runs the Reserve plugins. At the first failure it unreserves with all of them, and returns the failure."""
        for plugin in self.reserve_plugins:
            try:
                answer = plugin.reserve(state, pod, node_name)
                status = None if answer is None else contract.outcome_of(plugin, Point.RESERVE, answer)
            except BaseException as error:
                if not passes_through(error):
                    self.unreserve(state, pod, node_name)
                raise failed(plugin, Point.RESERVE, error) from error
            if status is not None:
                self.unreserve(state, pod, node_name)
                return status
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Sequence[PluginError]:
        """Runs Unreserve of all Reserve plugins in reverse order, even if some fail. Returns their errors."""
        faults = []
        for plugin in reversed(self.reserve_plugins):
            try:
                call(plugin, Point.RESERVE, plugin.unreserve, state, pod, node_name)
            except PluginError as fault:
                faults.append(fault)
        return faults

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, Mapping[str, float]]:
        """Runs the Permit plugins. None: approved; a rejection; or Wait, with the timeout in seconds of each plugin
        that waits.
        """
        waits: dict[str, float] = {}
        for plugin in self.permit_plugins:
            try:
                answer = plugin.permit(state, pod, node_name)
            except BaseException as error:
                raise failed(plugin, Point.PERMIT, error) from error
            status, timeout = contract.permit_answer(plugin, answer)
            if status is None:
                continue
            if status.code is not Code.WAIT:
                return status, {}
            waits[plugin.name] = timeout
        return (Status(Code.WAIT), waits) if waits else (None, waits)

    # Bind

    def pre_bind_pre_flights(self, state: CycleState, pod: PodInfo, node_name: str) -> Sequence[PreBindPlugin]:
        """The PreBind plugins whose PreBindPreFlight did not skip this pod."""
        wanted = []
        for plugin in self.pre_bind_plugins:
            try:
                answer = plugin.pre_bind_pre_flight(state, pod, node_name)
            except BaseException as error:
                raise failed(plugin, Point.PRE_BIND, error) from error
            if answer is not SKIP and not _skips(status_of(plugin, Point.PRE_BIND, answer)):
                wanted.append(plugin)
        return wanted

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Runs the PreBind plugins that do not skip this pod. The first failure, or None."""
        for plugin in self.pre_bind_pre_flights(state, pod, node_name):
            try:
                answer = await plugin.pre_bind(state, pod, node_name)
            except BaseException as error:
                raise failed(plugin, Point.PRE_BIND, error, self.interrupts) from error
            status = contract.outcome_of(plugin, Point.PRE_BIND, answer)
            if status is not None:
                return status
        return None

    async def bind(
        self, state: CycleState, pod: PodInfo, node_name: str, annotations: Mapping[str, str]
    ) -> Status | None:
        """Runs the Bind plugins until one does not return Skip. None: the pod is bound."""
        for plugin in self.bind_plugins:
            try:
                answer = await plugin.bind(state, pod, node_name, annotations)
            except BaseException as error:
                raise failed(plugin, Point.BIND, error, self.interrupts) from error
            if answer is None or not _skips(answer := contract.outcome_of(plugin, Point.BIND, answer)):
                return answer
        return Status(Code.ERROR, ("no bind plugin took the pod",))

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Runs the PostBind plugins. Raises the first PluginError; the pod stays bound."""
        for plugin in self.post_bind_plugins:
            try:
                post_bind: Any = plugin.post_bind  # which may return anything
                answer = await post_bind(state, pod, node_name)
            except BaseException as error:
                raise failed(plugin, Point.POST_BIND, error, self.interrupts) from error
            contract.outcome_of(plugin, Point.POST_BIND, answer)


def _taken(feasible: Feasible, parts: Parts) -> list[tuple[Any, int]]:
    return [(feasible.take(scores), weight) for scores, weight in parts]


def _skips(status: Status | None) -> bool:
    return status is not None and status.code is Code.SKIP
