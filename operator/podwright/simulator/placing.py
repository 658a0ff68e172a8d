"""One decision that is carried out in a trial: the pod is on its node from then on, with its claims."""

from __future__ import annotations

import numpy as np

from podwright.core.cycle import Placement, always_first, schedule
from podwright.core.framework.errors import PluginError
from podwright.core.objects.pod import PodInfo
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.simulator.trial import Trial


def place(trial: Trial, policy: ActivePolicy, pod: PodInfo, only: str = "") -> str:
    """Places the pod without preemption. Returns its node, or "" if no node is feasible. `only`: the one node that may
    be chosen.
    """
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
        decision = schedule(framework, cache, pod, always_first, within=within, preempt=False)
        if isinstance(decision, Placement) and trial.place(framework, decision) is None:
            return decision.node_name
    except PluginError:
        pass
    return ""
