"""Assumes a child process's decision, and checks that a preemption still fits when it is carried out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from podwright.core.cycle import Decision, Placement, Rejection
from podwright.core.framework.errors import PluginError
from podwright.core.gangs.simulation import reserve
from podwright.core.objects.pod import PodInfo
from podwright.core.state.cache import Cache
from podwright.core.state.transaction import CacheTransaction
from podwright.engine.policies.active_policy import ActivePolicy


def assume(decision: Decision, policy: ActivePolicy, transaction: CacheTransaction) -> bool:
    """Assumes the pod of a placement. False after a preemption: who decides next does not know that its victims are
    going.
    """
    if isinstance(decision, Placement):
        try:
            reserve(transaction, policy.framework, decision.state, decision.pod, decision.node_name)
        except PluginError:
            return False
    return not (isinstance(decision, Rejection) and decision.victims)


def still_preempts(
    preemptor: PodInfo,
    nodes: Iterable[str],
    victims: Sequence[PodInfo | None],
    nominated: Mapping[str, str],
    cache: Cache,
) -> bool:
    """True if all victims are still on their nodes, with their priorities, and no pods before the preemptor are to get
    their room on these nodes. `nominated`: by uid the nodes of the pods that the decision took into account.
    """
    for victim in victims:
        node = None if victim is None else cache.placement(victim.uid)
        if victim is None or node is None or node.pods[victim.uid].priority != victim.priority:
            return False
    return not victims or all(
        nominated.get(other.uid) == name for name in nodes for other in cache.nominator.before(preemptor, name)
    )
