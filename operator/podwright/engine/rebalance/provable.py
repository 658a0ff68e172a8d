"""For which pods it can be proved where the one that is created in their place will go, and which may not move."""

from __future__ import annotations

from typing import Final

from podwright.core.framework.framework import Framework
from podwright.core.framework.guarded import is_third_party
from podwright.core.framework.profile import Point
from podwright.core.objects.pod import PodInfo
from podwright.engine.policies.active_policies import ActivePolicies

_RULES: Final = "podwright.core.plugins.rules."


def is_exempt(policies: ActivePolicies, pod: PodInfo) -> bool:
    """True if the policy of the pod's namespace keeps it where it is."""
    policy = policies.of(pod)
    return policy is not None and policy.compiled.stays


def provable_framework(policies: ActivePolicies, pod: PodInfo) -> Framework | None:
    """The framework that will decide about it; None if it cannot be proved.

    Extenders are asked only when the pod comes. Rules and plugins of others may read parts of a pod that are not kept
    once it has a node.
    """
    policy = policies.of(pod)
    if policy is None or policy.refusal or policy.extenders:
        return None
    kinds = map(type, policy.framework.at(Point.PRE_FILTER, Point.FILTER))
    if any(is_third_party(kind) or kind.__module__.startswith(_RULES) for kind in kinds):
        return None
    return policy.framework
