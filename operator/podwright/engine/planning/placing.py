"""What child processes assume after a decision, and whether the victims of one are still there when it is carried
out.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def are_there(victims: Sequence[PodInfo | None], cache: Cache) -> bool:
    """True if all of these pods are still on their nodes."""
    return all(victim is not None and cache.placement(victim.uid) is not None for victim in victims)
