"""One decision that is carried out in a trial: the pod is on its node from then on, with its claims."""

from __future__ import annotations

import numpy as np

from podwright.core.cycle import Placement, schedule
from podwright.core.framework.errors import PluginError
from podwright.core.objects.pod import PodInfo
from podwright.engine.active_policies import ActivePolicy
from podwright.simulator.trial import Trial


def place(trial: Trial, policy: ActivePolicy, pod: PodInfo, only: str = "") -> str:
    """The node on which the scheduler places the pod, without preemption; empty if it does not. `only`: the one node that may be taken."""
    if policy.refusal:
        return ""
    framework, cache = policy.framework, trial.cluster.cache
    within = None
    if only:
        within = np.zeros(cache.table.size, np.bool_)
        slot = cache.table.slot_of(only)
        if slot is not None:
            within[slot] = True
    try:
        if framework.pre_enqueue(pod) is not None:
            return ""
        decision = schedule(framework, cache, pod, _first, within=within, preempt=False)
        if isinstance(decision, Placement) and trial.place(framework, decision) is None:
            return decision.node_name
    except PluginError:
        pass
    return ""


def _first(_count: int) -> int:
    """The choice among equals: always the same, so that answers repeat."""
    return 0
