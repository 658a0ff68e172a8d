"""A pod group as preemptor: it preempts for all its members or not at all. Start with `GroupPreemptor`.

    eligible? ─► do the bounds allow it? ─► remove the potential victims ─► plan the group once
        ─► reprieve units one by one, those
    under a budget first, then the most important ─► units that cannot be reprieved are victims

All of it is one transaction on the cache, which is rolled back. Pods whose eviction cannot help stay in place:
see `potential_victims`. Next: `reprieve`. Source of the rules: kube-scheduler 1.37's preemption by pod groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final

from podwright.core.cycle import Placement
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Bools
from podwright.core.framework.status import Code, Status, unresolvable, unschedulable
from podwright.core.gangs.branches import MOST_WORK, both, branch_of
from podwright.core.gangs.capacity_bounds import CapacityBounds, emptied_domains, why_infeasible
from podwright.core.gangs.decisions import GangDecision, GangFault, GangPlacement, GangPreemption
from podwright.core.gangs.potential_victims import ClaimedVictims, PotentialVictims, any_lower_priority, useful_nodes
from podwright.core.gangs.reprieve import Reprieve
from podwright.core.gangs.rules import shortage
from podwright.core.gangs.simulation import WORK_OF_A_TRIAL
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import PodInfo, parse_time
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.times import rfc3339
from podwright.core.plugins.default_preemption import NEVER
from podwright.core.plugins.gang_scheduling import args_of
from podwright.core.preemption.budgets import KIND, BudgetRules
from podwright.core.preemption.queue_claims import QueueClaim, claim_of, claims_nobody, has_queue
from podwright.core.preemption.units import Unit, complete, victims_are_going
from podwright.core.queues.flavors import Place
from podwright.core.queues.queues import queues_of
from podwright.core.state.cache import Cache
from podwright.core.state.deadline import Deadline
from podwright.core.state.transaction import CacheTransaction

NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
MIN_RESOURCES: Final = "no pod is evicted for minResources"
ONGOING: Final = "ongoing preemption on nominated nodes"
THOROUGH: Final = (False, True)
"""Units are reprieved by what they may affect. If a filter depends on more than it declares, all are reprieved
thoroughly.
"""
REMOVAL_SECONDS: Final = 0.002
"""Estimated for a pod that leaves its node and comes back, both in one step for all pods. Mostly it takes a hundredth.
"""
_PREFIX: Final = "pod group preemption: "
Found = GangPreemption | GangPlacement | Status


@dataclass(frozen=True, slots=True)
class GroupPreemptor:
    """`replan` plans these members on the cache at the time of the call. `now`: seconds since the epoch. `improve`:
    finds less to evict than what is found here, or something where nothing is.
    """

    framework: Framework
    cache: Cache
    group: PodGroup
    replan: Callable[[Sequence[PodInfo]], GangDecision]
    now: float
    improve: Improve | None = None

    def preempt(self, pods: Sequence[PodInfo]) -> Found:
        """The victims to evict for the group's waiting `pods` to fit, or why no eviction helps. Leaves the cache as it
        was.

        Returns a placement if the new plan needs no victims. The group's own message ends with the texts. If no
        PostFilter plugin of the profile preempts, a group does not either: a Status without text.
        """
        if not pods or not _preempts(self.framework):
            return unschedulable()
        observer = self.framework.observer
        started = observer.start()
        found = self._preempt(pods)
        result = (found.code if isinstance(found, Status) else Code.SUCCESS).text
        observer.group_preemption_ended(result)
        if _has_searched(found):
            observer.victims_searched(started, "podgroup", result)
        return found

    def _preempt(self, pods: Sequence[PodInfo]) -> Found:
        cache, group = self.cache, self.group
        if never_preempts(group, pods):
            return unschedulable(_PREFIX + NEVER)
        if self.now < (until := preempts_from(group, pods)):
            return unschedulable(f"{_PREFIX}not before {rfc3339(until)}, as spec.preemptionDelay says")
        priority = priority_of(group, pods)
        nominations = _nominations(cache, pods)
        if _is_ongoing(cache, set(nominations.values()), pods[0], priority):
            return GangPreemption(nominations, (), _PREFIX + ONGOING)
        queued = has_queue(cache, pods[0])
        if queued and _waits_at_limit(cache, [pod for pod in pods if pod.uid in nominations], priority, self.now):
            return GangPreemption(nominations, (), _PREFIX + ONGOING)
        if not queued and not any_lower_priority(priority, cache):
            return unresolvable(_PREFIX + NO_VICTIMS)
        if shortage(group, cache, args_of(self.framework.profile)):
            return unschedulable(_PREFIX + MIN_RESOURCES)
        found: Found = unschedulable()
        best: Try | None = None
        work = 0
        try:
            bounds = CapacityBounds(self.framework, cache, pods)
            tries: Iterable[Try] = [Try(bounds)]
            if queued:
                tries = self._tries(bounds, priority)
            elif cache.groups.may_shrink:
                tries = [Try(bounds, shrinks=True), Try(bounds)]
            for each in tries:
                work += each.bounds.members * (WORK_OF_A_TRIAL + cache.table.count)
                if best is not None and work > MOST_WORK:
                    break
                best = best or each
                result = self._try(each)
                # What another try was refused says more than that this one might take nobody.
                if not (isinstance(found, Status) and found.reasons and _says_nothing(result)):
                    found = result
                if not isinstance(found, Status) or found.code is Code.ERROR:
                    best = each
                    break
            failed = isinstance(found, Status) and found.code is Code.ERROR
            if self.improve is not None and best is not None and not failed and not isinstance(found, GangPlacement):
                found = self.improve(best, found)
        except PluginError as fault:
            return Status(Code.ERROR, (str(fault),), fault.plugin)
        return found

    def _tries(self, whole: CapacityBounds, priority: int) -> Iterator[Try]:
        """For a gang of a queue. What the queue may take is not enough to try all nodes and all members at once."""
        cache, near, pods = self.cache, self.group.near, whole.pods
        needed, rules = _needed(cache, self.group, pods), BudgetRules(cache.store.list(KIND))
        some = [whole]
        if 0 < len(needed) < len(pods):
            some.append(CapacityBounds(self.framework, cache, needed))
        places = queues_of(cache).places.shared_by(pods)
        claims: dict[tuple[int, Place], tuple[QueueClaim | None, str]] = {}
        for bounds, splits_units in (*((each, False) for each in some), (some[-1], True)):
            for place, there in places:
                if (key := (bounds.members, place)) not in claims:
                    claim = claim_of(cache, bounds.pods, priority, rules, self.now, place)
                    vain = claim if claim is not None and claim.is_vain else None
                    claims[key] = (claim, "") if vain is None else (None, vain.why_nothing)
                claim, why_vain = claims[key]
                domains: Iterable[Bools | None] = (None,)
                if near.required:
                    domains = emptied_domains(bounds, cache, near, max(1, len(needed)))
                sides = (True, False) if claim is not None and claim.full is not None else (False,)
                for within in domains if claim is not None else islice(domains, 1):
                    for inside in sides:
                        yield Try(
                            bounds,
                            both(within, there),
                            splits_units=splits_units,
                            claim=claim,
                            why_vain=why_vain,
                            there=there,
                            inside=inside,
                        )

    def _try(self, attempt: Try) -> Found:
        cache, group, bounds = self.cache, self.group, attempt.bounds
        if (objection := why_infeasible(group, cache, bounds, emptied=True)) is not None:
            return unschedulable(_PREFIX + objection)
        potential = potential_victims_of(self.framework, cache, attempt, priority_of(group, bounds.pods))
        if isinstance(potential, str):
            return unresolvable(_PREFIX + (potential or NO_VICTIMS))
        cache.deadline.expect(REMOVAL_SECONDS * len(potential.pods))
        with CacheTransaction(cache) as transaction:
            transaction.remove(potential.pods)
            cache.deadline.point()
            if (objection := why_infeasible(group, cache, bounds)) is not None:
                return unschedulable(_PREFIX + objection + _why_no_more(potential))
            decision = self.replan(bounds.pods)
            if isinstance(decision, GangPlacement):
                placements = decision.placements
                return select_victims(self.framework, transaction, placements, potential, self.now) or decision
        if isinstance(decision, GangFault):
            return Status(Code.ERROR, (decision.message,), decision.plugin)
        return unschedulable(_PREFIX + decision.message + _why_no_more(potential))


def _says_nothing(found: Found) -> bool:
    return isinstance(found, Status) and found.message.endswith(NO_VICTIMS)


def _why_no_more(potential: PotentialVictims | ClaimedVictims) -> str:
    why = potential.claim.why_nothing if potential.claim is not None else ""
    return f"; {why}" if why else ""


def _has_searched(found: Found) -> bool:
    """False if the group may not preempt, or waits for victims that are terminating already."""
    if isinstance(found, GangPreemption):
        return bool(found.victims)
    return not (isinstance(found, Status) and found.message.endswith(NEVER))


@dataclass(frozen=True, slots=True)
class Try:
    """The members of `bounds`, with victims on these nodes (bool[nodes]; None: all). `splits_units`: see QueueClaim;
    `there`: bool[nodes], those of its place. `claim`: of a gang of a queue; None if it would be in vain, for the reason
    `why_vain`.

    `inside`: see ClaimedVictims. `shrinks`: gangs that have more members than their minimum lose no more than these.
    """

    bounds: CapacityBounds
    within: Bools | None = None
    splits_units: bool = False
    claim: QueueClaim | None = None
    why_vain: str = ""
    there: Bools | None = None
    inside: bool = False
    shrinks: bool = False


Improve = Callable[[Try, Found], Found]


def _needed(cache: Cache, group: PodGroup, pods: Sequence[PodInfo]) -> Sequence[PodInfo]:
    """As many of these waiting members as the minimum of the group needs."""
    return next(branch_of(cache, group, pods, group.near).in_order())


def potential_victims_of(
    framework: Framework, cache: Cache, attempt: Try, priority: int
) -> PotentialVictims | ClaimedVictims | str:
    """If no pod may be evicted: what of the rule for queues is the reason, or an empty text."""
    bounds, within, claim = attempt.bounds, attempt.within, attempt.claim
    pods = bounds.pods
    if not has_queue(cache, pods[0]):
        found = PotentialVictims(
            framework, cache, members=pods, priority=priority, bounds=bounds, shrinks=attempt.shrinks
        )
        return "" if attempt.shrinks and not found.pods else found
    if claim is None:
        return attempt.why_vain
    queues_of(cache).shared_out()
    claim.release([*claim.taken])  # by the try before
    if attempt.splits_units and not claim.may_split_units:
        return claim.why_nothing
    claim.splits_units = attempt.splits_units
    useful = useful_nodes(framework, pods, bounds)
    if within is not None:
        useful = within if useful is None else useful & within
    claimed = ClaimedVictims(cache, claim, useful, inside=attempt.inside)
    return claimed if claimed.pods else claim.why_nothing


def select_victims(
    framework: Framework,
    transaction: CacheTransaction,
    placements: Sequence[Placement],
    potential: PotentialVictims | ClaimedVictims,
    now: float,
    last: AbstractSet[str] = frozenset(),
) -> GangPreemption | Status | None:
    """The units that must leave for these placements, in a transaction without the potential victims; None if all may
    stay. `last`: the uids of pods of those that are reprieved last.
    """
    for placement in placements:
        # A member counts on its planned node, so it must not count on its nominated node as well.
        transaction.clear_nomination(placement.pod.uid)
    all_removed = transaction.checkpoint()
    for thorough in THOROUGH:
        transaction.rollback(all_removed)
        potential.start()
        reprieve = Reprieve(framework, transaction, placements, thorough=thorough)
        units = potential.units(reprieve.affecting(potential.pods))
        checked = {pod.uid for unit in units for pod in unit.pods}
        transaction.add_back([pod.uid for pod in potential.pods if pod.uid not in checked])
        key = potential.importance(now)
        units.sort(key=key)
        victims, violations = _not_reprieved(potential, units, reprieve, transaction.cache.deadline, last)
        if reprieve.all_fit():
            break
    if not victims:
        return _refusal(transaction, placements)
    evicted = complete(sorted(victims, key=key))
    return GangPreemption(
        nominations={placement.pod.uid: placement.node_name for placement in placements},
        victims=evicted,
        message=f"{_PREFIX}found a placement for podgroup, preempting {len(evicted)} victims",
        disrupted=tuple(unit.whole for unit in victims if unit.whole is not None),
        violations=violations,
    )


def _refusal(transaction: CacheTransaction, placements: Sequence[Placement]) -> Status | None:
    """Returns the refusal of a member beside the reprieved pods, which may hold what a queue's members need."""
    cache = transaction.cache
    if not cache.refusals:
        return None
    before = transaction.checkpoint()
    try:
        for placement in placements:
            found: Status | None
            for refuse in cache.refusals.values():
                found = refuse(placement.pod)
                if found is not None:
                    return unschedulable(_PREFIX + found.message)
            if cache.place_rules is not None:
                found = cache.place_rules.refuse(placement.pod, cache.nodes[placement.node_name].slot)
                if found is not None:
                    return unschedulable(_PREFIX + found.message)
            transaction.assume(placement.pod, placement.node_name)
    finally:
        transaction.rollback(before)
    return None


