"""Planning a pod group: a node for each member, or for none of them. Start here.

    plan ─► do the members agree? ─► are there enough? ─► one simulation, in which domains are tried ─► placed or
    rejected

A simulation is a transaction on the cache that is rolled back, so two groups can never each hold half of what they
need. The caller carries the placements out before anything else happens. Source of the rules: kube-scheduler 1.37's pod
group scheduling cycle, and its plugins GangScheduling, TopologyPlacementGenerator and PodGroupPodsCount.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from podwright.core.cycle import Fault, RandomBelow, Rejection
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import FollowUp
from podwright.core.framework.observer import Observer
from podwright.core.framework.program import Solver
from podwright.core.framework.status import Code
from podwright.core.gangs.branches import Filling, branch_of, parts_of
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangPreemption, GangRejection
from podwright.core.gangs.gang_preemption import GroupPreemptor, waits_for_victims
from podwright.core.gangs.rules import STARVED, disagreement, minimum_out_of_reach, shortage
from podwright.core.gangs.simulation import Simulation
from podwright.core.gangs.topology_domains import common_domain
from podwright.core.objects.closeness import Closeness
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.plugins.gang_scheduling import GangScheduling, args_of
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.queues.queues import QUEUE_QUOTA, queues_of
from podwright.core.state.cache import Cache
from podwright.core.state.topologies import UnknownLevelError
from podwright.core.state.transaction import CacheTransaction


@dataclass(frozen=True, slots=True)
class GangPlanner:
    """Plans one group. `pack_by`: a node label; the group is to use as few of its domains as possible. Empty: no
    packing.
    """

    framework: Framework
    cache: Cache
    group: PodGroup
    below: RandomBelow
    pack_by: str = ""
    observer: Observer | None = None
    """See CycleState."""
    solve: Solver | None = None
    """Plans members jointly that do not fit one after the other. None: nothing does."""

    def plan(self, pods: Sequence[PodInfo]) -> GangDecision:
        """Decides about the waiting members, in this order. Leaves the cache as it was."""
        try:
            return self._plan(pods)
        except PluginError as fault:
            return GangFault(self.group, fault.plugin, str(fault))

    def _plan(self, pods: Sequence[PodInfo]) -> GangDecision:
        groups = self.cache.groups
        of_class = groups.class_priority(self.group.key) is not None
        problem = disagreement(self.group, pods, groups.members(self.group.key).staying.values(), of_class=of_class)
        if problem:
            return GangFault(self.group, "", problem)
        needed = groups.lacking(self.group)
        if needed > len(pods) and (objection := minimum_out_of_reach(self.group.min_count, self._placed, len(pods))):
            return GangRejection(self.group, objection, plugins=frozenset((GangScheduling.name,)))
        queues = queues_of(self.cache) if self.cache.refusals else None
        if queues is not None and (found := queues.bounds.together(pods, max(1, needed))) is not None:
            return GangRejection(self.group, found.message, plugins=frozenset((GangScheduling.name, QUEUE_QUOTA)))
        if objection := shortage(self.group, self.cache, args_of(self.framework.profile)):
            # Events that free resources for a pod may free them for its group.
            return GangRejection(self.group, objection, plugins=frozenset((GangScheduling.name, NodeResourcesFit.name)))
        near = self.near
        if near.required and (problem := self._torn(near)):
            return GangFault(self.group, "", f"cannot determine domain for already scheduled pods: {problem}")
        return self._simulate(pods, near)

    @property
    def near(self) -> Closeness:
        """Where the group is to be: as it says itself, else as its policy does."""
        near = self.group.near
        return replace(near, preferred=self.pack_by) if self.pack_by and not near.required else near

    def _torn(self, near: Closeness) -> str:
        """Why the placed members are in no one domain."""
        placed = self.cache.groups.members(self.group.key).staying
        try:
            if placed:
                common_domain(self.cache, self.cache.topologies.tree(near), placed)
        except UnknownLevelError:
            return ""  # what rejects the group names it
        except ValueError as error:
            return str(error)
        return ""

    @property
    def _placed(self) -> int:
        return self.cache.groups.placed(self.group.key)

    def _simulate(self, pods: Sequence[PodInfo], near: Closeness) -> GangDecision:
        with CacheTransaction(self.cache) as transaction:
            simulation = Simulation(
                framework=self.framework,
                transaction=transaction,
                below=self.below,
                observer=self.observer,
            )
            try:
                branch = branch_of(self.cache, self.group, pods, near)
            except InvalidObjectError as error:
                return GangFault(self.group, "", str(error))
            objection = Filling(simulation, minimums_first=not self.group.composite).fill(branch)
            if isinstance(objection, Fault):
                text = f"failed to schedule other pod from a pod group: {objection.message}"
                return GangFault(self.group, objection.plugin, text)
            parts = dict(parts_of(branch)) if self.group.composite else {}
            if objection or not simulation.placed:
                return self._rejection(simulation, objection, parts)
            simulation.reject_others(pods)
        return GangPlacement(self.group, simulation.placements, simulation.rejections, parts)

    def _rejection(self, simulation: Simulation, message: str, parts: Mapping[str, str]) -> GangRejection:
        # Without nodes, no plugin has rejected a member: the group is retried after its backoff, as a single pod is.
        own = (GangScheduling.name,) if self.cache.table.count else ()
        return GangRejection(
            group=self.group,
            message=message,
            attempts=simulation.attempts,
            plugins=frozenset(simulation.rejecting.union(own)),
            pending_plugins=frozenset(simulation.pending),
            parts=parts,
        )


def decide(planner: GangPlanner, pods: Sequence[PodInfo], now: float) -> GangDecision:
    """Plans the group. If it does not fit, searches for victims. `now`: seconds since the epoch."""
    try:
        planner.framework.prepare(pods)
    except PluginError as fault:
        return GangFault(planner.group, fault.plugin, str(fault))
    decision = planner.plan(pods)
    if not isinstance(decision, GangRejection):
        return decision
    jointly, improve = "", None
    if planner.solve is not None:
        from podwright.core.gangs.joint import Joint  # noqa: PLC0415 -- few gangs need it
        from podwright.core.gangs.least_victims import LeastVictims  # noqa: PLC0415 -- as Joint

        joint = Joint(
            framework=planner.framework,
            cache=planner.cache,
            group=planner.group,
            near=planner.near,
            below=planner.below,
            solve=planner.solve,
        )
        improve = LeastVictims(joint, now).improve
        if decision.attempts and not waits_for_victims(planner.cache, planner.group, pods):
            planned = joint.plan(pods)
            if not isinstance(planned, str):
                return planned
            jointly = planned
    decision = replace(decision, follow_ups=_follow_ups(planner, decision))
    preemptor = GroupPreemptor(planner.framework, planner.cache, planner.group, planner.plan, now, improve)
    found = preemptor.preempt(pods)
    if isinstance(found, GangPlacement):
        return found
    message = ", ".join(text for text in (decision.message, jointly, found.message) if text)
    if isinstance(found, GangPreemption):
        return replace(decision, message=message, preemption=found)
    if found.code is Code.ERROR:
        return GangFault(planner.group, found.plugin, found.message)
    if jointly.endswith(STARVED):  # no event says when there is more CPU, so the group is retried after its backoff
        decision = replace(decision, plugins=frozenset())
    return replace(decision, message=message)


def _follow_ups(planner: GangPlanner, decision: GangRejection) -> Mapping[str, Sequence[FollowUp]]:
    """The follow-ups of the members, each once, although members may share claims. None for groups in one topology
    domain, as in kube-scheduler.
    """
    found: dict[str, Sequence[FollowUp]] = {}
    seen: set[FollowUp] = set()
    for uid, attempt in () if planner.group.near.required else decision.attempts.items():
        own: Sequence[FollowUp] = (
            attempt.if_group_waits
            if isinstance(attempt, Rejection)
            else planner.framework.group_waits(attempt.state, attempt.pod)
        )
        if new := [each for each in own if each not in seen]:
            found[uid] = new
            seen.update(new)
    return found
