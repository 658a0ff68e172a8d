"""Planning a pod group: a node for each member, or for none of them. Start here.

    plan ─► do the members agree? ─► enough of them? ─► one trial, or one for each topology domain ─► placed, or rejected

All of it happens in one go on the cache and is taken back, so two groups can never hold half of what each needs; whoever
asked carries the placements out, before anything else happens. Source of the rules: kube-scheduler 1.37's pod group
scheduling cycle, and its plugins GangScheduling, TopologyPlacementGenerator and PodGroupPodsCount.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from podwright.core.cycle import Fault, Placement, RandomBelow
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools
from podwright.core.framework.status import Code
from podwright.core.gangs import topology_domains as domains
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangPreemption, GangRejection
from podwright.core.gangs.gang_preemption import preempt
from podwright.core.gangs.outlook import Outlook
from podwright.core.gangs.rules import disagreement, shortage, too_few, wanting
from podwright.core.gangs.trial import Trial
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.plugins.topology_placement_generator import TopologyPlacementGenerator
from podwright.core.state.cache import Cache


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans one group on one cache. `pack_by`: a node label whose domains the group is to use as few of as it can."""

    framework: Framework
    cache: Cache
    group: PodGroup
    below: RandomBelow
    pack_by: str = ""

    def plan(self, pods: Sequence[PodInfo]) -> GangDecision:
        """Decides about the members that wait, in this order. Changes nothing, but for faults of Unreserve plugins."""
        try:
            return self._plan(pods)
        except PluginError as fault:
            return GangFault(self.group, fault.plugin, str(fault))

    def _plan(self, pods: Sequence[PodInfo]) -> GangDecision:
        problem = disagreement(self.group, pods, self.cache.groups.members(self.group.key).placed.values())
        if problem:
            return GangFault(self.group, "", problem)
        if objection := too_few(self.group, self._placed, len(pods)):
            return GangRejection(self.group, objection, plugins=frozenset((GangScheduling.name,)))
        if objection := shortage(self.group, self.cache):
            # What frees resources for a pod may free them for its group.
            return GangRejection(self.group, objection, plugins=frozenset((GangScheduling.name, NodeResourcesFit.name)))
        if self.group.topology_key:
            return self._in_one_domain(pods)
        if self.pack_by:
            return self._packed(pods)
        return self._try(pods)

    @property
    def _placed(self) -> int:
        return self.cache.groups.placed(self.group.key)

    # One trial

    def _try(self, pods: Sequence[PodInfo], within: Bools | None = None) -> GangDecision:
        trial = Trial(self.framework, self.cache, self.below, within)
        placed = self._placed
        try:
            for index, pod in enumerate(pods):
                decision = trial.place(pod)
                if isinstance(decision, Fault):
                    text = f"failed to schedule other pod from a pod group: {decision.message}"
                    return GangFault(self.group, decision.plugin, text)
                left = len(pods) - index - 1
                if objection := too_few(self.group, placed + trial.made, left):
                    return self._rejected(trial, objection)
        finally:
            trial.undo()
        if trial.made and placed + trial.made >= self.group.min_count:
            return GangPlacement(self.group, trial.placements, trial.rejections)
        return self._rejected(trial, wanting(self.group, placed + trial.made))

    def _fitting(self, pods: Sequence[PodInfo], within: Bools) -> int:
        """How many of the members fit on these nodes."""
        trial = Trial(self.framework, self.cache, self.below, within)
        try:
            return sum(isinstance(trial.place(pod), Placement) for pod in pods)
        finally:
            trial.undo()

    def _rejected(self, trial: Trial, message: str) -> GangRejection:
        rejections = trial.rejections
        return GangRejection(
            self.group,
            message,
            trial.attempts,
            frozenset().union((GangScheduling.name,), *(rejection.status_plugins for rejection in rejections)),
            frozenset().union(*(rejection.pending_plugins for rejection in rejections)),
        )

    # Several

    def _in_one_domain(self, pods: Sequence[PodInfo]) -> GangDecision:
        """All members in one domain of the group's topology key: where most of them fit, and no room is wasted."""
        key = self.group.topology_key
        found = domains.Domains(self.cache, key)
        members = self.cache.groups.members(self.group.key).placed
        if members:
            try:
                found.only(domains.held_by(self.cache, key, members))
            except ValueError as error:
                return GangFault(self.group, "", f"cannot determine domain for already scheduled pods: {error}")
        outlook = Outlook(self.framework, self.cache, pods)
        tried = self._best_of(pods, found, outlook)
        if not isinstance(tried, list):
            return tried
        text = f"0/{len(found)} placements are available"
        if not tried:
            return GangRejection(
                self.group, text, plugins=frozenset((GangScheduling.name, TopologyPlacementGenerator.name))
            )
        first = tried[0]
        return GangRejection(
            self.group,
            f"{text}, first placement status: {first.message}",
            first.attempts,
            frozenset((TopologyPlacementGenerator.name,)).union(
                outlook.rejecting, *(rejection.plugins for rejection in tried)
            ),
            frozenset().union(*(rejection.pending_plugins for rejection in tried)),
        )

    def _best_of(
        self, pods: Sequence[PodInfo], found: domains.Domains, outlook: Outlook
    ) -> GangPlacement | GangFault | list[GangRejection]:
        """The placement of most members, or what became of all that were tried. A fault ends the search."""
        best: GangPlacement | None = None
        rejections: list[GangRejection] = []
        worth, most = domains.worth_a_trial(found, outlook, len(pods), self.group.min_count - self._placed)
        tried = 0
        for position in worth:
            if best is not None and most[position] <= len(best.placements):
                continue
            if tried == domains.TRIALS:
                # Who would have rejected the rest is not known: any filter may.
                outlook.blockers.update(plugin.name for plugin in self.framework.filter_plugins)
                break
            tried += 1
            decision = self._try(pods, found.nodes(position))
            if isinstance(decision, GangFault):
                return decision
            if isinstance(decision, GangRejection):
                rejections.append(decision)
            elif best is None or len(decision.placements) > len(best.placements):
                best = decision
                if not best.rejections:
                    break
        return rejections if best is None else best

    def _packed(self, pods: Sequence[PodInfo]) -> GangDecision:
        """All members in as few domains as they need; where the label does not help, wherever they fit."""
        found = domains.Domains(self.cache, self.pack_by)
        used = domains.used_by(self.cache, self.pack_by, self.cache.groups.members(self.group.key).placed)
        outlook = Outlook(self.framework, self.cache, pods)
        for nodes in domains.fewest(found, outlook, len(pods), used, lambda nodes: self._fitting(pods, nodes)):
            decision = self._try(pods, nodes)
            if isinstance(decision, GangFault) or (isinstance(decision, GangPlacement) and not decision.rejections):
                return decision
        return self._try(pods)


def decide(planner: Planner, pods: Sequence[PodInfo], now: float) -> GangDecision:
    """Plans the group, and if it does not fit, says who could go for it. `now`: seconds since the epoch."""
    decision = planner.plan(pods)
    if not isinstance(decision, GangRejection):
        return decision
    found = preempt(planner.framework, planner.cache, planner.group, pods, lambda: planner.plan(pods), now)
    if isinstance(found, GangPlacement):
        return found
    message = ", ".join(text for text in (decision.message, found.message) if text)
    if isinstance(found, GangPreemption):
        return replace(decision, message=message, preemption=found)
    if found.code is Code.ERROR:
        return GangFault(planner.group, found.plugin, found.message)
    return replace(decision, message=message)