def _not_reprieved(
    potential: PotentialVictims | ClaimedVictims,
    units: Sequence[Unit],
    reprieve: Reprieve,
    deadline: Deadline,
    last: AbstractSet[str],
) -> tuple[dict[Unit, None], int]:
    """The units that become victims, and how many of their pods violate a budget. The other units are added back."""
    victims: dict[Unit, None] = {}
    violations = 0
    for unit, count in sorted(potential.violating_first(units), key=lambda each: each[0].pods[0].uid in last):
        deadline.point()
        if potential.may_return(unit) and reprieve.reprieve_unit(unit):
            potential.returns(unit)
        else:
            victims[unit] = None
            violations += count
    return victims, violations


def may_preempt(framework: Framework, cache: Cache, group: PodGroup, pods: Sequence[PodInfo]) -> bool:
    """True if the group may preempt, and there are pods that it could have evicted. `pods`: its waiting members, at
    least one.
    """
    if finds_nobody(framework, cache, group, pods):
        return False
    if not has_queue(cache, pods[0]):
        return True
    priority = priority_of(group, pods)
    needed = _needed(cache, group, pods) or pods[:1]
    claims = (
        claim_of(cache, needed, priority, BudgetRules(()), 0.0, place)
        for place, _ in queues_of(cache).places.shared_by(needed)
    )
    return any(claim is not None and not claim.is_vain for claim in claims)


