"""The decision: do all pods of all pod sets fit now? The scheduler's own plan for pod groups answers for each pod set,
in one transaction, so that each sees the ones before it. The transaction is rolled back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from podwright.core.cycle import Placement, RandomBelow, Rejection
from podwright.core.framework.errors import PluginError
from podwright.core.framework.framework import Framework
from podwright.core.framework.status import Code
from podwright.core.gangs.decisions import GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.closeness import ANYWHERE
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError, described
from podwright.core.objects.pod import PodInfo, belongs_to_node
from podwright.core.objects.pod_group import PLUGINS_API, PodGroup
from podwright.core.objects.raw import Raw
from podwright.core.objects.resources import PODS
from podwright.core.objects.wording import counted, quantity
from podwright.core.plugins.gang_scheduling import args_of
from podwright.core.plugins.node_affinity import NodeAffinity
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.kueue.pod_sets import UNSEEN, PodSet, counts_of, flavors_of, pod_sets_of
from podwright.kueue.workload import Workload
from podwright.simulator.explain.causes import causes_of, miss
from podwright.simulator.explain.verdicts import Verdicts, grouped, verdicts_of

MAX_PODS: Final = 10_000
"""The most pods of a Workload about which the check decides."""
CAUSES: Final = 3
NEAREST: Final = 3
"""How many causes and nodes a message names."""
_LASTING: Final = frozenset((NodeResourcesFit.name, NodeAffinity.name))
"""The filters whose verdict stays as long as the nodes have the same size and the same labels."""


@dataclass(frozen=True, slots=True)
class PlacedPodSet:
    """The place of a pod set. `label`: the value of PLACE_LABEL. `slots`: by node, how many of its pods. `requests`:
    quantities, of one of them.
    """

    name: str
    label: str
    slots: Mapping[str, int]
    requests: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Fits:
    """`placed`: the pod sets that have pods. `partly`: as in PodSet."""

    placed: Sequence[PlacedPodSet]
    partly: bool = False

    def message(self, *, held: bool) -> str:
        """For people. `held`: whether the place is held."""
        count = sum(sum(each.slots.values()) for each in self.placed)
        if not count:
            return "fits now: there are no pods to place"
        nodes = len({node for each in self.placed for node in each.slots})
        place, unseen = ", held for the pods" if held else "", f". {UNSEEN}" if self.partly else ""
        return f"fits now: {counted(count, 'pod')} on {counted(nodes, 'node')}{place}{unseen}"


@dataclass(frozen=True, slots=True)
class Lacks:
    """Why they do not fit, for people. `never`: no node of the cluster can ever take a pod of them, as the nodes
    are.
    """

    message: str
    never: bool = False


def beyond(cache: Cache, count: int) -> bool:
    """True if the nodes take fewer pods in all."""
    table = cache.table
    return bool(table.count) and int(table.allocatable(PODS)[table.valid].sum()) < count


def decide(
    cache: Cache, policies: ActivePolicies, workload: Workload, flavors: Mapping[str, Raw], below: RandomBelow
) -> Fits | Lacks:
    """Leaves the cache as it was. `flavors`: those of the assigned ResourceFlavors that exist, by name."""
    if (count := sum(counts_of(workload).values())) > MAX_PODS:
        about = f"it has {count:,} pods, and the check decides about at most {MAX_PODS:,}"
        return Lacks(about, beyond(cache, count))
    if missing := sorted(flavors_of(workload) - flavors.keys()):
        return Lacks(f'its ResourceFlavor "{missing[0]}" does not exist')
    try:
        pod_sets = pod_sets_of(workload, flavors, cache.deadline.point)
    except Exception as error:  # noqa: BLE001 -- one bad object must not stop the others
        return Lacks(str(error) if isinstance(error, InvalidObjectError) else described(error), never=True)
    placed = []
    with CacheTransaction(cache) as transaction:
        for pod_set in pod_sets:
            if not pod_set.pods:
                continue
            found = _plan(transaction, policies, pod_set, below)
            if isinstance(found, Lacks):
                return Lacks(f'pod set "{pod_set.name}": {found.message}', found.never)
            amounts = pod_set.pods[0].requests.amounts
            requests = {name: quantity(name, amount) for name, amount in amounts.items() if amount}
            placed.append(PlacedPodSet(pod_set.name, pod_set.place, found, requests))
    return Fits(placed, any(each.partly for each in pod_sets))


def _plan(
    transaction: CacheTransaction, policies: ActivePolicies, pod_set: PodSet, below: RandomBelow
) -> Mapping[str, int] | Lacks:
    """Plans one pod set, and assumes its pods. Returns how many are on each node."""
    first, cache = pod_set.pods[0], transaction.cache
    policy = policies.of(first) or policies.default
    if policy.refusal:
        return Lacks(policy.why_waits(first))
    framework = policy.framework
    planner = GangPlanner(
        framework,
        cache,
        _group(cache, pod_set),
        below,
        pack_by="" if pod_set.near.preferred else args_of(framework.profile).topology_key,
    )
    try:
        framework.prepare(pod_set.pods)
        found = planner.plan(pod_set.pods)
        if isinstance(found, GangRejection):
            return _why(transaction, framework, found, len(pod_set.pods))
        if not isinstance(found, GangPlacement):
            return Lacks(f"{found.plugin}: {found.message}" if found.plugin else found.message)
        _assume(transaction, framework, found.placements)
    except PluginError as error:
        return Lacks(f"{error.plugin}: {error}")
    return dict(sorted(Counter(placement.node_name for placement in found.placements).items()))


def _group(cache: Cache, pod_set: PodSet) -> PodGroup:
    """Returns a group that starts all pods of the pod set, or none. If they name an existing pod group, its topology
    counts.
    """
    first = pod_set.pods[0]
    own = cache.groups.of(first) if first.group else None
    return PodGroup(
        key=f"kueue:{first.uid}",
        api=PLUGINS_API,
        namespace=first.namespace,
        name=pod_set.name,
        uid=first.uid,
        generation=0,
        gang=True,
        min_count=len(pod_set.pods),
        min_resources={},
        schedule_timeout=None,
        near=pod_set.near or (ANYWHERE if own is None else own.near),
        all_or_none=False,
        priority=None,
        preemption_policy=None,
        queue="",
        raw={},
    )


def _assume(transaction: CacheTransaction, framework: Framework, placements: Sequence[Placement]) -> None:
    for placement in placements:
        transaction.cache.deadline.point()
        reserve(transaction, framework, placement.state, placement.pod, placement.node_name)


def _why(transaction: CacheTransaction, framework: Framework, found: GangRejection, count: int) -> Lacks:
    """The first pod that does not fit, beside those that do. Raises PluginError."""
    cache, attempts = transaction.cache, [*found.attempts.values()]
    rejected = next((each.pod for each in attempts if isinstance(each, Rejection)), None)
    if rejected is None:
        return Lacks(found.message)
    fitting = [each for each in attempts if isinstance(each, Placement)]
    _assume(transaction, framework, fitting)
    verdicts = verdicts_of(framework, cache, rejected)
    causes = causes_of(framework, cache, rejected, verdicts, grouped(verdicts, cache))
    where = f" in any domain of {found.group.near.required[-1]}" if found.group.near.required else ""
    parts = [f"{len(fitting)} of {counted(count, 'pod')} fit{where}"]
    parts += [each.text for each in causes[:CAUSES]] or [found.message]
    rows = verdicts.nearest(NEAREST)
    nearest = f". {_nearest(transaction, framework, rejected, verdicts, rows)}" if rows else ""
    return Lacks(f"{'; '.join(parts)}{nearest}", not fitting and _lasting(verdicts))


def _nearest(
    transaction: CacheTransaction, framework: Framework, pod: PodInfo, verdicts: Verdicts, rows: Sequence[int]
) -> str:
    """The nearest nodes, with what they lack, and whether the end of the pods there would help."""
    cache, said = transaction.cache, []
    helped = ""
    for row in rows:
        found = miss(framework, cache, pod, verdicts, row)
        said.append(f"{found.node} ({'; '.join(each.detail or each.reason for each in found.problems)})")
        helped = helped or _helps(transaction, framework, pod, row)
    help_ = helped or "nodes that pods of this template can run on, or smaller requests"
    return f"Nearest: {', '.join(said)}. What would help: {help_}"


def _helps(transaction: CacheTransaction, framework: Framework, pod: PodInfo, row: int) -> str:
    """The end of pods on this node, the largest first, tried by the filters; "" if that does not help."""
    cache = transaction.cache
    info = cache.node_at(row)
    before = transaction.checkpoint()
    ending = [
        each
        for each in info.pods.values()
        if not belongs_to_node(each) and not each.uid.startswith(pod.uid.partition("/")[0])
    ]
    if not ending:
        return ""
    transaction.remove(ending)
    fits = bool(len(verdicts_of(framework, cache, pod).feasible))
    transaction.rollback(before)
    return f"the end of pods on {info.name}, which has {counted(len(ending), 'other pod')}" if fits else ""


def _lasting(verdicts: Verdicts) -> bool:
    """True if all nodes reject the pod because of their properties and not because of the pods on them."""
    statuses = verdicts.diagnosis.statuses().values()
    return bool(statuses) and all(
        each.plugin in _LASTING and each.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for each in statuses
    )
