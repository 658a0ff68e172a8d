"""Plans of rebalancing for a loaded cluster, made by the operator's planner. Nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from podwright.api.permissions import INSTALLED_NAMESPACE
from podwright.core.framework.program import Solver
from podwright.core.rebalance.movable import SYSTEM_NAMESPACES, View
from podwright.core.rebalance.planner import RebalancePlanner
from podwright.core.rebalance.rules import RebalancePlan, RebalanceRules
from podwright.engine.rebalance.provable import is_exempt, provable_framework
from podwright.simulator.loaded import LoadedCluster


def plan_of(
    cluster: LoadedCluster, rules: RebalanceRules, namespace: str = INSTALLED_NAMESPACE, solve: Solver | None = None
) -> RebalancePlan:
    """The plan that the operator would make now. `namespace`: the operator's. `solve`: see ExactSearch."""
    return RebalancePlanner(cluster.cache, rules, replace(view_of(cluster, namespace), solve=solve)).plan()


def view_of(cluster: LoadedCluster, namespace: str = INSTALLED_NAMESPACE) -> View:
    """Returns a planner's inputs besides the cache."""
    return View(
        framework_of=partial(provable_framework, cluster.policies),
        is_exempt=partial(is_exempt, cluster.policies),
        now=cluster.clock.now,
        waiting=[*cluster.pending.values()],
        namespaces={*SYSTEM_NAMESPACES, namespace},
    )