def finds_nobody(framework: Framework, cache: Cache, group: PodGroup, pods: Sequence[PodInfo]) -> bool:
    """True if no pod can be a victim of the group, however much the group requests."""
    if not _preempts(framework) or never_preempts(group, pods):
        return True
    priority = priority_of(group, pods)
    queued = has_queue(cache, pods[0])
    return claims_nobody(cache, pods[0], priority) if queued else not any_lower_priority(priority, cache)


def waits_for_victims(cache: Cache, group: PodGroup, pods: Sequence[PodInfo]) -> bool:
    """True if victims of the group are still terminating on a node to which one of these waiting members is
    nominated.
    """
    nodes = set(_nominations(cache, pods).values())
    return _is_ongoing(cache, nodes, pods[0], priority_of(group, pods))


def preempts_from(group: PodGroup, pods: Sequence[PodInfo]) -> float:
    """Returns the time from which the group with these waiting members may preempt, in seconds since the epoch."""
    if not group.preemption_delay:
        return 0.0
    created = parse_time(group.order[0] or None, "metadata.creationTimestamp") or 0.0
    # Evicted members are created again.
    return max(created, min(pod.creation for pod in pods)) + group.preemption_delay


def _preempts(framework: Framework) -> bool:
    return any(plugin.preempts for plugin in framework.post_filter_plugins)


def priority_of(group: PodGroup, pods: Sequence[PodInfo]) -> int:
    return min(pod.priority for pod in pods) if group.priority is None else group.priority


def never_preempts(group: PodGroup, pods: Sequence[PodInfo]) -> bool:
    if group.preemption_policy is not None:
        return group.preemption_policy == "Never"
    return any(pod.preemption_policy == "Never" for pod in pods)


def _nominations(cache: Cache, pods: Sequence[PodInfo]) -> dict[str, str]:
    """The nodes that members are nominated to, by uid. The API server may not have returned our latest nominations
    yet.
    """
    nominated = ((pod.uid, cache.nominator.node_of(pod.uid) or pod.nominated_node_name) for pod in pods)
    return {uid: name for uid, name in nominated if name}


def _waits_at_limit(cache: Cache, nominated: Sequence[PodInfo], priority: int, now: float) -> bool:
    """True if these members hold room already, and victims that terminate on any node hold what a limit of their queue
    forbids them meanwhile. To plan again would evict others, because the members need not get the same nodes.
    """
    if not nominated:
        return False
    rules, places = BudgetRules(cache.store.list(KIND)), queues_of(cache).places.shared_by(nominated)
    claims = (claim_of(cache, nominated, priority, rules, now, place) for place, _ in places)
    return any(
        claim is not None and claim.within_limits and any(pod.preempted for pod in claim.going()) for claim in claims
    )


def _is_ongoing(cache: Cache, nodes: set[str], member: PodInfo, priority: int) -> bool:
    """True if victims that the group may have are still terminating on a nominated node."""
    infos = (info for name in nodes if (info := cache.present(name)) is not None)
    return any(victims_are_going(member, priority, info, cache) for info in infos)
